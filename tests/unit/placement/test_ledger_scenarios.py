"""The ledger through what happens to gangs: restarts, lost nodes, replaced pods, late news."""

import pytest

from stowplan.placement.decide import Placed, Refused
from stowplan.placement.gangs import gang_of
from tests.unit.placement.ledger_model import (
    GPU,
    RACK,
    Gang,
    racks,
)
from tests.unit.placement.ledger_scene import Scene


def test_all_pods_of_a_gang_are_told_nodes_of_one_rack_in_any_order() -> None:
    scene = Scene()
    pods = scene.gang("group", 8)
    nodes = [scene.told(pod) for pod in reversed(pods)]
    assert len({scene.rack(node) for node in nodes}) == 1
    assert sorted(nodes) == scene.seats()


def test_a_gang_that_no_object_names_is_placed_once_all_its_pods_have_called() -> None:
    scene = Scene()
    a, b = scene.gang("group", 2, pods=2)
    del scene.world.pods[a.key], scene.world.pods[b.key]
    scene.reread()
    assert scene.refused(a) == "Incomplete"
    assert scene.told(b)
    assert scene.told(a)


def test_a_lone_pod_that_no_object_names_is_placed_at_its_first_call() -> None:
    scene = Scene()
    (pod,) = scene.gang("single", 1)
    scene.cluster.remove_pod(pod.key)
    assert scene.told(pod)


def test_of_two_gangs_racing_for_one_rack_one_has_all_seats_and_the_other_none() -> None:
    scene = Scene(racks(blocks=1, racks=1))
    first = scene.gang("group", 6, name="first")
    second = scene.gang("group", 6, name="second")
    assert scene.told(first[0])
    for pod in second:
        assert scene.refused(pod) == "NoDomainFits"
    for pod in first[1:]:
        assert scene.told(pod)
    assert len(scene.seats()) == 6
    scene.wait(61)
    assert scene.told(second[0])
    assert scene.refused(first[0]) == "NoDomainFits"


def test_after_a_restart_the_rest_of_a_gang_joins_the_rack_of_its_bound_pods() -> None:
    scene = Scene()
    a, *rest = scene.gang("group", 3)
    scene.bind(a)
    scene.fill(*[n for n in scene.world.nodes if scene.rack(n) != scene.rack(a.node)], gpus=2)
    scene.restart()
    for pod in rest:
        assert scene.rack(scene.told(pod)) == scene.rack(a.node)


def test_after_a_restart_a_gang_whose_rack_is_full_is_refused_rather_than_split() -> None:
    scene = Scene()
    a, b = scene.gang("group", 2, gpus=(2,))
    scene.bind(a)
    full = [n for n in scene.world.nodes if scene.rack(n) == scene.rack(a.node)]
    scene.fill(*full, gpus=2)
    scene.fill(*[n for n in full if n != a.node], gpus=2)
    scene.restart()
    assert scene.refused(b, list(scene.world.nodes)) == "NoDomainFits"


def test_a_gang_without_bound_pods_moves_as_a_whole_when_its_rack_is_lost() -> None:
    scene = Scene(racks(nodes=1))
    a, b = scene.gang("group", 2, gpus=(2,))
    assert scene.refused(a, ["elsewhere"]) == "SeatLost"
    (lost,) = set(scene.seats())
    scene.world.nodes[lost].gone = True
    scene.reread()
    nodes = {scene.told(a), scene.told(b)}
    assert len(nodes) == 1
    assert lost not in nodes


def test_a_gang_with_an_answered_pod_does_not_move_to_another_rack() -> None:
    scene = Scene(racks(nodes=1))
    a, b = scene.gang("group", 2, gpus=(2,))
    node = scene.told(a)
    scene.world.nodes[node].gone = True
    scene.reread()
    assert scene.refused(b) == "NodesExcluded"
    assert scene.seats(a) == [node]


def test_a_gang_moves_once_the_only_answered_pod_asks_again_without_its_node() -> None:
    scene = Scene(racks(nodes=1))
    a, b = scene.gang("group", 2, gpus=(2,))
    node = scene.told(a)
    other = scene.told(a, scene.without(node))
    assert other != node
    assert scene.told(b) == other


def test_a_seat_whose_node_vanished_after_the_answer_moves_inside_the_rack() -> None:
    scene = Scene()
    a, b = scene.gang("group", 2, gpus=(3,))
    node_a, node_b = scene.told(a), scene.told(b)
    a.node = node_a
    scene.world.nodes[node_b].cordoned = True
    scene.reread()
    scene.fill(node_a, gpus=1)
    assert scene.refused(b) == "NodesExcluded"
    scene.check_usage()


def test_the_rest_of_a_gang_stays_in_its_rack_while_the_bound_pods_node_is_gone() -> None:
    scene = Scene()
    a, b = scene.gang("group", 2, gpus=(3,))
    scene.bind(a)
    node = scene.told(b)
    scene.world.nodes[a.node].gone = True
    scene.reread()
    assert scene.refused(b, scene.without(node)) == "NodesExcluded"


