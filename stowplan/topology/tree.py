"""DomainTree: every domain of one level list as parallel arrays over contiguous ranges."""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stowplan.topology.levels import Levels

Index = NDArray[np.int32]
Quantity = NDArray[np.int64]
Room = NDArray[np.float64]  # whole numbers below 2**53: exact, and their quotients vectorise
Flags = NDArray[np.uint8]

Path = tuple[str, ...]


class TreeArrays(NamedTuple):
    """What kernels read of a tree; see ``DomainTree``."""

    level_start: Index
    parent: Index
    child_start: Index
    named: Flags


@dataclass(frozen=True, slots=True, eq=False)
class DomainTree:
    """D domains of L levels over N nodes.

    Domains are numbered level by level, coarse first, and by their path of values within a level;
    so the children of a domain, the domains of a level and the leaves under a domain are each one
    contiguous range, and comparing numbers compares paths. Leaves come last. A domain is its path,
    never its bare value: ``rack1`` may exist under many blocks.

    Attributes:
        levels: the label keys.
        paths: (D,) the values of each domain, from the coarsest level to its own.
        arrays: ``level_start`` (L + 1,), the first domain of each level, the last entry is D;
            ``parent`` (D,), the domain above, -1 at the coarsest level; ``child_start`` (D + 1,),
            children of d are ``child_start[d]`` up to ``child_start[d + 1]``, none for leaves;
            ``named`` (D,), 0 where the last value is empty: its nodes lack the label of the level,
            so it is no domain that anybody may ask for, but counts in those above it.
        nodes: (N,) node names in tree order: by path, then name.
        node_start: (leaves + 1,) nodes of the k-th leaf; one each when there is a host level.
    """

    levels: Levels
    paths: tuple[Path, ...]
    arrays: TreeArrays
    nodes: tuple[str, ...]
    node_start: Index

    @classmethod
    def of(cls, levels: Levels, nodes: Iterable[tuple[Path, str]]) -> "DomainTree":
        """Build the tree of ``(path, node name)`` pairs; their order does not matter."""
        ordered = sorted(nodes)
        depth = levels.depth
        at_level: list[list[Path]] = [[] for _ in range(depth)]
        parents: list[list[int]] = [[] for _ in range(depth)]  # position within the level above
        node_start: list[int] = []
        before: Path = ()
        for n, (path, _) in enumerate(ordered):
            same = 0  # how many levels this node shares with the one before it
            while same < len(before) and path[same] == before[same]:
                same += 1
            for level in range(same, depth):
                parents[level].append(len(at_level[level - 1]) - 1 if level else -1)
                at_level[level].append(path[: level + 1])
            if same < depth:
                node_start.append(n)
            before = path
        level_start = np.cumsum([0, *map(len, at_level)]).astype(np.int32)
        return cls(
            levels=levels,
            paths=tuple(path for paths in at_level for path in paths),
            arrays=TreeArrays(
                level_start=level_start,
                parent=_global_parents(parents, level_start),
                child_start=_child_starts(parents, level_start),
                named=np.array([path[-1] != "" for paths in at_level for path in paths], np.uint8),
            ),
            nodes=tuple(name for _, name in ordered),
            node_start=np.array([*node_start, len(ordered)], dtype=np.int32),
        )

    @property
    def domain_count(self) -> int:
        """D, the number of domains of all levels."""
        return len(self.paths)

    @property
    def leaf_count(self) -> int:
        """The number of domains at the finest level."""
        return int(self.arrays.level_start[-1] - self.arrays.level_start[-2])

    @property
    def first_leaf(self) -> int:
        """The domain number of the first leaf."""
        return int(self.arrays.level_start[-2])

    def level_of(self, domain: int) -> int:
        """Return the depth of ``domain``: 0 at the coarsest level."""
        return len(self.paths[domain]) - 1

    def range_of(self, level: int) -> tuple[int, int]:
        """Return the domains of ``level`` as a half-open range."""
        return int(self.arrays.level_start[level]), int(self.arrays.level_start[level + 1])

    def find(self, path: Path) -> int | None:
        """Return the domain with this path, if there is one."""
        if not 0 < len(path) <= self.levels.depth:
            return None
        low, high = self.range_of(len(path) - 1)
        at = bisect_left(self.paths, path, low, high)
        return at if at < high and self.paths[at] == path else None

    def ancestor(self, domain: int, level: int) -> int:
        """Return the domain of ``level`` above ``domain``, or itself when it is of that level."""
        for _ in range(self.level_of(domain) - level):
            domain = int(self.arrays.parent[domain])
        return domain

    def below(self, domain: int, level: int) -> tuple[int, int]:
        """Return the domains of ``level``, no coarser than its own, under ``domain`` as a range."""
        low, high = domain, domain + 1
        for _ in range(level - self.level_of(domain)):
            low, high = int(self.arrays.child_start[low]), int(self.arrays.child_start[high])
        return low, high

    def leaves_under(self, domain: int) -> tuple[int, int]:
        """Return the leaves under ``domain`` as a half-open range counted from the first leaf."""
        low, high = self.below(domain, self.levels.depth - 1)
        return low - self.first_leaf, high - self.first_leaf

    def sums_over(self, low: int, high: int, per_leaf: NDArray[Any]) -> Quantity:
        """Return (high - low,) sums of ``per_leaf`` (leaves,) over the domains of one level."""
        bounds: NDArray[np.signedinteger[Any]] = np.arange(low, high + 1)
        for _ in range(self.levels.depth - 1 - (self.level_of(low) if low < high else 0)):
            bounds = self.arrays.child_start[bounds]
        totals = np.concatenate(([0], np.cumsum(per_leaf, dtype=np.int64)))
        return np.asarray(np.diff(totals[bounds - self.first_leaf]), dtype=np.int64)


def _global_parents(parents: list[list[int]], level_start: Index) -> Index:
    """Turn positions within the level above into domain numbers."""
    flat = np.empty(level_start[-1], dtype=np.int32)
    for level, within in enumerate(parents):
        offset = level_start[level - 1] if level else 0
        flat[level_start[level] : level_start[level + 1]] = (
            np.array(within, dtype=np.int32) + offset
        )
    return flat


def _child_starts(parents: list[list[int]], level_start: Index) -> Index:
    """Return where each domain's children begin; D throughout for leaves, which have none."""
    starts = np.full(int(level_start[-1]) + 1, level_start[-1], dtype=np.int32)
    for level, within in enumerate(parents[1:], start=1):
        above = np.arange(level_start[level] - level_start[level - 1])
        begins = np.searchsorted(np.array(within), above)
        starts[level_start[level - 1] : level_start[level]] = begins + level_start[level]
    return starts
