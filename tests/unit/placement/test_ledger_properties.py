"""The ledger under a kube-scheduler that calls in any order and a cluster that does not hold still.

``STOWPLAN_EXAMPLES=2000 pytest tests/unit/placement/test_ledger_properties.py`` looks further.
"""

import os
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

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
from stowplan.placement.cluster import Objects
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
