"""Domain fit: how many pods of one request each topology domain can still hold (section 3).

Rooms are whole numbers held as float64, one row per resource: below 2**53 the truncated quotient of
two whole numbers is their integer quotient, and a row per resource lets one pass vectorise.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stowplan.topology.jit import kernel
from stowplan.topology.tree import DomainTree, Flags, Index, Quantity, Room, TreeArrays

MOST_PODS = 2**31 - 1  # a leaf's count is cut here, as Kueue's is
NOTHING: Quantity = np.zeros(1, dtype=np.int64)
_BLOCK = 2048  # leaves per pass: a block of quotients stays in the first-level cache


class Ask(NamedTuple):
    """What one pod asks for, and of which leaves.

    Attributes:
        rows: (Q,) row of each requested resource in ``free``, resources in order of their names.
        amounts: (Q,) how much of each; positive.
        class_allowed: (C,) 1 where the filters let the pod onto nodes of that class.
        leaf_allowed: (leaves,) the same for filters that name single nodes; empty when none does.
    """

    rows: Index
    amounts: Room
    class_allowed: Flags
    leaf_allowed: Flags


class Leaves(NamedTuple):
    """What the leaves of a tree hold now; the arrays are live and change between two decisions.

    Attributes:
        free: (R, leaves) room not yet used; negative where overcommitted. The last row is zero: it
            stands for every resource that no node offers.
        usable: (leaves,) 1 where a node is Ready and not cordoned.
        class_of: (leaves,) the node class: equal labels (hostname aside) and taints.
    """

    free: Room
    usable: Flags
    class_of: Index


class Counts(NamedTuple):
    """What fits in each of D domains.

    A request without slices, leader and affinity has its pod counts in all four places of counts,
    and ``NOTHING`` in the last two, which is then never read.

    Attributes:
        slices: (D,) whole slices; 0 below the slice level.
        pods: (D,) pods.
        slices_wl: (D,) slices left once the leader took its place there ("with leader").
        pods_wl: (D,) pods left, likewise.
        leader: (D,) 1 where the leader fits.
        affinity: (D,) sum of the weights of preferred node affinity.
    """

    slices: Quantity
    pods: Quantity
    slices_wl: Quantity
    pods_wl: Quantity
    leader: Quantity
    affinity: Quantity

    @classmethod
    def plain(cls, pods: Quantity) -> "Counts":
        """Return the counts of a request without slices, leader and affinity: one live array."""
        return cls(pods, pods, pods, pods, NOTHING, NOTHING)


def pods_per_domain(tree: DomainTree, leaves: Leaves, ask: Ask, out: Quantity) -> None:
    """Write to ``out`` (D,) how many pods fit in each domain: whole pods per leaf, summed upwards.

    Raises:
        ValueError: an array does not have the shape of ``tree``.
    """
    if leaves.free.shape[1:] != (tree.leaf_count,) or out.shape != (tree.domain_count,):
        want = f"free (R, {tree.leaf_count}) and out ({tree.domain_count},)"
        raise ValueError(f"must have shapes {want}; got {leaves.free.shape} and {out.shape}")
    count_leaves(leaves, ask, np.empty(_BLOCK, dtype=np.float64), out[tree.first_leaf :])
    add_to_parents(tree.arrays.parent, tree.first_leaf, out)


NEVER = 16  # a level that no tree has: they have at most 16


class Slicing(NamedTuple):
    """How pods stay together: ``size`` pods in one domain of ``level``, and inner layers below it.

    And how they stay apart: no domain of ``share_level`` gets more than its limit.

    Attributes:
        level: the slice level.
        size: pods of one slice.
        unit_at: (L,) pods that stay together at each level below the slice level; else 1.
        rest: pods of one more, smaller slice; 0 for none. A domain of the slice level hosts it as
            another hosts a leader: counts "with leader" are what is left beside it.
        share_level: level whose domains get at most so many pods each; ``NEVER`` for none.
        limit: (domains of that level,) how many; never read when there is none.
        ends: (L,) 1 at the level of an inner layer: below it nothing keeps its pods together.
    """

    level: int
    size: int
    unit_at: Quantity
    rest: int = 0
    share_level: int = NEVER
    limit: Quantity = NOTHING
    ends: Quantity = NOTHING

    @classmethod
    def none(cls, depth: int) -> "Slicing":
        """Return single pods at the finest of ``depth`` levels, which is no slicing at all."""
        return cls(depth - 1, 1, np.ones(depth, dtype=np.int64))


def counts_of(
    tree: DomainTree,
    leaves: Leaves,
    worker: Ask,
    leader: Ask | None,
    affinity: Quantity | None,
    slicing: Slicing,
) -> Counts:
    """Return all counts of a podset, its leader, its slices and its affinity, from the leaves up.

    Args:
        tree: D domains.
        leaves: what they hold now.
        worker: the request of one pod.
        leader: the request of the leader pod that goes with them.
        affinity: (leaves,) weight of preferred node affinity; None when it does not count.
        slicing: which pods stay together.
    """
    counts = Counts(*(np.zeros(tree.domain_count, dtype=np.int64) for _ in Counts._fields))
    block = np.empty(_BLOCK, dtype=np.float64)
    first = tree.first_leaf
    count_leaves(leaves, worker, block, counts.pods[first:])
    counts.pods_wl[first:] = counts.pods[first:]
    if affinity is not None:
        counts.affinity[first:] = affinity
    if leader is not None:
        count_leaves(leaves, leader, block, counts.leader[first:])
        hosts = counts.leader[first:] > 0
        counts.leader[first:] = hosts
        beside = leaves.free.copy()
        beside[leader.rows] -= leader.amounts[:, None]
        left = np.empty(tree.leaf_count, dtype=np.int64)
        count_leaves(leaves._replace(free=beside), worker, block, left)
        counts.pods_wl[first:][hosts] = left[hosts]
    add_up(tree.arrays, slicing, leader is not None, counts)
    return counts


@kernel
def count_leaves(leaves: Leaves, ask: Ask, quotients: Room, counts: Quantity) -> None:
    """Write every leaf's count: block by block, one pass per resource."""
    leaf_count = leaves.usable.size
    for start in range(0, leaf_count, quotients.size):
        size = min(quotients.size, leaf_count - start)
        for n in range(size):
            quotients[n] = MOST_PODS
        for q in range(ask.rows.size):
            amount = ask.amounts[q]
            row = leaves.free[ask.rows[q], start : start + size]
            for n in range(size):
                quotients[n] = min(quotients[n], row[n] / amount)
        for n in range(size):
            leaf = start + n
            allowed = leaves.usable[leaf] & ask.class_allowed[leaves.class_of[leaf]]
            counts[leaf] = int(max(quotients[n], 0.0)) if allowed else 0
        if ask.leaf_allowed.size > 0:
            for leaf in range(start, start + size):
                counts[leaf] *= ask.leaf_allowed[leaf]


