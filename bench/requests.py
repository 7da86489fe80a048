"""Decision times of every kind of request: sizes of gangs, of clusters, and numbers of levels.

One place changes between two decisions, as after a pod that was bound. Requests with slices, a
share, a leader or affinity are counted anew each time; the others keep their counts warm.
"""

import random
import resource
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from bench.report import Line
from bench.timings import Timings, timed_round
from stowplan.placement.filters import Filters, Requirement
from stowplan.placement.podsets.complete import complete
from stowplan.placement.podsets.plan import NoFit
from stowplan.placement.podsets.podset import PodSet
from stowplan.placement.podsets.roles import place_roles
from stowplan.placement.records import Amounts, NodeRecord
from stowplan.placement.request import Layer, Share, TopologyRequest
from stowplan.placement.shapes import Shapes
from stowplan.placement.state import ClusterState
from stowplan.topology.levels import HOSTNAME, Levels

_PODS = (8, 64, 256, 1024)
_NODES = (640, 5_120, 15_360, 102_400)
_DEPTHS = (1, 2, 3, 4)  # levels, the host included
_USUAL_NODES, _USUAL_DEPTH = 5_120, 3
_ROUNDS = 5
_CALLS = 12
_WIDTHS = (16, 32, 8)  # hosts a rack, racks a block, blocks a zone
_GPUS = 8

_ONE: Amounts = (("cpu", 4_000), ("memory", 32 << 30), ("nvidia.com/gpu", 1), ("pods", 1))
_BOSS: Amounts = (("cpu", 8_000), ("memory", 64 << 30), ("pods", 1))
_KEYS = ("topology.example.com/zone", "topology.example.com/block", "topology.example.com/rack")
_POOL = "example.com/pool"


