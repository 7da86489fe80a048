"""How many pods of a gang each domain could hold: what explanations and advice count with.

The counts are those of phase 1 (domain-fit, section 3), of a changed cluster as easily as of the
real one. For one podset without a leader they decide whether it fits. Unlike podsets are counted
each by itself, and bounded together: that rules domains out without a try.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stowplan.placement.answers.demands import Demand, demands_of, is_exact
from stowplan.placement.answers.domains import ALL, Mask, bounds, candidates, count, sums
from stowplan.placement.answers.joint import Bound, bounds_on
from stowplan.placement.cluster import Cluster
from stowplan.placement.gangs import Gang
from stowplan.placement.podsets.plan import NoFit
from stowplan.placement.podsets.roles import groups_of
from stowplan.placement.state import View
from stowplan.topology.tree import Quantity, Room

OUTSIDE = -1  # a leaf that no domain has: the node is not in the tree
MOST_TRIES = 16  # placements tried in vain for one answer, where counting does not decide


@dataclass(frozen=True, slots=True)
class Together:
    """Demands that share one domain.

    Attributes:
        demands: positions in ``Headroom.demands``; a leader comes first.
        level: the level whose one domain must hold them; ``ALL`` where several domains will do.
        home: leaves of those of their podsets' pods that run already.
        bounds: what limits them all together.
    """

    demands: tuple[int, ...]
    level: int
    home: tuple[int, ...]
    bounds: tuple[Bound, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Headroom:
    """The counts of one gang on one state of the cluster; void when either changes.

    Attributes:
        view: the cluster.
        demands: what has no place yet, podset by podset.
        groups: which of them share a domain.
        home: leaves of all pods of the gang that run already, perhaps ``OUTSIDE``.
        leader: position in ``demands`` of the pod that leads another podset; None for none.
        exact: the counts alone decide whether the gang fits.
    """

    view: View
    demands: tuple[Demand, ...]
    groups: tuple[Together, ...]
    home: tuple[int, ...]
    leader: int | None
    exact: bool

    @classmethod
    def of(cls, cluster: Cluster, gang: Gang, now: float) -> "Headroom | None":
        """Return the counts; None where room cannot help: no node, or a level that is unknown."""
        view = cluster.state.view()
        demands = demands_of(cluster, gang, now)
        if isinstance(demands, NoFit) or not view.tree.leaf_count:
            return None
        runs: list[list[int]] = [[] for _ in gang.podsets]
        for at, pod in gang.bound:
            runs[at].append(view.leaf_of.get(pod.node, OUTSIDE))
        index = {demand.at: i for i, demand in enumerate(demands)}
        together, leader = [], None
        for group in groups_of(gang.podsets, range(len(gang.podsets)), view):
            first = sorted(group.positions, key=lambda at: at != group.leader)
            members = tuple(index[at] for at in first if at in index)
            home = tuple(leaf for at in first for leaf in runs[at])
            level = ALL if group.top is None else group.top
            if members:
                limits = bounds_on(view, members, demands)
                together.append(Together(members, level, home, limits))
            if group.leader in index:
                leader = index[group.leader]
        return cls(
            view=view,
            demands=demands,
            groups=tuple(together),
            home=tuple(leaf for leaves in runs for leaf in leaves),
            leader=leader,
            exact=len(demands) == 1 and is_exact(gang, demands[0]),
        )

    @property
    def needed(self) -> int:
        """How many pods must get a place."""
        return sum(demand.need for demand in self.demands)

    @property
    def everyone(self) -> Together:
        """All demands as one group, whose one domain may be of any level."""
        return Together(
            demands=tuple(i for group in self.groups for i in group.demands),
            level=ALL,
            home=self.home,
            bounds=tuple(bound for group in self.groups for bound in group.bounds),
        )

    def pods(self, free: Room) -> list[Quantity]:
        """Return for each demand (leaves,) how many of its pods fit when ``free`` is the room."""
        return [demand.pods_on(free) for demand in self.demands]

    def each_fits(self, free: Room) -> bool:
        """Whether each podset by itself would fit when ``free`` is the room."""
        pods = self.pods(free)
        return all(self.holds_each(group, group.level, pods).any() for group in self.groups)

    def holds_each(self, group: Together, level: int, pods: Sequence[Quantity]) -> Mask:
        """Return which domains of ``level`` hold each podset of the group by itself.

        Args:
            group: who must be together there.
            level: any level; what the group asks for is not read.
            pods: of each of all demands, what fits on each leaf.
        """
        tree = self.view.tree
        holds = candidates(tree, level, group.home)
        for demand, fits in ((self.demands[i], pods[i]) for i in group.demands):
            holds &= count(tree, fits, level, demand.cuts) >= demand.need
        return holds

    def may_hold(self, group: Together, level: int) -> Mask:
        """Return for each domain of ``level`` whether nothing rules out that it holds the group."""
        free = self.view.leaves.free
        at = bounds(self.view.tree, level)
        holds = self.holds_each(group, level, self.pods(free))
        for bound in group.bounds if holds.any() else ():
            for worth, prices in bound.worths(free):
                holds &= sums(worth, at) >= self.cost(prices)
        return holds

    def cost(self, prices: dict[int, int]) -> int:
        """Return what all pods cost that must get a place."""
        return sum(price * self.demands[i].need for i, price in prices.items())

    def most_of(self, i: int) -> int:
        """Return how many pods of one demand nothing rules out, beside all of the others."""
        tree, free, demand = self.view.tree, self.view.leaves.free, self.demands[i]
        if not all(self.may_hold(g, g.level).any() for g in self.groups if i not in g.demands):
            return 0
        group = next(group for group in self.groups if i in group.demands)
        at, pods = bounds(tree, group.level), self.pods(free)
        others = Together(
            tuple(j for j in group.demands if j != i), group.level, group.home, group.bounds
        )
        holds = self.holds_each(others, group.level, pods)
        fits = count(tree, pods[i], group.level, demand.cuts_of_fewer)
        for bound in group.bounds:
            for worth, prices in bound.worths(free):
                if i in prices:
                    left = sums(worth, at) - (self.cost(prices) - prices[i] * demand.need)
                    fits = np.minimum(fits, left // prices[i])
        return max(int(fits[holds].max(initial=0)), 0)
