"""Reservation <-> Placement: what is written down of a gang, and what a new leader makes of it.

Pure; times come as arguments. ``now`` is on the ledger's clock, ``at`` is the time that people
read.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from stowplan.api.models.placement import FORMAT, Decision, Placement
from stowplan.placement.cluster import Cluster
from stowplan.placement.filters import Filters
from stowplan.placement.gangs import GangId, Kind
from stowplan.placement.ledger import Reservation, Seat
from stowplan.placement.podsets.complete import common_domain
from stowplan.placement.reasons import Reason
from stowplan.placement.records import PodRecord
from stowplan.placement.state import View

Json = dict[str, Any]
Phase = Literal["Incomplete", "Waiting", "Reserved", "Bound"]

_LONGEST_NAME = 200  # of 253 that a name may have
_NOT_IN_A_NAME = re.compile(r"[^a-z0-9.-]+")


def name_of(gang: GangId) -> str:
    """Return the name of a gang's Placement: readable, and of no other gang.

    Made again by an owner of the same name, a gang is another one; and what a name may not contain
    is no difference any more, so a digest follows wherever something is lost.
    """
    whole = f"{gang.kind.lower()}.{gang.name}"  # no kind of ours has a dot, so no two are alike
    plain = _NOT_IN_A_NAME.sub("-", whole.lower()).strip("-.")[:_LONGEST_NAME].rstrip("-.")
    if plain == whole and not gang.uid and "." not in gang.kind:
        return plain
    digest = hashlib.sha256(f"{gang.kind}/{gang.name}/{gang.uid}".encode()).hexdigest()[:8]
    return f"{plain}-{digest}"


def gang_named(placement: Placement) -> GangId:
    """Return the gang that a Placement is about."""
    gang = placement.spec.gang
    return GangId(placement.metadata.namespace, gang.kind, gang.name, gang.uid)


def new_placement(gang: GangId, size: int, owner: Json | None) -> Json:
    """Return the object without a decision; ``owner`` is whoever makes the pods, if anybody."""
    meta: Json = {"namespace": gang.namespace, "name": name_of(gang)}
    if owner is not None:
        meta["ownerReferences"] = [owner]
    spec = {"gang": {"kind": gang.kind, "name": gang.name, "uid": gang.uid}, "size": size}
    return {"metadata": meta, "spec": spec}


def size_of(cluster: Cluster, gang: GangId, now: float) -> int:
    """Return how many pods a gang has, as far as anybody has said."""
    if (reservation := cluster.ledger.reservations.get(gang)) is not None:
        return len(reservation.seats)
    there = len(cluster.gangs.members(gang, now))
    refusal = cluster.refusals.get(gang)
    return max(there, dict(refusal.reason.facts).get("needed", 0) if refusal else 0)


@dataclass(frozen=True, slots=True)
class Clock:
    """One moment on both clocks."""

    now: float
    at: datetime

    def later(self, moment: float) -> str:
        """Return a moment of the ledger's clock for people."""
        return _written(self.at + timedelta(seconds=moment - self.now))

    def read(self, text: str) -> float:
        """Return a written moment on the ledger's clock; one that cannot be read is over."""
        try:
            found = datetime.fromisoformat(text.replace("Z", "+00:00"))
        except ValueError:
            return self.now
        return self.now + (found - self.at).total_seconds()


