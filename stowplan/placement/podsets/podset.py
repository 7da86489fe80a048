"""One podset -> pods per leaf, or why it does not fit (domain-fit, sections 5, 6 and 13)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from stowplan.placement.filters import NODE_NAME_FIELD, Filters, Weights
from stowplan.placement.podsets.plan import (
    FailureKind,
    LayerShortage,
    NoFit,
    Plan,
    plan_of,
)
from stowplan.placement.records import Amounts
from stowplan.placement.request import Profile, TopologyRequest
from stowplan.placement.rules import STOWPLAN, Rules
from stowplan.placement.shapes import Shapes, ask_of
from stowplan.placement.state import View
from stowplan.topology.assign import descend, place, place_warm
from stowplan.topology.balanced import even_shares
from stowplan.topology.choose import FOUND, MOST, Search
from stowplan.topology.fit import NEVER, Counts, Slicing, allowed_leaves, counts_of
from stowplan.topology.levels import HOSTNAME
from stowplan.topology.tree import Flags, Index, Quantity, TreeArrays

NO_LEAVES: Index = np.empty(0, dtype=np.int32)


@dataclass(frozen=True, slots=True)
class PodSet:
    """``count`` equal pods that are placed together.

    Attributes:
        name: names it among the podsets of its gang.
        count: how many pods.
        amounts: what each asks for, ``pods`` included.
        filters: on which nodes each may run.
        request: what they ask of the topology.
        preferred: weights of preferred node affinity; empty where that is switched off.
        leader: requests and filters of the pod that leads them, in a group of two podsets.
        packing: profile that the pods name; None for the operator's.
    """

    name: str
    count: int
    amounts: Amounts
    filters: Filters
    request: TopologyRequest
    preferred: Weights = ()
    leader: tuple[Amounts, Filters] | None = None
    packing: Profile | None = None


@dataclass(frozen=True, slots=True)
class Assigned:
    """Where the pods of one podset go.

    Attributes:
        leaves: (leaf, pods) in tree order, leaves counted from the first one.
        level: the level whose domain, or domains, were chosen.
        leader: the leaf of the leader.
    """

    leaves: tuple[tuple[int, int], ...]
    level: int
    leader: int | None = None


@dataclass(frozen=True, slots=True)
class Region:
    """The part of the tree that may be used: below one domain, without some leaves.

    Attributes:
        domain: everything goes below it; None for the whole tree.
        excluded: leaves that may not be used.
        kept: (leaf, pods) of the podset that have their places already: they count against a share.
    """

    domain: int | None = None
    excluded: Index = field(default_factory=lambda: NO_LEAVES)
    kept: tuple[tuple[int, int], ...] = ()


ANYWHERE = Region()

# Called with unpacked tuples, whose lengths mypy does not know.
_place_warm: Callable[..., int] = place_warm


def fit(
    view: View,
    shapes: Shapes,
    podset: PodSet,
    profile: Profile,
    region: Region = ANYWHERE,
    rules: Rules = STOWPLAN,
) -> Assigned | NoFit:
    """Place one podset on the room that is free now; nothing is reserved."""
    if podset.count == 0:
        return Assigned((), 0)
    levels = view.tree.levels
    plan = plan_of(levels, podset.request, profile, bool(podset.preferred), rules)
    if isinstance(plan, NoFit):
        return plan
    if region.domain is not None:
        inside = _inside(view, podset, plan, region.domain, rules)
        if isinstance(inside, NoFit):
            return inside
        if inside is not podset.request:
            rest = podset.count % plan.layers[0].size if rules.rest_is_dropped else 0
            podset = replace(podset, request=inside, count=podset.count - rest)
            return fit(view, shapes, podset, profile, region, rules)
    level, slicing = plan.level, plan.slicing
    if plan.share is not None or plan.layers:
        found = _slicing(view, podset, plan, region, rules)
        if isinstance(found, NoFit):
            return found
        slicing = found
        if slicing.share_level != NEVER:
            level = min(level, slicing.share_level)
    search = _search(view, podset, plan, level, slicing, region)
    if search.low == search.high:  # kernels expect a domain to look at
        return NoFit("no-domains", levels.keys[level])
    if (left := _left_of_share(view, slicing, region)) < podset.count:
        kind: FailureKind = "partial-fit" if left else "none-fit"
        return NoFit(kind, levels.keys[search.level], left, podset.count, top=search.low)
    arrays = _searched(view, plan, search)
    special = plan.layers or podset.leader or podset.preferred or plan.balanced
    special = special or arrays is not view.tree.arrays
    if slicing is plan.slicing and not special:
        shape = shapes.get(podset.amounts, podset.filters, view)
        counts = shape.counts
        used = _place_warm(
            *view.fixed,
            *shape.fixed,
            shape.seen,
            view.head,
            region.excluded,
            search.level,
            search.low,
            search.high,
            search.stop,
            search.required,
            search.need,
            plan.style.fill_from,
        )
        shape.seen = view.head
    else:
        counts = _counts(view, podset, slicing, region)
        used = _place_evenly(view, plan, search, slicing, counts) if plan.balanced else 0
        if not used:
            used = place(arrays, search, slicing, plan.style, counts, False, view.work)
    if used == 0 and (view.work.report[0] != FOUND or not view.leaves.usable.any()):
        usable = _usable(view, region)
        name_leader = not rules.leader_unnamed
        return _shortage(view, podset, plan, search, slicing, counts, usable, name_leader)
    return _assigned(view, podset, used)


def _inside(
    view: View, podset: PodSet, plan: Plan, domain: int, rules: Rules
) -> TopologyRequest | NoFit:
    """Return what the podset asks for below ``domain``.

    What lies below one domain lies in one of each coarser level, where that has a name: slices of
    such levels are whole as long as their sizes come out even.
    """
    tree, request = view.tree, podset.request
    level = tree.level_of(domain)
    coarser = [plan.stop] if plan.required and plan.stop < level else []
    if plan.layers and plan.slicing.level < level:
        coarser += [tree.levels.keys.index(layer.level) for layer in plan.layers]
    if any(at < level and not tree.arrays.named[tree.ancestor(domain, at)] for at in coarser):
        return NoFit("none-fit", tree.levels.keys[max(plan.stop, 0)], 0, podset.count)
    if not (plan.layers and plan.slicing.level < level):
        return request
    if (left := _rest_left(podset, rules)) is not None:
        return left
    finer = tuple(x for x in plan.layers if tree.levels.keys.index(x.level) >= level)
    return replace(request, slice_level=None, slice_size=None, layers=finer)


def _rest_left(podset: PodSet, rules: Rules) -> NoFit | None:
    """Refuse pods that fill no whole slice and are not allowed to make a smaller one."""
    layers = podset.request.slices
    rest = podset.count % layers[0].size if layers else 0
    if not rest or rules.rest_is_dropped:
        return None
    if podset.request.last_slice == "smaller" and rest % podset.request.inner_size == 0:
        return None
    return NoFit("slices-leave-a-rest", layers[0].level, podset.count - rest, podset.count)


def _searched(view: View, plan: Plan, search: Search) -> TreeArrays:
    """Return the tree for a search: a domain below a nameless one is in no required domain."""
    arrays = view.tree.arrays
    if not plan.required or search.level <= search.stop:
        return arrays
    low, high = view.tree.range_of(search.stop)
    nameless = low + np.flatnonzero(arrays.named[low:high] == 0)
    if not nameless.size:
        return arrays
    named = arrays.named.copy()
    for d in nameless.tolist():
        for level in range(search.stop + 1, search.level + 1):
            first, end = view.tree.below(d, level)
            named[first:end] = 0
    return arrays._replace(named=named)


def _place_evenly(view: View, plan: Plan, search: Search, slicing: Slicing, counts: Counts) -> int:
    """Place in even shares and return how many leaves got pods; 0: there is no balanced answer."""
    work, arrays = view.work, view.tree.arrays
    shares = even_shares(arrays, search, slicing, plan.style.use_affinity, counts)
    if shares is None:
        return 0
    used = shares.domains.size
    work.chosen[:used] = shares.domains
    work.given[shares.domains] = shares.slices
    apart = slicing._replace(share_level=shares.level)  # each domain keeps what it was given
    work.report[0] = FOUND
    return descend(arrays, shares.level, used, shares.host, search, apart, plan.style, counts, work)


def _assigned(view: View, podset: PodSet, used: int) -> Assigned:
    """Read the kernels' result."""
    level, *pairs = view.work.result[: 1 + 2 * used].tolist()
    leader = None
    if podset.leader is not None:
        leader = int(view.work.report[5]) - view.tree.first_leaf
    return Assigned(tuple(zip(pairs[::2], pairs[1::2], strict=True)), level, leader)


