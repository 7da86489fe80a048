"""The placement rules of the domain-fit specification, one sentence of it at a time.

Comments give its section numbers. Here: which requests are refused (2), which level and which
domains (5), down to the leaves (6), leaders (7), what is said when it does not fit (13), laws (20);
the counts and the order underneath (3, 4, 8) are in ``domains``. Left out: balanced placement (9),
replacement (11) and all that needs Node or Pod objects, which ``cluster`` turns into leaves first.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tests.oracle.domains import (
    MODES,
    Ask,
    Domain,
    Leaf,
    Path,
    Request,
    ask_of,
    count_of,
    counted,
    holds,
    limiting_resource,
    merged_leaves,
    ordered,
    pods_per_domain,
    pods_that_fit,
    start_level,
    tightest,
)

# What callers need of ``domains`` is offered here as well.
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
class Placed:
    """Pods per leaf, and the leaf of the leader."""

    workers: dict[Path, int]  # leaves with at least one pod, in the order of their values
    leader: Path | None


@dataclass(frozen=True)
class Failed:
    """Why not. Kinds are those of the cases, plus ``slice-size-indivisible`` which they lack.

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
    if request.mode not in MODES or request.profile not in ("mixed", "best-fit"):
        raise ValueError(f"no such mode or profile: {request.mode!r}, {request.profile!r}")
    if request.count == 0:  # (6) skipped: not even its levels are looked at
        return Placed({}, None)
    refused = _refused(request, level_count)
    if refused is not None:
        return refused
    ask = ask_of(request, level_count)
    tree = counted(merged_leaves(leaves), level_count, request, ask)
    if not tree[ask.start]:
        return Failed("no-domains", 0, 0, level=ask.start)
    chosen = _chosen(tree, request, ask)
    if isinstance(chosen, int):
        return _no_fit(leaves, tree, request, ask, fits=chosen)
    level, domains = chosen
    return _descended(domains, level, level_count, ask)


# --- Which requests are refused (2) --------------------------------------------------------------


def _refused(request: Request, level_count: int) -> Failed | None:
    """Return the first check that fails, in the order of section 2."""

    def known(level: int | None) -> bool:
        return level is not None and 0 <= level < level_count

    if any(size <= 0 for _, size in request.slices):
        return Failed("slice-size-missing", 0, 0)
    start = start_level(request, level_count)
    if start is None or not known(start):
        return Failed("level-unknown", 0, 0, level=start)
    outer_level, outer_size = start, 0
    for i, (level, _) in enumerate(request.slices):
        if not known(level):
            return Failed("slice-level-unknown", 0, 0, level=level)
        # The slice level may be the requested level; an inner layer must be finer than its outer.
        if level < outer_level or (i > 0 and level == outer_level):
            return Failed("slice-level-above", 0, 0, level=outer_level, slice_level=level)
        outer_level = level
    for _, size in request.slices:
        if outer_size % size:  # 0 before the first layer, which every size divides
            return Failed("slice-size-indivisible", 0, 0)
        outer_size = size
    return None


# --- Which level, which domains (5) -------------------------------------------------------------


def _chosen(tree: list[list[Domain]], request: Request, ask: Ask) -> tuple[int, list[Domain]] | int:
    """Return the level and its chosen domains, or how many slices fit."""
    level = ask.start
    while True:
        domains = ordered(tree[level], True, ask.packing, ask.use_affinity)
        holding = [i for i, d in enumerate(domains) if holds(d, ask.need, ask.leaders, True)]
        if not ask.packing:
            return (level, [domains[holding[0]]]) if holding else _collected(domains, level, ask)
        # With affinity the first domain need not be the largest. Required then looks down the list;
        # preferred does not, so that a set with affinity is not torn (case affinity-adds-upward).
        look_down = request.mode == "required" and ask.use_affinity
        if holding and (holding[0] == 0 or look_down):
            rest = domains[holding[0] :]
            return level, [tightest(rest, ask.need, ask.leaders, True, ask.use_affinity)]
        if request.mode == "required":
            return domains[0].slices  # plain slices, also when it is the leader that lacks room (7)
        if request.mode != "preferred" or level == 0:
            return _collected(domains, level, ask)
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


def _collected(domains: Sequence[Domain], level: int, ask: Ask) -> tuple[int, list[Domain]] | int:
    """Collect several domains of one level, or say how many slices fit."""
    chosen: list[Domain] = []
    missing = ask.need
    rest = _leader_first(domains, ask.need, ask.leaders, by_slices=True)  # step 1
    if ask.leaders:  # step 2
        if rest[0].leader == 0:
            return ask.need  # (7) "n of n fit", a quirk: it is the leader that fits nowhere
        domain = rest[0]
        if ask.packing and domain.slices_wl >= missing:
            domain = tightest(rest, missing, ask.leaders, True, ask.use_affinity)
        chosen.append(domain)
        missing -= domain.slices_wl
        rest = [other for other in rest if other is not domain]
    rest = ordered(rest, False, ask.packing, ask.use_affinity)  # step 3
    while missing > 0 and rest:
        domain = rest[0]
        if ask.packing and domain.slices >= missing:
            domain = tightest(rest, missing, 0, True, ask.use_affinity)
        chosen.append(domain)
        missing -= domain.slices
        rest = [other for other in rest if other is not domain]
    return ask.need - missing if missing > 0 else (level, chosen)


# --- Down to the leaves (6) ---------------------------------------------------------------------


