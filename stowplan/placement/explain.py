"""Why a gang got no place: what each level and each domain could hold of it, and what lacks."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from stowplan.placement.answer import DoesNotFit, DomainVerdict, LevelVerdict
from stowplan.placement.cluster import Cluster
from stowplan.placement.domains import ALL, Mask, bounds, candidates, path_of
from stowplan.placement.gangs import Gang
from stowplan.placement.headroom import Headroom, Together, waiting
from stowplan.placement.ledger import Reservation
from stowplan.placement.left_out import LeftOutNodes, without_level
from stowplan.placement.placing import excluded_leaves, place_gang
from stowplan.placement.plan import NoFit
from stowplan.placement.podset import Region
from stowplan.placement.reasons import Reason
from stowplan.placement.request import TopologyRequest
from stowplan.placement.roles import place_roles
from stowplan.placement.tally import Tally
from stowplan.topology.levels import Levels
from stowplan.topology.tree import Quantity

FOR_LACK_OF_ROOM = ("NoDomainFits", "NodesExcluded")  # other refusals name what is wrong themselves


def why_not(
    cluster: Cluster, gang: Gang, reason: Reason, now: float, most_domains: int | None = None
) -> DoesNotFit:
    """Return the whole answer for a gang that ``place_gang`` refused, but for changes that help.

    Args:
        cluster: as it was judged; it stays as it is.
        gang: what was refused.
        reason: why.
        now: seconds on the clock of the cluster's ledger.
        most_domains: how many domains to tell of; None for all of the asked level.
    """
    if reason.word not in FOR_LACK_OF_ROOM:
        return DoesNotFit(gang.id, gang.size, reason)
    room, levels = Headroom.of(cluster, gang, now), cluster.policy.levels
    missing = without_level(cluster)
    if room is None or not room.demands:
        return DoesNotFit(gang.id, gang.size, reason, _of_no_node(gang, levels), (), missing)
    judged = [_Judged.of(cluster, gang, room, level, now) for level in range(levels.depth)]
    asked = asked_level(gang, levels)
    at_asked = judged[asked] if asked != ALL else _Judged.of(cluster, gang, room, ALL, now)
    names = [podset.name for podset in gang.podsets]
    nodes = LeftOutNodes.of(room, names)
    return DoesNotFit(
        gang=gang.id,
        size=gang.size,
        reason=reason,
        levels=tuple(_level_verdict(gang, verdict) for verdict in judged),
        domains=_domain_verdicts(at_asked, names, nodes, most_domains),
        left_out=(*missing, *nodes.within(0, room.view.tree.leaf_count)),
    )


def asked_level(gang: Gang, levels: Levels) -> int:
    """Return the coarsest level that a podset of the gang names; ``ALL`` where none does."""
    named = [podset.request.level for podset in gang.podsets]
    return min((levels.keys.index(key) for key in named if key in levels.keys), default=ALL)


@dataclass(frozen=True, slots=True, eq=False)
class _Judged:
    """What the domains of one level can hold of a gang, if all of it must be in one of them.

    Attributes:
        tally: what fits of each podset.
        holds: (domains,) whether all of the gang does.
        fits: (domains,) how many of its pods do.
    """

    tally: Tally
    holds: Mask
    fits: Quantity

    @classmethod
    def of(cls, cluster: Cluster, gang: Gang, room: Headroom, level: int, now: float) -> "_Judged":
        """Count, and where counts do not decide, try."""
        tally, free = Tally.of(room, level), room.view.leaves.free
        pods = [demand.pods_on(free) for demand in room.demands]
        holds = room.may_hold(Together(tally.order, level, room.home), level, pods, free)
        if room.exact:
            return cls(tally, holds, tally.fits)
        holds = _tried(cluster, gang, room, level, holds, now)
        # What goes in one after another is not all that could, nor is it always found.
        fits = np.where(holds, room.needed, np.minimum(tally.fits, room.needed - 1))
        return cls(tally, holds, fits)


def _tried(
    cluster: Cluster, gang: Gang, room: Headroom, level: int, possible: Mask, now: float
) -> Mask:
    """Return which of the ``possible`` domains hold the whole gang: it is placed inside each."""
    view, policy, holds = room.view, cluster.policy, np.zeros_like(possible)
    if level == ALL or not possible.any():
        return holds  # the whole cluster does not: the gang was refused
    asking = _asking_for(gang, policy.levels, level)
    if asking is None:
        return holds
    found = place_gang(cluster, asking, now)
    if not isinstance(found, Reservation):
        return holds
    excluded = excluded_leaves(cluster, view, gang.id, now)
    low, _ = view.tree.range_of(level)
    for d in np.flatnonzero(possible).tolist():
        holds[d] = found.domain[: level + 1] == path_of(view.tree, level, d)
        if not holds[d] and not gang.bound:  # those that run leave one domain, which was tried
            region = Region(low + d, excluded)
            inside = place_roles(
                cluster.state, cluster.shapes, asking.podsets, policy.packing, policy.rules, region
            )
            holds[d] = not isinstance(inside, NoFit)
    return holds


def _asking_for(gang: Gang, levels: Levels, level: int) -> Gang | None:
    """Return the gang with all of it in one domain of ``level``, whatever it asked for itself.

    Slices of coarser domains then say nothing more. None where a share forbids so many pods there.
    """
    podsets = []
    for podset in gang.podsets:
        request, share = podset.request, podset.request.share
        if share and levels.keys.index(share.level) <= level:
            if podset.count > share.of(podset.count):
                return None
            share = None
        request = TopologyRequest(
            required=levels.keys[level],
            layers=tuple(a for a in request.slices if levels.keys.index(a.level) >= level),
            last_slice=request.last_slice,
            share=share,
            group=request.group,
        )
        podsets.append(replace(podset, request=request, preferred=()))
    return replace(gang, podsets=tuple(podsets))


def _level_verdict(gang: Gang, judged: _Judged) -> LevelVerdict:
    room, level, shown = judged.tally.room, judged.tally.level, judged.tally.shown
    tree = room.view.tree
    best = int(np.argmax(np.where(shown, judged.fits, -1))) if shown.any() else None
    return LevelVerdict(
        level=tree.levels.keys[level],
        asked=_is_asked(gang, tree.levels.keys[level]),
        domains=int(candidates(tree, level, ()).sum()),
        holding=int(judged.holds.sum()),
        best=() if best is None else path_of(tree, level, best),
        fits=0 if best is None else int(judged.fits[best]),
        needed=room.needed,
    )


def _of_no_node(gang: Gang, levels: Levels) -> tuple[LevelVerdict, ...]:
    """Return the verdicts of levels that have no domain."""
    needed = sum(podset.count for podset in waiting(gang))
    return tuple(
        LevelVerdict(key, _is_asked(gang, key), 0, 0, (), 0, needed) for key in levels.keys
    )


def _is_asked(gang: Gang, key: str) -> bool:
    requests = (podset.request for podset in gang.podsets)
    return any(key in (request.required, request.preferred) for request in requests)


def _domain_verdicts(
    judged: _Judged, names: Sequence[str], nodes: LeftOutNodes, most: int | None
) -> tuple[DomainVerdict, ...]:
    """Return what each domain lacks, the one that lacks least first, of equals the first."""
    tally, room = judged.tally, judged.tally.room
    tree, at = room.view.tree, bounds(room.view.tree, tally.level)
    order = np.argsort(-judged.fits, kind="stable")
    verdicts = []
    for d in order[tally.shown[order]][:most].tolist():
        demand, short_of = (0, "") if judged.holds[d] else tally.shortage(d)
        told = bool(short_of) and len(names) > 1
        verdicts.append(
            DomainVerdict(
                domain=path_of(tree, tally.level, d),
                fits=int(judged.fits[d]),
                needed=room.needed,
                short_of=short_of,
                left_out=nodes.within(int(at[d]), int(at[d + 1])),
                podset=names[room.demands[demand].at] if told else "",
                leader=told and demand == room.leader,
            )
        )
    return tuple(verdicts)
