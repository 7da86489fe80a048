"""The decision at filter time, step by step: one node, all nodes, or a refusal."""

from collections.abc import Callable, Sequence

import pytest

from stowplan.placement import keys
from stowplan.placement.cluster import Cluster, Objects
from stowplan.placement.decide import (
    Placed,
    Refused,
    Untouched,
    Verdict,
    filter_nodes,
    looks_sampled,
)
from stowplan.placement.gangs import gang_of
from tests.build import Json, NodeObject, PodObject, cluster, gang, level, node, owner, pod

#   block  b1                        b2
#   rack   r1          r2            r3
#   node   r1a  r1b    r2a r2b r2c   r3a      8 GPUs each
RACKS = {"r1": "ab", "r2": "abc", "r3": "a"}
NODES = tuple(f"{rack}{x}" for rack, xs in RACKS.items() for x in xs)


def gpu_nodes() -> list[NodeObject]:
    return [
        node(f"{rack}{x}").at(block="b2" if rack == "r3" else "b1", rack=rack).gpus(8)
        for rack, xs in RACKS.items()
        for x in xs
    ]


def live(*objects: Json) -> Cluster:
    return cluster(*gpu_nodes(), *objects)


def ask(
    on: Cluster, member: PodObject, offered: Sequence[str] = NODES, now: float = 0.0
) -> Verdict:
    return filter_nodes(on, member.record(), offered, now)


def placed(on: Cluster, member: PodObject, offered: Sequence[str] = NODES, now: float = 0.0) -> str:
    verdict = ask(on, member, offered, now)
    assert isinstance(verdict, Placed), verdict
    return verdict.node


def refused(
    on: Cluster, member: PodObject, offered: Sequence[str] = NODES, now: float = 0.0
) -> str:
    verdict = ask(on, member, offered, now)
    assert isinstance(verdict, Refused), verdict
    return verdict.reason.word


def bind(on: Cluster, member: PodObject, name: str) -> None:
    on.set_pod(member.on(name).record())


def see(on: Cluster, members: Sequence[PodObject]) -> None:
    for member in members:
        on.set_pod(member.record())


def free_gpus(on: Cluster) -> dict[str, int]:
    view = on.state.view()
    row = view.leaves.free[view.row_of("nvidia.com/gpu")]
    return {name: int(row[leaf]) for name, leaf in view.leaf_of.items()}


def overcommitted(on: Cluster) -> list[str]:
    return [name for name, amount in free_gpus(on).items() if amount < 0]


# --- 1. What needs no decision -------------------------------------------------------------------


@pytest.mark.parametrize(
    "untouched",
    [
        pytest.param(pod("p").gpus(8), id="asks for nothing"),
        pytest.param(pod("p").in_gang("g", 2).gpus(8), id="a gang that asks for nothing"),
        *(
            pytest.param(pod("p").requires("rack").labelled(**{label: "q"}), id=label)
            for label in keys.HELD_LABELS
        ),
        pytest.param(pod("p").requires("rack").annotated(**{keys.HELD_ANNOTATION: "w"}), id="held"),
        pytest.param(pod("p").requires("rack").gated_by("kueue.x-k8s.io/admission"), id="gated"),
    ],
)
def test_a_pod_that_is_not_ours_goes_back_untouched(untouched: PodObject) -> None:
    on = live()
    assert ask(on, untouched) == Untouched()
    assert ask(on, untouched, ()) == Untouched()
    assert on.ledger.reservations == {}


