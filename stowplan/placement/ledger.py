"""Reservations: made whole, settled pod by pod, freed whole.

A seat is room on a node for one pod. From the commit until the pod is bound, the seat's room is
taken off its node; from then on the pod itself counts. Seats without a pod wait for pods that are
still to be made.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from stowplan.placement.gangs import GangId, Kind
from stowplan.placement.records import Amounts, PodRecord
from stowplan.placement.state import ClusterState
from stowplan.topology.tree import Path


@dataclass(slots=True, eq=False)
class Seat:
    """Room on one node for one pod.

    Attributes:
        node: where.
        amounts: how much.
        podset: position of the podset that it belongs to.
        rank: place among the podset's seats.
        pod: key of the pod that has it; None while it waits for one.
        bound: the pod runs there and counts itself.
        answered: the pod was told its node and may bind at any moment.
        lost: what its pod was told last when the node was not offered; empty for nothing.
        slow: binding can take minutes, because the pod has a claim.
    """

    node: str
    amounts: Amounts
    podset: int
    rank: int
    pod: str | None = None
    bound: bool = False
    answered: bool = False
    lost: str = ""
    slow: bool = False


@dataclass(slots=True, eq=False)
class Reservation:
    """The seats of one gang.

    Attributes:
        gang: whose.
        domain: path of the domain that holds all of them; empty when nothing asked for one.
        level: name of that domain's level; None likewise.
        seats: one per pod.
        kinds: of each podset; ``Seat.podset`` counts in it.
        touched: when a pod of the gang was last answered, or the seats were made.
        ahead: pods are made one after another, so seats may wait for theirs as long as it takes.
    """

    gang: GangId
    domain: Path
    level: str | None
    seats: list[Seat]
    kinds: tuple[Kind, ...]
    touched: float
    ahead: bool = False

    def seat_of(self, pod: str) -> Seat | None:
        """Return the seat of a pod by its key."""
        return next((seat for seat in self.seats if seat.pod == pod), None)

    @property
    def any_bound(self) -> bool:
        """Whether a pod of the gang runs already."""
        return any(seat.bound for seat in self.seats)


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A node that may not be used for one gang until some moment."""

    until: float
    times: int


