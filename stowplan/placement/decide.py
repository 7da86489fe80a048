"""The decision: cluster + pod + candidates -> all of them, one node, or a refusal.

Synchronous, and pure but for the cluster that it is given, which it changes whole or not at all: no
clock is read and nothing is awaited. The steps are those of "the decision at filter time".
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Protocol

import numpy as np

from stowplan.placement import reasons
from stowplan.placement.cluster import Cluster, Refusal
from stowplan.placement.gangs import Gang, GangId, Kind, assemble, gang_of, place_of
from stowplan.placement.ledger import Reservation, Seat
from stowplan.placement.owners import role_of
from stowplan.placement.placing import excluded_leaves, place_gang, refusal
from stowplan.placement.podsets.complete import complete
from stowplan.placement.podsets.plan import NoFit
from stowplan.placement.podsets.podset import PodSet
from stowplan.placement.reasons import Reason
from stowplan.placement.records import Amounts, PodRecord
from stowplan.placement.state import View

Outcome = Literal["untouched", "placed", "refused", "ranked"]

_MOST_TRIES = 16  # nodes that one call may find refused before it gives up until the next


class Candidates(Protocol):
    """The nodes that kube-scheduler offers; asked about single names, never computed with."""

    def __contains__(self, node: str) -> bool:
        """Whether the node is offered."""

    def __len__(self) -> int:
        """How many are offered."""


@dataclass(frozen=True, slots=True)
class Untouched:
    """The pod asks for nothing, or Kueue holds it: all candidates go back as they came."""

    outcome: ClassVar[Outcome] = "untouched"


@dataclass(frozen=True, slots=True)
class Placed:
    """The pod's node.

    Attributes:
        node: its name.
        gang: whose seat it is.
        committed: how many seats this call made; 0 when the pod had its seat before.
        left: the node that the pod's seat was moved away from by this call; empty for none.
        level: of the domain that holds the gang; None when no single one does.
        domain: its path.
    """

    node: str
    gang: GangId
    committed: int
    left: str
    level: str | None
    domain: tuple[str, ...]
    outcome: ClassVar[Outcome] = "placed"


@dataclass(frozen=True, slots=True)
class Refused:
    """No node now; kube-scheduler tries again when something changes.

    Attributes:
        reason: why.
        gang: whose pod it is.
        judged: this call judged; False when an earlier verdict still stands.
    """

    reason: Reason
    gang: GangId
    judged: bool
    outcome: ClassVar[Outcome] = "refused"


Verdict = Untouched | Placed | Refused


@dataclass(frozen=True, slots=True)
class _Seated:
    reservation: Reservation
    seat: Seat
    committed: int


def filter_nodes(cluster: Cluster, pod: PodRecord, offered: Candidates, now: float) -> Verdict:
    """Return the one node for ``pod``, or why there is none; commit the seats of a new gang.

    Args:
        cluster: read, and changed by a commit.
        pod: as kube-scheduler sees it.
        offered: the candidates. They may be a sample, so what fits is never computed from them
            (E25).
        now: seconds on a clock that only rises.
    """
    if not needs_decision(pod):
        return Untouched()
    pod = replace(pod, node="")  # who is bound is for our own picture to say
    gang = gang_of(pod)
    if pod.native_group:
        return Refused(reasons.NATIVE_GROUP, gang, judged=False)
    if (reason := _not_itself(cluster, pod)) is not None:
        return Refused(reason, gang, judged=False)
    cluster.gangs.heard_from(gang, pod, now)
    committed, left = 0, ""
    for _ in range(_MOST_TRIES):
        found = _seat_for(cluster, gang, pod, now)
        if isinstance(found, Refused):
            return found
        reservation, seat = found.reservation, found.seat
        if found.committed:  # an earlier try of this call may have made seats and freed them again
            committed, left = found.committed, ""
        if seat.node in offered:
            cluster.ledger.answer(reservation, seat, now)
            level, domain = reservation.level, reservation.domain
            return Placed(seat.node, gang, committed, left, level, domain)
        lost = seat.node
        if (refused := _give_up(cluster, reservation, seat, pod, offered, now)) is not None:
            return refused
        left = left or lost
    return Refused(reasons.SEAT_LOST, gang, judged=True)


def _not_itself(cluster: Cluster, pod: PodRecord) -> Reason | None:
    """Return why nothing should be promised to this pod: it goes, or it is not the one we know."""
    known = cluster.state.pods.get(pod.key)
    if known is not None and known.is_another(pod):
        return reasons.OLDER_POD
    if pod.terminating or (known is not None and known.terminating):
        return reasons.TERMINATING
    return None


def needs_decision(pod: PodRecord) -> bool:
    """Whether the pod asks for topology and is ours to place."""
    return pod.asks and not pod.held_by_kueue


def looks_sampled(offered: int, nodes: int) -> bool:
    """Return whether ``offered`` is exactly as many as kube-scheduler stops at by default.

    At n >= 100 nodes it is max(100, n x p / 100) with p = 50 - n / 125, at least 5 (fact E25).
    """
    share = max(50 - nodes // 125, 5)
    return nodes >= 100 and offered == max(100, nodes * share // 100) < nodes


def _seat_for(cluster: Cluster, gang: GangId, pod: PodRecord, now: float) -> _Seated | Refused:
    """Find the pod's seat, or place its gang, or let it join the gang's domain."""
    reservation = cluster.ledger.reservations.get(gang)
    if reservation is not None:
        seat = reservation.seat_of(pod.key) or _waiting_seat(cluster, reservation, pod)
        if seat is not None:
            return _Seated(reservation, seat, 0)
    known = cluster.refusals.get(gang)
    if known is not None and known.stands(cluster, gang, pod, now):
        return Refused(known.reason, gang, judged=False)
    members = cluster.gangs.members(gang, now)
    whole = assemble(gang, members.values(), cluster.owners)
    if isinstance(whole, Reason):
        return _refuse(cluster, gang, whole, now)
    if reservation is None:
        made = place_gang(cluster, whole, now)
        if isinstance(made, Reason):
            return _refuse(cluster, gang, made, now)
        cluster.ledger.commit(made)
        cluster.refusals.pop(gang, None)
        if (seat := made.seat_of(pod.key)) is not None:
            return _Seated(made, seat, sum(not seat.bound for seat in made.seats))
        reservation = made  # beyond the gang's size: its seats went to the pods before this one
    return _join(cluster, reservation, whole, pod, now)


def _refuse(
    cluster: Cluster, gang: GangId, reason: Reason, now: float, joining: PodRecord | None = None
) -> Refused:
    """Refuse, and remember it: a refused pod is called again on every event of any other pod.

    What is said of one pod that wants to join holds for its like only.
    """
    cluster.refusals[gang] = Refusal.of(cluster, gang, reason, joining, now)
    return Refused(reason, gang, judged=True)


def _waiting_seat(cluster: Cluster, reservation: Reservation, pod: PodRecord) -> Seat | None:
    """Give the pod a seat that waits for one like it: its own rank's, else the first.

    What admission adds to a pod is not in its template: the role tells whose seat it is, as long as
    the seat is large enough. Whether its node suits is for kube-scheduler to say.
    """
    waiting = [
        seat
        for seat in reservation.seats
        if seat.pod is None
        and not seat.bound
        and reservation.kinds[seat.podset].role == role_of(pod)
        and _covers(seat.amounts, pod.requests)
    ]
    if not waiting:
        return None
    rank = place_of(pod)
    seat = next((seat for seat in waiting if seat.rank == rank), waiting[0])
    cluster.ledger.assign(reservation, seat, pod)
    return seat


def _covers(room: Amounts, asked: Amounts) -> bool:
    have = dict(room)
    return all(have.get(name, 0) >= amount for name, amount in asked)


def _join(
    cluster: Cluster, reservation: Reservation, gang: Gang, pod: PodRecord, now: float
) -> _Seated | Refused:
    """Add one seat inside the gang's domain: a later wave, or a pod that replaces one that ran."""
    node = _one_more(cluster, reservation, gang, pod, now)
    if isinstance(node, Reason):
        return _refuse(cluster, gang.id, node, now, joining=pod)
    kind = Kind.of(role_of(pod), pod)
    if kind not in reservation.kinds:
        reservation.kinds = (*reservation.kinds, kind)
    seat = Seat(node, pod.requests, reservation.kinds.index(kind), place_of(pod) or 0)
    cluster.ledger.add_seat(reservation, seat)
    cluster.ledger.assign(reservation, seat, pod)
    return _Seated(reservation, seat, 1)


