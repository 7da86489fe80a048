"""The decision on warm counts, from the Python call to the object that names a node for each pod.

Budgets are those of ``placing.place_gang``: it names a node for each pod. ``podset.fit`` is the
part of it with the kernel call; ``decide.filter_nodes`` is what a scheduler's call pays in all: it
also gathers the gang's pods and commits their seats.
"""

import gc
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from bench.clusters import BLOCK, ONE_POD, cluster, whole_gang
from bench.report import Line
from bench.timings import Timings, timed_round
from stowplan.placement import decide, placing
from stowplan.placement.cluster import Cluster
from stowplan.placement.gangs import Gang
from stowplan.placement.podsets import podset
from stowplan.placement.podsets.podset import Assigned
from stowplan.placement.reasons import Reason

_SIZES = (5_120, 15_360, 102_400)
_CHANGED = (1, 16, 64)
_ROUNDS = 12
_CALLS = 100
_SLOW_CALLS = 25
_MOST_US = 40.0
_MOST_GROWTH = 3.0

_JUDGED = "place_gang, 8 pods"
_BLOCKFUL = "place_gang, 256 pods in a block"
_REFUSAL = "place_gang, refusal"
_SLOW = (_BLOCKFUL, _REFUSAL)

Key = tuple[str, int, int]  # which call, nodes, changed nodes


@dataclass(slots=True)
class _Changes:
    """Binds a pod on each of ``count`` random nodes, and takes them away again the next time."""

    cluster: Cluster
    count: int
    _draw: random.Random = field(default_factory=lambda: random.Random(3))
    _taken: list[str] = field(default_factory=list)

    def __call__(self) -> None:
        state = self.cluster.state
        if self._taken:
            for node in self._taken:
                state.give_back(node, ONE_POD)
            self._taken = []
            return
        self._taken = self._draw.sample(state.view().tree.nodes, self.count)
        for node in self._taken:
            state.take(node, ONE_POD)


class _Everything:
    """Candidates that contain every name."""

    def __contains__(self, node: str) -> bool:
        return True

    def __len__(self) -> int:
        return 2


def measure() -> list[Line]:
    """Return the lines of all sizes; their rounds are interleaved."""
    clusters = {nodes: cluster(nodes) for nodes in _SIZES}
    gc.collect()
    gc.freeze()  # as `stowplan serve` should after its first load
    found: dict[Key, Timings] = {}
    plans = [plan for made in clusters.values() for plan in _plans(made)]
    for _ in range(_ROUNDS):
        for key, before, call in plans:
            calls = _SLOW_CALLS if key[0] in _SLOW else _CALLS
            timed_round(found.setdefault(key, Timings()), calls, before, call)
    lines = [_line(key, found) for key in found]
    return [*lines, *(_growth(found, changed) for changed in _CHANGED)]


Plan = tuple[Key, Callable[[], None], Callable[[], object]]


def _plans(made: Cluster) -> list[Plan]:
    """Return what to measure on one cluster."""
    nodes = len(made.state.nodes)
    eight = whole_gang(made, "eight", 8)[0]
    plans: list[Plan] = []
    for changed in _CHANGED:
        changes = _Changes(made, changed)
        plans.append((("podset.fit, 8 pods", nodes, changed), changes, _fit(made, eight)))
        plans.append(((_JUDGED, nodes, changed), changes, _place(made, eight)))
    one = _Changes(made, 1)
    for gang, what in (
        (whole_gang(made, "64", 64)[0], "place_gang, 64 pods"),
        (whole_gang(made, "256", 256, BLOCK)[0], _BLOCKFUL),
    ):
        plans.append(((what, nodes, 1), one, _place(made, gang)))
    hosts = whole_gang(made, "hosts", 16, gpus=8)[0]
    plans.append(((_REFUSAL, nodes, 1), one, _refuse(made, hosts)))
    plans.append(_whole_call(made, nodes))
    return plans


def _fit(made: Cluster, gang: Gang) -> Callable[[], object]:
    view, wanted = made.state.view(), gang.podsets[0]
    if not isinstance(podset.fit(view, made.shapes, wanted, "mixed"), Assigned):
        raise ValueError("must fit, or something else would be measured")
    return lambda: podset.fit(view, made.shapes, wanted, "mixed")


def _place(made: Cluster, gang: Gang) -> Callable[[], object]:
    if isinstance(placing.place_gang(made, gang, 0.0), Reason):
        raise ValueError("must fit, or something else would be measured")
    return lambda: placing.place_gang(made, gang, 0.0)


def _refuse(made: Cluster, gang: Gang) -> Callable[[], object]:
    if not isinstance(placing.place_gang(made, gang, 0.0), Reason):
        raise ValueError("must not fit, or something else would be measured")
    return lambda: placing.place_gang(made, gang, 0.0)


def _whole_call(made: Cluster, nodes: int) -> Plan:
    gang, members = whole_gang(made, "called", 8)
    for pod in members:
        made.set_pod(pod)

    def before() -> None:
        if gang.id in made.ledger.reservations:
            made.ledger.free(gang.id)

    def call() -> object:
        return decide.filter_nodes(made, members[0], _Everything(), 0.0)

    return ("filter_nodes, first of 8 pods", nodes, 8), before, call


def _line(key: Key, found: dict[Key, Timings]) -> Line:
    what, nodes, changed = key
    timings = found[key]
    judged = what == _JUDGED and nodes == _SIZES[-1]
    return Line(
        f"{what}, {nodes:,} nodes, {changed} changed",
        f"p99 {timings.p99:.1f} µs (p50 {timings.p50:.1f}, CPU {timings.cpu_us:.1f})",
        timings.p99,
        _MOST_US if judged else None,
        "µs",
        timings.facts(),
    )


def _growth(found: dict[Key, Timings], changed: int) -> Line:
    """Return how much slower the largest cluster is than the smallest."""
    small, large = (found[_JUDGED, nodes, changed] for nodes in (_SIZES[0], _SIZES[-1]))
    growth = large.p99 / small.p50
    medians = large.p50 / small.p50
    return Line(
        f"{_JUDGED}, p99 at {_SIZES[-1]:,} by p50 at {_SIZES[0]:,} nodes, {changed} changed",
        f"{growth:.2f} x (p50 by p50 {medians:.2f} x)",
        growth,
        _MOST_GROWTH,
        "x",
        {"p50_by_p50": round(medians, 3)},
    )