@kernel
def count_leaf(leaves: Leaves, ask: Ask, leaf: int) -> int:
    """Return one leaf's count: the same rule as ``count_leaves``."""
    if leaves.usable[leaf] == 0 or ask.class_allowed[leaves.class_of[leaf]] == 0:
        return 0
    if ask.leaf_allowed.size > 0 and ask.leaf_allowed[leaf] == 0:
        return 0
    fits = float(MOST_PODS)
    for q in range(ask.rows.size):
        fits = min(fits, leaves.free[ask.rows[q], leaf] / ask.amounts[q])
    return int(max(fits, 0.0))


@kernel
def add_to_parents(parent: Index, first_leaf: int, counts: Quantity) -> None:
    """Sum children into parents, finest level first, so that each sum is complete when read."""
    for d in range(first_leaf):
        counts[d] = 0
    for d in range(counts.size - 1, -1, -1):
        if parent[d] >= 0:
            counts[parent[d]] += counts[d]


@kernel
def add_to_path(parent: Index, domain: int, delta: int, counts: Quantity) -> None:
    """Add ``delta`` to ``domain`` and to every domain above it."""
    while domain >= 0:
        counts[domain] += delta
        domain = parent[domain]


@kernel
def catch_up(
    tree: TreeArrays,
    leaves: Leaves,
    ask: Ask,
    changed: Index,
    seen: int,
    head: int,
    counts: Quantity,
) -> None:
    """Recount the leaves that changed since ``seen``; naming one twice does no harm.

    ``changed`` is a ring of leaves whose size is a power of two; entries ``seen`` up to ``head``
    are new. The caller recounts everything when the ring has been overrun.
    """
    first_leaf = tree.level_start[tree.level_start.size - 2]
    for position in range(seen, head):
        leaf = changed[position & (changed.size - 1)]
        delta = count_leaf(leaves, ask, leaf) - counts[first_leaf + leaf]
        if delta != 0:
            add_to_path(tree.parent, first_leaf + leaf, delta, counts)