def _descended(domains: Sequence[Domain], level: int, level_count: int, ask: Ask) -> Placed:
    """Give each leaf below the chosen domains its exact number."""
    pods = ask.need * ask.size
    shares = _take(domains, pods, ask.leaders, ask.size, True, ask)  # step 1
    for _ in range(level, ask.slice_level):  # step 2: few racks come before few hosts
        pool = [child for share in shares for child in share.domain.children]
        pool = ordered(pool, False, ask.packing, ask.use_affinity)
        shares = _take(pool, pods, ask.leaders, ask.size, True, ask)
    for child_level in range(ask.slice_level + 1, level_count):  # step 3: a slice stays inside
        inner_size = ask.inner.get(child_level)
        below: list[_Share] = []
        for share in shares:
            children = ordered(share.domain.children, False, ask.packing, ask.use_affinity)
            if inner_size is not None:  # only after sorting: the order is by pods
                for child in children:
                    child.slices = child.pods // inner_size
                    child.slices_wl = child.pods_wl // inner_size
            unit, by_slices = inner_size or 1, inner_size is not None
            below += _take(children, share.pods, share.leaders, unit, by_slices, ask)
        shares = below
    workers = sorted((share.domain.values, share.pods) for share in shares if share.pods)
    leader = [share.domain.values for share in shares if share.leaders]
    return Placed(dict(workers), leader[0] if leader else None)


def _take(
    domains: Sequence[Domain], count: int, leaders: int, unit: int, by_slices: bool, ask: Ask
) -> list[_Share]:
    """Give out ``count`` pods in units, and the leader, front to back."""
    rest = count // unit
    shares: list[_Share] = []
    left = _leader_first(domains, rest, leaders, by_slices)
    while rest > 0 or leaders > 0:
        # Phase 1 promised that it fits: running out of domains here is a bug, not an answer.
        domain = left[0]
        if ask.packing and holds(domain, rest, leaders, by_slices):
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


# --- Laws (20) ----------------------------------------------------------------------------------


def check_laws(leaves: Sequence[Leaf], request: Request, placed: Placed) -> list[str]:
    """Return the laws that this answer breaks, as sentences; none of them names an algorithm."""
    if request.count == 0:
        return [] if placed == Placed({}, None) else ["a podset without pods has no assignment"]
    merged = merged_leaves(leaves)
    level_count = len(merged[0].values) if merged else 0
    if (refused := _refused(request, level_count)) is not None:
        return [f"a request that is refused ({refused.kind}) has no answer"]
    ask = ask_of(request, level_count)
    return [
        *_broken_sums(request, placed, ask),
        *_broken_slices(request, placed),
        *_broken_rooms(merged, request, placed),
        *_broken_levels(merged, level_count, request, placed, ask),
    ]


def _broken_sums(request: Request, placed: Placed, ask: Ask) -> Iterable[str]:
    if (got := sum(placed.workers.values())) != (want := ask.need * ask.size):
        yield f"the sum is the count rounded down to whole slices: {want}, got {got}"
    if any(pods <= 0 for pods in placed.workers.values()):
        yield "every leaf in an answer holds at least one pod"
    if (placed.leader is None) != (request.leader_per_pod is None):
        yield "a leader is placed if and only if one is asked for"


def _broken_slices(request: Request, placed: Placed) -> Iterable[str]:
    for level, size in request.slices:
        held: dict[Path, int] = {}
        for values, pods in placed.workers.items():
            path = values[: level + 1]
            held[path] = held.get(path, 0) + pods
        for path, pods in sorted(held.items()):
            if pods % size:
                yield f"slices of {size} are whole in level {level}: {path} holds {pods}"


def _broken_rooms(merged: Sequence[Leaf], request: Request, placed: Placed) -> Iterable[str]:
    leaf_of = {leaf.values: leaf for leaf in merged}
    for values in sorted({*placed.workers, *([placed.leader] if placed.leader else [])}):
        leaf = leaf_of.get(values)
        if leaf is None or not leaf.allowed:
            yield f"pods go only to leaves that exist and pass the filters, not to {values}"
            continue
        asked = [(request.per_pod, placed.workers.get(values, 0))]
        if request.leader_per_pod is not None and values == placed.leader:
            asked.append((request.leader_per_pod, 1))
        for name in sorted({name for per_pod, _ in asked for name in per_pod}):
            used = sum(per_pod.get(name, 0) * pods for per_pod, pods in asked)
            if used > max(0, leaf.room.get(name, 0)):
                yield f"no leaf is over its room: {values} gives {used} {name}"


def _broken_levels(
    merged: Sequence[Leaf], level_count: int, request: Request, placed: Placed, ask: Ask
) -> Iterable[str]:
    """One domain where one is required, and where one would have held everything."""
    used = {*placed.workers, *([placed.leader] if placed.leader else [])}

    def spread(level: int) -> int:
        return len({values[: level + 1] for values in used})

    if request.mode == "required" and spread(ask.start) > 1:
        yield f"required: all pods are in one domain of level {ask.start}, not {spread(ask.start)}"
    if ask.packing and ask.use_affinity and request.mode != "required":
        return  # affinity goes before a finer level or fewer domains (5; case affinity-adds-upward)
    tree = counted(merged, level_count, request, ask)
    coarsest = 0 if request.mode == "preferred" else ask.start
    for level in range(ask.start, coarsest - 1, -1):
        if any(holds(domain, ask.need, ask.leaders, True) for domain in tree[level]):
            if spread(level) > 1:
                yield f"one domain of level {level} holds everything, {spread(level)} are used"
            return