def _one_more(
    cluster: Cluster,
    reservation: Reservation,
    gang: Gang,
    pod: PodRecord,
    now: float,
    but_for: Sequence[int] = (),
) -> str | Reason:
    """Return a node for one pod of a gang that has seats, inside their domain.

    None of the leaves ``but_for``.
    """
    view = cluster.state.view()
    like = gang.podset_like(Kind.of(role_of(pod), pod))
    kept, beside = _neighbours(view, reservation, gang, like, pod)
    regions: list[int | None] | None = None
    required = like.request.required
    if required is not None and (gang.is_one_group or not (kept or beside)):
        domain = view.tree.find(reservation.domain)
        if domain is None:  # it left the topology with all its nodes
            return reasons.rest_does_not_fit(required, reasons.NO_NODE_USABLE)
        regions = [domain]
    preferred = pod.preferred if cluster.policy.weigh_affinity else ()
    # Pods beyond the gang's size need not come as whole slices.
    request = replace(like.request, last_slice="smaller")
    podset = replace(
        like,
        count=1,
        amounts=pod.requests,
        filters=pod.filters,
        preferred=preferred,
        request=request,
    )
    excluded = excluded_leaves(cluster, view, gang.id, now)
    if but_for:
        excluded = np.union1d(excluded, np.array(but_for, dtype=excluded.dtype))
    policy = cluster.policy
    answer = complete(
        cluster.state,
        cluster.shapes,
        podset,
        [(leaf, 1) for leaf in kept],
        1,
        policy.packing,
        policy.rules,
        excluded,
        beside,
        regions,
    )
    if not isinstance(answer, NoFit):
        return str(view.tree.nodes[answer.leaves[0][0]])
    if excluded.size:
        return reasons.nodes_excluded(reservation.level)
    return refusal(cluster, gang, [podset], answer, partly_placed=True)