def _slicing(
    view: View, podset: PodSet, plan: Plan, region: Region, rules: Rules
) -> Slicing | NoFit:
    """Add to the plan's slicing what depends on the count: the rest, and shares per domain."""
    slicing = plan.slicing
    if (left := _rest_left(podset, rules)) is not None:
        return left
    if not rules.rest_is_dropped:
        slicing = slicing._replace(rest=podset.count % slicing.size)
    if plan.share is None:
        return slicing
    kept = sum(pods for _, pods in region.kept)
    most = plan.share.of(podset.count + kept)
    if podset.count + kept <= most:
        return slicing  # even all of them in one domain are within the share
    low, high = view.tree.range_of(plan.share_level)
    limit = np.full(high - low, most, dtype=np.int64)
    for leaf, pods in region.kept:
        limit[view.tree.ancestor(view.tree.first_leaf + leaf, plan.share_level) - low] -= pods
    np.maximum(limit, 0, out=limit)
    return slicing._replace(share_level=plan.share_level, limit=limit)


def _left_of_share(view: View, slicing: Slicing, region: Region) -> int:
    """Return how many more pods the share allows in a region that is finer than its level."""
    tree = view.tree
    if region.domain is None or slicing.share_level >= tree.level_of(region.domain):
        return MOST
    low, _ = tree.range_of(slicing.share_level)
    return int(slicing.limit[tree.ancestor(region.domain, slicing.share_level) - low])


