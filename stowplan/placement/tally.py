"""How many pods of a gang fit into each domain when its podsets go in one after another."""

from dataclasses import dataclass

import numpy as np

from stowplan.placement import reasons
from stowplan.placement.domains import Mask, bounds, candidates, count, first_of
from stowplan.placement.headroom import Headroom
from stowplan.topology.tree import Quantity, Room

# What a domain is short of when no resource is to blame, beside what ``reasons`` knows.
NODES_EXCLUDED = "every node was refused for the gang a short while ago"
RUNS_ELSEWHERE = "pods of the gang run in another domain"


@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """What each domain of one level holds of each demand beside those before it.

    Attributes:
        room: the gang and the cluster.
        level: whose domains; ``ALL`` for the whole cluster.
        order: positions of the demands, a leader ahead of its workers.
        placed: for each of them (domains,) how many pods fit; of several no more than it needs.
        before: for each of them the room that it found.
        shown: (domains,) those worth telling of: the gang may ask for them.
    """

    room: Headroom
    level: int
    order: tuple[int, ...]
    placed: tuple[Quantity, ...]
    before: tuple[Room, ...]
    shown: Mask

    @classmethod
    def of(cls, room: Headroom, level: int) -> "Tally":
        """Put the demands into every domain at once, each onto the nodes with least room first."""
        tree, free = room.view.tree, room.view.leaves.free
        order = tuple(i for group in room.groups for i in group.demands)
        at = bounds(tree, level)
        domain_of = np.repeat(np.arange(at.size - 1), np.diff(at))
        placed, before = [], []
        for demand in (room.demands[i] for i in order):
            pods = demand.pods_on(free)
            fits = count(tree, pods, level, demand.cuts)
            before.append(free)
            if len(order) > 1:
                fits = np.minimum(fits, demand.need)
                tight_first = np.lexsort((pods, domain_of))
                taken = np.zeros_like(pods)
                taken[tight_first] = first_of(pods[tight_first], at, fits)
                free = free.copy()
                free[demand.ask.rows] -= demand.ask.amounts[:, None] * taken
            placed.append(fits)
        shown = candidates(tree, level, room.home)
        if not shown.any():  # the gang runs in several, so that none of them can hold it
            shown = candidates(tree, level, ())
        return cls(room, level, order, tuple(placed), tuple(before), shown)

    @property
    def fits(self) -> Quantity:
        """(domains,) how many pods fit, of all demands together."""
        return np.asarray(np.sum(self.placed, axis=0), dtype=np.int64)

    def shortage(self, d: int) -> tuple[int, str]:
        """Return the demand that domain ``d`` is short for, and of what, or why no node serves.

        It is the first demand that did not get all that it needs. What lacks is the resource of
        which the fewest pods could be served if each were the only one asked for; of equals the
        first by name (domain-fit, section 13).
        """
        view = self.room.view
        low, high = bounds(view.tree, self.level)[[d, d + 1]].tolist()
        needs = [self.room.demands[i].need for i in self.order]
        short = [k for k, need in enumerate(needs) if self.placed[k][d] < need]
        k = short[0] if short else needs.index(max(needs))
        at, free = self.order[k], self.before[k][:, low:high]
        if not candidates(view.tree, self.level, self.room.home)[d]:
            return at, RUNS_ELSEWHERE
        demand = self.room.demands[at]
        allowed = demand.allowed[low:high]
        if not view.leaves.usable[low:high].any():
            return at, reasons.NO_NODE_USABLE
        if not demand.passes[low:high].any():
            return at, reasons.NO_NODE_PASSES
        if not allowed.any():
            return at, NODES_EXCLUDED
        each = np.floor(free[demand.ask.rows][:, allowed] / demand.ask.amounts[:, None])
        served = np.clip(each, 0, demand.podset.count).sum(axis=1)
        return at, demand.podset.amounts[int(np.argmin(served))][0]

    def scarcest(self) -> str:
        """Return what the domain that holds most is short of."""
        return self.shortage(int(np.argmax(np.where(self.shown, self.fits, -1))))[1]
