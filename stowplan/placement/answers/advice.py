"""The smallest change of each kind that makes a refused gang fit.

What is reported was tried, and everything smaller of its kind was tried or is ruled out by counts
that no placement can exceed. ``docs/placement.md`` says what smaller means.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterator
from dataclasses import replace
from heapq import merge
from itertools import islice

from stowplan.placement.answers.answer import Change, CoarserLevel, FewerPods, LargerShare
from stowplan.placement.answers.explain import FOR_LACK_OF_ROOM, asked_level
from stowplan.placement.answers.headroom import MOST_TRIES, Headroom
from stowplan.placement.answers.more_room import more_room
from stowplan.placement.answers.tally import Tally
from stowplan.placement.answers.workloads import workload_ends
from stowplan.placement.cluster import Cluster
from stowplan.placement.gangs import Gang, GangId
from stowplan.placement.ledger import Reservation
from stowplan.placement.placing import place_gang
from stowplan.placement.podsets.podset import PodSet
from stowplan.placement.reasons import Reason
from stowplan.placement.request import Share, TopologyRequest


def advise(
    cluster: Cluster, gang: Gang, reason: Reason, now: float, stay: Collection[GangId] = ()
) -> tuple[Change, ...]:
    """Return the smallest change of each kind that makes ``gang`` fit; the cluster stays as it is.

    Args:
        cluster: as it was judged.
        gang: what ``place_gang`` refused.
        reason: why.
        now: seconds on the clock of the cluster's ledger.
        stay: gangs that are not told to end.
    """
    room = Headroom.of(cluster, gang, now)
    found: list[Change | None] = []
    countable = room is not None and bool(room.demands)
    if room is not None and countable:
        found.append(fewer_pods(cluster, gang, room, now))
    found.append(coarser_level(cluster, gang, now))
    if room is not None and countable and reason.word in FOR_LACK_OF_ROOM:
        scarce = Tally.of(room, asked_level(gang, cluster.policy.levels)).scarcest()
        found.append(larger_share(cluster, gang, now))
        found.append(workload_ends(cluster, gang, room, scarce, now, stay))
        found += more_room(cluster, gang, room, scarce, now)
    return tuple(change for change in found if change is not None)


def fewer_pods(cluster: Cluster, gang: Gang, room: Headroom, now: float) -> FewerPods | None:
    """Return the fewest pods to take off one podset; of equals the first podset.

    None as well where ``MOST_TRIES`` counts were tried in vain: only unlike podsets, and shares in
    percent, can be so far from what was counted.
    """
    whole = cluster.policy.rules.rest_is_dropped  # what fills no slice would get no place
    options = merge(*(_fewer(gang, room, i, whole) for i in range(len(room.demands))))
    for _, at, to in islice(options, MOST_TRIES):
        if isinstance(place_gang(cluster, with_fewer(gang, at, to), now), Reservation):
            return FewerPods(gang.podsets[at].name, gang.podsets[at].count, to)
    return None


def _fewer(gang: Gang, room: Headroom, i: int, whole: bool) -> Iterator[tuple[int, int, int]]:
    """Yield pods taken off, podset and pods left, for every count that is not ruled out.

    At least one pod is left to be placed: with none, nothing would be said of the cluster.
    """
    at = room.demands[i].at
    podset = gang.podsets[at]
    runs = podset.count - room.demands[i].podset.count
    slices = podset.request.slices
    smaller = podset.request.last_slice == "smaller" and not whole
    least = max(slices[0].size if slices else 1, runs + 1)  # no slice may exceed the podset
    most = min(room.most_of(i) + runs, podset.count - 1)
    for to in range(most, least - 1, -1):
        rest = to % slices[0].size if slices and (whole or not gang.is_part) else 0
        if not rest or (smaller and rest % podset.request.inner_size == 0):
            yield podset.count - to, at, to


def with_fewer(gang: Gang, at: int, to: int) -> Gang:
    """Return the gang with ``to`` pods in one podset; of those that wait the last ones go."""
    podset = gang.podsets[at]
    there = [i for i, mine in enumerate(gang.podset_of) if mine == at]
    waiting = [i for i in there if not gang.pods[i].node]
    gone = frozenset(waiting[len(waiting) - max(len(there) - to, 0) :])
    kept = [i for i in range(len(gang.pods)) if i not in gone]
    podsets = [*gang.podsets[:at], replace(podset, count=to), *gang.podsets[at + 1 :]]
    return replace(
        gang,
        size=gang.size - (podset.count - to),
        pods=tuple(gang.pods[i] for i in kept),
        podsets=tuple(podsets),
        podset_of=tuple(gang.podset_of[i] for i in kept),
    )


def coarser_level(cluster: Cluster, gang: Gang, now: float) -> CoarserLevel | None:
    """Return the finest level coarser than the asked one at which the gang fits.

    Where podsets ask for different levels it is the one that goes up least; of equals the finest.
    """
    keys = cluster.policy.levels.keys
    asked = {podset.request.level for podset in gang.podsets}
    levels = sorted((keys.index(key) for key in asked if key in keys), reverse=True)
    for up in range(1, len(keys) + 1):
        for level in (level for level in levels if level - up >= -1):
            to = keys[level - up] if up <= level else None
            if isinstance(place_gang(cluster, with_level(gang, keys[level], to), now), Reservation):
                return CoarserLevel(keys[level], to)
    return None


def with_level(gang: Gang, was: str, to: str | None) -> Gang:
    """Return the gang with every podset that asks for level ``was`` asking for ``to``."""

    def changed(podset: PodSet) -> PodSet:
        if podset.request.level != was:
            return podset
        return replace(podset, request=_coarser(podset.request, to))

    return replace(gang, podsets=tuple(map(changed, gang.podsets)))


def _coarser(request: TopologyRequest, to: str | None) -> TopologyRequest:
    if to is None:
        anywhere = None if request.slices else True
        return replace(request, required=None, preferred=None, unconstrained=anywhere, group=None)
    if request.required is not None:
        return replace(request, required=to)
    return replace(request, preferred=to)


def larger_share(cluster: Cluster, gang: Gang, now: float) -> LargerShare | None:
    """Return the share that has to grow by fewest pods; of equals that of the first podset.

    None as well where ``MOST_TRIES`` shares were tried in vain, as for ``fewer_pods``.
    """
    options = merge(*(_larger(cluster, gang, at, now) for at in range(len(gang.podsets))))
    for more, at, share in islice(options, MOST_TRIES):
        if isinstance(place_gang(cluster, with_share(gang, at, share), now), Reservation):
            assert share.pods is not None
            name = gang.podsets[at].name if len(gang.podsets) > 1 else ""
            return LargerShare(name, share.level, share.pods - more, share.pods)
    return None


def _larger(cluster: Cluster, gang: Gang, at: int, now: float) -> Iterator[tuple[int, int, Share]]:
    """Yield pods added, podset and larger share, from the first one that counts allow."""
    podset = gang.podsets[at]
    if (share := podset.request.share) is None:
        return
    was = share.of(podset.count)

    def allowed(pods: int) -> bool:
        room = Headroom.of(cluster, with_share(gang, at, Share(share.level, pods)), now)
        return room is not None and room.each_fits(room.view.leaves.free)

    larger = range(was + 1, podset.count + 1)
    for pods in larger[bisect_left(larger, True, key=allowed) :]:
        yield pods - was, at, Share(share.level, pods)


def with_share(gang: Gang, at: int, share: Share | None) -> Gang:
    """Return the gang with another share for one podset."""
    podset = gang.podsets[at]
    changed = replace(podset, request=replace(podset.request, share=share))
    return replace(gang, podsets=(*gang.podsets[:at], changed, *gang.podsets[at + 1 :]))