def test_a_native_pod_group_is_handed_back_alone_and_refused_beside_our_keys() -> None:
    native = pod("p")
    native["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    assert ask(live(), native) == Untouched()
    assert refused(live(), native.requires("rack")) == "Contradiction"


# --- 2. Complete or not --------------------------------------------------------------------------


def test_a_gang_is_placed_whole_when_its_last_pod_calls() -> None:
    on, members = live(), gang("train", 2)
    assert refused(on, members[0]) == "Incomplete"
    assert on.ledger.seat_count == 0
    first = ask(on, members[1])
    assert isinstance(first, Placed)
    assert (first.node, first.committed) == ("r1b", 2)
    assert (first.level, first.domain) == (level("rack"), ("b1", "r1"))
    assert on.ledger.seat_count == 2
    second = ask(on, members[0])
    assert isinstance(second, Placed)
    assert (second.node, second.committed) == ("r1a", 0)


def test_a_gang_whose_pods_are_all_known_is_placed_at_the_first_call() -> None:
    members = gang("train", 2)
    on = live(*members)
    assert [placed(on, member) for member in members] == ["r1a", "r1b"]


def test_a_gang_takes_the_tightest_rack_that_holds_it() -> None:
    assert placed(live(), gang("one", 1)[0]) == "r3a"
    three = gang("three", 3)
    assert {placed(live(*three), member) for member in three} == {"r2a", "r2b", "r2c"}


def test_asking_again_gives_the_same_node() -> None:
    members = gang("train", 2)
    on = live(*members)
    first = [placed(on, member) for member in members]
    assert [placed(on, member, now=30.0) for member in reversed(members)] == first[::-1]
    assert on.ledger.seat_count == 2


def test_a_pod_that_nothing_ties_to_others_is_a_gang_of_one() -> None:
    on = live()
    assert placed(on, pod("p").requires("rack").gpus(8)) == "r3a"
    assert placed(on, pod("q").prefers("rack").gpus(4)) == "r1a"


def test_the_ninth_pod_of_eight_is_refused_and_the_eight_keep_their_seats() -> None:
    members = gang("train", 3)
    on = live(*members)
    nodes = [placed(on, member) for member in members]
    fourth = pod("train-3").in_gang("train", 3).requires("rack").gpus(8)
    assert refused(on, fourth) == "Contradiction"
    assert [placed(on, member) for member in members] == nodes


def test_a_stranger_that_vanished_stops_counting_even_if_the_gang_was_refused_with_it() -> None:
    """A caller that no object confirms counts for a while; then the gang is judged without it."""
    members = gang("train", 2)
    on = live(*members)
    stranger = pod("train-9").in_gang("train", 2).requires("rack").gpus(8)
    assert refused(on, stranger) == "Contradiction"
    assert refused(on, members[0], now=1.0) == "Contradiction"
    assert placed(on, members[0], now=100.0) == "r1a"


# --- 3. The seat's node is not offered -----------------------------------------------------------


@pytest.mark.parametrize(
    ("nominated", "offered"),
    [
        pytest.param("", ("r2a",), id="one name"),
        pytest.param("r2a", NODES[1:], id="a nominated pod"),
    ],
)
def test_a_list_that_proves_nothing_changes_nothing(
    nominated: str, offered: tuple[str, ...]
) -> None:
    members = gang("train", 2)
    on = live(*members)
    assert placed(on, members[0]) == "r1a"
    caller = members[0].nominated_to(nominated) if nominated else members[0]
    assert refused(on, caller, offered) == "SeatLost"
    assert placed(on, members[0], now=1.0) == "r1a"


def test_a_seat_moves_to_the_only_node_that_is_left_to_the_pod_in_the_domain() -> None:
    """A volume may be bound to it. Nothing is said of the node that it leaves."""
    members = gang("train", 2)
    on = cluster(*(node(x).at(block="b", rack="r").gpus(8) for x in "abc"), *members)
    assert placed(on, members[0], "abc") == "a"
    assert placed(on, members[0], "c") == "c"
    assert refused(on, members[1], "c") == "SeatLost"  # that is its sibling's now
    assert placed(on, members[1], "abc") == "b"
    assert on.ledger.excluded(gang_of(members[0].record()), 0.0) == ()


def test_a_list_that_looks_sampled_proves_nothing() -> None:
    nodes = [node(f"n{i:03}").at(block="b", rack=f"r{i // 4}").gpus(8) for i in range(400)]
    members = gang("train", 2)
    on = cluster(*nodes, *members)
    seat = placed(on, members[0], [n["metadata"]["name"] for n in nodes])
    others = [n["metadata"]["name"] for n in nodes if n["metadata"]["name"] != seat]
    sample = others[: 400 * 47 // 100]
    assert looks_sampled(len(sample), 400)
    assert refused(on, members[0], sample) == "SeatLost"
    assert placed(on, members[0], [*sample[:-1], seat]) == seat


def test_a_refused_node_is_left_out_and_the_seat_moves_inside_the_rack() -> None:
    members = gang("train", 2, gpus=4)
    on = live(*members)
    assert [placed(on, member) for member in members] == ["r3a", "r3a"]
    members = gang("other", 2)
    see(on, members)
    first, second = (placed(on, member) for member in members)
    assert (first, second) == ("r1a", "r1b")
    members = gang("third", 2)
    see(on, members)
    assert [placed(on, m) for m in members] == ["r2a", "r2b"]
    assert placed(on, members[1], [n for n in NODES if n != "r2b"]) == "r2c"
    assert overcommitted(on) == []


def test_a_gang_that_nobody_was_told_of_moves_to_another_rack_as_a_whole() -> None:
    members = gang("train", 2)
    on = live(*members)
    first = placed(on, members[0], [n for n in NODES if n != "r1a"])
    assert first.startswith("r2")
    assert placed(on, members[1]).startswith("r2")
    assert on.ledger.seat_count == 2
    assert sum(free_gpus(on).values()) == 4 * 8


def test_a_gang_of_which_another_pod_was_told_its_node_stays_in_its_rack() -> None:
    members = gang("train", 2)
    on = live(*members)
    assert placed(on, members[1]) == "r1b"
    assert refused(on, members[0], [n for n in NODES if n != "r1a"]) == "NodesExcluded"
    assert on.ledger.seat_count == 2


def test_a_refused_node_may_be_used_again_when_its_time_is_over() -> None:
    on = live()
    alone = pod("p").requires("rack").gpus(8).selecting(**{"kubernetes.io/hostname": "r1a"})
    assert refused(on, alone, [n for n in NODES if n != "r1a"]) == "NodesExcluded"
    assert refused(on, alone, now=599.0) == "NodesExcluded"
    assert placed(on, alone, now=601.0) == "r1a"
    assert refused(on, alone, [n for n in NODES if n != "r1a"], now=602.0) == "NodesExcluded"
    assert refused(on, alone, now=1700.0) == "NodesExcluded"  # twice as long
    assert placed(on, alone, now=1803.0) == "r1a"


def test_a_seat_on_a_node_that_is_gone_moves_whatever_list_is_offered() -> None:
    members = gang("train", 2)
    on = live(*members)
    assert placed(on, members[0]) == "r1a"
    on.state.remove_node("r1a")
    verdict = ask(on, members[0], ("r2a",))
    assert isinstance(verdict, Placed | Refused)
    if isinstance(verdict, Placed):
        assert verdict.node == "r2a"
    assert overcommitted(on) == []


def test_a_pod_of_a_gang_with_slices_that_lost_its_seat_gets_another_or_a_refusal() -> None:
    """One pod alone is less than a slice, and must be found a place all the same."""
    members = [member.sliced("rack", 2) for member in gang("train", 2)]
    on = live(*members)
    assert placed(on, members[0]) == "r1a"
    verdict = ask(on, members[0], [n for n in NODES if n != "r1a"])
    assert isinstance(verdict, Placed | Refused)
    assert overcommitted(on) == []


# --- 4. Placing ----------------------------------------------------------------------------------


def unlike(name: str, lead_gpus: int, worker_gpus: int, workers: int) -> list[PodObject]:
    size = workers + 1
    lead = pod(f"{name}-0").in_gang(name, size).ranked(0).requires("rack").gpus(lead_gpus)
    return [
        lead,
        *(
            pod(f"{name}-{i}").in_gang(name, size).ranked(i).requires("rack").gpus(worker_gpus)
            for i in range(1, size)
        ),
    ]


def test_two_podsets_of_a_gang_share_one_rack() -> None:
    members = unlike("train", 1, 8, 2)
    on = live(*members)
    nodes = [placed(on, member) for member in members]
    assert {name[:2] for name in nodes} == {"r2"}  # r1 holds the workers, but not the lead too
    assert overcommitted(on) == []


def test_a_refusal_tells_the_log_how_many_of_how_many_and_the_scheduler_nothing_that_flickers() -> (
    None
):
    members = gang("train", 4)
    on = live(*members)
    verdict = ask(on, members[0])
    assert isinstance(verdict, Refused)
    assert dict(verdict.reason.facts) == {"fits": 3, "needed": 4}
    assert "3" not in verdict.reason.text
    alone = gang("other", 4)[:1]
    verdict = ask(live(*alone), alone[0])
    assert isinstance(verdict, Refused)
    assert dict(verdict.reason.facts) == {"there": 1, "needed": 4}


def test_a_cluster_without_nodes_refuses_with_what_is_missing() -> None:
    verdict = ask(cluster(), pod("p").requires("rack").gpus(1), ())
    assert isinstance(verdict, Refused)
    assert "no node is ready, not cordoned and labelled with every level" in verdict.reason.text


def test_two_podsets_that_prefer_a_rack_share_one_that_holds_both() -> None:
    members = [
        pod("g-0").in_gang("g", 3).prefers("rack").gpus(1),
        *(pod(f"g-{i}").in_gang("g", 3).prefers("rack").gpus(8) for i in (1, 2)),
    ]
    on = live(*members)
    assert {placed(on, member)[:2] for member in members} == {"r2"}


def test_two_podsets_that_prefer_a_rack_take_several_when_no_one_holds_both() -> None:
    members = [
        pod("g-0").in_gang("g", 6).prefers("rack").gpus(1),
        *(pod(f"g-{i}").in_gang("g", 6).prefers("rack").gpus(8) for i in range(1, 6)),
    ]
    on = live(*members)
    assert len({placed(on, member) for member in members}) == 6


def test_two_podsets_that_no_one_rack_holds_are_refused_whole() -> None:
    members = unlike("train", 1, 8, 3)
    on = live(*members)
    assert {refused(on, member) for member in members} == {"NoDomainFits"}
    assert set(free_gpus(on).values()) == {8}
    assert on.ledger.reservations == {}


def test_two_podsets_that_only_fit_in_another_order_are_placed_all_the_same() -> None:
    """The small pod first would break the last whole node; section 19.2: place kinds jointly."""
    members = [
        pod("g-0").in_gang("g", 3).requires("rack").gpus(4),
        pod("g-1").in_gang("g", 3).requires("rack").gpus(4).asking(cpu="1"),
        pod("g-2").in_gang("g", 3).requires("rack").gpus(8),
    ]
    on = cluster(*(node(f"n{i}").at(block="b", rack="r").gpus(8) for i in range(2)), *members)
    nodes = [placed(on, member, ("n0", "n1")) for member in members]
    assert nodes[0] == nodes[1] != nodes[2]


def test_a_gang_that_does_not_fit_reserves_nothing_and_is_answered_from_memory() -> None:
    members = gang("train", 4)
    on = live(*members)
    first = ask(on, members[0])
    assert isinstance(first, Refused)
    assert first.judged
    for member in members:
        again = ask(on, member, now=5.0)
        assert isinstance(again, Refused)
        assert (again.judged, again.reason) == (False, first.reason)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda on: on.state.set_node(gpu_nodes()[0].gpus(64).record()), id="room"),
        pytest.param(
            lambda on: on.state.set_node(node("r2d").at(block="b1", rack="r2").gpus(8).record()),
            id="a new node",
        ),
        pytest.param(lambda on: on.remove_pod("default/train-3"), id="the gang"),
        pytest.param(
            lambda on: on.set_pod(pod("x").gpus(1).on("r3a").record()), id="a pod elsewhere"
        ),
        pytest.param(lambda on: on.set_owner(owner("Job", "j").record()), id="an owner"),
    ],
)
def test_memory_ends_when_something_changes(change: Callable[[Cluster], object]) -> None:
    members = gang("train", 4)
    on = live(*members)
    ask(on, members[0])
    change(on)
    verdict = ask(on, members[0])
    assert isinstance(verdict, Placed) or (isinstance(verdict, Refused) and verdict.judged)