def test_after_a_restart_the_rest_of_a_gang_waits_while_its_bound_pods_node_is_gone() -> None:
    scene = Scene()
    a, b = scene.gang("group", 2, gpus=(3,))
    scene.bind(a)
    scene.world.nodes[a.node].gone = True
    scene.restart()
    assert scene.refused(b) == "NoDomainFits"
    scene.world.nodes[a.node].gone = False
    scene.reread()
    assert scene.world.nodes[scene.told(b)].rack == scene.world.nodes[a.node].rack


def test_a_job_s_second_wave_joins_the_rack_of_the_pods_that_still_run() -> None:
    scene = Scene()
    first, *others = scene.gang("Job", 4, completions=8)
    scene.bind(first, *others)
    first.phase = "Succeeded"
    scene.reread()
    late = scene.one_more(first)
    assert scene.rack(scene.told(late)) == scene.rack(others[0].node)
    scene.check_usage()


def test_a_job_made_again_under_the_same_name_is_placed_as_a_whole_of_its_own() -> None:
    scene = Scene()
    old = scene.gang("Job", 4, name="train", completions=4)
    scene.bind(*old)
    for pod in old:
        pod.terminating = True
    rack = scene.rack(old[0].node)
    for node in scene.world.nodes.values():
        if node.rack == rack and scene.world.room(node)[GPU]:
            scene.fill(node.name, gpus=1)  # now the rack lacks room for one of the four
    gang = scene.world.add(Gang("Job", "train", 4, "required", RACK, completions=4, made=4))
    scene.world.gangs = [gang]
    new = [scene.world.make(gang) for _ in range(4)]
    scene.reread()
    assert len({scene.rack(scene.told(pod)) for pod in new}) == 1


def test_a_pod_beyond_the_stated_size_is_refused_and_costs_the_others_nothing() -> None:
    scene = Scene()
    pods = scene.gang("group", 8)
    nodes = [scene.told(pod) for pod in pods]
    ninth = scene.one_more(pods[0])
    assert scene.refused(ninth) == "Contradiction"
    assert [scene.told(pod) for pod in pods] == nodes
    assert len(scene.seats()) == 8


def test_a_caller_that_went_away_unseen_does_not_block_its_gang_for_ever() -> None:
    scene = Scene()
    a, b = scene.gang("group", 2)
    ninth = scene.one_more(a, seen=False)
    assert scene.refused(ninth) == "Contradiction"
    scene.wait(61)
    assert scene.told(a)
    assert scene.told(b)


def test_a_terminating_pod_that_calls_gets_no_seat_beyond_the_gang_s_size() -> None:
    scene = Scene()
    a, _ = scene.gang("group", 2, pods=2)
    a.terminating = True
    scene.one_more(a)
    scene.reread()
    a.terminating = False  # the scheduler's picture is older than ours
    scene.ask(a)
    assert len(scene.seats()) <= 2


def test_a_replaced_pod_takes_the_seat_that_it_left() -> None:
    scene = Scene()
    a, b = scene.gang("group", 2)
    node = scene.told(a)
    scene.told(b)
    del scene.world.pods[a.key]
    scene.reread()
    assert scene.told(scene.one_more(a)) == node
    assert len(scene.seats()) == 2


@pytest.mark.parametrize("bound", [False, True])
def test_a_pod_made_again_is_never_told_a_node_that_the_news_of_it_takes_away(bound: bool) -> None:
    scene = Scene()
    (old,) = scene.gang("StatefulSet", 1, gpus=(4,))
    if bound:
        scene.bind(old)
    else:
        scene.told(old)
    del scene.world.pods[old.key]
    new = scene.one_more(old, name=old.name, seen=False)
    early = scene.ask(new)
    scene.reread()
    if isinstance(early, Placed):
        assert scene.seats(new) == [early.node]
    node = scene.told(new)
    assert scene.seats(new) == [node]
    scene.check_usage()


def test_a_pod_made_again_whose_old_node_is_not_offered_leaks_no_room() -> None:
    scene = Scene()
    (old,) = scene.gang("StatefulSet", 1, gpus=(4,))
    scene.bind(old)
    del scene.world.pods[old.key]
    new = scene.one_more(old, name=old.name, seen=False)
    scene.ask(new, scene.without(old.node))
    scene.check_usage()
    scene.reread()
    scene.check_usage()


def test_all_seats_of_a_stateful_set_are_reserved_at_its_first_pod() -> None:
    scene = Scene()
    (first,) = scene.gang("StatefulSet", 4, pods=1, gpus=(2,))
    scene.bind(first)
    assert len(scene.seats()) == 3
    scene.fill(*[n for n in scene.world.nodes if scene.rack(n) != scene.rack(first.node)], gpus=1)
    for _ in range(3):
        scene.wait(600)
        pod = scene.one_more(first)
        scene.bind(pod)
        assert scene.rack(pod.node) == scene.rack(first.node)
    assert scene.seats() == []
    scene.check_usage()


