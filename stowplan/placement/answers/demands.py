"""What a gang still asks for: each podset's pods without a node, and where they may go."""

from dataclasses import dataclass, replace

import numpy as np

from stowplan.placement.answers.domains import UNCUT, Cut, Cuts, Mask
from stowplan.placement.cluster import Cluster
from stowplan.placement.gangs import Gang
from stowplan.placement.podsets.complete import part_of
from stowplan.placement.podsets.plan import NoFit, Plan, plan_of
from stowplan.placement.podsets.podset import PodSet
from stowplan.placement.request import Layer, TopologyRequest
from stowplan.placement.shapes import ask_of
from stowplan.topology.fit import MOST_PODS, Ask, allowed_leaves
from stowplan.topology.levels import Levels
from stowplan.topology.tree import Quantity, Room

Leaves = Quantity | slice  # which leaves, counted from the first one
EVERY = slice(None)


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
    """Return what the podset asks for; a part of a gang need not be whole slices."""
    if gang.is_part and not gang.bound:
        return part_of(podset.request, podset.count)
    return podset.request


def demands_of(cluster: Cluster, gang: Gang, now: float) -> tuple[Demand, ...] | NoFit:
    """Return what has no place yet, podset by podset; or why no room would help a podset."""
    demands = []
    for at, podset in enumerate(waiting(gang)):
        # Pods that run already need not be whole slices, so those that are missing need not be
        # either; without a plan they count one by one.
        plan = None if gang.bound else _plan(cluster, gang, podset)
        if isinstance(plan, NoFit):
            return plan
        if podset.count:
            demands.append(_demand(cluster, gang, at, podset, plan, now))
    return tuple(demands)


def is_exact(gang: Gang, demand: Demand) -> bool:
    """Whether the counts of a gang's only demand decide whether it fits."""
    request = demand.podset.request
    if gang.bound:
        return not request.slices and request.share is None
    shared = any(cut.most < UNCUT for cut in demand.cuts)
    return not (shared and any(cut.rest for cut in demand.cuts))


def _plan(cluster: Cluster, gang: Gang, podset: PodSet) -> Plan | NoFit:
    """Return what the podset asks for in level numbers."""
    policy = cluster.policy
    profile = podset.packing or policy.packing
    weighed = bool(podset.preferred) and policy.weigh_affinity
    return plan_of(policy.levels, _request(gang, podset), profile, weighed, policy.rules)


def _demand(
    cluster: Cluster, gang: Gang, at: int, podset: PodSet, plan: Plan | None, now: float
) -> Demand:
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
        smaller = not drops and (gang.is_part or podset.request.last_slice == "smaller")
        need = pods - pods % size if drops else pods
        cuts = _cuts(levels, plan, plan.layers, pods, pods % size if smaller else 0)
        # The last slice of fewer pods may be anything below a whole one, and inner layers then
        # count or do not.
        layers = plan.layers[:1] if gang.is_part else plan.layers
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
