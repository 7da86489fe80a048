"""How many pods of a gang fit into each domain when its podsets go in one after another."""

from dataclasses import dataclass

import numpy as np

from stowplan.placement import reasons
from stowplan.placement.answers.domains import UNCUT, Mask, bounds, candidates, count, first_of
from stowplan.placement.answers.headroom import Headroom
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
        open: (domains,) those that the gang may ask for: named, and all that runs of it is there.
    """

    room: Headroom
    level: int
    order: tuple[int, ...]
    placed: tuple[Quantity, ...]
    before: tuple[Room, ...]
    open: Mask

    @classmethod
    def of(cls, room: Headroom, level: int) -> "Tally":
        """Put the demands into every domain at once, each onto the nodes with least room first."""
        tree, free = room.view.tree, room.view.leaves.free
        order = room.everyone.demands
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
        found = tuple(placed), tuple(before), candidates(tree, level, room.home)
        return cls(room, level, order, *found)

    @property
    def fits(self) -> Quantity:
        """(domains,) how many pods fit, of all demands together.

        Where counting does not decide it is less than all: what goes in one after another is not
        what is placed, and does not heed every rule.
        """
        fits: Quantity = np.sum(self.placed, axis=0)
        return fits if self.room.exact else np.minimum(fits, self.room.needed - 1)

    def closest(self) -> list[int]:
        """Return the domains to tell of, the one that lacks least first, of equals the first.

        Those are the ones that the gang may ask for; if it runs in several at once, all.
        """
        shown = self.open
        if not shown.any():
            shown = candidates(self.room.view.tree, self.level, ())
        order = np.argsort(-self.fits, kind="stable")
        found: list[int] = order[shown[order]].tolist()
        return found

    def shortage(self, d: int) -> tuple[int, str]:
        """Return the demand that domain ``d`` is short for, and of what, or why no node serves.

        It is the first demand that did not get all that it needs; where each did, of those with the
        finest level the one that needs most. What lacks is the resource of which the fewest pods
        could be served if each were the only one asked for; of equals the first by name
        (domain-fit, section 13). Where resources would do, it is a share that is too small.
        """
        view = self.room.view
        low, high = bounds(view.tree, self.level)[[d, d + 1]].tolist()
        needs = [self.room.demands[i].need for i in self.order]
        short = [k for k, need in enumerate(needs) if self.placed[k][d] < need]
        k = short[0] if short else max(range(len(needs)), key=lambda k: (self._level(k), needs[k]))
        at, free = self.order[k], self.before[k][:, low:high]
        if not self.open[d]:
            return at, RUNS_ELSEWHERE
        demand = self.room.demands[at]
        allowed = demand.allowed[low:high]
        if not view.leaves.usable[low:high].any():
            return at, reasons.NO_NODE_USABLE
        if not demand.passes[low:high].any():
            return at, reasons.NO_NODE_PASSES
        if not allowed.any():
            return at, NODES_EXCLUDED
        if demand.podset.request.share is not None and self._whole_but_for_a_share(k, d):
            return at, reasons.KEPT_APART
        each = np.floor(free[demand.ask.rows][:, allowed] / demand.ask.amounts[:, None])
        served = np.clip(each, 0, demand.podset.count).sum(axis=1)
        return at, demand.podset.amounts[int(np.argmin(served))][0]

    def _whole_but_for_a_share(self, k: int, d: int) -> bool:
        demand = self.room.demands[self.order[k]]
        cuts = tuple(cut for cut in demand.cuts if cut.most == UNCUT)
        pods = demand.pods_on(self.before[k])
        return bool(count(self.room.view.tree, pods, self.level, cuts)[d] >= demand.need)

    def scarcest(self) -> str:
        """Return what the domain that lacks least is short of."""
        told = self.closest()
        return self.shortage(told[0])[1] if told else ""

    def _level(self, k: int) -> int:
        """Return the level that the ``k``-th demand in order must have one domain of."""
        return next(group.level for group in self.room.groups if self.order[k] in group.demands)
