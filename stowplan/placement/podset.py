"""One podset -> pods per leaf, or why it does not fit (domain-fit, sections 2, 5 and 13)."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from stowplan.placement import reasons
from stowplan.placement.filters import Filters, Term
from stowplan.placement.records import Amounts
from stowplan.placement.request import Layer, TopologyRequest
from stowplan.placement.shapes import Shapes, ask_of, excluded_by
from stowplan.placement.state import View
from stowplan.topology.assign import Search, place, place_warm
from stowplan.topology.choose import FOUND, Order
from stowplan.topology.fit import Counts, Slicing, allowed_leaves, counts_of, part_of, quotients
from stowplan.topology.levels import Levels
from stowplan.topology.tree import Index, Quantity

Profile = Literal["mixed", "best-fit"]

FailureKind = Literal[
    "none-fit",
    "partial-fit",
    "layers-no-fit",
    "no-domains",
    "level-unknown",
    "slice-level-unknown",
    "slice-level-above",
    "slice-size-missing",
    "slice-size-indivisible",
]

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
    """

    name: str
    count: int
    amounts: Amounts
    filters: Filters
    request: TopologyRequest
    preferred: tuple[tuple[int, Term], ...] = ()
    leader: tuple[Amounts, Filters] | None = None


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
class LayerShortage:
    """How many slices of one layer fit in the best domain, and how many are needed."""

    level: str
    fits: int
    needed: int


@dataclass(frozen=True, slots=True)
class NoFit:
    """Why a podset was not placed; ``fits`` and ``needed`` count slices when there are any.

    Attributes:
        top: the domain that came closest; -1 where none was looked at.
    """

    kind: FailureKind
    level: str = ""
    fits: int = 0
    needed: int = 0
    unit: Literal["pod", "slice"] = "pod"
    slice_level: str = ""
    layers: tuple[LayerShortage, ...] = ()
    top: int = -1


@dataclass(frozen=True, slots=True)
class Region:
    """The part of the tree that may be used: below one domain, without some leaves.

    Attributes:
        domain: everything goes below it; None for the whole tree.
        excluded: leaves that may not be used.
    """

    domain: int | None = None
    excluded: Index = field(default_factory=lambda: NO_LEAVES)


ANYWHERE = Region()

# Called with unpacked tuples, whose lengths mypy does not know.
_place_warm: Callable[..., int] = place_warm


@dataclass(frozen=True, slots=True)
class _Plan:
    """A request in terms of level numbers."""

    level: int
    required: bool
    climb: bool
    slicing: Slicing
    order: Order
    layers: tuple[Layer, ...]


def fit(
    view: View, shapes: Shapes, podset: PodSet, profile: Profile, region: Region = ANYWHERE
) -> Assigned | NoFit:
    """Place one podset on the room that is free now; nothing is reserved."""
    if podset.count == 0:
        return Assigned((), 0)
    plan = _plan(view.tree.levels, podset.request, profile, bool(podset.preferred))
    if isinstance(plan, NoFit):
        return plan
    search = _search(view, podset, plan, region)
    if search.low == search.high:  # kernels expect a domain to look at
        return NoFit("no-domains", view.tree.levels.keys[plan.level])
    if plan.layers or podset.leader is not None or plan.order.use_affinity:
        counts = _counts(view, podset, plan, region)
        used = place(view.tree.arrays, search, plan.slicing, plan.order, counts, False, view.work)
    else:
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
            search.required,
            search.climb,
            search.need,
            plan.order.packing,
        )
        shape.seen = view.head
    if used == 0 and (view.work.report[0] != FOUND or not view.leaves.usable.any()):
        return _shortage(view, podset, plan, counts)
    level, *pairs = view.work.result[: 1 + 2 * used].tolist()
    leader = None
    if podset.leader is not None:
        leader = int(view.work.report[5]) - view.tree.first_leaf
    return Assigned(tuple(zip(pairs[::2], pairs[1::2], strict=True)), level, leader)


def _counts(view: View, podset: PodSet, plan: _Plan, region: Region) -> Counts:
    """Count everything anew: slices, leader and affinity have no warm counts."""
    leaves = view.leaves
    if region.excluded.size:
        usable = leaves.usable.copy()
        usable[region.excluded] = 0
        leaves = leaves._replace(usable=usable)
    worker = ask_of(podset.amounts, podset.filters, view)
    leader = ask_of(*podset.leader, view) if podset.leader is not None else None
    judged = podset.preferred and view.tree.levels.has_host
    affinity = _affinity(view, podset, allowed_leaves(leaves, worker)) if judged else None
    return counts_of(view.tree, leaves, worker, leader, affinity, plan.slicing)


def _affinity(view: View, podset: PodSet, allowed: NDArray[np.bool_]) -> Quantity:
    """Return each leaf's sum of matching weights; like node filters only where a leaf is a node."""
    weights = np.zeros(view.tree.leaf_count, dtype=np.int64)
    for leaf in np.flatnonzero(allowed):
        labels = view.nodes[view.tree.nodes[leaf]].labels
        weights[leaf] = sum(
            weight for weight, term in podset.preferred if all(r.holds(labels) for r in term)
        )
    return weights


