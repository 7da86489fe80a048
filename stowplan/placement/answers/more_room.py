"""How much more of one resource makes a gang of one plain podset fit, and on which nodes.

The first pod more on a node costs what is missing there, every further one a whole request. Where
part of a request is free the first is cheap, so such nodes come first, the cheapest ahead. Where
the node is overcommitted the first is dear: such nodes are needed only when the others cannot take
all pods, and which of them to take is then a knapsack, solved exactly.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from stowplan.placement.answers.answer import MoreRoom
from stowplan.placement.answers.domains import ALL, bounds, candidates, path_of, sums
from stowplan.placement.answers.headroom import Headroom
from stowplan.placement.answers.workloads import freed
from stowplan.placement.cluster import Cluster
from stowplan.placement.gangs import Gang
from stowplan.placement.ledger import Reservation
from stowplan.placement.placing import place_gang
from stowplan.placement.state import ClusterState
from stowplan.topology.fit import MOST_PODS
from stowplan.topology.tree import Quantity

_NEVER = 1 << 62


def more_room(
    cluster: Cluster, gang: Gang, room: Headroom, scarce: str, now: float
) -> list[MoreRoom]:
    """Return for each resource the least that alone makes the gang fit; ``scarce`` comes first.

    Of equal amounts one that could come from what runs there, then on fewest nodes, then in the
    first domain. Nothing for gangs of unlike podsets, with slices or with a share.
    """
    if not _is_plain(room):
        return []
    names = [name for name, _ in room.demands[0].podset.amounts]
    found = []
    for name in sorted(names, key=lambda name: (name != scarce, name)):
        change = _least(room, names.index(name))
        if change is not None:
            with offered(cluster.state, change):
                fits = isinstance(place_gang(cluster, gang, now), Reservation)
            if fits:
                found.append(change)
    return found


def _is_plain(room: Headroom) -> bool:
    """Whether pods are counted one by one."""
    if len(room.demands) != 1:
        return False
    request = room.demands[0].podset.request
    return not request.slices and request.share is None


@dataclass(frozen=True, slots=True)
class Purchase:
    """What to add where, and how good it is; less is better.

    Attributes:
        amount: how much in all.
        beyond: how many of the pods would not even fit if nothing else ran on their nodes.
        nodes: how many leaves get something.
        domain: in which domain.
        on: the leaves, and how much each gets.
    """

    amount: int
    beyond: int
    nodes: int
    domain: int
    on: tuple[tuple[int, int], ...]

    @property
    def price(self) -> tuple[int, int, int, int]:
        """What is compared."""
        return self.amount, self.beyond, self.nodes, self.domain


@dataclass(frozen=True, slots=True, eq=False)
class Prices:
    """What more pods cost on each leaf, in units of one resource.

    Attributes:
        each: what every pod asks for.
        pods: (leaves,) how many fit now.
        gains: (leaves,) how many more could fit before something else runs out.
        freeable: (leaves,) how many of those would fit if only the leaf were empty.
        extra: (leaves,) what the first of them costs beyond ``each``: less than 0 where part of it
            is free, more where the node is overcommitted.
    """

    each: int
    pods: Quantity
    gains: Quantity
    freeable: Quantity
    extra: Quantity

    @classmethod
    def of(cls, room: Headroom, resource: int) -> "Prices":
        """Count for one resource, by its position, of the only demand."""
        demand, view = room.demands[0], room.view
        free, rows, amounts = view.leaves.free, demand.ask.rows, demand.ask.amounts
        others = np.arange(rows.size) != resource
        most = np.full(free.shape[1], float(MOST_PODS))
        if others.any():
            most = np.floor((free[rows[others]] / amounts[others, None]).min(axis=0))
        most = np.where(demand.allowed, np.clip(most, 0, MOST_PODS), 0)
        pods, each, row = demand.pods_on(free), int(amounts[resource]), rows[resource]
        gains = np.clip(most.astype(np.int64) - pods, 0, demand.need)
        empty = view.total[row].astype(np.int64) // each
        extra = pods * each - free[row].astype(np.int64)
        return cls(each, pods, gains, np.clip(empty - pods, 0, gains), extra)

    def cheapest(self, domain: int, low: int, high: int, pods: int) -> Purchase:
        """Return the best way to give leaves ``low`` up to ``high`` room for so many pods more.

        Their gains must be enough.
        """
        gains, freeable = self.gains[low:high], self.freeable[low:high]
        extra = self.extra[low:high]
        bought = np.zeros_like(gains)

        def buy(leaves: Quantity, upto: Quantity) -> None:
            spare = np.maximum(upto[leaves] - bought[leaves], 0)
            left = pods - int(bought.sum()) - (np.cumsum(spare) - spare)
            bought[leaves] += np.clip(left, 0, spare)

        cheap = np.flatnonzero((gains > 0) & (extra < 0))
        cheap = cheap[np.argsort(extra[cheap], kind="stable")]
        even = np.flatnonzero((gains > 0) & (extra == 0))
        even = even[np.argsort(-freeable[even], kind="stable")]
        buy(cheap, np.ones_like(gains))
        used = cheap[bought[cheap] > 0]
        for upto in (freeable, gains):
            buy(used, upto)
            buy(even, upto)
        if left := pods - int(bought.sum()):
            dear = np.flatnonzero((gains > 0) & (extra > 0))
            buy(dear[_cover(extra[dear], gains[dear], left)], gains)
        on = np.flatnonzero(bought)
        amounts = bought[on] * self.each + extra[on]
        return Purchase(
            amount=int(amounts.sum()),
            beyond=int(np.maximum(bought - freeable, 0).sum()),
            nodes=int(on.size),
            domain=domain,
            on=tuple(zip((on + low).tolist(), amounts.tolist(), strict=True)),
        )


def _cover(costs: Quantity, gains: Quantity, need: int) -> list[int]:
    """Return which items cost least together and gain ``need`` or more."""
    least = np.full(need + 1, _NEVER)  # by what is still to be gained
    least[0] = 0
    taken = np.zeros((costs.size, need + 1), dtype=np.bool_)
    left = np.arange(need + 1)
    for item, (cost, gain) in enumerate(zip(costs.tolist(), gains.tolist(), strict=True)):
        with_it = np.minimum(least[np.maximum(left - gain, 0)] + cost, _NEVER)
        taken[item] = with_it < least
        least = np.minimum(least, with_it)
    chosen = []
    for item in range(costs.size - 1, -1, -1):
        if need > 0 and taken[item, need]:
            chosen.append(item)
            need -= int(gains[item])
    return chosen[::-1]


def _least(room: Headroom, resource: int) -> MoreRoom | None:
    """Return the least amount of one resource that is enough in one domain of the asked level."""
    tree, demand, group = room.view.tree, room.demands[0], room.groups[0]
    keys, preferred = tree.levels.keys, demand.podset.request.preferred
    level = keys.index(preferred) if group.level == ALL and preferred in keys else group.level
    prices, at = Prices.of(room, resource), bounds(tree, level)
    if group.level == ALL:  # what is free elsewhere serves as well
        lack = np.full(at.size - 1, demand.need - int(prices.pods.sum()))
        useful = candidates(tree, level, ())
    else:
        lack = demand.need - sums(prices.pods, at)
        useful = candidates(tree, level, group.home)
    useful &= (lack > 0) & (sums(prices.gains, at) >= lack)
    saved = np.where(prices.gains > 0, np.minimum(prices.extra, 0), 0)
    at_least = lack * prices.each + sums(saved, at)
    best: Purchase | None = None
    domains = np.flatnonzero(useful)
    for d in domains[np.argsort(at_least[domains], kind="stable")].tolist():
        if best is not None and (int(at_least[d]), 0, 1, d) >= best.price:
            break
        found = prices.cheapest(d, int(at[d]), int(at[d + 1]), int(lack[d]))
        if best is None or found.price < best.price:
            best = found
    if best is None:
        return None
    row, view = demand.ask.rows[resource], room.view
    lacking = (view.leaves.free[row] - view.total[row]).astype(np.int64)  # below 0 by what runs
    return MoreRoom(
        resource=demand.podset.amounts[resource][0],
        amount=best.amount,
        domain=path_of(tree, level, best.domain),
        nodes=tuple((_node_on(room, leaf), amount) for leaf, amount in best.on),
        beyond=sum(max(int(lacking[leaf]) + amount, 0) for leaf, amount in best.on),
    )


def _node_on(room: Headroom, leaf: int) -> str:
    """Return the node that may get more: that of the leaf, or of several the first usable one."""
    tree = room.view.tree
    names = tree.nodes[tree.node_start[leaf] : tree.node_start[leaf + 1]]
    return next(name for name in names if room.view.nodes[name].usable)


@contextmanager
def offered(state: ClusterState, change: MoreRoom) -> Iterator[None]:
    """Let there be more room for a while; in the end nothing has happened."""
    if change.resource in state.view().rows:
        more = [(name, ((change.resource, amount),)) for name, amount in change.nodes]
        with freed(state, more):
            yield
        return
    generation = state.generation
    before = [state.nodes[name] for name, _ in change.nodes]
    try:
        for node, (_, amount) in zip(before, change.nodes, strict=True):
            offers = tuple(sorted((*node.allocatable, (change.resource, amount))))
            state.set_node(replace(node, allocatable=offers))
        yield
    finally:
        for node in before:
            # The arrays got a row for the new resource, which only building them anew takes away.
            state.remove_node(node.name)
            state.set_node(node)
        state.generation = generation
