"""Places for the pods of lost nodes; all others stay (domain-fit, section 11).

By Kueue's rules only the first lost node is replaced, and where its pods may go is one region. Ours
is ``complete``: all lost nodes at once, every broken slice mended where it lies.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from stowplan.placement.kueue.assignment import Assignment
from stowplan.placement.kueue.places import assignment_of, leaf_of
from stowplan.placement.podsets.complete import Places, complete
from stowplan.placement.podsets.plan import NoFit
from stowplan.placement.podsets.podset import Assigned, PodSet, Region, fit
from stowplan.placement.request import Layer, Profile, TopologyRequest
from stowplan.placement.rules import STOWPLAN, Rules
from stowplan.placement.shapes import Shapes
from stowplan.placement.state import ClusterState, View
from stowplan.topology.tree import Index


def replace_lost(
    state: ClusterState,
    shapes: Shapes,
    podset: PodSet,
    assigned: Assignment,
    lost: Sequence[str],
    profile: Profile,
    rules: Rules = STOWPLAN,
) -> Assignment | NoFit:
    """Return the assignment with the pods of ``lost`` hosts on other hosts.

    Args:
        state: the cluster; what pods that stay use is taken off already where they are bound.
        shapes: warm counts.
        podset: as it was placed.
        assigned: where its pods are; only with a host level can a node be lost.
        lost: hosts, in the order in which they were found.
        profile: for a podset that names none.
        rules: ours, or Kueue's.

    Returns:
        The same assignment when none of its hosts is lost. ``NoFit`` of kind "stale" by Kueue's
        rules, when another of its domains is gone; by ours that is a lost host like the others.
    """
    view = state.view()
    gone = set(lost[:1] if rules.one_lost_node else lost)
    if not rules.one_lost_node:
        gone |= {path[-1] for path, _ in assigned.domains if leaf_of(view, path) is None}
    kept = tuple((path, count) for path, count in assigned.domains if path[-1] not in gone)
    missing = assigned.count - sum(count for _, count in kept)
    if not missing:
        return assigned
    stale = next((path for path, _ in kept if leaf_of(view, path) is None), None)
    if stale is not None:
        return NoFit("stale", stale[-1])
    places = [(at, count) for path, count in kept if (at := leaf_of(view, path)) is not None]
    out = [at for host in gone if (at := view.leaf_of.get(host)) is not None]
    excluded = np.array(out, dtype=np.int32)
    if not rules.one_lost_node:
        found = complete(state, shapes, podset, places, missing, profile, rules, excluded)
    else:
        found = _as_kueue(view, shapes, podset, places, missing, profile, rules, excluded)
    if isinstance(found, NoFit):
        return found
    return assignment_of(view, (Counter(dict(places)) + Counter(dict(found.leaves))).items())


def waits_for_its_owner(owner_kinds: Sequence[str], pod_group: bool) -> bool:
    """Whether a workload keeps its assignment: its one Pod, made again, will be a new workload."""
    return list(owner_kinds) == ["Pod"] and not pod_group


def _as_kueue(
    view: View,
    shapes: Shapes,
    podset: PodSet,
    places: Places,
    missing: int,
    profile: Profile,
    rules: Rules,
    excluded: Index,
) -> Assigned | NoFit:
    domain, request = allowed_region(view, podset.request, places, missing)
    if domain is not None:
        low, high = view.tree.leaves_under(domain)
        outside = [*range(low), *range(high, view.tree.leaf_count)]
        excluded = np.union1d(excluded, outside).astype(np.int32)
    part = replace(podset, count=missing, leader=None, request=request)
    return fit(view, shapes, part, podset.packing or profile, Region(None, excluded), rules)


def allowed_region(
    view: View, request: TopologyRequest, places: Places, missing: int
) -> tuple[int | None, TopologyRequest]:
    """Return the domain that lost pods may go to by Kueue's rules, and their request there.

    None is the whole tree. Where a slice was broken it is that slice's domain, and the innermost
    layer that the lost pods fill is what stays together.
    """
    layers = request.slices
    if not places:
        return None, request
    if layers and missing % layers[0].size:
        whole = [layer for layer in layers if missing % layer.size == 0]
        part = replace(request, slice_level=None, slice_size=None, layers=tuple(whole[-1:]))
        broken = next(layer for layer in reversed(layers) if missing % layer.size)
        return _broken_domain(view, broken, places, missing), part
    if request.required in view.tree.levels.keys:
        level = view.tree.levels.keys.index(request.required)
        return view.tree.ancestor(view.tree.first_leaf + places[0][0], level), request
    return None, request


def _broken_domain(view: View, layer: Layer, places: Places, missing: int) -> int | None:
    """Return the first domain of a layer that the lost pods make whole again."""
    if layer.level not in view.tree.levels.keys:
        return None
    level = view.tree.levels.keys.index(layer.level)
    pods: Counter[int] = Counter()
    for leaf, count in places:
        pods[view.tree.ancestor(view.tree.first_leaf + leaf, level)] += count
    return next((d for d, n in pods.items() if (n + missing) % layer.size == 0), None)
