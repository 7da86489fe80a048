"""Cases on the parts of balanced placement."""

from collections.abc import Callable
from typing import Any

import numpy as np

from stowplan.topology.balanced import (
    Asked,
    best_group,
    best_set,
    blank,
    by_evenness,
    spread,
)
from stowplan.topology.choose import Order, Search
from stowplan.topology.fit import Counts, Slicing, add_up
from stowplan.topology.levels import Levels
from stowplan.topology.tree import DomainTree, Index, TreeArrays

Json = dict[str, Any]

COLUMNS = ("slices", "pods", "slices_with_leader", "pods_with_leader", "leader", "affinity")
LARGEST_FIRST = Order(packing=True, use_affinity=False)


def check(case: Json) -> None:
    """Run the case's op."""
    assert case["op"] in OPS, f"unknown op {case['op']!r}"
    assert OPS[case["op"]](case) == case["expect"]


def _best_set(case: Json) -> Json:
    domains = _in_order(case["domains"])
    found = _set_of(case, domains, bool(case["prefer_even_children"]))
    return {"set": None if found is None else [domains[d]["values"] for d in np.sort(found)]}


def _set_of(case: Json, domains: list[Json], even: bool) -> Index | None:
    counts = _counts(domains)
    tree = _childless(len(domains))
    candidates = by_evenness(tree, 0, len(domains), counts) if even else np.arange(len(domains))
    return best_set(
        candidates.astype(np.int32),
        case["slices"],
        case["leaders"],
        case["slice_size"],
        LARGEST_FIRST,
        counts,
    )


def _order_even(case: Json) -> Json:
    domains = _in_order(case["domains"])
    children = [{"pods": pods} for d in domains for pods in d["children_pods"]]
    ends = np.cumsum([len(domains), *(len(d["children_pods"]) for d in domains)])
    tree = TreeArrays(
        level_start=np.array([0, ends[0], ends[-1]], dtype=np.int32),
        parent=np.repeat(
            np.arange(-1, len(domains), dtype=np.int32),
            [len(domains), *(len(d["children_pods"]) for d in domains)],
        ),
        child_start=np.append(ends, [ends[-1]] * len(children)).astype(np.int32),
        named=np.ones(ends[-1], dtype=np.uint8),
    )
    order = by_evenness(tree, 0, len(domains), _counts([*domains, *children]))
    return {"order": [domains[d]["values"] for d in order]}


def _spread(case: Json) -> Json:
    """Choose the set and spread over it."""
    domains = _in_order(case["domains"])
    chosen = _set_of(case, domains, False)
    assert chosen is not None
    need, leaders, floor = case["slices"], case["leaders"], case["threshold"]
    given = spread(chosen, need, leaders, floor, LARGEST_FIRST, _counts(domains))
    assert given is not None
    shares = sorted(zip(*(column.tolist() for column in given), strict=True))
    return {"slices": [{"values": domains[d]["values"], "slices": n} for d, n in shares]}


def _threshold(case: Json) -> Json:
    leaves = _in_order(case["leaves"])
    levels = Levels(tuple(case["levels"]))
    tree = DomainTree.of(levels, [(tuple(d["values"]), "/".join(d["values"])) for d in leaves])
    level = case["requested_level"]
    slicing = Slicing.none(levels.depth)._replace(
        level=case["slice_level"], size=case["slice_size"]
    )
    above = [dict.fromkeys(COLUMNS, 0)] * tree.first_leaf
    counts = _counts([*above, *leaves])
    add_up(tree.arrays, slicing, case["leaders"] > 0, counts)
    search = Search(level, *tree.range_of(level), level, False, case["slices"], case["leaders"])
    asked = Asked(tree.arrays, search, slicing, LARGEST_FIRST, counts)
    starts, pool = tree.arrays.level_start.copy(), np.empty_like(tree.arrays.parent)
    floor, low, high = best_group(asked, starts, pool, blank(counts))
    return {"threshold": floor, "domains": high - low}


def _in_order(domains: list[Json]) -> list[Json]:
    """Return them in the order of their paths, as a tree numbers them."""
    return sorted(domains, key=lambda d: list(d["values"]))


def _counts(domains: list[Json]) -> Counts:
    """Return the counts of domains; what one does not state is 0."""
    return Counts(*(np.array([d.get(c, 0) for d in domains], dtype=np.int64) for c in COLUMNS))


def _childless(size: int) -> TreeArrays:
    return TreeArrays(
        level_start=np.array([0, size], dtype=np.int32),
        parent=np.full(size, -1, dtype=np.int32),
        child_start=np.full(size + 1, size, dtype=np.int32),
        named=np.ones(size, dtype=np.uint8),
    )


OPS: dict[str, Callable[[Json], Json]] = {
    "best-set": _best_set,
    "order-even": _order_even,
    "spread": _spread,
    "threshold": _threshold,
}
