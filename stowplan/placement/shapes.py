"""Request shapes: what a pod asks for and of which nodes, with its counts kept warm.

Pods of one gang, and often of many gangs, ask for the same. Their counts are kept per shape and
brought up to date when they are asked for: a decision costs the nodes that changed, not all nodes.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import numpy as np

from stowplan.placement.filters import NODE_NAME_FIELD, Excluded, Filters, Taint
from stowplan.placement.records import Amounts
from stowplan.placement.state import RING, View
from stowplan.topology.fit import Ask, Counts, catch_up, pods_per_domain
from stowplan.topology.tree import Flags

MOST_SHAPES = 256  # counts of 100,000 nodes take about 1 MB a shape

NO_LEAVES: Flags = np.empty(0, dtype=np.uint8)


@dataclass(slots=True, eq=False)
class Shape:
    """One request on one structure of the cluster.

    Attributes:
        ask: the request in rows of ``view.leaves.free``.
        counts: pods per domain, right up to ``seen``.
        fixed: the arguments of ``place_warm`` that stay the same for this shape.
        seen: position in the ring of changes.
        made_for: the view that this was made for, and where its filters name single nodes, the
            labels of that time.
    """

    ask: Ask
    counts: Counts
    fixed: tuple[Any, ...]
    seen: int
    made_for: tuple[int, int]

    @classmethod
    def of(cls, amounts: Amounts, filters: Filters, view: View) -> "Shape":
        """Judge the filters and count all leaves."""
        ask = ask_of(amounts, filters, view)
        pods = np.zeros(view.tree.domain_count, dtype=np.int64)
        shape = cls(
            ask=ask,
            fixed=(*ask, pods),
            counts=Counts.plain(pods),
            seen=view.head,
            made_for=_version(ask, view),
        )
        shape.recount(view)
        return shape

    def recount(self, view: View) -> None:
        """Count all leaves anew."""
        pods_per_domain(view.tree, view.leaves, self.ask, self.counts.pods)
        self.seen = view.head

    def catch_up(self, view: View) -> None:
        """Bring the counts up to date without deciding anything."""
        catch_up(
            view.tree.arrays,
            view.leaves,
            self.ask,
            view.changed,
            self.seen,
            view.head,
            self.counts.pods,
        )
        self.seen = view.head


class Shapes:
    """The shapes in use; the ones least recently used are forgotten."""

    def __init__(self) -> None:
        """Begin empty."""
        self._known: OrderedDict[tuple[Amounts, Filters], Shape] = OrderedDict()

    def get(self, amounts: Amounts, filters: Filters, view: View) -> Shape:
        """Return the shape; its counts are right, or within reach of the ring of changes."""
        key = (amounts, filters)
        shape = self._known.get(key)
        if shape is None or shape.made_for != _version(shape.ask, view):
            shape = self._known[key] = Shape.of(amounts, filters, view)
        elif view.head - shape.seen > RING:
            shape.recount(view)
        self._known.move_to_end(key)
        if len(self._known) > MOST_SHAPES:
            self._known.popitem(last=False)
        return shape


def _version(ask: Ask, view: View) -> tuple[int, int]:
    return view.epoch, view.relabelled if ask.leaf_allowed.size else 0


def ask_of(amounts: Amounts, filters: Filters, view: View) -> Ask:
    """Return a request as arrays, its filters judged once per node class."""
    by_name = view.tree.levels.has_host and filters.names_nodes()
    if by_name or not view.tree.levels.has_host:
        allowed = np.ones(max(len(view.classes), 1), dtype=np.uint8)
    elif filters.selector or filters.terms is not None:
        allowed = np.array(
            [filters.excluded_by(c.labels, c.taints) is None for c in view.classes], dtype=np.uint8
        )
    else:  # taints alone decide, and far fewer sets of them exist than of labels
        verdicts = [filters.excluded_by({}, taints) is None for taints in view.taint_sets]
        allowed = np.array(verdicts, dtype=np.uint8)[view.taints_of]
    return Ask(
        rows=np.array([view.row_of(name) for name, _ in amounts], dtype=np.int32),
        amounts=np.array([amount for _, amount in amounts], dtype=np.float64),
        class_allowed=allowed,
        leaf_allowed=np.array(
            [excluded_by(filters, view, leaf) is None for leaf in range(view.tree.leaf_count)],
            dtype=np.uint8,
        )
        if by_name
        else NO_LEAVES,
    )


def excluded_by(filters: Filters, view: View, leaf: int) -> tuple[Excluded, Taint | None] | None:
    """Return which filter keeps a pod off a leaf that is one node; None when none does."""
    node = view.nodes[view.tree.nodes[leaf]]
    return filters.excluded_by({**node.labels, NODE_NAME_FIELD: node.name}, node.taints)