@lru_cache(maxsize=1024)
def _plan(
    levels: Levels, request: TopologyRequest, profile: Profile, use_affinity: bool
) -> _Plan | NoFit:
    """Check the request against the levels, in the order of section 2."""
    keys = levels.keys
    finest = len(keys) - 1
    layers = request.slices
    if any(layer.size < 1 for layer in layers):
        return NoFit("slice-size-missing")
    level = 0 if request.mode == "slices-only" else finest
    if request.level is not None:
        if request.level not in keys:
            return NoFit("level-unknown", request.level)
        level = keys.index(request.level)
    slicing = _slicing(layers, keys, level) if layers else Slicing.none(len(keys))
    if isinstance(slicing, NoFit):
        return slicing
    asked = request.mode in ("required", "preferred")
    return _Plan(
        level=level,
        required=request.mode == "required",
        climb=request.mode == "preferred",
        slicing=slicing,
        order=Order(packing=asked or profile == "best-fit", use_affinity=use_affinity),
        layers=layers,
    )


def _slicing(layers: tuple[Layer, ...], keys: tuple[str, ...], level: int) -> Slicing | NoFit:
    outer = layers[0]
    if outer.level not in keys:
        return NoFit("slice-level-unknown", outer.level)
    at = keys.index(outer.level)
    if at < level:
        return NoFit("slice-level-above", keys[level], slice_level=outer.level)
    slicing = Slicing(at, outer.size, np.ones(len(keys), dtype=np.int64))
    for before, layer in pairwise(layers):
        if layer.level not in keys:
            return NoFit("slice-level-unknown", layer.level)
        inner = keys.index(layer.level)
        if inner <= at:
            return NoFit("slice-level-above", before.level, slice_level=layer.level)
        if before.size % layer.size:
            return NoFit("slice-size-indivisible", layer.level)
        slicing.unit_at[at + 1 : inner + 1] = layer.size
        at = inner
    return slicing


def _search(view: View, podset: PodSet, plan: _Plan, region: Region) -> Search:
    tree, level, climb = view.tree, plan.level, plan.climb
    low, high = tree.range_of(level)
    if region.domain is not None:
        climb = False  # coarser domains reach beyond the region
        level = max(level, tree.level_of(region.domain))
        low, high = tree.below(region.domain, level)
    leaders = int(podset.leader is not None)
    need = podset.count // plan.slicing.size
    return Search(level, low, high, plan.required, climb, need, leaders)


def _shortage(view: View, podset: PodSet, plan: _Plan, counts: Counts) -> NoFit:
    if not view.leaves.usable.any():
        return NoFit("no-domains", view.tree.levels.keys[plan.level])
    _, level, fits, top, needed, _ = view.work.report.tolist()
    key = view.tree.levels.keys[level]
    if len(plan.layers) > 1:
        return _layer_shortage(view, podset, plan, counts, level)
    unit: Literal["pod", "slice"] = "pod" if plan.slicing.size == 1 else "slice"
    kind: FailureKind = "partial-fit" if fits else "none-fit"
    return NoFit(kind, key, fits, needed, unit, top=top)


def _layer_shortage(view: View, podset: PodSet, plan: _Plan, counts: Counts, level: int) -> NoFit:
    """Report each layer in the domain of the level with most slices, of equals the first."""
    low, high = view.tree.range_of(level)
    there = view.tree.sums_over(low, high, view.leaves.usable) > 0
    top = low + int(np.argmax(np.where(there, counts.slices[low:high], -1)))
    outer = plan.layers[0].size
    shortages = []
    for layer in plan.layers:
        low, high = view.tree.below(top, view.tree.levels.keys.index(layer.level))
        fits = int((counts.pods[low:high] // layer.size).sum())
        needed = podset.count // outer * outer // layer.size
        shortages.append(LayerShortage(layer.level, fits, needed))
    first = shortages[0]
    key = view.tree.levels.keys[level]
    return NoFit(
        "layers-no-fit", key, first.fits, first.needed, "slice", layers=tuple(shortages), top=top
    )


def scarcest(view: View, shapes: Shapes, podset: PodSet, low: int, high: int) -> str:
    """Return what the podset is short of in leaves ``low`` up to ``high``.

    It is the resource of which the fewest pods could be served if each were the only one asked for;
    of equals the first by name. Where no node may be used at all, it is the reason for that.
    """
    if not view.leaves.usable[low:high].any():
        return reasons.NO_NODE_USABLE
    ask = shapes.get(podset.amounts, podset.filters, view).ask
    part, ask = part_of(view.leaves, ask, low, high)
    allowed = allowed_leaves(part, ask)
    if not allowed.any():
        return reasons.NO_NODE_PASSES
    served = np.clip(quotients(part, ask)[:, allowed], 0, podset.count)
    return podset.amounts[int(np.argmin(served.sum(axis=1)))][0]


Exclusion = tuple[str, str]  # by what, and which taint or resource


def exclusions(view: View, podset: PodSet) -> tuple[int, Counter[Exclusion]]:
    """Return how many nodes were considered, and for what reason how many of them were left out.

    Nodes that are not ready, cordoned or lack a level label are not considered (section 13). A leaf
    that could hold at least one pod is not left out, however many are needed.
    """
    usable = view.leaves.usable.astype(np.bool_)
    found: Counter[Exclusion] = Counter()
    ask = ask_of(podset.amounts, podset.filters, view)
    allowed = allowed_leaves(view.leaves, ask)
    for leaf in np.flatnonzero(usable & ~allowed).tolist():
        reason = excluded_by(podset.filters, view, leaf)
        if reason is not None:
            by, taint = reason
            found[by, str(taint) if taint is not None else ""] += 1
    pods = quotients(view.leaves, ask)
    for row in np.argmin(pods[:, allowed & (pods.min(axis=0) <= 0)], axis=0).tolist():
        found["resource", podset.amounts[row][0]] += 1
    return int(usable.sum()), found