def test_room_that_appears_turns_a_refusal_around() -> None:
    members = gang("train", 3)
    on = live(*members, pod("x").gpus(1).on("r2c"))
    assert refused(on, members[0]) == "NoDomainFits"
    on.remove_pod("default/x")
    assert placed(on, members[0]) == "r2a"


def test_seats_of_other_gangs_are_not_free() -> None:
    one, two = gang("one", 2), gang("two", 2)
    on = live(*one, *two)
    assert placed(on, one[0]).startswith("r1")
    assert placed(on, two[0]).startswith("r2")
    three = gang("three", 2)
    see(on, three)
    assert refused(on, three[0]) == "NoDomainFits"
    assert overcommitted(on) == []


def test_slices_that_leave_a_rest_do_not_leave_pods_without_a_seat() -> None:
    """Per gang 0 or all pods have a seat; Kueue's quirk would place 4 of 5 (section 2)."""
    members = gang("train", 5, gpus=4)
    for member in members:
        member.sliced("host", 2)
    on = cluster(*(node(f"n{i}").at(block="b", rack="r").gpus(8) for i in range(2)), *members)
    verdicts = [ask(on, member, ("n0", "n1")) for member in members]
    assert {v.outcome for v in verdicts} == {"refused"}
    assert on.ledger.seat_count == 0