def _search(
    view: View, podset: PodSet, plan: Plan, level: int, slicing: Slicing, region: Region
) -> Search:
    tree, stop = view.tree, min(plan.stop, level)
    if region.domain is None:
        low, high = tree.range_of(level)
    else:
        top = tree.level_of(region.domain)
        level, stop = max(level, top), max(stop, top)
        low, high = tree.below(region.domain, level)
    leaders = int(podset.leader is not None or slicing.rest > 0)
    return Search(level, low, high, stop, plan.required, podset.count // slicing.size, leaders)


def _counts(view: View, podset: PodSet, slicing: Slicing, region: Region) -> Counts:
    """Count everything anew: slices, shares, leader and affinity have no warm counts."""
    leaves = view.leaves._replace(usable=_usable(view, region))
    worker = ask_of(podset.amounts, podset.filters, view)
    leader = ask_of(*podset.leader, view) if podset.leader is not None else None
    judged = podset.preferred and view.tree.levels.has_host
    affinity = _affinity(view, podset, allowed_leaves(leaves, worker)) if judged else None
    return counts_of(view.tree, leaves, worker, leader, affinity, slicing)


def _usable(view: View, region: Region) -> Flags:
    """Return (leaves,) which may be used: the live array where none is left out."""
    if not region.excluded.size:
        return view.leaves.usable
    usable = view.leaves.usable.copy()
    usable[region.excluded] = 0
    return usable


def _affinity(view: View, podset: PodSet, allowed: NDArray[np.bool_]) -> Quantity:
    """Return each leaf's sum of matching weights; like node filters only where a leaf is a node."""

    def weight(labels: Mapping[str, str]) -> int:
        return sum(w for w, term in podset.preferred if all(r.holds(labels) for r in term))

    if not any(r.key in (HOSTNAME, NODE_NAME_FIELD) for _, term in podset.preferred for r in term):
        of_class = np.array([weight(c.labels) for c in view.classes], dtype=np.int64)
        return of_class[view.leaves.class_of] * allowed
    weights = np.zeros(view.tree.leaf_count, dtype=np.int64)
    for leaf in np.flatnonzero(allowed):
        node = view.nodes[view.tree.nodes[leaf]]
        weights[leaf] = weight({**node.labels, NODE_NAME_FIELD: node.name})
    return weights


def _shortage(
    view: View,
    podset: PodSet,
    plan: Plan,
    search: Search,
    slicing: Slicing,
    counts: Counts,
    usable: Flags,
    name_leader: bool,
) -> NoFit:
    """Return what the kernels' report says, in words of the request.

    Args:
        view: the cluster right after the kernels ran.
        podset: what did not fit.
        plan: its request.
        search: where it was looked for.
        slicing: as it was searched with.
        counts: what fits.
        usable: (leaves,) which may be used.
        name_leader: a leader that fits nowhere is named (Kueue blames nobody, section 7).
    """
    if not usable.any():
        return NoFit("no-domains", view.tree.levels.keys[plan.level])
    _, level, fits, top, needed, _ = view.work.report.tolist()
    key = view.tree.levels.keys[level]
    if name_leader and podset.leader is not None and not counts.leader.any():
        return NoFit("leader-no-fit", key, 0, 1, top=top)
    if len(plan.layers) > 1:
        return _layer_shortage(view, podset, plan, search, counts, usable)
    if slicing.rest:
        needed += 1
        if plan.required and top >= 0:
            fits = max(int(counts.slices_wl[top] + 1) if counts.leader[top] else 0, fits)
        fits = min(fits, needed - 1)
    unit: Literal["pod", "slice"] = "pod" if slicing.size == 1 else "slice"
    kind: FailureKind = "partial-fit" if fits else "none-fit"
    return NoFit(kind, key, fits, needed, unit, top=top)


def _layer_shortage(
    view: View, podset: PodSet, plan: Plan, search: Search, counts: Counts, usable: Flags
) -> NoFit:
    """Report each layer in the domain of the level asked with most slices, of equals the first."""
    low, high = search.low, search.high
    there = view.tree.sums_over(low, high, usable) > 0
    there &= view.tree.arrays.named[low:high] > 0
    top = low + int(np.argmax(np.where(there, counts.slices[low:high], -1)))
    outer = plan.layers[0].size
    shortages = []
    for layer in plan.layers:
        low, high = view.tree.below(top, view.tree.levels.keys.index(layer.level))
        fits = int((counts.pods[low:high] // layer.size).sum())
        needed = podset.count // outer * outer // layer.size
        shortages.append(LayerShortage(layer.level, fits, needed))
    first = shortages[0]
    key = view.tree.levels.keys[search.level]
    return NoFit(
        "layers-no-fit", key, first.fits, first.needed, "slice", layers=tuple(shortages), top=top
    )
