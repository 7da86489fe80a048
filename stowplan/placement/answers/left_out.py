"""Which nodes take no pod of a gang, and what keeps it off each of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np

from stowplan.placement.answers.answer import LeftOut, LeftOutBy
from stowplan.placement.answers.demands import Demand
from stowplan.placement.answers.domains import Mask
from stowplan.placement.answers.headroom import Headroom
from stowplan.placement.cluster import Cluster
from stowplan.placement.filters import NODE_NAME_FIELD, Filters
from stowplan.placement.records import NodeRecord
from stowplan.placement.state import View
from stowplan.topology.fit import quotients
from stowplan.topology.tree import Index

_ORDER = get_args(LeftOutBy)

_Key = tuple[LeftOutBy, str]


@dataclass(frozen=True, slots=True, eq=False)
class LeftOutNodes:
    """For every podset what keeps it off every node of the tree.

    Attributes:
        view: the cluster.
        keys: what keeps pods off nodes.
        podsets: names of those that have pods to place.
        codes: for each of them (nodes,) a position in ``keys``; -1 where a pod can go.
    """

    view: View
    keys: tuple[_Key, ...]
    podsets: tuple[str, ...]
    codes: tuple[Index, ...]

    @classmethod
    def of(cls, room: Headroom, names: Sequence[str]) -> "LeftOutNodes":
        """Judge all nodes; ``names`` are those of the gang's podsets."""
        found: dict[_Key, int] = {}
        codes = tuple(_codes(room.view, demand, found) for demand in room.demands)
        podsets = tuple(names[demand.at] for demand in room.demands)
        return cls(room.view, tuple(found), podsets, codes)

    def within(self, low: int, high: int) -> tuple[LeftOut, ...]:
        """Return the nodes of leaves ``low`` up to ``high`` that take no pod, by the cause."""
        start, end = self.view.tree.node_start[[low, high]].tolist()
        found: list[LeftOut] = []
        parts = [codes[start:end] for codes in self.codes]
        for code, (by, what) in enumerate(self.keys):
            masks = [part == code for part in parts]
            alike = all(np.array_equal(mask, masks[0]) for mask in masks)
            for name, mask in [("", masks[0])] if alike else zip(self.podsets, masks, strict=True):
                at = (np.flatnonzero(mask) + start).tolist()
                if at:
                    example = min(self.view.tree.nodes[i] for i in at)
                    found.append(LeftOut(name, by, what, len(at), example))
        return tuple(sorted(found, key=_most_first))


def without_level(cluster: Cluster) -> tuple[LeftOut, ...]:
    """Return the nodes that are in no domain, by the first level label that they lack."""
    by_label: dict[str, list[str]] = {}
    levels = cluster.policy.levels
    for name in cluster.state.view().left_out:  # sorted by name
        labels = cluster.state.nodes[name].labels
        lacking = next(key for key in levels.keys if not labels.get(key))
        by_label.setdefault(lacking, []).append(name)
    found = (
        LeftOut("", "no-level-label", label, len(nodes), nodes[0])
        for label, nodes in by_label.items()
    )
    return tuple(sorted(found, key=_most_first))


def _most_first(left_out: LeftOut) -> tuple[int, int, str, str]:
    return _ORDER.index(left_out.by), -left_out.nodes, left_out.what, left_out.podset


def _codes(view: View, demand: Demand, found: dict[_Key, int]) -> Index:
    """Return a code for each node, and note in ``found`` what new codes stand for."""

    def code(by: LeftOutBy, what: str = "") -> int:
        return found.setdefault((by, what), len(found))

    tree, leaves = view.tree, view.leaves
    by_leaf = np.full(tree.leaf_count, -1, dtype=np.int32)
    each = quotients(leaves, demand.ask)
    full = demand.allowed & (each.min(axis=0) <= 0)
    for row in np.unique(lacking := np.argmin(each, axis=0)).tolist():
        resource, asked = demand.podset.amounts[row]
        small = view.total[demand.ask.rows[row]] < asked
        causes: tuple[tuple[LeftOutBy, Mask], ...] = (("too-small", small), ("resource", ~small))
        for by, of in causes:
            if (mask := full & (lacking == row) & of).any():
                by_leaf[mask] = code(by, resource)
    if (mask := demand.passes & ~demand.allowed).any():
        by_leaf[mask] = code("excluded")
    judged: dict[int, int] = {}
    filters = demand.podset.filters
    for leaf in np.flatnonzero((leaves.usable > 0) & ~demand.passes).tolist():
        alike = -1 - leaf if filters.names_nodes() else int(leaves.class_of[leaf])
        if alike not in judged:
            judged[alike] = code(*_kept_off(filters, view.nodes[tree.nodes[leaf]]))
        by_leaf[leaf] = judged[alike]
    codes = np.repeat(by_leaf, np.diff(tree.node_start))
    for at in _unusable(view):
        node = view.nodes[tree.nodes[at]]
        codes[at] = code("cordoned" if ("Ready", "True") in node.conditions else "not-ready")
    return codes


def _unusable(view: View) -> list[int]:
    """Return the positions of nodes that are not ready or cordoned."""
    if view.tree.levels.has_host:
        return np.flatnonzero(view.leaves.usable == 0).tolist()
    return [at for at, name in enumerate(view.tree.nodes) if not view.nodes[name].usable]


def _kept_off(filters: Filters, node: NodeRecord) -> _Key:
    """Return which filter keeps pods off the node: the taint, or the first label that it lacks."""
    labels = {**node.labels, NODE_NAME_FIELD: node.name}
    by, taint = filters.excluded_by(labels, node.taints) or ("node-affinity", None)
    if taint is not None:
        return by, str(taint)
    if by == "node-selector":
        lacking = next(pair for pair in filters.selector if labels.get(pair[0]) != pair[1])
        return by, "=".join(lacking)
    return by, ""
