"""What unlike podsets can have side by side at most: bounds that no placement exceeds.

Give each podset's pods a price. No placement in a domain is worth more than the sum of what each
of its nodes can be worth, so where that is less than the pods of all podsets cost, they cannot all
be there. Prices may be what pods ask of one resource; or what one pod of a podset is worth in pods
of another, read off how nodes trade them.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from math import gcd

import numpy as np

from stowplan.placement.answers.demands import EVERY, Demand, Leaves
from stowplan.placement.answers.domains import Mask
from stowplan.placement.state import View
from stowplan.topology.tree import Quantity, Room

_MOST_ROWS = 128  # pods of one podset on one node; trades of more are not looked at
_MOST_PRICES = 16  # of one pair of podsets
_MOST_PAIRS = 10

Prices = dict[int, int]  # position of a demand -> what one of its pods costs


@dataclass(frozen=True, slots=True, eq=False)
class InSum:
    """All podsets together ask no more of one resource than there is.

    Attributes:
        row: which resource.
        prices: how much of it each pod asks for.
        anywhere: (leaves,) where a pod of any of them may go.
    """

    row: int
    prices: Prices
    anywhere: Mask

    def worths(self, free: Room, leaves: Leaves = EVERY) -> Iterator[tuple[Quantity, Prices]]:
        """Yield what each of ``leaves`` is worth at most, and at which prices."""
        there = np.where(self.anywhere[leaves], np.maximum(free[self.row], 0), 0)
        yield there.astype(np.int64), self.prices


@dataclass(frozen=True, slots=True, eq=False)
class InTrade:
    """Two podsets get no more than nodes can hold of both.

    Attributes:
        at: positions of the two demands.
        first: the one with fewer pods on a node.
        second: the other one.
        prices: of a pod of each.
    """

    at: tuple[int, int]
    first: Demand
    second: Demand
    prices: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, view: View, at: tuple[int, int], demands: Sequence[Demand]) -> "InTrade":
        """Read the prices off the nodes as they are, and as they would be if they were empty."""
        most = [int(demands[i].pods_on(view.total).max(initial=0)) for i in at]
        i, j = at if most[0] <= most[1] else at[::-1]
        made = cls((i, j), demands[i], demands[j], ())
        seen: Counter[tuple[int, int]] = Counter()
        for free in (view.total, view.leaves.free):
            for column in np.unique(made._trades(free, EVERY), axis=1).T.tolist():
                seen.update(_prices(column))
        prices = sorted(seen, key=lambda price: (-seen[price], price))[:_MOST_PRICES]
        return cls((i, j), demands[i], demands[j], tuple(prices))

    def worths(self, free: Room, leaves: Leaves = EVERY) -> Iterator[tuple[Quantity, Prices]]:
        """Yield what each of ``leaves`` is worth at most, and at which prices."""
        seconds = self._trades(free, leaves)
        firsts = np.arange(len(seconds))[:, None]
        for p, q in self.prices if seconds.size else ():
            worth = np.where(seconds >= 0, p * firsts + q * seconds, 0).max(axis=0)
            yield worth, {self.at[0]: p, self.at[1]: q}

    def _trades(self, free: Room, leaves: Leaves) -> Quantity:
        """Return (n, leaves) pods of the second podset beside 0 to n - 1 of the first; -1 for none.

        Nobody needs more of either than there are. Empty where there are too many to look at.
        """
        firsts = np.minimum(self.first.pods_on(free, leaves), self.first.need)
        most = int(firsts.max(initial=0))
        if most > _MOST_ROWS:
            return np.empty((0, firsts.size), dtype=np.int64)
        rows, left = [], free.copy()
        for pods in range(most + 1):
            seconds = np.minimum(self.second.pods_on(left, leaves), self.second.need)
            rows.append(np.where(firsts >= pods, seconds, -1))
            left[self.first.ask.rows] -= self.first.ask.amounts[:, None]
        return np.stack(rows)


Bound = InSum | InTrade


def bounds_on(view: View, at: Sequence[int], demands: Sequence[Demand]) -> tuple[Bound, ...]:
    """Return what limits the demands at positions ``at`` when all of them are in one domain."""
    if len(at) < 2:
        return ()
    anywhere = np.logical_or.reduce([demands[i].allowed for i in at])
    asked: dict[int, Prices] = {}
    for i in at:
        ask = demands[i].ask
        for row, amount in zip(ask.rows.tolist(), ask.amounts.tolist(), strict=True):
            asked.setdefault(row, {})[i] = int(amount)
    in_sum = (InSum(row, prices, anywhere) for row, prices in asked.items())
    pairs = islice(combinations(at, 2), _MOST_PAIRS)
    return (*in_sum, *(InTrade.of(view, pair, demands) for pair in pairs))


def _prices(seconds: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield how many of the second podset's pods a node gives up for how many of the first's."""
    for pods in range(1, len(seconds)):
        for back in {1, pods}:
            given = seconds[pods - back] - seconds[pods]
            if seconds[pods] >= 0 and given > 0:
                common = gcd(given, back)
                yield given // common, back // common
