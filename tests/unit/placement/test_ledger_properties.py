"""The ledger under a kube-scheduler that calls in any order and a cluster that does not hold still.

``STOWPLAN_EXAMPLES=2000 pytest tests/unit/placement/test_ledger_properties.py`` looks further.
"""

import os
import random
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from stowplan.placement import decide
from stowplan.placement.cluster import Cluster, Objects
from stowplan.placement.decide import Placed, Refused, Untouched, Verdict
from stowplan.placement.gangs import GangId, gang_of
from stowplan.placement.ledger import Seat
from stowplan.placement.records import PodRecord
from tests.unit.placement.ledger_model import (
    BLOCK,
    GPU,
    RACK,
    Gang,
    Pod,
    World,
    open_seats,
    racks,
    recount,
    used,
)

EXAMPLES = int(os.environ.get("STOWPLAN_EXAMPLES", "60"))
WORDS = {
    "Incomplete", "NoDomainFits", "LevelUnknown", "Contradiction", "OtherGates", "NodesExcluded",
    "SeatLost", "HalfReleased", "TooLarge", "HeldForAnother", "StateStale", "NotTheLeader",
    "RequestInvalid",
}  # fmt: skip


# --- Scenarios -------------------------------------------------------------------------------


@dataclass
class Scene:
    """A world, a process that watches it, and a scheduler that asks."""

    world: World = field(default_factory=racks)
    cluster: Cluster = field(init=False)
    now: float = 0.0

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.cluster = self.world.start()

    def reread(self) -> None:
        self.cluster.replace(Objects.of(self.world.objects()))

    def gang(
        self,
        kind: str,
        size: int,
        *,
        pods: int | None = None,
        name: str = "g",
        gpus: tuple[int, ...] = (1,),
        mode: str = "required",
        level: str = RACK,
        completions: int | None = None,
        claim: bool = False,
    ) -> list[Pod]:
        gang = self.world.add(
            Gang(kind, name, size, mode, level, gpus, claim=claim, completions=completions)
        )
        made = [self.world.make(gang) for _ in range(size if pods is None else pods)]
        self.reread()
        return made

    def one_more(self, like: Pod, name: str = "", seen: bool = True) -> Pod:
        pod = self.world.make(like.gang, name=name)
        if seen:
            self.cluster.set_pod(pod.record())
        return pod

    def ask(self, pod: Pod, offered: Collection[str] | None = None) -> Verdict:
        names = self.world.feasible(pod) if offered is None else offered
        return decide.filter_nodes(self.cluster, pod.record(), names, self.now)

    def told(self, pod: Pod, offered: Collection[str] | None = None) -> str:
        verdict = self.ask(pod, offered)
        assert isinstance(verdict, Placed), verdict
        return verdict.node

    def refused(self, pod: Pod, offered: Collection[str] | None = None) -> str:
        verdict = self.ask(pod, offered)
        assert isinstance(verdict, Refused), verdict
        return verdict.reason.word

    def bind(self, *pods: Pod) -> None:
        for pod in pods:
            pod.node = self.told(pod)
            self.cluster.set_pod(pod.record())

    def wait(self, seconds: float) -> list[GangId]:
        self.now += seconds
        return self.cluster.expire(self.now)

    def without(self, *nodes: str) -> list[str]:
        return [n.name for n in self.world.nodes.values() if n.usable and n.name not in nodes]

    def rack(self, node: str) -> str:
        return self.world.nodes[node].rack

    def seats(self, pod: Pod | None = None) -> list[str]:
        """The nodes of open seats: all, or those of one pod."""
        seats = open_seats(self.cluster)
        return sorted(s.node for s in seats if pod is None or s.pod == pod.key)

    def fill(self, *nodes: str, gpus: int = 4) -> None:
        for node in nodes:
            self.world.make(None, gpus=gpus, node=node, phase="Running")
        self.reread()

    def check_usage(self) -> None:
        for node in self.world.nodes:
            assert Counter(self.cluster.state.used_on(node)) == recount(self.cluster, node), node


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


# --- Any order -------------------------------------------------------------------------------


def sound(gang: Gang) -> Gang:
    """Only groups have unlike pods, and a Job runs more than one wave."""
    return replace(
        gang,
        size=1 if gang.kind == "single" else gang.size,
        gpus=gang.gpus if gang.kind in ("group", "PodGroup") else gang.gpus[-1:],
        completions=gang.size + 2 if gang.kind == "Job" else None,
    )