def test_room_that_preemption_holds_for_a_nominated_pod_is_not_free() -> None:
    """contracts.md section 5: free room is less nominated pods without a seat."""
    members = gang("train", 1)
    on = live(*members, pod("urgent").gpus(8).nominated_to("r3a"))
    assert placed(on, members[0]) != "r3a"


def test_a_preferred_level_falls_back_to_a_coarser_one_and_to_several() -> None:
    members = [pod(f"p{i}").in_gang("g", 5).prefers("rack").gpus(8) for i in range(5)]
    on = live(*members)
    assert {placed(on, member)[:2] for member in members} == {"r1", "r2"}
    members = [pod(f"p{i}").in_gang("g", 6).prefers("rack").gpus(8) for i in range(6)]
    on = live(*members)
    assert sorted(placed(on, member) for member in members) == sorted(NODES)


def test_ranks_follow_the_order_of_the_tree() -> None:
    members = [
        pod(f"x{9 - i}").in_gang("g", 3).ranked(i).requires("rack").gpus(8) for i in range(3)
    ]
    on = live(*members)
    assert [placed(on, member) for member in members] == ["r2a", "r2b", "r2c"]


# --- Running gangs -------------------------------------------------------------------------------


def test_after_a_restart_the_rest_of_a_gang_goes_to_where_its_bound_pods_are() -> None:
    members = gang("train", 3, gpus=4)
    members[1].on("r2b")
    on = live(*members)
    assert {placed(on, members[i])[:2] for i in (0, 2)} == {"r2"}
    assert on.ledger.seat_count == 2


