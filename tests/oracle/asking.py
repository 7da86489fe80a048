"""What is asked, with its defaults, and the form of an answer.

Here: modes, slices, our added rules, and which requests are refused.

Section numbers are the specification's; what goes beyond it is told in ``docs/placement.md``, cited
as "doc" and the title of its part. The quirks of Kueue's are on unless a request turns them off.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

Path = tuple[str, ...]

PACKING_MODES = ("required", "preferred")
MODES = (*PACKING_MODES, "unconstrained", "slices-only", "none")
PROFILES = ("mixed", "best-fit")


@dataclass(frozen=True)
class Leaf:
    """One node, or one finest domain: its level values and what is still free there.

    A value of "" is a level label that the node lacks (doc, "Nodes that lack a fine label").
    """

    values: Path  # one value per level, coarse to fine; nodes of one leaf repeat it
    room: dict[str, int]  # base units; negative where the node is overcommitted
    allowed: bool = True  # passes the node filters
    affinity: int = 0  # summed weights of the preferred terms that match


@dataclass(frozen=True)
class Share:
    """At most ``most`` pods of the podset in one domain of ``level`` (doc, "At most a share")."""

    level: int
    most: int


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
    # Ours, beyond the specification:
    within: int | None = None  # beside mode "preferred": the level that is required
    last_smaller: bool = False  # pods that fill no whole slice make a smaller one
    share: Share | None = None
    kept: Mapping[Path, int] = field(default_factory=dict)  # leaf -> pods that run there already
    # Kueue's quirks:
    rest_is_dropped: bool = True
    small_hosts_first: bool = True
    unconstrained_scatters: bool = True
    leader_unnamed: bool = True

    @property
    def asks_a_level(self) -> bool:
        return self.mode in PACKING_MODES


@dataclass(frozen=True)
class Placed:
    """Pods per leaf, and the leaf of the leader."""

    workers: dict[Path, int]  # leaves with at least one pod, in the order of their values
    leader: Path | None


@dataclass(frozen=True)
class Ask:
    """A request with its defaults filled in."""

    start: int  # the level the search starts at
    need: int  # whole slices
    leaders: int  # 0 or 1
    size: int
    slice_level: int
    inner: dict[int, int]  # level -> inner slice size (8)
    packing: bool  # above the hosts
    use_affinity: bool
    stop: int = 0  # the coarsest level that is tried
    required: bool = False  # beyond ``stop`` nothing is tried, nor several domains
    rest: int = 0  # pods of the smaller slice
    share: Share | None = None
    hosts_packing: bool = True  # at the finest level
    small_hosts_first: bool = True

    @property
    def guests(self) -> int:
        """1 when something beside whole slices needs a place: a leader, or the smaller slice."""
        return 1 if self.leaders or self.rest else 0

    def packs(self, level: int, level_count: int) -> bool:
        """Whether domains of this level are packed, rather than those with least room used up."""
        return self.hosts_packing if level == level_count - 1 else self.packing


@dataclass(frozen=True)
class Refusal:
    """Why a request is not even tried, in the words of the cases or in ours."""

    kind: str
    level: int | None = None
    slice_level: int | None = None
    fits: int = 0  # slices-leave-a-rest: pods of whole slices, and all
    needed: int = 0


def required_level(request: Request) -> int | None:
    """Return the level whose one domain must hold all pods."""
    return request.level if request.mode == "required" else request.within


def start_level(request: Request, level_count: int) -> int | None:
    """Return the level the search starts at (2), before a share makes it coarser."""
    if request.asks_a_level:
        return request.level
    if request.unconstrained_scatters:
        return 0 if request.mode == "slices-only" else level_count - 1
    # Doc, "No level asked": the level above the hosts, not finer than the slice level.
    slice_level = request.slices[0][0] if request.slices else level_count - 1
    return min(max(level_count - 2, 0), slice_level)


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
    share = request.share
    if share is not None and not exceeds(request, share):
        share = None
    if share is not None:
        start = min(start, share.level)
    climbs = request.mode == "preferred"
    packs_all = request.asks_a_level or request.profile == "best-fit"
    packing = packs_all
    if not request.asks_a_level and not request.unconstrained_scatters:
        climbs = packing = True  # as if the level were preferred
    required = request.mode == "required" or request.within is not None
    return Ask(
        start=start,
        need=request.count // size,  # (2) a remainder is dropped
        leaders=0 if request.leader_per_pod is None else 1,
        size=size,
        slice_level=slice_level,
        inner=inner,
        packing=packing,
        use_affinity=request.use_affinity,
        stop=(request.within or 0) if climbs else start,
        required=required,
        # Doc, the table of quirks: with Kueue's rules such pods get no place, whatever is asked.
        rest=request.count % size if request.last_smaller and not request.rest_is_dropped else 0,
        share=share,
        hosts_packing=packs_all,
        small_hosts_first=request.small_hosts_first,
    )


def exceeds(request: Request, share: Share) -> bool:
    """Whether the podset is larger than one domain's share, pods that run already included.

    A share that the whole podset is within forbids nothing, so it is read as no share. The document
    says so of the level to start at only, and not at all in "No level asked".
    """
    return request.count + sum(request.kept.values()) > share.most


def refusal_of(request: Request, level_count: int) -> Refusal | None:
    """Return the first check that fails: those of section 2 in its order, then ours."""

    def known(level: int | None) -> bool:
        return level is not None and 0 <= level < level_count

    if any(size <= 0 for _, size in request.slices):
        return Refusal("slice-size-missing")
    start = start_level(request, level_count)
    asks_levels = (start, request.within) if request.within is not None else (start,)
    for level in asks_levels if request.asks_a_level else ():
        if not known(level):
            return Refusal("level-unknown", level)
    assert start is not None
    if request.within is not None and request.within >= start:
        return Refusal("preferred-not-finer", start)  # doc: P is finer than R
    outer_level, outer_size = start, 0
    for i, (level, _) in enumerate(request.slices):
        if not known(level):
            return Refusal("slice-level-unknown", level)
        # The slice level may be the requested level; an inner layer must be finer than its outer.
        if level < outer_level or (i > 0 and level == outer_level):
            return Refusal("slice-level-above", outer_level, level)
        outer_level = level
    for _, size in request.slices:
        if outer_size % size:  # 0 before the first layer, which every size divides
            return Refusal("slice-size-indivisible")
        outer_size = size
    return _our_refusal(request, level_count)


def _our_refusal(request: Request, level_count: int) -> Refusal | None:
    if request.share is not None:
        if not 0 <= request.share.level < level_count:
            return Refusal("level-unknown", request.share.level)
        required = required_level(request)
        if required is not None and request.share.level <= required:
            return Refusal("share-not-finer", request.share.level)
    size = request.slices[0][1] if request.slices else 1
    rest = request.count % size
    if rest == 0 or request.rest_is_dropped:
        return None
    if not request.last_smaller or any(rest % inner for _, inner in request.slices[1:]):
        whole = request.count - rest
        return Refusal("slices-leave-a-rest", fits=whole, needed=request.count)
    return None