@dataclass(slots=True, eq=False)
class Ledger:
    """All reservations, and the room they take on ``state``.

    Attributes:
        state: where the room is taken.
        keep_seconds: how long after its last answer a gang without bound pods keeps its seats.
        keep_slow_seconds: the same when a pod has a claim.
        exclude_seconds: how long a refused node is left out for the gang; doubles each time.
    """

    state: ClusterState
    keep_seconds: float
    keep_slow_seconds: float
    exclude_seconds: float
    reservations: dict[GangId, Reservation] = field(default_factory=dict)
    _gang_of_pod: dict[str, GangId] = field(default_factory=dict)
    _exclusions: dict[GangId, dict[str, Exclusion]] = field(default_factory=dict)

    @property
    def seat_count(self) -> int:
        """How many seats are promised and not bound yet."""
        return sum(not seat.bound for r in self.reservations.values() for seat in r.seats)

    def reservation_of(self, pod: str) -> Reservation | None:
        """Return the reservation in which a pod has a seat."""
        gang = self._gang_of_pod.get(pod)
        return None if gang is None else self.reservations[gang]

    def commit(self, reservation: Reservation) -> None:
        """Take the room of all seats that are not bound.

        Raises:
            ValueError: the gang has seats already; they must be freed first.
        """
        if reservation.gang in self.reservations:
            raise ValueError(f"must not hold seats for gang {reservation.gang} already")
        self.reservations[reservation.gang] = reservation
        for seat in reservation.seats:
            self._occupy(reservation, seat)

    def add_seat(self, reservation: Reservation, seat: Seat) -> None:
        """Add one more seat to a gang: a pod beyond its size, or a later wave."""
        reservation.seats.append(seat)
        self._occupy(reservation, seat)

    def assign(self, reservation: Reservation, seat: Seat, pod: PodRecord) -> None:
        """Give a waiting seat to a pod, which may turn out to ask for less than its template."""
        if seat.amounts != pod.requests:
            self.state.give_back(seat.node, seat.amounts)
            seat.amounts = pod.requests
            self.state.take(seat.node, seat.amounts)
        seat.pod, seat.slow = pod.key, pod.binds_slowly
        self._gang_of_pod[pod.key] = reservation.gang

    def move(self, seat: Seat, node: str) -> None:
        """Move a seat that is not bound to another node."""
        self.state.give_back(seat.node, seat.amounts)
        seat.node = node
        self.state.take(node, seat.amounts)

    def shrink(self, reservation: Reservation, seats: int) -> None:
        """Drop seats without a pod, the last ones first, until no more than ``seats`` are left."""
        for seat in [s for s in reversed(reservation.seats) if s.pod is None and not s.bound]:
            if len(reservation.seats) > seats:
                self._drop(reservation, seat)

    def answer(self, reservation: Reservation, seat: Seat, now: float) -> None:
        """Note that the seat's pod was told its node."""
        seat.answered, seat.lost = True, ""
        reservation.touched = now

    def settle(self, pod: PodRecord) -> None:
        """Fold what became of a pod: bound pods count themselves, wherever they were bound."""
        reservation = self.reservation_of(pod.key)
        seat = reservation.seat_of(pod.key) if reservation else None
        if seat is None:
            return
        if pod.ended:
            self.forget(pod.key)
        elif pod.node and not seat.bound:
            self.state.give_back(seat.node, seat.amounts)
            seat.bound, seat.node = True, pod.node

    def adopt(self, gang: GangId, pod: PodRecord, role: str) -> None:
        """Fold a bound pod that has no seat: one that waits for its like is no longer needed."""
        reservation = self.reservations.get(gang)
        if reservation is None or not pod.node or pod.ended or reservation.seat_of(pod.key):
            return
        kind = Kind.of(role, pod)
        for seat in reservation.seats:
            if seat.pod is None and not seat.bound and reservation.kinds[seat.podset].role == role:
                self._drop(reservation, seat)
                break
        if kind not in reservation.kinds:
            reservation.kinds = (*reservation.kinds, kind)
        at = reservation.kinds.index(kind)
        self.add_seat(reservation, Seat(pod.node, pod.requests, at, 0, pod.key, bound=True))

    def forget(self, pod: str) -> None:
        """Take a pod off its seat: it ended or is gone. The seat waits for a pod to replace it.

        When no pod is left the gang is freed; so is a seat whose pod ran, since the room went with
        it.
        """
        reservation = self.reservation_of(pod)
        seat = reservation.seat_of(pod) if reservation else None
        if reservation is None or seat is None:
            return
        del self._gang_of_pod[pod]
        seat.pod, seat.answered = None, False
        if seat.bound:
            reservation.seats.remove(seat)
        if all(seat.pod is None for seat in reservation.seats):
            self.free(reservation.gang)

    def free(self, gang: GangId) -> None:
        """Give back every seat of a gang that is not bound."""
        reservation = self.reservations.pop(gang, None)
        for seat in reservation.seats if reservation else ():
            if seat.pod is not None:
                self._gang_of_pod.pop(seat.pod, None)
            if not seat.bound:
                self.state.give_back(seat.node, seat.amounts)

    def expire(self, now: float) -> list[GangId]:
        """Free what nobody came for; return the gangs that lost all their seats.

        A gang whose pods were told a node long ago and did not bind is freed whole. One with a
        bound pod never is, but a seat that lost its pod goes once nobody took its place.
        """
        freed = self.abandoned(now)
        for gang in freed:
            self.free(gang)
        self.drop_unclaimed(now)
        return freed

    def abandoned(self, now: float) -> list[GangId]:
        """Return the gangs whose pods were told a node long ago and of which none did bind."""
        late = (r for r in self.reservations.values() if self._is_late(r, now))
        return [reservation.gang for reservation in late if not reservation.any_bound]

    def drop_unclaimed(self, now: float) -> list[GangId]:
        """Drop late seats without a pod of gangs that run; return the gangs that had some."""
        late = [r for r in self.reservations.values() if self._is_late(r, now) and r.any_bound]
        return [r.gang for r in late if self._drop_unclaimed(r)]

    def _drop_unclaimed(self, reservation: Reservation) -> bool:
        before = len(reservation.seats)
        # A pod that asked and was never seen again will not come; its seat waits for another.
        for seat in [s for s in reservation.seats if s.pod and s.pod not in self.state.pods]:
            self.forget(seat.pod or "")
        if not reservation.ahead:
            for seat in [s for s in reservation.seats if s.pod is None and not s.bound]:
                self._drop(reservation, seat)
        return len(reservation.seats) < before

    def exclude(self, gang: GangId, node: str, now: float) -> None:
        """Leave a node out for a gang, twice as long each time."""
        nodes = self._exclusions.setdefault(gang, {})
        if node in nodes and nodes[node].until > now:
            return  # one refusal, told again
        times = nodes[node].times + 1 if node in nodes else 0
        nodes[node] = Exclusion(now + self.exclude_seconds * 2 ** min(times, 10), times)

    def excluded(self, gang: GangId, now: float) -> Sequence[str]:
        """Return the nodes that are left out for a gang now."""
        nodes = self._exclusions.get(gang)
        return [n for n, e in nodes.items() if e.until > now] if nodes else ()

    def exclusions(self, gang: GangId) -> Mapping[str, Exclusion]:
        """Return what is known of nodes that were left out for a gang, those of the past too."""
        return self._exclusions.get(gang, {})

    def remember_exclusion(self, gang: GangId, node: str, until: float, times: int) -> None:
        """Take over what another ledger knew."""
        self._exclusions.setdefault(gang, {})[node] = Exclusion(until, times)

    def next_exclusion_end(self, gang: GangId, now: float) -> float:
        """Return when the first node that is left out for a gang now may be used again."""
        ends = (e.until for e in self._exclusions.get(gang, {}).values() if e.until > now)
        return min(ends, default=inf)

    def clear(self) -> None:
        """Free every gang, and know of no refused node."""
        for gang in list(self.reservations):
            self.free(gang)
        self._exclusions.clear()

    def forget_exclusions(self, gang: GangId) -> None:
        """Drop what is known of a gang that is gone."""
        self._exclusions.pop(gang, None)

    def excluded_gangs(self) -> Iterator[GangId]:
        """Return the gangs for which nodes are left out."""
        return iter(tuple(self._exclusions))

    def _drop(self, reservation: Reservation, seat: Seat) -> None:
        reservation.seats.remove(seat)
        self.state.give_back(seat.node, seat.amounts)

    def _is_late(self, reservation: Reservation, now: float) -> bool:
        slow = any(seat.slow for seat in reservation.seats)
        keep = self.keep_slow_seconds if slow else self.keep_seconds
        return now - reservation.touched > keep

    def _occupy(self, reservation: Reservation, seat: Seat) -> None:
        if seat.pod is not None:
            self._gang_of_pod[seat.pod] = reservation.gang
        if not seat.bound:
            self.state.take(seat.node, seat.amounts)