def test_after_a_restart_a_full_domain_refuses_the_rest_and_says_so() -> None:
    members = gang("train", 2)
    members[0].on("r3a")
    verdict = ask(live(*members), members[1])
    assert isinstance(verdict, Refused)
    assert verdict.reason.word == "NoDomainFits"
    assert "no room for the rest" in verdict.reason.text


def test_a_gang_that_was_bound_apart_is_refused_and_says_so() -> None:
    members = gang("train", 3)
    members[0].on("r1a")
    members[1].on("r2a")
    verdict = ask(live(*members), members[2])
    assert isinstance(verdict, Refused)
    assert "more than one" in verdict.reason.text


def job(completions: int, succeeded: int) -> Json:
    return owner("Job", "j", parallelism=2, completions=completions).with_status(
        succeeded=succeeded
    )


def wave(*indexes: int) -> list[PodObject]:
    return [
        pod(f"j-{i}")
        .owned_by("Job", "j")
        .labelled(**{keys.JOB_INDEX: str(i)})
        .requires("rack")
        .gpus(4)
        for i in indexes
    ]


def test_later_waves_of_a_job_join_the_domain_of_the_first() -> None:
    first = wave(0, 1)
    on = live(*first, owner("Job", "j", parallelism=2, completions=6))
    nodes = [placed(on, member) for member in first]
    assert nodes == ["r3a", "r3a"]
    for member, name in zip(first, nodes, strict=True):
        bind(on, member, name)
    on.set_pod(first[0].phase("Succeeded").record())
    on.set_owner(owner("Job", "j", parallelism=2, completions=6).with_status(succeeded=1).record())
    (third,) = wave(2)
    assert placed(on, third) == "r3a"
    assert overcommitted(on) == []