def test_a_stateful_set_that_shrank_gives_back_the_seats_it_no_longer_wants() -> None:
    scene = Scene()
    (first,) = scene.gang("StatefulSet", 4, pods=1)
    scene.bind(first)
    assert first.gang is not None
    first.gang.size = 1
    scene.reread()
    scene.wait(3600)
    assert scene.seats() == []


def test_a_bound_pod_that_has_no_seat_fills_the_seat_that_waits_for_it() -> None:
    scene = Scene()
    a, b = scene.gang("ReplicaSet", 3, pods=2)
    scene.bind(a)
    node = scene.told(b)
    del scene.world.pods[b.key]
    scene.restart()  # from a file in which b is not yet
    scene.world.pods[b.key] = b
    c = scene.one_more(a)
    scene.bind(c)
    b.node = node
    scene.reread()
    scene.wait(3600)
    assert scene.seats() == []


def test_the_seat_of_a_pod_that_went_unseen_is_given_back_though_a_sibling_runs() -> None:
    scene = Scene()
    a, b = scene.gang("group", 2)
    scene.cluster.remove_pod(b.key)
    scene.ask(b)
    scene.bind(a)
    scene.told(b)
    del scene.world.pods[b.key]
    scene.reread()
    scene.wait(3600)
    assert scene.seats() == []


def test_a_gang_with_a_bound_pod_keeps_the_seats_of_its_live_pods_for_ever() -> None:
    scene = Scene()
    a, b = scene.gang("group", 2)
    scene.bind(a)
    for _ in range(100):
        assert scene.wait(3600) == []
    assert len(scene.seats(b)) == 1


def test_a_gang_whose_pod_has_a_claim_keeps_its_seats_for_eleven_minutes() -> None:
    scene = Scene()
    a, _ = scene.gang("group", 2, claim=True)
    scene.told(a)
    assert scene.wait(659) == []
    assert scene.wait(2) != []
    assert scene.seats() == []


def test_a_node_is_tried_again_once_its_exclusion_is_over_though_nothing_else_changed() -> None:
    scene = Scene(racks(blocks=1, racks=1, nodes=1))
    (pod,) = scene.gang("single", 1)
    node = scene.told(pod)
    assert scene.refused(pod, ["elsewhere", "nowhere"]) == "NodesExcluded"
    assert scene.refused(pod) == "NodesExcluded"
    scene.wait(601)
    assert scene.told(pod) == node


def test_an_exclusion_doubles_each_time_that_the_node_is_refused_anew() -> None:
    scene = Scene(racks(blocks=1, racks=1, nodes=1))
    (pod,) = scene.gang("single", 1)
    for minutes in (10, 20, 40):
        scene.told(pod)
        scene.refused(pod, ["elsewhere", "nowhere"])
        scene.wait(minutes * 60 - 1)
        scene.fill(gpus=0)
        assert scene.cluster.ledger.excluded(gang_of(pod.record()), scene.now)
        scene.wait(2)
        assert not scene.cluster.ledger.excluded(gang_of(pod.record()), scene.now)


def test_an_exclusion_does_not_grow_while_the_pod_merely_asks_again() -> None:
    scene = Scene(racks(nodes=1))
    a, b = scene.gang("group", 2)
    scene.bind(a)
    scene.told(b)
    for _ in range(12):
        assert scene.refused(b, scene.without(a.node)) == "NodesExcluded"
        scene.wait(0.1)
    scene.wait(601)
    assert not scene.cluster.ledger.excluded(gang_of(b.record()), scene.now)


def test_a_pod_group_above_its_minimum_is_placed_when_only_its_minimum_fits() -> None:
    scene = Scene(racks(blocks=1, racks=1, nodes=1, gpus=3))
    pods = scene.gang("PodGroup", 2, pods=4)
    told = [isinstance(scene.ask(pod), Placed) for pod in pods]
    assert sum(told) == 3


@pytest.mark.parametrize("done", [1, 2])
def test_a_pod_beyond_a_group_whose_pods_succeeded_is_judged_without_a_crash(done: int) -> None:
    scene = Scene()
    *early, late = scene.gang("PodGroup", 1, pods=done + 1)
    for pod in early:
        pod.phase = "Succeeded"
    scene.reread()
    assert isinstance(scene.ask(late), Placed)


def test_a_surplus_pod_of_a_job_that_is_done_is_judged_without_a_crash() -> None:
    scene = Scene()
    *early, late = scene.gang("Job", 2, pods=3, completions=2)
    for pod in early:
        pod.phase = "Succeeded"
    scene.reread()
    assert isinstance(scene.ask(late), Placed | Refused)


def test_nothing_is_kept_of_callers_that_went_away_unseen() -> None:
    scene = Scene(racks(blocks=1, racks=1, nodes=1))
    (pod,) = scene.gang("single", 1)
    scene.cluster.remove_pod(pod.key)
    scene.refused(pod, ["elsewhere", "nowhere"])
    del scene.world.pods[pod.key]
    scene.wait(3600)
    scene.reread()
    assert scene.cluster.gangs.ids() == []
    assert list(scene.cluster.ledger.excluded_gangs()) == []
