"""Leaves of a view <-> the assignment that Kueue writes."""

from collections.abc import Iterable

from stowplan.placement.kueue.assignment import Assignment
from stowplan.placement.state import View
from stowplan.topology.tree import Path


def assignment_of(view: View, leaves: Iterable[tuple[int, int]]) -> Assignment:
    """Return pods per leaf as an assignment: the host alone where there is a host level."""
    levels = view.tree.levels
    shown = slice(-1, None) if levels.has_host else slice(None)
    paths = view.tree.paths
    first = view.tree.first_leaf
    return Assignment(
        levels.keys[shown],
        tuple((paths[first + leaf][shown], count) for leaf, count in sorted(leaves)),
    )


def leaf_of(view: View, values: Path) -> int | None:
    """Return the leaf that an assignment names, or None when it is gone."""
    if view.tree.levels.has_host:
        return view.leaf_of.get(values[-1])
    domain = view.tree.find(values)
    return None if domain is None else domain - view.tree.first_leaf