@dataclass(frozen=True, slots=True)
class Scene:
    """A cluster in which each node has 0 to 4 of its 8 GPUs in use.

    Attributes:
        state: nodes and room.
        shapes: warm counts.
        keys: levels, coarse to fine.
    """

    state: ClusterState
    shapes: Shapes
    keys: tuple[str, ...]

    @classmethod
    def of(cls, nodes: int, depth: int) -> "Scene":
        """Make it, always the same."""
        levels = Levels.over_hosts(_KEYS[len(_KEYS) - depth + 1 :])
        state = ClusterState(levels)
        draw = random.Random(nodes)
        for number in range(nodes):
            state.set_node(_node(number))
            used = draw.randint(0, _GPUS // 2)
            state.take(_name(number), tuple((name, n * used) for name, n in _ONE))
        state.view()
        return cls(state, Shapes(), levels.keys)


def measure() -> list[Line]:
    """Return one line for each kind of request, cluster size and number of levels."""
    lines: list[Line] = []
    for nodes in _NODES:
        for depth in _DEPTHS if nodes == _USUAL_NODES else (_USUAL_DEPTH,):
            scene = Scene.of(nodes, depth)
            for kind, ask in _KINDS.items():
                line = _line(scene, nodes, kind, ask)
                if line is not None:
                    lines.append(line)
    lines.sort(key=lambda line: list(_KINDS).index(line.what.partition(",")[0]))
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    what = f"memory of all clusters above, the largest {_NODES[-1]:,} nodes, kernels included"
    return [*lines, Line(what, f"{megabytes:.0f} MiB resident at most", megabytes, unit="MiB")]


def _line(scene: Scene, nodes: int, kind: str, ask: "Ask") -> Line | None:
    """Measure one kind with gangs of all sizes; a size that does not fit is left out."""
    cells, facts, largest = [], {}, 0.0
    for pods in _PODS:
        call = ask(scene, pods)
        if call is None:
            cells.append("-")
            continue
        timings = Timings()
        changes = _Changes(scene.state)
        for _ in range(_ROUNDS):
            timed_round(timings, _CALLS, changes, call, warm_up=2)
        cells.append(f"{timings.p50:,.0f}")
        facts[f"p50_us_{pods}_pods"] = round(timings.p50, 1)
        largest = timings.p50
    if not facts:
        return None
    depth = len(scene.keys)
    what = f"{kind}, {nodes:,} nodes, {depth} level{'s' if depth > 1 else ''}"
    sizes = " / ".join(f"{n:,}" for n in _PODS)
    return Line(what, f"{' / '.join(cells)} µs for {sizes} pods", largest, facts=facts)


@dataclass(slots=True)
class _Changes:
    """Takes a little room on one random node, and gives it back the next time."""

    state: ClusterState
    node: str = ""

    def __call__(self) -> None:
        if self.node:
            self.state.give_back(self.node, _ONE)
            self.node = ""
        else:
            self.node = random.Random(self.state.generation).choice(self.state.view().tree.nodes)
            self.state.take(self.node, _ONE)


Call = Callable[[], object]
Ask = Callable[[Scene, int], Call | None]


def _placing(scene: Scene, podsets: Sequence[PodSet]) -> Call | None:
    def call() -> object:
        return place_roles(scene.state, scene.shapes, podsets, "mixed")

    return None if isinstance(call(), NoFit) else call


def _podset(pods: int, request: TopologyRequest, amounts: Amounts = _ONE) -> PodSet:
    return PodSet("main", pods, amounts, Filters(), request)


def _level_for(scene: Scene, pods: int) -> str:
    """Return the finest level whose domains are large enough: 16 hosts a rack, 512 a block."""
    at = 1 if pods <= 64 else 2 if pods <= 1024 else 3
    return scene.keys[max(len(scene.keys) - 1 - at, 0)]


def _required(scene: Scene, pods: int) -> Call | None:
    return _placing(scene, [_podset(pods, TopologyRequest(required=_level_for(scene, pods)))])


def _preferred(scene: Scene, pods: int) -> Call | None:
    finest = scene.keys[max(len(scene.keys) - 2, 0)]
    return _placing(scene, [_podset(pods, TopologyRequest(preferred=finest))])


def _both(scene: Scene, pods: int) -> Call | None:
    if len(scene.keys) < 3:
        return None
    request = TopologyRequest(required=scene.keys[-3], preferred=scene.keys[-2])
    return _placing(scene, [_podset(pods, request)])


def _unconstrained(scene: Scene, pods: int) -> Call | None:
    return _placing(scene, [_podset(pods, TopologyRequest(unconstrained=True))])


def _sliced(scene: Scene, pods: int) -> Call | None:
    layers = (Layer(scene.keys[-1], 4),)
    return _placing(scene, [_podset(pods, TopologyRequest(layers=layers))])


def _layered(scene: Scene, pods: int) -> Call | None:
    if len(scene.keys) < 2:
        return None
    layers = (Layer(scene.keys[-2], 8), Layer(scene.keys[-1], 2))
    return _placing(scene, [_podset(pods, TopologyRequest(layers=layers))])


def _with_rest(scene: Scene, pods: int) -> Call | None:
    layers = (Layer(scene.keys[max(len(scene.keys) - 2, 0)], 6),)
    request = TopologyRequest(layers=layers, last_slice="smaller")
    return _placing(scene, [_podset(pods, request)])


def _shared(scene: Scene, pods: int) -> Call | None:
    request = TopologyRequest(unconstrained=True, share=Share(scene.keys[-1], pods=2))
    return _placing(scene, [_podset(pods, request)])


def _led(scene: Scene, pods: int) -> Call | None:
    request = TopologyRequest(preferred=scene.keys[0], group="g")
    boss = replace(_podset(1, request, _BOSS), name="leader")
    return _placing(scene, [boss, _podset(pods - 1, request)])


def _roles(scene: Scene, pods: int) -> Call | None:
    if len(scene.keys) < 2 or pods > 128:
        return None
    podsets = [
        _podset(pods // 2, TopologyRequest(required=scene.keys[-2], group=name))
        for name in ("prefill", "decode")
    ]
    return _placing(scene, podsets)


def _weighed(scene: Scene, pods: int) -> Call | None:
    term = (Requirement(_POOL, "In", ("a",)),)
    podset = _podset(pods, TopologyRequest(preferred=scene.keys[0]))
    return _placing(scene, [replace(podset, preferred=((10, term),))])


def _balanced(scene: Scene, pods: int) -> Call | None:
    podset = _podset(pods, TopologyRequest(preferred=scene.keys[0]))
    return _placing(scene, [replace(podset, packing="balanced")])


def _completed(scene: Scene, pods: int) -> Call | None:
    """Half of the pods run, one a host; the others join them."""
    request = TopologyRequest(preferred=scene.keys[0])
    podset = _podset(pods, request)
    view = scene.state.view()
    if pods // 2 > view.tree.leaf_count:
        return None
    kept = [(leaf, 1) for leaf in range(pods // 2)]
    return lambda: complete(scene.state, scene.shapes, podset, kept, pods - pods // 2, "mixed")


_KINDS: dict[str, Ask] = {
    "required": _required,
    "preferred": _preferred,
    "required and preferred": _both,
    "unconstrained": _unconstrained,
    "slices": _sliced,
    "nested slices": _layered,
    "last slice smaller": _with_rest,
    "share per host": _shared,
    "leader and workers": _led,
    "two roles": _roles,
    "affinity": _weighed,
    "balanced": _balanced,
    "rest of a gang": _completed,
}


def _name(number: int) -> str:
    return f"gpu-node-{number:06}"


def _node(number: int) -> NodeRecord:
    labels = {HOSTNAME: _name(number), _POOL: "ab"[number % 2]}
    above = number
    for key, width in zip(reversed(_KEYS), _WIDTHS, strict=True):
        above //= width
        labels[sys.intern(key)] = f"d{above:05}"
    return NodeRecord(
        name=_name(number),
        labels=labels,
        annotations=0,
        allocatable=(
            ("cpu", 64_000),
            ("memory", 512 << 30),
            ("nvidia.com/gpu", _GPUS),
            ("pods", 110),
        ),
        taints=(),
        conditions=(("Ready", "True"),),
        unschedulable=False,
    )
