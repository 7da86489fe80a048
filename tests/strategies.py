"""Random clusters and requests, small enough to shrink and mean enough to break things.

A drawn cluster is neutral data: ``state_of`` turns it into the live state that the product keeps,
``leaves_of`` into what the oracle reads. ``STOWPLAN_EXAMPLES`` sets how many are drawn.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from stowplan.placement.filters import Filters, Requirement, Taint, Toleration
from stowplan.placement.podsets.podset import Assigned, PodSet
from stowplan.placement.records import Amounts, NodeRecord
from stowplan.placement.request import Layer, Profile, Share, TopologyRequest
from stowplan.placement.rules import KUEUE, Rules
from stowplan.placement.state import ClusterState, View
from stowplan.topology import capacity
from stowplan.topology.levels import HOSTNAME, Levels
from tests.oracle import asking
from tests.oracle import fit as oracle
from tests.oracle.asking import MODES

EXAMPLES = int(os.environ.get("STOWPLAN_EXAMPLES", "60"))

KEYS = ("zone", "block", "rack", HOSTNAME)
RESOURCES = ("cpu", "gpu", "memory")
POOL = "pool"  # a node label that selectors and affinity name
DEDICATED = Taint("dedicated", "batch", "NoSchedule")
TOLERATES_DEDICATED = Toleration("dedicated", "Exists", "", "")
UNKNOWN = "nowhere"  # a level that no topology has

# Hosts may be called like a domain (kueue#14009), and names that are prefixes of one another sort.
NAMES = ("a", "ab", "b", *(f"n{i}" for i in range(12)), "n1b", "z")


@dataclass(frozen=True)
class Drawn:
    """One node: where it is, what it offers, what is used there already."""

    name: str
    values: tuple[str, ...]  # of the levels above the host, or of all without a host level
    offers: tuple[tuple[str, int], ...]
    used: tuple[tuple[str, int], ...]
    usable: bool = True
    pool: str = "x"
    tainted: bool = False
    lacks: tuple[int, ...] = ()  # levels whose label it has not
    blank: tuple[int, ...] = ()  # levels whose label is empty


@dataclass(frozen=True)
class Drawing:
    """A random cluster."""

    keys: tuple[str, ...]
    nodes: tuple[Drawn, ...]

    @property
    def has_host(self) -> bool:
        return self.keys[-1] == HOSTNAME

    def path(self, node: Drawn) -> tuple[str, ...]:
        """Return a node's value per level; "" from the first level on whose label it lacks."""
        full = (*node.values, node.name) if self.has_host else node.values
        known = next((i for i in range(len(full)) if i in (*node.lacks, *node.blank)), len(full))
        path = (*full[:known], *("" for _ in full[known:]))
        # The host is always known, by the node's name.
        return (*path[:-1], node.name) if self.has_host else path

    def in_tree(self, node: Drawn, rules: Rules) -> bool:
        """Whether the node serves the topology at all, as far as its labels go."""
        if rules.all_labels_needed:
            return not node.lacks
        coarsest_is_host = self.has_host and len(self.keys) == 1
        return coarsest_is_host or 0 not in (*node.lacks, *node.blank)


@dataclass(frozen=True)
class Wish:
    """A random request; levels are indexes, -1 is a level that is unknown."""

    mode: str
    level: int
    count: int
    per_pod: tuple[tuple[str, int], ...]
    slices: tuple[tuple[int, int], ...] = ()
    profile: Profile = "mixed"
    leader: tuple[tuple[str, int], ...] | None = None
    weights: tuple[tuple[int, str], ...] = ()  # preferred affinity: weight and pool
    pool: str | None = None  # node selector
    tolerates: bool = False
    within: int | None = None  # beside mode "preferred": the level that is required
    last_smaller: bool = False
    share: tuple[int, int | None, int | None] | None = None  # level, pods, percent; one of both
    group: str | None = None


# --- Strategies ----------------------------------------------------------------------------------


@st.composite
def drawings(
    draw: st.DrawFn, max_nodes: int = 8, host: bool | None = None, ample: bool = False
) -> Drawing:
    """Draw a cluster of 1 to 4 levels, with or without a host level; ample ones have room."""
    with_host = draw(st.booleans()) if host is None else host
    depth = draw(st.integers(1, 4))
    keys = KEYS[4 - depth :] if with_host else KEYS[:depth][:3]
    above = len(keys) - with_host
    names = draw(st.lists(st.sampled_from(NAMES), max_size=max_nodes, min_size=1, unique=True))
    roomy = ample or draw(st.booleans())
    return Drawing(keys, tuple(draw(_nodes(name, above, roomy, ample)) for name in names))


