"""Pods per node summed over the domains of any level, slices whole and shares kept, with numpy.

The kernels of ``topology.fit`` keep such counts warm for one decision after another. These are for
a look at many rooms that nobody has: a few passes over all nodes, and nothing to compile.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stowplan.topology.tree import DomainTree, Path, Quantity

ALL = -1  # the level above the coarsest one: its only domain is the whole cluster

UNCUT = 1 << 62  # more pods than there are

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Cut:
    """What a domain of ``level`` holds at most of the pods that its nodes hold.

    Attributes:
        level: which domains.
        size: they hold whole multiples of it.
        most: and never more than this.
        rest: and in one of them all so many pods more, of a last slice that is smaller.
        named: a domain without a name holds none.
    """

    level: int
    size: int
    most: int = UNCUT
    rest: int = 0
    named: bool = True


Cuts = tuple[Cut, ...]  # the finest level first


def bounds(tree: DomainTree, level: int) -> Quantity:
    """Return (domains + 1,) where the leaves of each domain of ``level`` begin, and the end."""
    if level == ALL:
        return np.array([0, tree.leaf_count])
    low, high = tree.range_of(level)
    at = np.arange(low, high + 1)
    for _ in range(tree.levels.depth - 1 - level):
        at = tree.arrays.child_start[at].astype(np.int64)
    return at - tree.first_leaf


def path_of(tree: DomainTree, level: int, d: int) -> Path:
    """Return the path of the ``d``-th domain of ``level``; empty for the whole cluster."""
    return () if level == ALL else tree.paths[tree.range_of(level)[0] + d]


def sums(per_leaf: NDArray[Any], at: Quantity) -> Quantity:
    """Return the sum of ``per_leaf`` between each two of the bounds ``at``."""
    totals = np.concatenate(([0], np.cumsum(per_leaf, dtype=np.int64)))
    return np.diff(totals[at])


def first_of(pods: Quantity, at: Quantity, most: Quantity) -> Quantity:
    """Return ``pods`` without those beyond the first ``most`` of each domain, in leaf order."""
    upto = np.cumsum(pods)
    before = np.concatenate(([0], upto))[at[:-1]]
    room = np.repeat(most + before, np.diff(at)) - (upto - pods)
    return np.clip(room, 0, pods)


def candidates(tree: DomainTree, level: int, home: Sequence[int]) -> Mask:
    """Return which domains of ``level`` one may ask for: named ones that hold all of ``home``."""
    if level == ALL:
        return np.ones(1, dtype=np.bool_)
    low, high = tree.range_of(level)
    holds = tree.arrays.named[low:high] > 0
    if home:
        at = bounds(tree, level)
        holds &= (at[:-1] <= min(home)) & (max(home) < at[1:])
    return np.asarray(holds, dtype=np.bool_)


def count(tree: DomainTree, pods: Quantity, level: int, cuts: Cuts) -> Quantity:
    """Return how many pods each domain of ``level`` holds, slices whole and shares kept.

    From the slice level upwards that is slices times their size, below it pods: what phase 1 counts
    (domain-fit, section 3).
    """
    target = bounds(tree, level)
    beside: Quantity | int = 0
    most = UNCUT
    for cut in cuts:
        if cut.level < level:  # a domain above: one below it that held all would hold them for it
            most = min(most, cut.most)
            continue
        at = bounds(tree, cut.level)
        low, high = tree.range_of(cut.level)
        there = sums(pods, at)
        if cut.named:
            there = there * tree.arrays.named[low:high]
        kept = np.minimum(there, cut.most) // cut.size * cut.size
        if cut.rest:
            loose = np.minimum(there - kept, cut.rest)
            beside = np.maximum.reduceat(loose, np.searchsorted(at[:-1], target[:-1]))
        pods = first_of(pods, at, kept)
    held: Quantity = np.minimum(sums(pods, target) + beside, most)
    return held
