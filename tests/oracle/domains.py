"""Domains and their counts: the half of the rules that looks at room.

The order is that of the specification: what is asked, with its defaults (2), counts from the leaves
up (3, 8), order of domains (4). ``fit`` searches and hands out on top of this.

Words: a *slice* is ``size`` pods in one domain of the slice level; ``_wl`` is "with leader", a
count after one leader pod has been put where it costs least.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

Path = tuple[str, ...]

MOST = 2**31 - 1  # no fit is larger than this (3)
PACKING_MODES = ("required", "preferred")
MODES = (*PACKING_MODES, "unconstrained", "slices-only", "none")


@dataclass(frozen=True)
class Leaf:
    """One node, or one finest domain: its level values and what is still free there."""

    values: Path  # one value per level, coarse to fine; nodes of one leaf repeat it
    room: dict[str, int]  # base units; negative where the node is overcommitted
    allowed: bool = True  # passes the node filters
    affinity: int = 0  # summed weights of the preferred terms that match


@dataclass(frozen=True)
class Request:
    """What one podset asks for; in a group, what the workers ask for, plus one leader pod."""

    mode: str  # one of MODES
    level: int | None  # index into the levels; read for required and preferred only
    count: int
    per_pod: dict[str, int]  # with "pods": 1
    slices: tuple[tuple[int, int], ...] = ()  # (level index, size), outermost first
    profile: str = "mixed"  # or "best-fit"
    leader_per_pod: dict[str, int] | None = None  # with "pods": 1; None: no leader
    use_affinity: bool = False


@dataclass
class Domain:
    """One domain with the counts of phase 1 (3)."""

    values: Path
    children: list["Domain"] = field(default_factory=list)
    affinity: int = 0
    leader: int = 0  # leaders it can host: 0 or 1
    pods: int = 0
    pods_wl: int = 0
    slices: int = 0
    slices_wl: int = 0


@dataclass(frozen=True)
class Ask:
    """A request with its defaults filled in."""

    start: int  # the level the search starts at
    need: int  # slices
    leaders: int  # 0 or 1
    size: int
    slice_level: int
    inner: dict[int, int]  # level -> inner slice size (8)
    packing: bool
    use_affinity: bool


def start_level(request: Request, level_count: int) -> int | None:
    """The table of modes: the level it starts at."""
    if request.mode in PACKING_MODES:
        return request.level
    return 0 if request.mode == "slices-only" else level_count - 1


def ask_of(request: Request, level_count: int) -> Ask:
    """Fill in the defaults of a request that was not refused."""
    start = start_level(request, level_count)
    assert start is not None
    slice_level, size = request.slices[0] if request.slices else (level_count - 1, 1)
    # (8) every level from just below the outer layer's down to the inner layer's own
    inner = {
        level: inner_size
        for (above, _), (at, inner_size) in zip(request.slices, request.slices[1:], strict=False)
        for level in range(above + 1, at + 1)
    }
    return Ask(
        start=start,
        need=request.count // size,  # (2) a remainder is dropped
        leaders=0 if request.leader_per_pod is None else 1,
        size=size,
        slice_level=slice_level,
        inner=inner,
        packing=request.mode in PACKING_MODES or request.profile == "best-fit",
        use_affinity=request.use_affinity,
    )


# --- Counts from the leaves up (3) --------------------------------------------------------------


def pods_that_fit(room: Mapping[str, int], per_pod: Mapping[str, int]) -> int:
    """How many such pods the room holds; a request of 0 does not limit."""
    quotients = [room.get(name, 0) // amount for name, amount in per_pod.items() if amount > 0]
    return max(0, min([MOST, *quotients]))


def limiting_resource(room: Mapping[str, int], per_pod: Mapping[str, int]) -> str:
    """Return the resource with the smallest quotient; of equals the first by name; else ""."""
    asked = sorted(name for name, amount in per_pod.items() if amount > 0)
    return min(asked, key=lambda name: room.get(name, 0) // per_pod[name], default="")


def merged_leaves(leaves: Iterable[Leaf]) -> list[Leaf]:
    """Return one leaf per path: rooms add up before anything is divided (1, a quirk).

    Filters act only where leaves are single nodes (1). Should a caller filter others nonetheless, a
    node that is not allowed brings nothing.
    """
    by_values: dict[Path, list[Leaf]] = {}
    for leaf in leaves:
        by_values.setdefault(leaf.values, []).append(leaf)
    merged = []
    for values, nodes in sorted(by_values.items()):
        allowed = [node for node in nodes if node.allowed]
        room: dict[str, int] = {}
        for node in allowed:
            for name, amount in node.room.items():
                room[name] = room.get(name, 0) + amount
        affinity = sum(node.affinity for node in allowed)
        merged.append(Leaf(values, room, allowed=bool(allowed), affinity=affinity))
    return merged


def pods_per_domain(
    leaves: Sequence[Leaf], level_count: int, per_pod: Mapping[str, int]
) -> dict[Path, int]:
    """Return domain path -> pods that fit, for the domains of every level, no slices, no leader."""
    counts: dict[Path, int] = {}
    for leaf in merged_leaves(leaves):
        pods = pods_that_fit(leaf.room, per_pod) if leaf.allowed else 0
        for depth in range(1, level_count + 1):
            prefix = leaf.values[:depth]
            counts[prefix] = counts.get(prefix, 0) + pods
    return counts


def counted(
    leaves: Sequence[Leaf], level_count: int, request: Request, ask: Ask
) -> list[list[Domain]]:
    """Return the domains of every level, coarse to fine, with their counts."""
    tree: list[list[Domain]] = [[] for _ in range(level_count)]
    domain_of: dict[Path, Domain] = {}
    for leaf in leaves:
        for depth in range(1, level_count + 1):
            path = leaf.values[:depth]
            if path not in domain_of:  # a domain is its list of values, never joined text (1)
                domain_of[path] = Domain(path)
                tree[depth - 1].append(domain_of[path])
                if depth > 1:
                    domain_of[path[:-1]].children.append(domain_of[path])
        _count_leaf(domain_of[leaf.values], leaf, request)
    for level in reversed(range(level_count)):
        for domain in tree[level]:
            if level < level_count - 1:
                _count_parent(domain, ask.leaders, ask.inner.get(level + 1))
            if level == ask.slice_level:
                domain.slices = domain.pods // ask.size
                domain.slices_wl = domain.pods_wl // ask.size
    return tree


def _count_leaf(domain: Domain, leaf: Leaf, request: Request) -> None:
    if not leaf.allowed:
        return  # 0 everywhere
    domain.affinity = leaf.affinity
    domain.pods = domain.pods_wl = pods_that_fit(leaf.room, request.per_pod)
    if request.leader_per_pod is not None and pods_that_fit(leaf.room, request.leader_per_pod) > 0:
        domain.leader = 1
        left = dict(leaf.room)
        for name, amount in request.leader_per_pod.items():
            left[name] = left.get(name, 0) - amount
        domain.pods_wl = pods_that_fit(left, request.per_pod)


def _count_parent(domain: Domain, leaders: int, inner_size: int | None) -> None:
    if inner_size is not None:  # (8) a host with room for 3 counts as 2 when the inner size is 2
        for child in domain.children:
            child.pods -= child.pods % inner_size
            child.pods_wl -= child.pods_wl % inner_size
    domain.affinity = sum(child.affinity for child in domain.children)
    domain.leader = max(child.leader for child in domain.children)
    domain.pods = sum(child.pods for child in domain.children)
    domain.slices = sum(child.slices for child in domain.children)
    # The leader sits where it costs least; without a leader every child counts as able.
    able = [child for child in domain.children if child.leader >= leaders]
    if able:
        domain.pods_wl = domain.pods - min(child.pods - child.pods_wl for child in able)
        domain.slices_wl = domain.slices - min(child.slices - child.slices_wl for child in able)


# --- Order of domains (4) -----------------------------------------------------------------------


def ordered(
    domains: Iterable[Domain], with_leader: bool, packing: bool, use_affinity: bool
) -> list[Domain]:
    """Return the domains in the total order of section 4."""

    def key(domain: Domain) -> tuple[int, int, int, int, Path]:
        slices = domain.slices_wl if with_leader else domain.slices
        return (
            -domain.leader if with_leader else 0,
            -domain.affinity if use_affinity else 0,
            -slices if packing else slices,
            domain.pods_wl if with_leader else domain.pods,
            domain.values,
        )

    return sorted(domains, key=key)


def count_of(domain: Domain, leaders: int, by_slices: bool) -> int:
    """The count that matters: slices or pods, with or without leader."""
    if by_slices:
        return domain.slices_wl if leaders else domain.slices
    return domain.pods_wl if leaders else domain.pods


def holds(domain: Domain, need: int, leaders: int, by_slices: bool) -> bool:
    """Whether the domain holds all that is needed, the missing leader too."""
    return domain.leader >= leaders and count_of(domain, leaders, by_slices) >= need


def tightest(
    candidates: Sequence[Domain], need: int, leaders: int, by_slices: bool, use_affinity: bool
) -> Domain:
    """Return the smallest domain that holds it; of equals the first; if none, the first of all."""
    holding = [
        domain
        for domain in candidates
        if not use_affinity or domain.affinity == candidates[0].affinity
        if holds(domain, need, leaders, by_slices)
    ]
    # min() returns the first of equals, and the candidates are in order.
    return min(holding, key=lambda d: count_of(d, leaders, by_slices), default=candidates[0])