def _neighbours(
    view: View, reservation: Reservation, gang: Gang, like: PodSet, pod: PodRecord
) -> tuple[list[int], list[int]]:
    """Return the leaves of the podset's other seats, and of those whose domain it shares."""
    kept, beside = [], []
    for seat in reservation.seats:
        leaf = view.leaf_of.get(seat.node)
        if leaf is None or seat.pod == pod.key:
            continue
        other = gang.podset_like(reservation.kinds[seat.podset])
        if other == like:
            kept.append(leaf)
        elif other.request.together == like.request.together:
            beside.append(leaf)
    return kept, beside


def _give_up(
    cluster: Cluster,
    reservation: Reservation,
    seat: Seat,
    pod: PodRecord,
    offered: Candidates,
    now: float,
) -> Refused | None:
    """Give up a seat whose node was not offered; None when another try can succeed.

    A list that may be a sample proves nothing, unless the node is gone from our own picture too. A
    seat moves inside the gang's domain; the gang moves as a whole only while none of its pods can
    bind: a pod that was told its node may do so at any moment.
    """
    gang = reservation.gang
    if seat.bound:  # our picture is behind, or the pod was made again and nobody says so
        return Refused(reasons.OLDER_POD, gang, judged=False)
    node = cluster.state.nodes.get(seat.node)
    there = node is not None and node.usable
    if there and _proves_nothing(cluster, pod, offered):
        if len(offered) == 1 and not pod.nominated and _only_one(cluster, seat, pod, offered, now):
            return None
        return _lost(gang, seat, reasons.SEAT_LOST)
    seat.answered = False  # it asks again, so what it was told before is void
    cluster.ledger.exclude(gang, seat.node, now)
    whole = assemble(gang, cluster.gangs.members(gang, now).values(), cluster.owners)
    if isinstance(whole, Reason):
        return Refused(whole, gang, judged=True)
    held = replace(pod, requests=seat.amounts)  # the seat moves as it is, whatever the call asks
    found = _one_more(cluster, reservation, whole, held, now)
    if isinstance(found, str):
        cluster.ledger.move(seat, found)
        return None
    if any(other.bound or other.answered for other in reservation.seats):
        return _lost(gang, seat, reasons.nodes_excluded(reservation.level))
    cluster.ledger.free(gang)
    return None


def _only_one(
    cluster: Cluster, seat: Seat, pod: PodRecord, offered: Candidates, now: float
) -> bool:
    """Move the seat to the only node that is offered, if the gang may have it there.

    A volume may leave a pod no other node. That says nothing of the node that it leaves.
    """
    reservation = cluster.ledger.reservation_of(pod.key)
    if reservation is None:
        return False
    view = cluster.state.view()
    others = [leaf for node, leaf in view.leaf_of.items() if node not in offered]
    members = cluster.gangs.members(reservation.gang, now).values()
    whole = assemble(reservation.gang, members, cluster.owners)
    if isinstance(whole, Reason):
        return False
    held = replace(pod, requests=seat.amounts)
    found = _one_more(cluster, reservation, whole, held, now, others)
    if isinstance(found, str):
        cluster.ledger.move(seat, found)
        return True
    return False


def _lost(gang: GangId, seat: Seat, reason: Reason) -> Refused:
    """Refuse a pod whose seat was not offered; it asks again and again, and it is news once."""
    news = seat.lost != reason.word
    seat.lost = reason.word
    return Refused(reason, gang, judged=news)


def _proves_nothing(cluster: Cluster, pod: PodRecord, offered: Candidates) -> bool:
    """Whether a node that is not offered may still be good (facts E23, E25)."""
    return (
        bool(pod.nominated)
        or len(offered) == 1
        or looks_sampled(len(offered), len(cluster.state.nodes))
    )