@st.composite
def _nodes(draw: st.DrawFn, name: str, above: int, roomy: bool, ample: bool) -> Drawn:
    amounts = st.integers(6 if ample else 0, 40 if roomy else 9)
    offers = {
        resource: draw(amounts)
        for resource in RESOURCES
        if resource == "cpu" or draw(st.integers(0, 9))
    }
    if draw(st.integers(0, 9)):
        offers["pods"] = draw(st.sampled_from((3, 6, 12, 110) if ample else (1, 3, 6, 110)))
    used = {}
    if draw(st.integers(0, 9 if ample else 3)) == 0:  # sometimes more than there is
        used = {resource: draw(st.integers(0, 12)) for resource in ("cpu", "pods")}
    return Drawn(
        name=name,
        values=tuple(draw(st.sampled_from(("a", "ab", "b"))) for _ in range(above)),
        offers=tuple(sorted(offers.items())),
        used=tuple(sorted(used.items())),
        usable=draw(st.integers(0, 9)) > 0,
        pool=draw(st.sampled_from(("x", "x", "y"))),
        tainted=draw(st.integers(0, 9)) == 0,
    )


@st.composite
def wishes(
    draw: st.DrawFn,
    depth: int,
    *,
    modes: Sequence[str] = MODES,
    leader: bool | None = None,
    slices: bool | None = None,
    affinity: bool | None = None,
    most: int = 40,
) -> Wish:
    """Draw a request against ``depth`` levels; None lets a feature come or stay away."""
    sliced = draw(st.booleans()) if slices is None else slices
    led = draw(st.integers(0, 2)) == 0 if leader is None else leader
    liked = draw(st.integers(0, 2)) == 0 if affinity is None else affinity
    mode = draw(st.sampled_from(modes))
    if mode == "slices-only" and not sliced:
        mode = "none"
    if mode == "none" and sliced:
        mode = "slices-only"
    return Wish(
        mode=mode,
        level=draw(asked_levels(depth)),
        count=draw(st.integers(0, most) if draw(st.booleans()) else st.integers(1, 8)),
        per_pod=draw(_per_pod()),
        slices=draw(_slices(depth)) if sliced else (),
        profile=draw(st.sampled_from(("mixed", "best-fit"))),
        leader=draw(_per_pod()) if led else None,
        weights=draw(_weights()) if liked else (),
        pool=draw(st.sampled_from((None, None, None, "x", "y"))),
        tolerates=draw(st.booleans()),
    )


def asked_levels(depth: int) -> st.SearchStrategy[int]:
    known = tuple(range(depth))
    return st.sampled_from((*known * 6, -1))


def _per_pod() -> st.SearchStrategy[tuple[tuple[str, int], ...]]:
    one = st.sampled_from((*RESOURCES, "cpu", "gpu"))
    amounts = st.dictionaries(one, st.integers(0, 5), max_size=3)
    return amounts.map(lambda found: tuple(sorted(found.items())))


def _weights() -> st.SearchStrategy[tuple[tuple[int, str], ...]]:
    one = st.tuples(st.sampled_from((1, 5, 100)), st.sampled_from(("x", "y")))
    return st.lists(one, min_size=1, max_size=2).map(tuple)


@st.composite
def _slices(draw: st.DrawFn, depth: int) -> tuple[tuple[int, int], ...]:
    """Draw 1 to 3 layers, mostly sound: levels get finer and sizes divide."""
    layers = []
    level, size = 0, draw(st.sampled_from((1, 2, 4, 6, 8)))
    for _ in range(draw(st.integers(1, 3))):
        if level >= depth:
            break
        level = draw(st.integers(level, depth - 1))
        layers.append((level, size))
        size = draw(st.sampled_from([s for s in range(1, size + 1) if size % s == 0]))
        level += 1
    return tuple(layers)


# --- Into the product ----------------------------------------------------------------------------


def record_of(drawing: Drawing, node: Drawn) -> NodeRecord:
    """Return the node as the product keeps it."""
    above = drawing.keys[:-1] if drawing.has_host else drawing.keys
    labels = {POOL: node.pool, HOSTNAME: node.name, **dict(zip(above, node.values, strict=True))}
    labels |= {drawing.keys[level]: "" for level in node.blank}
    for level in node.lacks:
        del labels[drawing.keys[level]]
    return NodeRecord(
        name=node.name,
        labels=labels,
        annotations=0,
        allocatable=node.offers,
        taints=(DEDICATED,) if node.tainted else (),
        conditions=(("Ready", "True" if node.usable else "False"),),
        unschedulable=False,
    )


def state_of(drawing: Drawing, rules: Rules = KUEUE) -> ClusterState:
    """Return the live state of a drawing."""
    state = ClusterState(Levels(drawing.keys), rules=rules)
    for node in drawing.nodes:
        state.set_node(record_of(drawing, node))
        state.take(node.name, node.used)
    return state


def amounts_of(per_pod: tuple[tuple[str, int], ...]) -> Amounts:
    """Return what one pod takes, its slot included."""
    return capacity.per_pod(dict(per_pod))


