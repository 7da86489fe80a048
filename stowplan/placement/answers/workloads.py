"""Which other workload has to end so that a gang fits."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice

import numpy as np

from stowplan.placement.answers.answer import WorkloadEnds
from stowplan.placement.answers.domains import ALL, Mask, bounds, candidates, sums
from stowplan.placement.answers.headroom import MOST_TRIES, Headroom, Together
from stowplan.placement.cluster import Cluster
from stowplan.placement.gangs import Gang, GangId
from stowplan.placement.ledger import Reservation
from stowplan.placement.placing import place_gang
from stowplan.placement.records import Amounts
from stowplan.placement.state import ClusterState, View, node_of
from stowplan.topology.tree import Quantity, Room

# Their pods belong to a node and come back with it: they do not end.
_STAY = ("DaemonSet", "Node")


@dataclass(frozen=True, slots=True)
class Workload:
    """The pods of one gang that take room, and its seats: node and amounts of each."""

    id: GangId
    taken: tuple[tuple[str, Amounts], ...]

    def size(self, resource: str) -> tuple[int, int, str, str, str]:
        """Return a key that puts fewer pods first, then less of one resource, then the name."""
        used = sum(n for _, amounts in self.taken for name, n in amounts if name == resource)
        return len(self.taken), used, str(self.id), self.id.kind, self.id.uid


def workload_ends(
    cluster: Cluster,
    gang: Gang,
    room: Headroom,
    scarce: str,
    now: float,
    stay: Collection[GangId] = (),
) -> WorkloadEnds | None:
    """Return the other workload with fewest pods whose end makes the gang fit; none of ``stay``.

    Of equals it is the one that uses least of ``scarce``, then the first by name. None as well
    where ``MOST_TRIES`` workloads were tried in vain: only of unlike podsets, and of slices and
    shares in part, can the counts promise so much more than there is.
    """
    workloads = running(cluster, {gang.id, *stay}, now)
    ends, free = Freed.by(workloads, room.view), room.view.leaves.free
    helpful = [(workloads[w], w) for w in np.flatnonzero(ends.may_help(room)).tolist()]
    helpful.sort(key=lambda option: option[0].size(scarce))
    likely = (w for w, at in helpful if room.each_fits(ends.room_without(at, free)))
    for workload in islice(likely, MOST_TRIES):
        with freed(cluster.state, workload.taken):
            found = place_gang(cluster, gang, now)
        if isinstance(found, Reservation):
            return WorkloadEnds(workload.id, len(workload.taken))
    return None


def running(cluster: Cluster, but: Collection[GangId], now: float) -> list[Workload]:
    """Return every workload that takes room, except those in ``but`` and those that never end."""
    state, taken = cluster.state, dict[GangId, list[tuple[str, Amounts]]]()
    for gang in dict.fromkeys(cluster.gangs.ids()):
        taken[gang] = [
            (node_of(pod), pod.requests)
            for key, pod in cluster.gangs.members(gang, now).items()
            if state.counts(pod) and key in state.pods
        ]
    for reservation in cluster.ledger.reservations.values():
        seats = [(seat.node, seat.amounts) for seat in reservation.seats if not seat.bound]
        taken.setdefault(reservation.gang, []).extend(seats)
    return [
        Workload(gang, tuple(pods))
        for gang, pods in taken.items()
        if pods and gang not in but and gang.kind not in _STAY
    ]


@contextmanager
def freed(state: ClusterState, taken: Sequence[tuple[str, Amounts]]) -> Iterator[None]:
    """Free room on nodes for a while; in the end nothing has happened."""
    generation = state.generation
    given: list[tuple[str, Amounts]] = []
    try:
        for node, amounts in taken:
            given.append((node, amounts))
            state.give_back(node, amounts)
        yield
    finally:
        while given:
            state.take(*given.pop())
        state.generation = generation


@dataclass(frozen=True, slots=True, eq=False)
class Freed:
    """The room that the end of each of W workloads would free, all at once.

    Attributes:
        count: W.
        of: (P,) which workload frees room.
        leaf: (P,) on which leaf; each pair of both comes once.
        amounts: (R, P) how much, in the rows of ``view.leaves.free``.
    """

    count: int
    of: Quantity
    leaf: Quantity
    amounts: Room

    @classmethod
    def by(cls, workloads: Sequence[Workload], view: View) -> "Freed":
        """Add up what each workload uses on each leaf."""
        kinds: dict[Amounts, int] = {}
        pairs: list[int] = []
        kind_of: list[int] = []
        leaves = view.tree.leaf_count
        for w, workload in enumerate(workloads):
            for node, amounts in workload.taken:
                leaf = view.leaf_of.get(node)
                if leaf is not None:
                    pairs.append(w * leaves + leaf)
                    kind_of.append(kinds.setdefault(amounts, len(kinds)))
        each = np.zeros((len(view.leaves.free), len(kinds)))
        for amounts, kind in kinds.items():
            for name, amount in amounts:
                if name in view.rows:
                    each[view.rows[name], kind] = amount
        once, at = np.unique(np.array(pairs, dtype=np.int64), return_inverse=True)
        sum_up = [np.bincount(at, row, once.size) for row in each[:, kind_of]]
        return cls(len(workloads), once // leaves, once % leaves, np.array(sum_up))

    def room_without(self, workload: int, free: Room) -> Room:
        """Return ``free`` once one workload has ended."""
        pairs = self.of == workload
        without = free.copy()
        without[:, self.leaf[pairs]] += self.amounts[:, pairs]
        return without

    def may_help(self, room: Headroom) -> Mask:
        """Return (W,) whether nothing that is counted here rules it out that the end helps."""
        helps = np.zeros(self.count, dtype=np.bool_)
        helps[self.of] = True
        for group in room.groups:
            # A gang that must be in one domain, and is not for lack of room, has more of it only
            # in those domains where a workload ends.
            alone = len(room.groups) == 1 and group.level != ALL
            if alone or not room.may_hold(group, group.level).any():
                helps &= self._helps(room, group)
        return helps

    def _helps(self, room: Headroom, group: Together) -> Mask:
        """Return (W,) whether a group may fit into a domain where a workload ends."""
        tree, free = room.view.tree, room.view.leaves.free
        at = bounds(tree, group.level)
        domains, after = at.size - 1, free[:, self.leaf] + self.amounts
        domain = np.searchsorted(at, self.leaf, side="right") - 1
        once, place = np.unique(self.of * domains + domain, return_inverse=True)

        def with_gain(before: Quantity, now: Quantity) -> Quantity:
            gain = np.bincount(place, now - before[self.leaf], once.size).astype(np.int64)
            total: Quantity = sums(before, at)[once % domains] + gain
            return total

        holds = candidates(tree, group.level, group.home)[once % domains]
        for demand in (room.demands[i] for i in group.demands):
            before, now = demand.pods_on(free), demand.pods_on(after, self.leaf)
            holds &= with_gain(before, now) >= demand.need
        for bound in group.bounds:
            both = zip(bound.worths(free), bound.worths(after, self.leaf), strict=False)
            for (before, prices), (now, _) in both:
                holds &= with_gain(before, now) >= room.cost(prices)
        helps = np.zeros(self.count, dtype=np.bool_)
        helps[once[holds] // domains] = True
        return helps
