"""How many pods of a gang each domain could hold: what explanations and advice count with.

The counts are those of phase 1 (domain-fit, section 3), of a changed cluster as easily as of the
real one. For one podset without a leader they decide whether it fits. Unlike podsets are counted
each by itself, and all together by what they ask for in sum: that rules domains out without a try.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from stowplan.placement.cluster import Cluster
from stowplan.placement.complete import part_of
from stowplan.placement.domains import ALL, UNCUT, Cut, Cuts, Mask, bounds, candidates, count, sums
from stowplan.placement.gangs import Gang
from stowplan.placement.plan import NoFit, Plan, plan_of
from stowplan.placement.podset import PodSet
from stowplan.placement.request import Layer, TopologyRequest
from stowplan.placement.roles import groups_of
from stowplan.placement.shapes import ask_of
from stowplan.placement.state import View
from stowplan.topology.fit import MOST_PODS, Ask, allowed_leaves
from stowplan.topology.levels import Levels
from stowplan.topology.tree import Quantity, Room

Leaves = Quantity | slice  # which leaves, counted from the first one
EVERY = slice(None)
OUTSIDE = -1  # a leaf that no domain has: the node is not in the tree


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """Equal pods that have no place yet.

    Attributes:
        at: position of their podset in the gang.
        podset: what they are like; its count is how many have no place.
        need: how many of them must get one.
        ask: what each asks for, in rows of ``view.leaves.free``.
        passes: (leaves,) usable, and the pods' filters let them onto it.
        allowed: (leaves,) that, and not excluded for the gang.
        cuts: slices and shares.
        cuts_of_fewer: the same, but valid for any smaller number of the pods.
    """

    at: int
    podset: PodSet
    need: int
    ask: Ask
    passes: Mask
    allowed: Mask
    cuts: Cuts
    cuts_of_fewer: Cuts

    def pods_on(self, free: Room, leaves: Leaves = EVERY) -> Quantity:
        """Return how many of the pods each of ``leaves`` holds; ``free`` is the room of these."""
        pods = np.floor((free[self.ask.rows] / self.ask.amounts[:, None]).min(axis=0))
        return np.where(self.allowed[leaves], np.clip(pods, 0, MOST_PODS), 0).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Together:
    """Demands that share one domain.

    Attributes:
        demands: positions in ``Headroom.demands``; a leader comes first.
        level: the level whose one domain must hold them; ``ALL`` where several domains will do.
        home: leaves of those of their podsets' pods that run already.
    """

    demands: tuple[int, ...]
    level: int
    home: tuple[int, ...]


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
        podsets = waiting(gang)
        demands: list[Demand] = []
        for at, podset in enumerate(podsets):
            plan = None if gang.bound else _plan(cluster, gang, podset)
            if isinstance(plan, NoFit) or not view.tree.leaf_count:
                return None
            if podset.count:
                demands.append(_demand(cluster, gang, at, podset, plan, now))
        runs: list[list[int]] = [[] for _ in podsets]
        for at, pod in gang.bound:
            runs[at].append(view.leaf_of.get(pod.node, OUTSIDE))
        index = {demand.at: i for i, demand in enumerate(demands)}
        together, leader = [], None
        for group in groups_of(gang.podsets, range(len(podsets)), view):
            first = sorted(group.positions, key=lambda at: at != group.leader)
            members = tuple(index[at] for at in first if at in index)
            home = tuple(leaf for at in first for leaf in runs[at])
            if members:
                together.append(Together(members, ALL if group.top is None else group.top, home))
            if group.leader in index:
                leader = index[group.leader]
        return cls(
            view=view,
            demands=tuple(demands),
            groups=tuple(together),
            home=tuple(leaf for leaves in runs for leaf in leaves),
            leader=leader,
            exact=len(demands) == 1 and _is_exact(gang, demands[0]),
        )

    @property
    def needed(self) -> int:
        """How many pods must get a place."""
        return sum(demand.need for demand in self.demands)

    def may_fit(self, free: Room) -> bool:
        """Whether no count rules it out that the gang fits when ``free`` is the room."""
        pods = [demand.pods_on(free) for demand in self.demands]
        return all(self.may_hold(group, group.level, pods, free).any() for group in self.groups)

    def may_hold(self, group: Together, level: int, pods: Sequence[Quantity], free: Room) -> Mask:
        """Return for each domain of ``level`` whether no count rules it out for the group.

        Args:
            group: who must be together there.
            level: any level; what the group asks for is not read.
            pods: of each of all demands, what fits on each leaf.
            free: the room.
        """
        tree = self.view.tree
        holds = candidates(tree, level, group.home)
        for demand, fits in ((self.demands[i], pods[i]) for i in group.demands):
            holds &= count(tree, fits, level, demand.cuts) >= demand.need
        if len(group.demands) > 1:
            for row, asked in self.asked_of(group.demands).items():
                holds &= sums(self.room_of(group.demands, row, free), bounds(tree, level)) >= asked
        return holds

    def asked_of(self, demands: Sequence[int]) -> dict[int, int]:
        """Return how much the demands ask for in sum, by row."""
        asked: dict[int, int] = {}
        for demand in (self.demands[i] for i in demands):
            for row, amount in zip(
                demand.ask.rows.tolist(), demand.ask.amounts.tolist(), strict=True
            ):
                asked[row] = asked.get(row, 0) + demand.need * int(amount)
        return asked

    def room_of(
        self, demands: Sequence[int], row: int, free: Room, leaves: Leaves = EVERY
    ) -> Quantity:
        """Return how much of one resource is free on those of ``leaves`` where a demand may go."""
        anywhere = np.logical_or.reduce([self.demands[i].allowed[leaves] for i in demands])
        return np.where(anywhere, np.maximum(free[row], 0), 0).astype(np.int64)


def waiting(gang: Gang) -> tuple[PodSet, ...]:
    """Return the podsets of the gang, each with as many pods as have no node yet."""
    runs = [0] * len(gang.podsets)
    for at, _ in gang.bound:
        runs[at] += 1
    return tuple(
        replace(podset, count=max(podset.count - n, 0))
        for podset, n in zip(gang.podsets, runs, strict=True)
    )


def _request(gang: Gang, podset: PodSet) -> TopologyRequest:
    """Return what the podset asks for; the last wave of a gang that grows is no whole slices."""
    if gang.grows and not gang.bound:
        return part_of(podset.request, podset.count)
    return podset.request


def _plan(cluster: Cluster, gang: Gang, podset: PodSet) -> Plan | NoFit:
    """Return what the podset asks for in level numbers."""
    policy = cluster.policy
    profile = podset.packing or policy.packing
    weighed = bool(podset.preferred) and policy.weigh_affinity
    return plan_of(policy.levels, _request(gang, podset), profile, weighed, policy.rules)


def _demand(
    cluster: Cluster, gang: Gang, at: int, podset: PodSet, plan: Plan | None, now: float
) -> Demand:
    """Return what is asked for; without a plan pods count one by one.

    Pods that run already need not be whole slices, so those that are missing need not be either.
    """
    view = cluster.state.view()
    ask = ask_of(podset.amounts, podset.filters, view)
    passes = allowed_leaves(view.leaves, ask)
    allowed = passes.copy()
    excluded = cluster.ledger.excluded(gang.id, now)
    allowed[[view.leaf_of[name] for name in excluded if name in view.leaf_of]] = False
    pods, need = podset.count, podset.count
    cuts: Cuts = ()
    cuts_of_fewer: Cuts = ()
    if plan is not None:
        levels, size = cluster.policy.levels, plan.slicing.size
        drops = cluster.policy.rules.rest_is_dropped
        smaller = not drops and (gang.grows or podset.request.last_slice == "smaller")
        need = pods - pods % size if drops else pods
        cuts = _cuts(levels, plan, plan.layers, pods, pods % size if smaller else 0)
        # The last slice of fewer pods may be anything below a whole one, and inner layers then
        # count or do not.
        layers = plan.layers[:1] if gang.grows else plan.layers
        cuts_of_fewer = _cuts(levels, plan, layers, pods, size - 1 if smaller else 0)
    return Demand(at, podset, need, ask, passes, allowed, cuts, cuts_of_fewer)


def _cuts(levels: Levels, plan: Plan, layers: tuple[Layer, ...], pods: int, rest: int) -> Cuts:
    """Return what keeps so many pods together and apart; the last slice has ``rest`` pods."""
    cuts = [Cut(levels.keys.index(layer.level), layer.size) for layer in layers]
    if cuts:
        cuts[0] = replace(cuts[0], rest=rest)
    if plan.share is not None and pods > (most := plan.share.of(pods)):
        size = plan.slicing.size if plan.share_level < plan.slicing.level else 1
        cuts.append(Cut(plan.share_level, size, most, named=False))
    return tuple(sorted(cuts, key=lambda cut: (-cut.level, cut.named)))


def _is_exact(gang: Gang, demand: Demand) -> bool:
    """Whether the counts of a gang's only demand decide whether it fits."""
    request = demand.podset.request
    if gang.bound:
        return not request.slices and request.share is None
    shared = any(cut.most < UNCUT for cut in demand.cuts)
    return not (shared and any(cut.rest for cut in demand.cuts))