def filters_of(wish: Wish) -> Filters:
    """Return the node filters of a request."""
    return Filters(
        selector=((POOL, wish.pool),) if wish.pool else (),
        tolerations=(TOLERATES_DEDICATED,) if wish.tolerates else (),
    )


def podset_of(drawing: Drawing, wish: Wish) -> PodSet:
    """Return a request as the product takes it."""
    keys = (*drawing.keys, UNKNOWN)  # index -1 is the unknown one
    asked = keys[wish.level]
    within = None if wish.within is None else keys[wish.within]
    request = TopologyRequest(
        required=asked if wish.mode == "required" else within,
        preferred=asked if wish.mode == "preferred" else None,
        unconstrained=True if wish.mode == "unconstrained" else None,
        layers=tuple(Layer(keys[level], size) for level, size in wish.slices),
        last_slice="smaller" if wish.last_smaller else "whole",
        share=share_of(drawing, wish),
        group=wish.group,
    )
    filters = filters_of(wish)
    return PodSet(
        name="workers",
        count=wish.count,
        amounts=amounts_of(wish.per_pod),
        filters=filters,
        request=request,
        preferred=tuple((w, (Requirement(POOL, "In", (pool,)),)) for w, pool in wish.weights),
        leader=None if wish.leader is None else (amounts_of(wish.leader), filters),
    )


def share_of(drawing: Drawing, wish: Wish) -> Share | None:
    """Return the share per domain as the product takes it."""
    if wish.share is None:
        return None
    level, pods, percent = wish.share
    return Share((*drawing.keys, UNKNOWN)[level], pods, percent)


def placed_of(view: View, answer: Assigned) -> oracle.Placed:
    """Return an answer of the product in the oracle's words."""
    paths = view.tree.paths[view.tree.first_leaf :]
    return oracle.Placed(
        workers={paths[leaf]: pods for leaf, pods in answer.leaves},
        leader=None if answer.leader is None else paths[answer.leader],
    )


# --- Into the oracle -----------------------------------------------------------------------------


def leaves_of(drawing: Drawing, wish: Wish, rules: Rules = KUEUE) -> list[oracle.Leaf]:
    """Return the usable nodes as the oracle reads them.

    Filters act on hosts only (section 1). Whether preferred affinity does too is not said, and no
    case settles it; the product lets it count on hosts only, so here the others have none.
    """
    return [
        oracle.Leaf(
            values=drawing.path(node),
            room=room_of(node),
            allowed=not drawing.has_host or lets_in(node, wish),
            affinity=sum(
                weight for weight, pool in wish.weights if pool == node.pool and drawing.has_host
            ),
        )
        for node in drawing.nodes
        if node.usable and drawing.in_tree(node, rules)
    ]


def room_of(node: Drawn) -> dict[str, int]:
    """Return what is free on a node, negative where it is overcommitted."""
    room = dict(node.offers)
    for name, amount in node.used:
        room[name] = room.get(name, 0) - amount
    return room


def lets_in(node: Drawn, wish: Wish) -> bool:
    """Whether the node passes the request's filters."""
    return (wish.tolerates or not node.tainted) and wish.pool in (None, node.pool)


def request_of(wish: Wish, rules: Rules = KUEUE) -> oracle.Request:
    """Return a request as the oracle takes it."""
    return oracle.Request(
        mode=wish.mode,
        level=wish.level if wish.mode in ("required", "preferred") else None,
        count=wish.count,
        per_pod={**dict(wish.per_pod), "pods": 1},
        slices=wish.slices,
        profile=wish.profile,
        leader_per_pod=None if wish.leader is None else {**dict(wish.leader), "pods": 1},
        use_affinity=bool(wish.weights),
        within=wish.within,
        last_smaller=wish.last_smaller,
        share=most_of(wish),
        rest_is_dropped=rules.rest_is_dropped,
        small_hosts_first=rules.small_hosts_first,
        unconstrained_scatters=rules.unconstrained_scatters,
        leader_unnamed=rules.leader_unnamed,
    )


def most_of(wish: Wish) -> asking.Share | None:
    """Return how many pods the share lets into one domain; a percentage is of all pods."""
    if wish.share is None:
        return None
    level, pods, percent = wish.share
    if percent is not None:
        pods = max(1, wish.count * percent // 100)  # rounded down, at least 1
    assert pods is not None
    return asking.Share(level, pods)


def with_more(drawing: Drawing, at: int, resource: str, amount: int) -> Drawing:
    """Return the drawing with more of a resource on one node."""
    nodes = list(drawing.nodes)
    at %= len(nodes)
    offers = dict(nodes[at].offers)
    offers[resource] = offers.get(resource, 0) + amount
    nodes[at] = replace(nodes[at], offers=tuple(sorted(offers.items())))
    return replace(drawing, nodes=tuple(nodes))