def _written(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def status_of(
    cluster: Cluster, gang: GangId, epoch: int, decision_id: str, clock: Clock
) -> Json | None:
    """Return the status that says what we know of a gang; None where we know nothing of it."""
    reservation = cluster.ledger.reservations.get(gang)
    refusal = cluster.refusals.get(gang)
    status: Json = {"epoch": epoch, "excluded": list(_excluded(cluster, gang, clock))}
    if reservation is not None:
        phase: Phase = "Bound" if all(seat.bound for seat in reservation.seats) else "Reserved"
        where = f"in {reservation.level} {'/'.join(reservation.domain)}"
        text = f"{len(reservation.seats)} pods {where if reservation.level else 'on any nodes'}"
        status["decision"] = _decision(cluster, reservation, decision_id)
        status["where"] = "/".join(reservation.domain)
        condition = _condition("True", phase, text, clock)
    elif refusal is not None:
        phase = "Incomplete" if refusal.reason.word == "Incomplete" else "Waiting"
        condition = _condition("False", refusal.reason.word, refusal.reason.text, clock)
    else:
        return None
    return {**status, "phase": phase, "conditions": [condition]}


def withdrawn(gang: GangId, epoch: int, reason: Reason, clock: Clock) -> Json:
    """Return the status that reserves nothing."""
    condition = _condition("False", reason.word, reason.text, clock)
    return {"epoch": epoch, "phase": "Waiting", "conditions": [condition]}


def _condition(status: str, reason: str, message: str, clock: Clock) -> Json:
    return {
        "type": "Placed",
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": _written(clock.at),
    }


def _excluded(cluster: Cluster, gang: GangId, clock: Clock) -> Iterator[Json]:
    for node, exclusion in sorted(cluster.ledger.exclusions(gang).items()):
        if exclusion.until > clock.now:
            until = clock.later(exclusion.until)
            yield {"node": node, "until": until, "times": exclusion.times}


def _domain_of(view: View, reservation: Reservation, podset: int) -> list[str]:
    """Return the finest domain that holds all seats of a podset."""
    nodes = (seat.node for seat in reservation.seats if seat.podset == podset)
    leaves = [view.leaf_of[node] for node in nodes if node in view.leaf_of]
    domain = common_domain(view, leaves, view.tree.levels.depth - 1) if leaves else None
    return [] if domain is None else list(view.tree.paths[domain])


def _decision(cluster: Cluster, reservation: Reservation, decision_id: str) -> Json:
    pods, view = cluster.state.pods, cluster.state.view()
    return {
        "id": decision_id,
        "format": FORMAT,
        "level": reservation.level or "",
        "domain": list(reservation.domain),
        "ahead": reservation.ahead,
        "podsets": [
            {
                "role": kind.role,
                "requests": {name: str(n) for name, n in kind.amounts},
                "domain": _domain_of(view, reservation, at),
            }
            for at, kind in enumerate(reservation.kinds)
        ],
        "seats": [
            {
                "podset": seat.podset,
                "rank": seat.rank,
                "node": seat.node,
                **_pod(pods.get(seat.pod) if seat.pod else None, seat),
            }
            for seat in reservation.seats
        ],
    }


def _pod(pod: PodRecord | None, seat: Seat) -> Json:
    """Return name and uid of a seat's pod; one that only called was never seen with its uid."""
    if seat.pod is None:
        return {}
    name = seat.pod.partition("/")[2]
    return {"name": name, "uid": pod.uid} if pod is not None else {"name": name}


def same_but_for_times(one: Json | None, other: Json | None) -> bool:
    """Whether two statuses say the same; when it was written is no part of it."""
    return _without_times(one) == _without_times(other)


def _without_times(status: Json | None) -> Json:
    whole = dict(status or {})
    conditions = [_without(c, "lastTransitionTime") for c in whole.get("conditions") or ()]
    excluded = [_without(e, "until") for e in whole.get("excluded") or ()]
    decision = _without(whole.get("decision") or {}, "id")
    return {**whole, "conditions": conditions, "excluded": excluded, "decision": decision}


def _without(found: Json, key: str) -> Json:
    return {name: value for name, value in found.items() if name != key}


def since(old: Json | None, new: Json) -> Json:
    """Return the new status with the time since when its condition is what it is."""
    before = {c.get("type"): c for c in (old or {}).get("conditions") or ()}
    conditions = []
    for condition in new.get("conditions") or ():
        known = before.get(condition["type"], {})
        if known.get("status") == condition["status"]:
            condition = {**condition, "lastTransitionTime": known.get("lastTransitionTime")}
        conditions.append(condition)
    return {**new, "conditions": conditions}


def restored(cluster: Cluster, placement: Placement, now: float) -> Reservation | None:
    """Return what a Placement reserves, as far as it is still there; None for nothing.

    The clock starts afresh: nobody knows when its pods were answered, so all of them may bind at
    any moment. A pod that was made again under its name has no seat, which then waits for it.
    """
    decision = placement.status.decision if placement.status else None
    if decision is None or decision.format != FORMAT or not decision.seats:
        return None
    gang = gang_named(placement)
    members = cluster.gangs.members(gang, now)
    kinds = _kinds(decision, members)
    seats = list(_seats(decision, gang, kinds, members))
    if not seats:
        return None
    return Reservation(
        gang=gang,
        domain=tuple(decision.domain or ()),
        level=decision.level or None,
        seats=seats,
        kinds=kinds,
        touched=now,
        ahead=decision.ahead,
    )


def _kinds(decision: Decision, members: Mapping[str, PodRecord]) -> tuple[Kind, ...]:
    """Return what the pods of each podset are like: a pod of it knows more than was written."""
    by_podset: dict[int, PodRecord] = {}
    for seat in decision.seats or ():
        pod = next((p for p in members.values() if seat.name and p.name == seat.name), None)
        if pod is not None:
            by_podset.setdefault(seat.podset, pod)
    kinds = []
    for at, podset in enumerate(decision.podsets or ()):
        if at in by_podset:
            kinds.append(Kind.of(podset.role, by_podset[at]))
        else:
            amounts = tuple(sorted((name, int(n)) for name, n in (podset.requests or {}).items()))
            kinds.append(Kind(podset.role, amounts, Filters()))
    return tuple(kinds)


def _seats(
    decision: Decision, gang: GangId, kinds: tuple[Kind, ...], members: Mapping[str, PodRecord]
) -> Iterator[Seat]:
    for written in decision.seats or ():
        if not 0 <= written.podset < len(kinds):
            continue
        seat = Seat(written.node, kinds[written.podset].amounts, written.podset, written.rank)
        pod = members.get(f"{gang.namespace}/{written.name}") if written.name else None
        if pod is None or (written.uid and pod.uid and written.uid != pod.uid):
            yield seat
            continue
        if pod.ended:
            continue
        seat.amounts, seat.slow = pod.requests, pod.binds_slowly
        seat.pod, seat.answered = pod.key, True
        if pod.node:
            seat.bound, seat.node = True, pod.node
        yield seat
