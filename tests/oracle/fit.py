"""The placement rules of the domain-fit specification, one sentence of it at a time.

Comments give its section numbers; "doc" is ``docs/placement.md``, our rules beyond it. Here: which
level and which domains (5), down to the leaves (6), leaders (7), what is said when it does not fit
(13); what is asked and refused (2) is in ``asking``, the counts and the order underneath (3, 4, 8)
in ``domains``, the laws (20) in ``laws``. Several podsets are in ``roles``, the rest of a gang in
``completing``, growth and lost nodes as Kueue treats them in ``replacement`` (10, 11). All that
needs Node or Pod objects ``cluster`` turns into leaves first.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.oracle.asking import MODES, PROFILES, Placed, refusal_of
from tests.oracle.domains import (
    NAMELESS,
    Ask,
    Domain,
    Leaf,
    Path,
    Request,
    ask_of,
    below_slices,
    count_of,
    counted,
    holds,
    limiting_resource,
    merged_leaves,
    ordered,
    pods_per_domain,
    pods_that_fit,
    tightest,
)
from tests.oracle.laws import check_laws

# What callers need of the modules underneath is offered here as well.
__all__ = [
    "Domain",
    "Failed",
    "Leaf",
    "Path",
    "Placed",
    "Request",
    "check_laws",
    "limiting_resource",
    "ordered",
    "place",
    "pods_per_domain",
]


@dataclass(frozen=True)
class Failed:
    """Why not. Kinds are those of the cases, plus those that they lack (see ``asking``).

    ``fits`` and ``needed`` are in ``unit`` and 0 for kinds that state no numbers.
    """

    kind: str
    fits: int
    needed: int
    level: int | None = None  # level-unknown, no-domains, slice-level-unknown, slice-level-above
    slice_level: int | None = None  # slice-level-above only
    unit: str = "pod"  # "slice" when the slice size is not 1
    layers: tuple[tuple[int, int, int], ...] = ()  # layers-no-fit: (level, fits, needed)
    limited: dict[str, int] = field(default_factory=dict)  # resource -> leaves it limits to 0


@dataclass(frozen=True)
class _Share:
    """What one domain was given on the way down (6)."""

    domain: Domain
    pods: int
    leaders: int


def place(leaves: Sequence[Leaf], level_count: int, request: Request) -> Placed | Failed:
    """Return where the pods go, all of them, or why they cannot."""
    if request.mode not in MODES or request.profile not in PROFILES:
        raise ValueError(f"no such mode or profile: {request.mode!r}, {request.profile!r}")
    if request.count == 0:  # (6) skipped: not even its levels are looked at
        return Placed({}, None)
    if (of := refusal_of(request, level_count)) is not None:
        return Failed(of.kind, of.fits, of.needed, level=of.level, slice_level=of.slice_level)
    ask = ask_of(request, level_count)
    if ask.leaders and ask.rest:
        raise ValueError("not said: a leader beside a smaller slice")
    tree = counted(merged_leaves(leaves), level_count, request, ask)
    if not tree[ask.start]:
        return Failed("no-domains", 0, 0, level=ask.start)
    chosen = _chosen(tree, level_count, ask)
    if isinstance(chosen, int):
        return _no_fit(leaves, tree, request, ask, fits=chosen)
    level, domains = chosen
    return _descended(domains, level, level_count, ask)


# --- Which level, which domains (5) -------------------------------------------------------------


def _chosen(tree: list[list[Domain]], level_count: int, ask: Ask) -> tuple[int, list[Domain]] | int:
    """Return the level and its chosen domains, or how many slices fit."""
    level = ask.start
    while True:
        packing = ask.packs(level, level_count)
        # Doc: a nameless domain is never the one domain that a request asks for; so a host without
        # a rack is no answer where a host is preferred and a rack required.
        levels = (level, ask.stop) if ask.required else (level,)
        named = [d for d in tree[level] if all(d.values[at] != NAMELESS for at in levels)]
        domains = ordered(named, True, packing, ask.use_affinity)
        holding = [i for i, d in enumerate(domains) if holds(d, ask.need, ask.guests, True)]
        if not packing and holding:
            return level, [domains[holding[0]]]
        # With affinity the first domain need not be the largest. Required then looks down the list;
        # preferred does not, so that a set with affinity is not torn (case affinity-adds-upward).
        last = ask.required and level == ask.stop
        look_down = last and ask.use_affinity
        if packing and holding and (holding[0] == 0 or look_down):
            rest = domains[holding[0] :]
            return level, [tightest(rest, ask.need, ask.guests, True, ask.use_affinity)]
        if last:  # plain slices, also when it is the leader that lacks room (7)
            return domains[0].slices if domains else 0
        if level == ask.stop:
            several = ordered(tree[level], True, packing, ask.use_affinity)
            return _collected(several, level, packing, ask)
        level -= 1


def _leader_first(
    domains: Sequence[Domain], need: int, leaders: int, by_slices: bool
) -> list[Domain]:
    """Move the first domain to the front that can host the leader without costing too much."""
    total = sum(count_of(domain, 0, by_slices) for domain in domains)
    for domain in domains:
        loss = count_of(domain, 0, by_slices) - count_of(domain, 1, by_slices)
        if leaders > 0 and domain.leader >= leaders and total - loss >= need:
            return [domain, *(other for other in domains if other is not domain)]
    return list(domains)


def _collected(
    domains: Sequence[Domain], level: int, packing: bool, ask: Ask
) -> tuple[int, list[Domain]] | int:
    """Collect several domains of one level, or say how many slices fit."""
    chosen: list[Domain] = []
    missing = ask.need
    rest = _leader_first(domains, ask.need, ask.guests, by_slices=True)  # step 1
    if ask.guests:  # step 2
        if rest[0].leader == 0:
            return ask.need  # (7) "n of n fit", a quirk: it is the leader that fits nowhere
        domain = rest[0]
        if packing and domain.slices_wl >= missing:
            domain = tightest(rest, missing, ask.guests, True, ask.use_affinity)
        chosen.append(domain)
        missing -= domain.slices_wl
        rest = [other for other in rest if other is not domain]
    rest = ordered(rest, False, packing, ask.use_affinity)  # step 3
    while missing > 0 and rest:
        domain = rest[0]
        if packing and domain.slices >= missing:
            domain = tightest(rest, missing, 0, True, ask.use_affinity)
        chosen.append(domain)
        missing -= domain.slices
        rest = [other for other in rest if other is not domain]
    return ask.need - missing if missing > 0 else (level, chosen)


# --- Down to the leaves (6) ---------------------------------------------------------------------


def _descended(domains: Sequence[Domain], level: int, level_count: int, ask: Ask) -> Placed:
    """Give each leaf below the chosen domains its exact number."""
    pods = ask.need * ask.size
    packing = ask.packs(level, level_count)
    shares = _take(domains, pods, ask.guests, ask.size, True, packing, ask)  # step 1
    for child_level in range(level + 1, ask.slice_level + 1):
        packing = ask.packs(child_level, level_count)
        if ask.share is not None and child_level > ask.share.level:
            # Doc: from the share's level down a domain hands out its pods to its own children only.
            pools = [([share], share.pods, share.leaders) for share in shares]
        else:  # step 2: few racks come before few hosts
            pools = [(shares, pods, ask.guests)]
        below: list[_Share] = []
        for parents, count, guests in pools:
            pool = [child for share in parents for child in share.domain.children]
            pool = ordered(pool, False, packing, ask.use_affinity)
            below += _take(pool, count, guests, ask.size, True, packing, ask)
        shares = below
    if ask.rest:  # the smaller slice joins the pods of its domain, and is a guest no more
        shares = [_Share(s.domain, s.pods + ask.rest * s.leaders, 0) for s in shares]
    for child_level in range(ask.slice_level + 1, level_count):  # step 3: a slice stays inside
        below = []
        for share in shares:
            below += _inside(share, child_level, ask.packs(child_level, level_count), ask)
        shares = below
    workers = sorted((share.domain.values, share.pods) for share in shares if share.pods)
    leader = [share.domain.values for share in shares if share.leaders]
    return Placed(dict(workers), leader[0] if leader else None)


def _inside(share: _Share, child_level: int, packing: bool, ask: Ask) -> list[_Share]:
    """Hand out what one domain has, below the slice level."""
    children = below_slices(share.domain.children, packing, ask)
    inner_size = ask.inner.get(child_level)
    if inner_size is not None:  # only after sorting: the order is by pods
        for child in children:
            child.slices = child.pods // inner_size
            child.slices_wl = child.pods_wl // inner_size
    unit, by_slices = inner_size or 1, inner_size is not None
    return _take(children, share.pods, share.leaders, unit, by_slices, packing, ask)


def _take(
    domains: Sequence[Domain],
    count: int,
    leaders: int,
    unit: int,
    by_slices: bool,
    packing: bool,
    ask: Ask,
) -> list[_Share]:
    """Give out ``count`` pods in units, and the leader, front to back."""
    rest = count // unit
    shares: list[_Share] = []
    left = _leader_first(domains, rest, leaders, by_slices)
    while rest > 0 or leaders > 0:
        # Phase 1 promised that it fits: running out of domains here is a bug, not an answer.
        domain = left[0]
        if packing and holds(domain, rest, leaders, by_slices):
            domain = tightest(left, rest, leaders, by_slices, ask.use_affinity)
        given = min(count_of(domain, leaders, by_slices), rest)
        shares.append(_Share(domain, given * unit, min(domain.leader, leaders)))
        rest -= given
        leaders -= min(domain.leader, leaders)
        left = [other for other in left if other is not domain]
    return shares


# --- What is said when it does not fit (13) -----------------------------------------------------


def _no_fit(
    leaves: Sequence[Leaf], tree: list[list[Domain]], request: Request, ask: Ask, fits: int
) -> Failed:
    limited: dict[str, int] = {}
    for leaf in merged_leaves(leaves):
        if leaf.allowed and pods_that_fit(leaf.room, request.per_pod) == 0:
            name = limiting_resource(leaf.room, request.per_pod)
            limited[name] = limited.get(name, 0) + 1
    unit = "pod" if ask.size == 1 else "slice"
    homeless = ask.leaders > 0 and not any(domain.leader for domain in tree[0])
    if homeless and not request.leader_unnamed:  # (7) "we should name the leader"
        return Failed("leader-no-fit", 0, 1, limited=limited)
    if len(request.slices) > 1:
        layers = _layers(tree[ask.start], request, ask)
        _, fits, needed = layers[0]
        return Failed("layers-no-fit", fits, needed, unit=unit, layers=layers, limited=limited)
    kind = "partial-fit" if fits else "none-fit"
    return Failed(kind, fits, ask.need, unit=unit, limited=limited)


def _layers(
    domains: Sequence[Domain], request: Request, ask: Ask
) -> tuple[tuple[int, int, int], ...]:
    """(level, fits, needed) per layer, in the domain of the requested level with most slices."""
    best = min(domains, key=lambda domain: (-domain.slices, domain.values))
    layers = []
    for level, size in request.slices:
        at_level = [best]
        for _ in range(level - ask.start):
            at_level = [child for domain in at_level for child in domain.children]
        fits = sum(domain.pods // size for domain in at_level)
        layers.append((level, fits, ask.need * ask.size // size))
    return tuple(layers)