KINDS = ("group", "group", "Job", "StatefulSet", "ReplicaSet", "PodGroup", "single")
LISTS = ("all", "feasible", "feasible", "feasible", "half", "one", "without", "none")
ENDS = ("Failed", "Succeeded", "terminating", "gone", "gone", "again")
NODE_CHANGES = ("gone", "cordoned", "not ready", "smaller", "back", "back")
indexes = st.integers(0, 1000)
gangs = st.builds(
    Gang,
    kind=st.sampled_from(KINDS),
    name=st.just("g"),
    size=st.integers(1, 4),
    mode=st.sampled_from(("required", "required", "required", "preferred", "unconstrained")),
    level=st.sampled_from((RACK, RACK, BLOCK)),
    gpus=st.sampled_from(((1,), (2,), (3,), (4,), (1, 2), (0, 3))),
    claim=st.integers(0, 9).map(lambda n: n == 0),
).map(sound)
SeatKey = tuple[str, str | None, object]  # node, pod, amounts


@dataclass(frozen=True)
class Promise:
    """A pod was told a node; it may bind there at any moment."""

    pod: Pod
    node: str
    at: float


class Ledger(RuleBasedStateMachine):
    """A scheduler and its cluster, whose picture we follow event by event or file by file."""

    def __init__(self) -> None:
        super().__init__()
        self.world = racks()
        self.cluster = self.world.start()
        self.now = 0.0
        self.read_at = 0.0
        self.promises: dict[str, Promise] = {}  # by pod uid
        self.seen: dict[str, tuple[str, str, bool]] = {}  # uid, node and end of each pod we saw

    # - what we have seen -

    def see(self, key: str) -> None:
        pod = self.world.pods.get(key)
        if pod is None:
            self.cluster.remove_pod(key)
        else:
            self.cluster.set_pod(pod.record())
        self._saw(key)

    def _saw(self, key: str) -> None:
        pod = self.world.pods.get(key)
        for uid, promise in list(self.promises.items()):
            if promise.pod.key == key and (pod is None or pod.uid != uid or pod.node or pod.ended):
                del self.promises[uid]
        if pod is None:
            self.seen.pop(key, None)
        else:
            self.seen[key] = (pod.uid, pod.node, pod.ended)

    @rule()
    def files_are_read_again(self) -> None:
        self.cluster.replace(Objects.of(self.world.objects()))
        for key in {*self.seen, *self.world.pods}:
            self._saw(key)
        self.read_at = self.now

    @rule()
    def the_process_restarts(self) -> None:
        self.cluster = self.world.start()
        self.promises.clear()
        self.seen.clear()
        for key in self.world.pods:
            self._saw(key)
        self.read_at = self.now
        for pod in self.world.pods.values():
            if pod.gang is not None and pod.waits:
                pod.told = False

    @rule(seconds=st.sampled_from((1, 10, 25, 61, 61, 601, 661, 1300)))
    def time_passes(self, seconds: int) -> None:
        self.now += seconds
        if self.now - self.read_at > 30:  # a bind is seen within the time that seats are kept
            self.files_are_read_again()
        self.expire()

    def expire(self) -> None:
        for gang_id in self.cluster.expire(self.now):
            theirs = [p for p in self.promises.values() if self.id_of(p.pod) == gang_id]
            for promise in theirs:
                gang = promise.pod.gang
                assert gang is not None
                assert self.now - promise.at > (660 if gang.claim else 60), "expired too early"
                del self.promises[promise.pod.uid]
            for pod in self.world.pods.values():
                if self.id_of(pod) == gang_id and pod.live and self.seen.get(pod.key, ("", ""))[1]:
                    raise AssertionError(f"{gang_id} expired though {pod.key} is bound")

    def id_of(self, pod: Pod) -> GangId | None:
        return gang_of(pod.record()) if pod.gang else None

    # - the cluster changes -

    @initialize(gangs=st.lists(gangs, min_size=1, max_size=3))
    def some_gangs_are_there(self, gangs: list[Gang]) -> None:
        for gang in gangs:
            self.submit(gang)

    @precondition(lambda self: len(self.world.gangs) < 4)
    @rule(gang=gangs)
    def somebody_submits_a_gang(self, gang: Gang) -> None:
        self.submit(gang)

    def submit(self, gang: Gang) -> None:
        gang = replace(gang, name=f"{gang.kind.lower()}-{self.world.made}")
        self.world.add(gang)
        for _ in range(gang.size):
            self.make(gang)
        self.files_are_read_again()

    @rule(at=indexes, seen=st.booleans())
    def a_pod_is_made(self, at: int, seen: bool) -> None:
        if not self.world.gangs:
            return
        pod = self.make(self.world.gangs[at % len(self.world.gangs)])
        if pod is not None and seen:
            self.see(pod.key)

    def make(self, gang: Gang) -> Pod | None:
        """What the gang's controller would do next."""
        pods = self.world.of(gang)
        live = [pod for pod in pods if pod.live]
        match gang.kind:
            case "StatefulSet":
                if len(pods) >= gang.size or not all(pod.node and pod.live for pod in pods):
                    return None
            case "Job":
                done = sum(pod.phase == "Succeeded" for pod in pods)
                assert gang.completions is not None
                if len(live) >= min(gang.size, gang.completions - done):
                    return None
            case "single":
                if pods:
                    return None
            case "PodGroup":
                if len(live) > gang.size:
                    return None
            case _:
                if len(live) >= gang.size:
                    return None
        return self.world.make(gang)

    @rule(at=indexes, seen=st.booleans(), how=st.sampled_from(("told", "told", "told", "other")))
    def a_pod_is_bound(self, at: int, seen: bool, how: str) -> None:
        told = [p for p in self.promises.values() if p.pod.waits]
        if not told:
            return
        promise = told[at % len(told)]
        pod = promise.pod
        names = self.world.feasible(pod)
        if how == "other":
            names = [name for name in names if name != promise.node]
            node = names[at % len(names)] if names else None
        else:
            node = promise.node if promise.node in names else None
        if node is None:
            return
        pod.node, pod.phase = node, "Running"
        pod.told = how == "told"
        if not pod.told and pod.gang:
            pod.gang.spoiled = True
        if seen:
            self.see(pod.key)

    @rule(at=indexes, seen=st.booleans(), most=st.integers(1, 4))
    def a_gang_asks_and_is_bound_at_once(self, at: int, seen: bool, most: int) -> None:
        if not self.world.gangs:
            return
        pods = [p for p in self.world.of(self.world.gangs[at % len(self.world.gangs)]) if p.waits]
        for pod in pods[:most]:
            self.ask(pod, "feasible", at, False, False)
            told = self.promises.get(pod.uid)
            if told is not None and told.node in self.world.feasible(pod):
                pod.node, pod.phase, pod.told = told.node, "Running", True
                if seen:
                    self.see(pod.key)

    @rule(at=indexes, gpus=st.integers(0, 2), seen=st.booleans())
    def an_ordinary_pod_takes_room(self, at: int, gpus: int, seen: bool) -> None:
        if sum(pod.gang is None for pod in self.world.pods.values()) > 6:
            return
        pod = self.world.make(None, gpus=gpus)
        nodes = self.world.feasible(pod)
        if nodes:
            pod.node, pod.phase = nodes[at % len(nodes)], "Running"
        if seen:
            self.see(pod.key)

    @rule(
        at=indexes,
        seen=st.booleans(),
        what=st.sampled_from(ENDS),
    )
    def a_pod_ends(self, at: int, seen: bool, what: str) -> None:
        pods = list(self.world.pods.values())
        if not pods:
            return
        pod = pods[at % len(pods)]
        match what:
            case "terminating":
                pod.terminating = True
            case "gone" | "again":
                del self.world.pods[pod.key]
                if what == "again" and pod.gang and pod.gang.kind in ("StatefulSet", "single"):
                    rank = pod.rank
                    self.world.make(pod.gang, name=pod.name, gpus=pod.gpus).rank = rank
            case _:
                if pod.ended or (what == "Succeeded" and not pod.node):
                    return
                pod.phase = what
        if seen:
            self.see(pod.key)

    @rule(
        at=indexes,
        what=st.sampled_from(NODE_CHANGES),
    )
    def a_node_changes(self, at: int, what: str) -> None:
        node = list(self.world.nodes.values())[at % len(self.world.nodes)]
        match what:
            case "gone":
                node.gone = True
            case "cordoned":
                node.cordoned = True
            case "not ready":
                node.ready = False
            case "smaller":
                node.gpus = 2
            case _:
                node.gone = node.cordoned = False
                node.ready, node.gpus = True, 4
        record = Objects.of([node.manifest()]).nodes[node.name]
        if node.gone:
            self.cluster.state.remove_node(node.name)
        else:
            self.cluster.state.set_node(record)

    @rule(at=indexes)
    def a_gang_is_deleted(self, at: int) -> None:
        if not self.world.gangs:
            return
        gang = self.world.gangs.pop(at % len(self.world.gangs))
        for pod in self.world.of(gang):
            del self.world.pods[pod.key]
        self.files_are_read_again()

    # - the scheduler asks -

    @rule(at=indexes, kind=st.sampled_from(LISTS), twice=st.booleans(), nominated=st.booleans())
    def a_pod_asks(self, at: int, kind: str, twice: bool, nominated: bool) -> None:
        waiting = [pod for pod in self.world.pods.values() if pod.waits]
        if waiting:
            self.ask(waiting[at % len(waiting)], kind, at, twice, nominated and at % 4 == 0)

    @rule(at=indexes, twice=st.booleans())
    def a_whole_gang_asks(self, at: int, twice: bool) -> None:
        if not self.world.gangs:
            return
        pods = [p for p in self.world.of(self.world.gangs[at % len(self.world.gangs)]) if p.waits]
        for pod in pods if at % 2 else reversed(pods):
            self.ask(pod, "feasible", at, twice, False)

    def offered(self, pod: Pod, kind: str, at: int) -> list[str]:
        names = self.world.feasible(pod)
        match kind:
            case "all":
                return [node.name for node in self.world.nodes.values() if node.usable]
            case "half":
                return names[at % 2 :: 2]
            case "one":
                return names[at % len(names) :][:1] if names else []
            case "without":
                taken = {seat.node for seat in open_seats(self.cluster) if seat.pod == pod.key}
                return [name for name in names if name not in taken]
            case "none":
                return []
            case _:
                return names

    def ask(self, pod: Pod, kind: str, at: int, twice: bool, nominated: bool) -> None:
        offered = self.offered(pod, kind, at)
        pod.nominated = next(iter(self.world.nodes)) if nominated else ""
        record = pod.record()
        before = self.seats()
        had = set(self.cluster.ledger.reservations)
        for promise in [p for p in self.promises.values() if p.pod.key == pod.key]:
            if promise.pod.uid != pod.uid:  # this call proves that the older pod is gone
                del self.promises[promise.pod.uid]
        verdict = decide.filter_nodes(self.cluster, record, offered, self.now)
        after = self.seats()
        self.check_words(verdict)
        match verdict:
            case Untouched():
                assert pod.gang is None
                assert before == after
            case Placed():
                assert verdict.node in offered
                self.promises[pod.uid] = Promise(pod, verdict.node, self.now)
                if verdict.gang not in had:
                    self.check_whole(verdict.gang)
            case Refused():
                self.promises.pop(pod.uid, None)  # a pod that was refused cannot bind
                assert not any(seat.pod == pod.key for seat in open_seats(self.cluster)) or (
                    verdict.reason.word not in ("NoDomainFits", "LevelUnknown", "RequestInvalid")
                )
                above = pod.gang is not None and pod.gang.kind in (
                    "PodGroup",
                    "Job",
                )  # its size may fit
                if verdict.gang not in had and not above and verdict.reason.word in (
                    "Incomplete", "NoDomainFits", "Contradiction", "RequestInvalid", "LevelUnknown",
                ):  # fmt: skip
                    assert before == after, "a refused gang holds seats"
                if not verdict.judged:
                    self.check_refusal_is_not_stale(record, offered, verdict)
        self.check_room(pod.gang is not None and 0 not in pod.gang.gpus, before, after)
        if twice and not (isinstance(verdict, Refused) and verdict.reason.word == "SeatLost"):
            again = decide.filter_nodes(self.cluster, record, offered, self.now)
            assert type(again) is type(verdict)
            if isinstance(again, Placed) and isinstance(verdict, Placed):
                assert again.node == verdict.node
            if isinstance(again, Refused) and isinstance(verdict, Refused):
                assert again.reason == verdict.reason
            assert self.seats() == after

    def seats(self) -> Counter[SeatKey]:
        return Counter((s.node, s.pod, s.amounts) for s in open_seats(self.cluster))

    # - what must hold -

    def check_words(self, verdict: Verdict) -> None:
        if isinstance(verdict, Refused):
            assert verdict.reason.word in WORDS
            assert not any(name in str(verdict.reason) for name in self.world.nodes)

    def check_whole(self, gang_id: GangId) -> None:
        """A gang that has just been placed has a seat for each of its pods, up to its size."""
        seats = self.cluster.ledger.reservations[gang_id].seats
        known = [p for p in self.cluster.state.pods.values() if gang_of(p) == gang_id]
        live = [p for p in known if not p.ended and not p.terminating]
        gang = next(p.gang for p in self.world.pods.values() if self.id_of(p) == gang_id)
        assert gang is not None
        done = sum(p.phase == "Succeeded" for p in known)
        least = gang.size - done if gang.ahead else min(len(live), gang.size - done)
        assert len(seats) >= least, f"{gang_id} has too few seats"
        if len(live) <= least and gang.kind != "PodGroup":  # of more pods than that, any will do
            missing = {pod.key for pod in live} - {seat.pod for seat in seats}
            assert not missing, f"{missing} have no seat"

    def check_room(self, gpus: bool, before: Counter[SeatKey], after: Counter[SeatKey]) -> None:
        """Where seats were added, everything that is bound or promised fits."""
        was, now = Counter[str](), Counter[str]()
        for key, n in before.items():
            was[key[0]] += n
        for key, n in after.items():
            now[key[0]] += n
        for name in (name for name in now if now[name] > was[name]):
            node = self.world.nodes[name]
            assert node.usable, "a promise on a node that cannot be used"
            answers = used(self.cluster.state.pods.values(), (), name)
            for promise in self.promises.values():
                if promise.node == name and self.world.pods.get(promise.pod.key) is promise.pod:
                    answers.update(promise.pod.use)
            for total in (recount(self.cluster, name), answers):
                assert total["pods"] <= node.pods, f"{name} is promised beyond its room"
                if gpus:  # a pod that asks for none may still go where they ran out
                    assert total[GPU] <= node.gpus, f"{name} is promised beyond its room"

    def check_refusal_is_not_stale(
        self, record: PodRecord, offered: list[str], verdict: Refused
    ) -> None:
        """A verdict that is answered from memory is the one that judging anew would give."""
        self.cluster.refusals.clear()
        again = decide.filter_nodes(self.cluster, record, offered, self.now)
        assert isinstance(again, Refused), "refused from memory, placed when judged anew"
        assert again.reason == verdict.reason

    @invariant()
    def usage_is_what_pods_and_seats_add_up_to(self) -> None:
        view = self.cluster.state.view()
        for name in self.world.nodes:
            total = recount(self.cluster, name)
            assert Counter(self.cluster.state.used_on(name)) == total, name
            leaf = view.leaf_of.get(name)
            if leaf is not None and view.leaves.usable[leaf]:
                free = view.leaves.free[view.rows[GPU], leaf]
                assert free == self.world.nodes[name].gpus - total[GPU], name

    @invariant()
    def every_answer_is_backed_by_a_seat(self) -> None:
        for promise in self.promises.values():
            if self.world.pods.get(promise.pod.key) is not promise.pod or promise.pod.ended:
                continue
            seats = [s for s in open_seats(self.cluster) if s.pod == promise.pod.key]
            assert [s.node for s in seats] == [promise.node], f"{promise.pod.key} has no seat"

    @invariant()
    def no_gang_is_in_two_domains(self) -> None:
        for gang in self.world.gangs:
            if gang.mode != "required" or gang.spoiled:
                continue
            nodes = {pod.node for pod in self.world.of(gang) if pod.live and pod.told and pod.node}
            nodes |= {p.node for p in self.promises.values() if p.pod.gang is gang and p.pod.live}
            domains = {self.world.nodes[node].domain(gang.level) for node in nodes}
            assert len(domains) <= 1, f"{gang.name} is in {domains}"

    @invariant()
    def every_pod_has_at_most_one_seat(self) -> None:
        pods = [
            seat.pod
            for r in self.cluster.ledger.reservations.values()
            for seat in r.seats
            if seat.pod is not None
        ]
        assert len(pods) == len(set(pods))

    @rule()
    def nothing_leaks_in_a_long_quiet_time(self) -> None:
        self.files_are_read_again()
        for _ in range(2):
            self.now += 700
            self.expire()
        for gang_id, reservation in self.cluster.ledger.reservations.items():
            theirs = [
                pod
                for pod in self.world.pods.values()
                if pod.gang is not None and self.id_of(pod) == gang_id
            ]
            there = {pod.key for pod in theirs if not pod.ended}
            waiting: list[Seat] = []
            for seat in reservation.seats:
                if seat.pod is None:
                    waiting.append(seat)
                else:
                    assert seat.pod in there, f"a seat of {gang_id} belongs to nobody"
            gang = next((pod.gang for pod in theirs), None)
            assert gang is not None, f"{gang_id} is gone and holds seats"
            if gang.ahead:
                bound = sum(1 for pod in theirs if pod.node and pod.live)
                assert not waiting or len(waiting) + bound <= gang.size, f"{gang_id}: {waiting}"
            else:
                assert not waiting, f"a seat of {gang_id} waits for nobody"
        for key in list(self.promises):
            if self.world.pods.get(self.promises[key].pod.key) is not self.promises[key].pod:
                del self.promises[key]

    def teardown(self) -> None:
        self.world.pods.clear()
        self.world.gangs.clear()
        self.cluster.replace(Objects.of(self.world.objects()))
        self.now += 1e6
        self.cluster.expire(self.now)
        self.cluster.replace(Objects.of(self.world.objects()))
        assert not self.cluster.ledger.reservations
        assert self.cluster.ledger.seat_count == 0
        assert not list(self.cluster.ledger.excluded_gangs())
        for name in self.world.nodes:
            assert not self.cluster.state.used_on(name), f"{name} is not empty"


