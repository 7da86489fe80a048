"""Why a gang got no place: what each level and each domain could hold of it, and what lacks."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from stowplan.placement.answers.answer import DoesNotFit, DomainVerdict, LevelVerdict, Oversized
from stowplan.placement.answers.demands import waiting
from stowplan.placement.answers.domains import ALL, Mask, bounds, candidates, path_of
from stowplan.placement.answers.headroom import Headroom
from stowplan.placement.answers.left_out import LeftOutNodes, without_level
from stowplan.placement.answers.tally import Tally
from stowplan.placement.cluster import Cluster
from stowplan.placement.gangs import Gang
from stowplan.placement.ledger import Reservation
from stowplan.placement.placing import excluded_leaves, place_gang
from stowplan.placement.podsets.plan import NoFit
from stowplan.placement.podsets.podset import Region
from stowplan.placement.podsets.roles import place_roles
from stowplan.placement.reasons import Reason
from stowplan.placement.request import TopologyRequest
from stowplan.topology.levels import Levels

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
    names = [podset.name for podset in gang.podsets]
    nodes = LeftOutNodes.of(room, names)
    at_asked = Tally.of(room, asked_level(gang, levels))
    return DoesNotFit(
        gang=gang.id,
        size=gang.size,
        reason=reason,
        levels=tuple(
            _level_verdict(cluster, gang, Tally.of(room, level), now)
            for level in range(levels.depth)
        ),
        domains=tuple(
            _domain_verdict(at_asked, d, names, nodes) for d in at_asked.closest()[:most_domains]
        ),
        left_out=(*missing, *nodes.within(0, room.view.tree.leaf_count)),
        oversized=tuple(_oversized(room, names)),
    )


def _oversized(room: Headroom, names: Sequence[str]) -> Iterator[Oversized]:
    for demand in room.demands:
        podset = names[demand.at] if len(names) > 1 else ""
        most = room.view.total[demand.ask.rows].max(axis=1).astype(np.int64).tolist()
        for (resource, asked), offered in zip(demand.podset.amounts, most, strict=True):
            if asked > offered:
                yield Oversized(podset, resource, asked, offered)


def asked_level(gang: Gang, levels: Levels) -> int:
    """Return the coarsest level that a podset of the gang names; ``ALL`` where none does."""
    named = [podset.request.level for podset in gang.podsets]
    return min((levels.keys.index(key) for key in named if key in levels.keys), default=ALL)


def _level_verdict(cluster: Cluster, gang: Gang, tally: Tally, now: float) -> LevelVerdict:
    """Count, and where counts do not decide, try."""
    room, level, fits = tally.room, tally.level, tally.fits
    tree, holds = room.view.tree, room.may_hold(room.everyone, level)
    if not room.exact:
        holds = _tried(cluster, gang, room, level, holds, now)
        fits = np.where(holds, room.needed, fits)
    best = int(np.argmax(np.where(tally.open, fits, -1))) if tally.open.any() else None
    return LevelVerdict(
        level=tree.levels.keys[level],
        asked=_is_asked(gang, tree.levels.keys[level]),
        domains=int(candidates(tree, level, ()).sum()),
        holding=int(holds.sum()),
        best=() if best is None else path_of(tree, level, best),
        fits=0 if best is None else int(fits[best]),
        needed=room.needed,
    )


def _tried(
    cluster: Cluster, gang: Gang, room: Headroom, level: int, possible: Mask, now: float
) -> Mask:
    """Return which of the ``possible`` domains hold the whole gang: it is placed inside each."""
    view, policy, holds = room.view, cluster.policy, np.zeros_like(possible)
    if not possible.any():
        return holds
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


def _of_no_node(gang: Gang, levels: Levels) -> tuple[LevelVerdict, ...]:
    """Return the verdicts of levels that have no domain."""
    needed = sum(podset.count for podset in waiting(gang))
    return tuple(
        LevelVerdict(key, _is_asked(gang, key), 0, 0, (), 0, needed) for key in levels.keys
    )


def _is_asked(gang: Gang, key: str) -> bool:
    """Whether a podset must be in one domain of the level; would like to, where it need not."""
    requests = (podset.request for podset in gang.podsets)
    return any(key == (request.required or request.preferred) for request in requests)


def _domain_verdict(
    tally: Tally, d: int, names: Sequence[str], nodes: LeftOutNodes
) -> DomainVerdict:
    """Return what one domain of the asked level lacks: it does not hold what the gang asked for."""
    room, at = tally.room, bounds(tally.room.view.tree, tally.level)
    demand, short_of = tally.shortage(d)
    several = len(names) > 1
    return DomainVerdict(
        domain=path_of(room.view.tree, tally.level, d),
        fits=int(tally.fits[d]),
        needed=room.needed,
        short_of=short_of,
        left_out=nodes.within(int(at[d]), int(at[d + 1])),
        podset=names[room.demands[demand].at] if several else "",
        leader=several and demand == room.leader,
    )
