"""Domains and their counts: the half of the rules that looks at room.

The order is that of the specification: counts from the leaves up (3, 8), order of domains (4).
What is asked, with its defaults (2), comes from ``asking``; ``fit`` searches and hands out on top.

Words: a *slice* is ``size`` pods in one domain of the slice level; ``_wl`` is "with leader", a
count after one leader pod has been put where it costs least. The smaller last slice obeys the rule
of a leader, with the domain of the slice level in place of the host (doc, "The last slice
smaller"), so the same fields count it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.oracle.asking import MODES, Ask, Leaf, Path, Request, ask_of, start_level

# What callers need of ``asking`` is offered here as well.
__all__ = [
    "MODES",
    "MOST",
    "NAMELESS",
    "Ask",
    "Domain",
    "Leaf",
    "Path",
    "Request",
    "ask_of",
    "below_slices",
    "count_of",
    "counted",
    "holds",
    "limiting_resource",
    "merged_leaves",
    "ordered",
    "pods_per_domain",
    "pods_that_fit",
    "start_level",
    "tightest",
]

MOST = 2**31 - 1  # no fit is larger than this (3)
NAMELESS = ""  # the value of a level label that a node lacks


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

    @property
    def named(self) -> bool:
        """Whether its nodes have the label of its level."""
        return self.values[-1] != NAMELESS


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
    inner_levels = {level for level, _ in request.slices[1:]}
    for level in reversed(range(level_count)):
        # Below the slice level the smaller slice is no guest of anybody, and costs nothing.
        guests = ask.guests if level < ask.slice_level else ask.leaders
        for domain in tree[level]:
            if level < level_count - 1:
                _count_parent(domain, guests, ask.inner.get(level + 1))
            if ask.share is not None and level == ask.share.level:
                _cap_pods(domain, _most(domain, request, ask), ask)
            if level in inner_levels and not domain.named:
                domain.pods = domain.pods_wl = 0  # doc: for an inner layer it holds no pod
            if level == ask.slice_level:
                _count_slices(domain, ask)
            if ask.share is not None and level == ask.share.level < ask.slice_level:
                _cap_slices(domain, _most(domain, request, ask), ask)
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


def _count_slices(domain: Domain, ask: Ask) -> None:
    """Count whole slices, and the smaller one beside them, at the slice level itself."""
    if not domain.named:
        return  # doc: it holds no whole slice of its own level; so no smaller one either
    domain.slices, domain.slices_wl = domain.pods // ask.size, domain.pods_wl // ask.size
    if ask.rest:
        domain.leader = 1 if domain.pods >= ask.rest else 0
        domain.pods_wl = domain.pods - ask.rest * domain.leader
        domain.slices_wl = domain.pods_wl // ask.size


def _most(domain: Domain, request: Request, ask: Ask) -> int:
    """Return how many pods the share lets into the domain (doc, "At most a share")."""
    assert ask.share is not None
    depth = len(domain.values)
    kept = sum(pods for path, pods in request.kept.items() if path[:depth] == domain.values)
    return max(0, ask.share.most - kept)


def _cap_pods(domain: Domain, most: int, ask: Ask) -> None:
    """Cap a domain by what the share lets in.

    A multiple of the slice size where slices are at this level or finer; the smaller slice is none,
    so with one the share is kept to the pod.
    """
    assert ask.share is not None
    if ask.slice_level >= ask.share.level and not ask.rest:
        most -= most % ask.size
    domain.pods = min(domain.pods, most)
    domain.pods_wl = min(domain.pods_wl, most)


def _cap_slices(domain: Domain, most: int, ask: Ask) -> None:
    """Cap a domain whose slices were counted below it."""
    domain.slices = min(domain.slices, most // ask.size)
    if not ask.rest:
        domain.slices_wl = min(domain.slices_wl, most // ask.size)
    elif domain.leader and most >= ask.rest:  # the smaller slice counts in the share
        domain.pods_wl = min(domain.pods_wl, most - ask.rest)
        domain.slices_wl = min(domain.slices_wl, (most - ask.rest) // ask.size)
    else:
        domain.leader = domain.pods_wl = domain.slices_wl = 0


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


def below_slices(children: Iterable[Domain], packing: bool, ask: Ask) -> list[Domain]:
    """Return the children of a domain in the order in which they are filled below the slice level.

    There nothing has slices, so with Kueue the order is that of pods, ascending (6, a quirk); with
    ours the largest go first where domains are packed (doc, ``small-hosts-first``).
    """
    if not packing or ask.small_hosts_first:
        return ordered(children, False, packing, ask.use_affinity)

    def key(domain: Domain) -> tuple[int, int, Path]:
        return (-domain.affinity if ask.use_affinity else 0, -domain.pods, domain.values)

    return sorted(children, key=key)


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