def walk(seed: int, steps: int = 150) -> None:
    """Take so many random steps: deeper than hypothesis goes, and nothing is shrunk."""
    dice = random.Random(seed)
    machine = Ledger()
    moves: list[tuple[int, Callable[[], object]]] = [
        (4, lambda: machine.submit(draw_gang(dice)) if len(machine.world.gangs) < 5 else None),
        (3, lambda: machine.a_pod_is_made(dice.randrange(99), coin(dice))),
        (9, lambda: machine.a_pod_asks(dice.randrange(99), dice.choice(LISTS), True, coin(dice))),
        (9, lambda: machine.a_whole_gang_asks(dice.randrange(99), coin(dice))),
        (6, lambda: machine.a_pod_is_bound(dice.randrange(99), coin(dice), "told")),
        (1, lambda: machine.a_pod_is_bound(dice.randrange(99), coin(dice), "other")),
        (3, lambda: machine.a_gang_asks_and_is_bound_at_once(dice.randrange(99), coin(dice), 2)),
        (2, lambda: machine.an_ordinary_pod_takes_room(dice.randrange(99), 1, coin(dice))),
        (5, lambda: machine.a_pod_ends(dice.randrange(99), coin(dice), dice.choice(ENDS))),
        (3, lambda: machine.a_node_changes(dice.randrange(99), dice.choice(NODE_CHANGES))),
        (1, lambda: machine.a_gang_is_deleted(dice.randrange(99))),
        (3, lambda: machine.time_passes(dice.choice((1, 10, 25, 61, 601, 1300)))),
        (3, machine.files_are_read_again),
        (1, machine.the_process_restarts),
        (1, machine.nothing_leaks_in_a_long_quiet_time),
    ]
    weights = [weight for weight, _ in moves]
    for _ in range(steps):
        dice.choices(moves, weights)[0][1]()
        machine.usage_is_what_pods_and_seats_add_up_to()
        machine.every_answer_is_backed_by_a_seat()
        machine.no_gang_is_in_two_domains()
        machine.every_pod_has_at_most_one_seat()
    machine.nothing_leaks_in_a_long_quiet_time()
    machine.teardown()


def coin(dice: random.Random) -> bool:
    return dice.random() < 0.5


def draw_gang(dice: random.Random) -> Gang:
    return sound(
        Gang(
            kind=dice.choice(KINDS),
            name="g",
            size=dice.randint(1, 4),
            mode=dice.choice(("required", "required", "preferred", "unconstrained")),
            level=dice.choice((RACK, RACK, BLOCK)),
            gpus=dice.choice(((1,), (2,), (3,), (4,), (1, 2), (0, 3))),
            claim=dice.random() < 0.1,
        )
    )


@pytest.mark.parametrize("first", range(0, EXAMPLES, 20))
def test_no_promise_is_broken_on_twenty_long_random_walks(first: int) -> None:
    for seed in range(first, first + 20):
        try:
            walk(seed)
        except Exception as error:
            error.add_note(f"walk({seed})")
            raise


TestAnyOrder = Ledger.TestCase
TestAnyOrder.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