@kernel
def add_up(tree: TreeArrays, slicing: Slicing, has_leader: bool, counts: Counts) -> None:
    """Fill every count above the leaves, finest level first (section 3).

    Leaves hold ``pods``, ``pods_wl``, ``leader`` and ``affinity`` already. A domain's loss to the
    leader is that of its cheapest child that can host it; so it is exact for one leader pod. The
    rest of a podset, its smaller last slice, is such a leader from the slice level upwards.
    """
    for level in range(tree.level_start.size - 2, -1, -1):
        for d in range(tree.level_start[level], tree.level_start[level + 1]):
            low, high = tree.child_start[d], tree.child_start[d + 1]
            if low < high:
                hosts = has_leader or (slicing.rest > 0 and level < slicing.level)
                _add_children(tree, d, level, low, high, slicing, hosts, counts)
            else:
                counts.slices[d] = 0
                counts.slices_wl[d] = 0
            if level == slicing.share_level:
                _cut(d, slicing.limit[d - tree.level_start[level]], level, slicing, counts)
            if level == slicing.level:
                _slice_up(d, tree.named[d] > 0, slicing, counts)
            elif level > slicing.level:
                counts.slices[d] = 0
                counts.slices_wl[d] = 0


@kernel
def _slice_up(d: int, named: bool, slicing: Slicing, counts: Counts) -> None:
    """Fill what a domain of the slice level holds; one without a name holds no slice of it."""
    if slicing.rest > 0:
        counts.leader[d] = 1 if named and counts.pods[d] >= slicing.rest else 0
        counts.pods_wl[d] = counts.pods[d] - slicing.rest * counts.leader[d]
    counts.slices[d] = counts.pods[d] // slicing.size if named else 0
    counts.slices_wl[d] = counts.pods_wl[d] // slicing.size if named else 0


@kernel
def _cut(d: int, limit: int, level: int, slicing: Slicing, counts: Counts) -> None:
    """Cut the counts of a domain to its share, of whole slices down to the slice level."""
    if level <= slicing.level and slicing.rest == 0:
        limit -= limit % slicing.size
    hosted = slicing.rest if level < slicing.level else 0
    counts.pods[d] = min(counts.pods[d], limit)
    counts.pods_wl[d] = min(counts.pods_wl[d], max(limit - hosted * counts.leader[d], 0))
    if level < slicing.level:
        if hosted > limit:
            counts.leader[d] = 0
        counts.slices[d] = min(counts.slices[d], limit // slicing.size)
        left = max(limit - hosted * counts.leader[d], 0)
        counts.slices_wl[d] = min(counts.slices_wl[d], left // slicing.size)


@kernel
def _add_children(
    tree: TreeArrays,
    d: int,
    level: int,
    low: int,
    high: int,
    slicing: Slicing,
    has_leader: bool,
    counts: Counts,
) -> None:
    unit = slicing.unit_at[level + 1]
    ends = level + 1 < slicing.ends.size and slicing.ends[level + 1] > 0
    pods = 0
    slices = 0
    affinity = 0
    leader = 0
    loss_pods = -1
    loss_slices = -1
    for c in range(low, high):
        if ends and tree.named[c] == 0:
            counts.pods[c] = 0
            counts.pods_wl[c] = 0
        counts.pods[c] -= counts.pods[c] % unit
        counts.pods_wl[c] -= counts.pods_wl[c] % unit
        pods += counts.pods[c]
        slices += counts.slices[c]
        affinity += counts.affinity[c]
        leader = max(leader, counts.leader[c])
        if counts.leader[c] > 0 or not has_leader:
            lost = counts.pods[c] - counts.pods_wl[c]
            if loss_pods < 0 or lost < loss_pods:
                loss_pods = lost
            lost = counts.slices[c] - counts.slices_wl[c]
            if loss_slices < 0 or lost < loss_slices:
                loss_slices = lost
    counts.pods[d] = pods
    counts.slices[d] = slices
    counts.affinity[d] = affinity
    counts.leader[d] = leader
    counts.pods_wl[d] = pods - loss_pods if loss_pods >= 0 else 0
    counts.slices_wl[d] = slices - loss_slices if loss_slices >= 0 else 0


def part_of(leaves: Leaves, ask: Ask, low: int, high: int) -> tuple[Leaves, Ask]:
    """Return both cut to leaves ``low`` up to ``high``; views, nothing is copied."""
    part = Leaves(leaves.free[:, low:high], leaves.usable[low:high], leaves.class_of[low:high])
    return part, ask._replace(leaf_allowed=ask.leaf_allowed[low:high])


def allowed_leaves(leaves: Leaves, ask: Ask) -> NDArray[np.bool_]:
    """Return (leaves,) whether a pod may run on each leaf at all, however full it is."""
    allowed = leaves.usable & ask.class_allowed[leaves.class_of]
    return (allowed & ask.leaf_allowed if ask.leaf_allowed.size else allowed).astype(np.bool_)


def quotients(leaves: Leaves, ask: Ask) -> Quantity:
    """Return (Q, leaves): the pods that would fit if each resource were the only one asked for.

    Not cut at 0: what a leaf lacks most of all is its scarcest resource.
    """
    return np.floor(leaves.free[ask.rows] / ask.amounts[:, None]).astype(np.int64)