def test_the_last_pod_of_a_job_is_placed_when_all_others_succeeded() -> None:
    last = wave(5)
    done = [member.on("r2a").phase("Succeeded") for member in wave(0, 1, 2, 3, 4)]
    on = live(
        *done,
        *last,
        owner("Job", "j", parallelism=2, completions=6).with_status(succeeded=5),
    )
    assert placed(on, last[0]) == "r3a"


def test_a_pod_that_replaces_a_failed_one_joins_the_domain() -> None:
    members = gang("train", 2)
    on = live(*members)
    for member in members:
        bind(on, member, placed(on, member))
    on.set_pod(members[1].phase("Failed").record())
    again = pod("train-1b").in_gang("train", 2).ranked(1).requires("rack").gpus(8)
    assert placed(on, again) == "r1b"


def test_seats_are_reserved_for_pods_that_a_stateful_set_makes_one_by_one() -> None:
    def web(i: int) -> PodObject:
        label = {keys.STATEFULSET_INDEX: str(i)}
        return (
            pod(f"web-{i}")
            .owned_by("StatefulSet", "web")
            .labelled(**label)
            .requires("rack")
            .gpus(8)
        )

    on = live(owner("StatefulSet", "web", replicas=3))
    nodes = []
    for i in range(3):
        nodes.append(placed(on, web(i)))
        bind(on, web(i), nodes[-1])
        assert on.ledger.seat_count == 2 - i
    assert nodes == ["r2a", "r2b", "r2c"]


def lws(i: int) -> PodObject:
    labels = {keys.LWS_NAME: "serve", keys.LWS_GROUP: "0", keys.LWS_RANK: str(i)}
    return (
        pod(f"serve-{i}")
        .labelled(**labels)
        .annotated(**{keys.LWS_SIZE: "3"})
        .requires("rack")
        .gpus(8)
    )


def test_workers_that_wait_for_their_leader_find_the_seats_that_were_reserved_for_them() -> None:
    """The API server adds tolerations and labels to a pod that its template does not have."""
    template = {"spec": lws(1)["spec"]}
    serve: Json = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "serve", "namespace": "default", "uid": "u"},
        "spec": {
            "startupPolicy": "LeaderReady",
            "leaderWorkerTemplate": {"workerTemplate": template},
        },
    }
    on = live(serve)
    default = [
        {
            "key": f"node.kubernetes.io/{k}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": 300,
        }
        for k in ("not-ready", "unreachable")
    ]
    nodes = []
    for i in range(3):
        member = lws(i)
        member["spec"]["tolerations"] = default
        nodes.append(placed(on, member))
    assert nodes == ["r2a", "r2b", "r2c"]


# --- Pods made again -----------------------------------------------------------------------------


def test_a_pod_made_again_under_its_name_gets_no_seat_of_the_older_one() -> None:
    """The scheduler is often faster than our own picture: the older pod may still be in it."""
    old = pod("solo").requires("rack").gpus(8).made_again("u1")
    on = live(old)
    bind(on, old, placed(on, old))
    new = pod("solo").requires("rack").gpus(8).made_again("u2")
    for offered in (NODES, NODES[:-1]):
        ask(on, new, offered)
        assert overcommitted(on) == []
    on.set_pod(new.record())
    name = placed(on, new)
    other = pod("other").requires("rack").gpus(8)
    assert placed(on, other) != name
    bind(on, new, name)
    assert overcommitted(on) == []


def test_a_call_for_a_pod_that_runs_in_our_picture_gives_its_room_to_nobody() -> None:
    """A file may leave uids out, so nobody can tell the new pod from the one that runs."""
    old = pod("solo").requires("rack").gpus(8)
    on = live(old, pod("other").gpus(8).on("r3a"))
    bind(on, old, placed(on, old))
    new = pod("solo").requires("rack").gpus(8).made_again("u2")
    ask(on, new, [n for n in NODES if n != "r1a"])
    assert free_gpus(on)["r1a"] == 0
    on.remove_pod("default/solo")
    assert max(free_gpus(on).values()) == 8


def test_a_job_made_again_is_not_held_in_the_rack_of_the_one_before_it() -> None:
    """contracts.md section 1: identity of a Job is its uid; pods of the old one may still end."""
    old = [pod(f"a-{i}").owned_by("Job", "j", "u1").requires("rack").gpus(8) for i in range(2)]
    new = [pod(f"b-{i}").owned_by("Job", "j", "u2").requires("rack").gpus(8) for i in range(2)]
    on = live(*old, owner("Job", "j", parallelism=2))
    for member in old:
        bind(on, member, placed(on, member))
    see(on, [member.terminating() for member in old])
    see(on, new)
    assert [placed(on, member) for member in new] == ["r2a", "r2b"]


def test_expired_seats_are_free_again_and_late_callers_are_judged_anew() -> None:
    members = gang("train", 2)
    on = live(*members)
    assert placed(on, members[0]) == "r1a"
    assert on.expire(60.0) == []
    assert [g.name for g in on.expire(61.0)] == ["train"]
    assert set(free_gpus(on).values()) == {8}
    assert placed(on, members[1], now=62.0) == "r1b"


def test_a_cluster_that_is_read_again_keeps_its_seats() -> None:
    members = gang("train", 2)
    on = live(*members)
    assert placed(on, members[0]) == "r1a"
    on.replace(Objects.of([*gpu_nodes(), *members]))
    assert on.ledger.seat_count == 2
    on.replace(Objects.of([*gpu_nodes()]))
    assert on.ledger.seat_count == 0
    assert set(free_gpus(on).values()) == {8}


def test_an_excluded_node_stays_excluded_when_the_cluster_is_read_again() -> None:
    """A gang that only its caller names is in no file, but its refused node is still refused."""
    on = live()
    alone = pod("p").requires("rack").gpus(8).selecting(**{"kubernetes.io/hostname": "r1a"})
    assert refused(on, alone, [n for n in NODES if n != "r1a"]) == "NodesExcluded"
    on.replace(Objects.of(gpu_nodes()))
    assert refused(on, alone, now=1.0) == "NodesExcluded"


@pytest.mark.parametrize(
    ("offered", "nodes", "want"),
    [
        (100, 100, False),
        (100, 150, True),
        (50, 99, False),
        (99, 150, False),
        (1, 1, False),
        (188, 400, True),
        (500, 5000, True),
        (2375, 5000, False),
        (750, 15_000, True),
    ],
)
def test_a_list_looks_sampled_at_the_share_that_kube_scheduler_stops_at(
    offered: int, nodes: int, want: bool
) -> None:
    assert looks_sampled(offered, nodes) is want


# --- Roles with domains of their own -------------------------------------------------------------


def prefill_and_decode() -> list[PodObject]:
    """Two podsets of one gang, each in one rack of its own."""
    return [
        pod(f"{role}-{i}").in_gang("serve", 4).of_role(role).in_group(role).requires("rack").gpus(8)
        for role in ("prefill", "decode")
        for i in range(2)
    ]


def test_a_pod_that_replaces_one_of_a_role_joins_the_domain_of_its_role() -> None:
    members = prefill_and_decode()
    on = live(*members)
    nodes = {m["metadata"]["name"]: placed(on, m) for m in members}
    assert nodes == {"decode-0": "r1a", "decode-1": "r1b", "prefill-0": "r2a", "prefill-1": "r2b"}
    for member in members:
        bind(on, member, nodes[member["metadata"]["name"]])
    for role, gone, racks in (("decode", "decode-0", "r1"), ("prefill", "prefill-1", "r2")):
        on.remove_pod(f"default/{gone}")
        again = pod(f"{role}-9").in_gang("serve", 4).of_role(role).in_group(role)
        assert placed(on, again.requires("rack").gpus(8))[:2] == racks
