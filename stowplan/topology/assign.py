"""How many pods of a podset go to each leaf: the descent from the chosen domains (section 6)."""

from typing import NamedTuple

import numpy as np

from stowplan.topology.choose import (
    FOUND,
    NOT_ENOUGH,
    Order,
    Search,
    Style,
    choose_domains,
    heapify,
    keep_roomy,
    leader_front,
    order_at,
    pop,
    room_of,
    tightest,
)
from stowplan.topology.fit import (
    NEVER,
    Ask,
    Counts,
    Leaves,
    Slicing,
    add_to_path,
    catch_up,
    count_leaf,
)
from stowplan.topology.jit import kernel
from stowplan.topology.tree import DomainTree, Flags, Index, Quantity, Room, TreeArrays


class Workspace(NamedTuple):
    """Scratch and results of one placement over D domains; reused: kernels allocate nothing.

    Attributes:
        pool: (leaves,) domains to hand out from.
        chosen: (leaves,) domains that got something; in the end the leaves, ascending.
        below: (leaves,) the same, one level down.
        given: (D,) how much each domain got; in the end pods per leaf.
        report: (6,) outcome, level used, slices that fit, first domain in order, slices needed,
            the leaf that hosts the leader (-1 for none).
        result: (1 + 2 leaves,) level used, then leaf and pods of each leaf that got some; leaves
            are counted from the first one.
    """

    pool: Index
    chosen: Index
    below: Index
    given: Quantity
    report: Quantity
    result: Quantity

    @classmethod
    def of(cls, tree: DomainTree) -> "Workspace":
        """Allocate for ``tree``."""
        widest = max(tree.leaf_count, 1)
        return cls(
            pool=np.zeros(widest, dtype=np.int32),
            chosen=np.zeros(widest, dtype=np.int32),
            below=np.zeros(widest, dtype=np.int32),
            given=np.zeros(max(tree.domain_count, 1), dtype=np.int64),
            report=np.zeros(6, dtype=np.int64),
            result=np.zeros(1 + 2 * widest, dtype=np.int64),
        )


@kernel
def place_warm(
    level_start: Index,
    parent: Index,
    child_start: Index,
    named: Flags,
    free: Room,
    usable: Flags,
    class_of: Index,
    changed: Index,
    unit_at: Quantity,
    pool: Index,
    chosen: Index,
    below: Index,
    given: Quantity,
    report: Quantity,
    result: Quantity,
    rows: Index,
    amounts: Room,
    class_allowed: Flags,
    leaf_allowed: Flags,
    pods: Quantity,
    seen: int,
    head: int,
    excluded: Index,
    level: int,
    low: int,
    high: int,
    stop: int,
    required: bool,
    need: int,
    fill_from: int,
) -> int:
    """Bring the plain counts up to date, place, and return how many leaves got pods.

    The whole decision is this one call, since crossing into compiled code costs more than it does
    inside. So do named tuples (10 us for six, against 2 us for flat arguments): they are made here.

    In this order the arguments are the fields of ``TreeArrays`` and ``Leaves``; the ring of
    changes; ``unit_at`` of ``Slicing.none``; the fields of ``Workspace`` and ``Ask``; the counts,
    right up to the change ``seen`` and afterwards up to ``head``; leaves left out this time; and
    the fields of ``Search`` and ``Style`` that a plain request has.
    """
    tree = TreeArrays(level_start, parent, child_start, named)
    leaves = Leaves(free, usable, class_of)
    ask = Ask(rows, amounts, class_allowed, leaf_allowed)
    work = Workspace(pool, chosen, below, given, report, result)
    catch_up(tree, leaves, ask, changed, seen, head, pods)
    first_leaf = level_start[level_start.size - 2]
    for e in range(excluded.size):
        d = first_leaf + excluded[e]
        add_to_path(parent, d, -pods[d], pods)
    used = place(
        tree,
        Search(level, low, high, stop, required, need, 0),
        Slicing(level_start.size - 2, 1, unit_at, 0, NEVER, unit_at, unit_at),
        Style(fill_from, False, False),
        Counts(pods, pods, pods, pods, report, report),  # the last two are never read
        True,
        work,
    )
    for e in range(excluded.size):
        d = first_leaf + excluded[e]
        fits = count_leaf(leaves, ask, excluded[e])
        add_to_path(parent, d, fits - pods[d], pods)
    return used


@kernel
def place(
    tree: TreeArrays,
    search: Search,
    slicing: Slicing,
    style: Style,
    counts: Counts,
    plain: bool,
    work: Workspace,
) -> int:
    """Choose domains, go down to the leaves and return how many leaves got pods; 0: does not fit.

    Args:
        tree: the domains.
        search: where to place how much.
        slicing: which pods stay together.
        style: how domains are filled.
        counts: what fits.
        plain: they are the counts of a request without slices, leader and affinity.
        work: the answer is in ``result`` and ``report``.
    """
    work.report[4] = search.need
    work.report[5] = -1
    used = choose_domains(
        tree,
        search,
        slicing.level,
        style,
        counts,
        plain,
        work.pool,
        work.chosen,
        work.report,
    )
    if work.report[0] != FOUND:
        return 0
    level = work.report[1]
    for i in range(used):
        work.pool[i] = work.chosen[i]
    used, host, missing = take(
        work.pool,
        used,
        0,
        search.need,
        search.leaders,
        0,
        order_at(style, level, slicing.level),
        counts,
        work.chosen,
        work.given,
    )
    if missing > 0:
        return _broken_promise(work)
    return descend(tree, level, used, host, search, slicing, style, counts, work)


@kernel
def descend(
    tree: TreeArrays,
    level: int,
    used: int,
    host: int,
    search: Search,
    slicing: Slicing,
    style: Style,
    counts: Counts,
    work: Workspace,
) -> int:
    """Go down from the domains of ``level`` that were given slices to the leaves (section 6).

    ``chosen`` and ``given`` hold the domains and their slices, ``host`` is the one with the leader.
    Returns how many leaves got pods and writes them to ``result``.
    """
    work.result[0] = level
    together = min(slicing.level, slicing.share_level)
    used, host, missing = descend_together(
        tree, level, together, used, host, search, slicing, style, counts, work
    )
    level = max(level, together)
    used, host, short = descend_apart(
        tree, level, slicing.level, used, host, slicing, style, counts, work
    )
    missing += short
    for i in range(used):
        work.given[work.chosen[i]] *= slicing.size
    if slicing.rest > 0:
        work.given[host] += slicing.rest
        host = -1
    leaf_level = tree.level_start.size - 2
    used, host, short = descend_apart(
        tree, max(level, slicing.level), leaf_level, used, host, slicing, style, counts, work
    )
    if missing + short > 0:
        return _broken_promise(work)
    work.report[5] = host
    used = drop_empty(work.chosen, used, work.given)
    work.chosen[:used].sort()
    first_leaf = tree.level_start[leaf_level]
    for i in range(used):
        work.result[1 + 2 * i] = work.chosen[i] - first_leaf
        work.result[2 + 2 * i] = work.given[work.chosen[i]]
    return used


@kernel
def _broken_promise(work: Workspace) -> int:
    """Say that the counts promised what their parts do not hold: a bug, not an answer."""
    work.report[0] = NOT_ENOUGH
    return 0


@kernel
def descend_together(
    tree: TreeArrays,
    level: int,
    last: int,
    used: int,
    host: int,
    search: Search,
    slicing: Slicing,
    style: Style,
    counts: Counts,
    work: Workspace,
) -> tuple[int, int, int]:
    """Hand the slices of the chosen domains out to all their children, level by level to ``last``.

    So few racks come before few hosts. Returns what ``take`` does.
    """
    missing = 0
    while level < last:
        level += 1
        size = 0
        for i in range(used):
            size = add_children(tree, work.chosen[i], work.pool, size)
        used, host, short = take(
            work.pool,
            size,
            0,
            search.need,
            search.leaders,
            0,
            order_at(style, level, slicing.level),
            counts,
            work.chosen,
            work.given,
        )
        missing += short
    return used, host, missing


@kernel
def descend_apart(
    tree: TreeArrays,
    level: int,
    last: int,
    used: int,
    host: int,
    slicing: Slicing,
    style: Style,
    counts: Counts,
    work: Workspace,
) -> tuple[int, int, int]:
    """Hand what each chosen domain has out to its own children, level by level to ``last``.

    That is slices down to the slice level, and pods below it; so every slice, and every share,
    stays inside its domain. Returns what ``take`` does, for the last level.
    """
    missing = 0
    while level < last:
        level += 1
        unit = 0 if level <= slicing.level else slicing.unit_at[level]
        order = order_at(style, level, slicing.level)
        filled = 0
        next_host = -1
        for i in range(used):
            d = work.chosen[i]
            filled, hosting, short = take(
                work.pool,
                add_children(tree, d, work.pool, 0),
                filled,
                work.given[d] // max(unit, 1),
                1 if d == host else 0,
                unit,
                order,
                counts,
                work.below,
                work.given,
            )
            missing += short
            if hosting >= 0:
                next_host = hosting
        for i in range(filled):
            work.chosen[i] = work.below[i]
            work.given[work.below[i]] *= max(unit, 1)
        used = filled
        host = next_host
    return used, host, missing


@kernel
def add_children(tree: TreeArrays, domain: int, pool: Index, size: int) -> int:
    """Append the children of ``domain`` to ``pool``, which holds ``size``; return the new size."""
    for child in range(tree.child_start[domain], tree.child_start[domain + 1]):
        pool[size] = child
        size += 1
    return size


@kernel
def take(
    pool: Index,
    size: int,
    filled: int,
    need: int,
    leaders: int,
    unit: int,
    order: Order,
    counts: Counts,
    out: Index,
    given: Quantity,
) -> tuple[int, int, int]:
    """Hand ``need`` units and the leader out to domains of ``pool``, in plain order.

    Args:
        pool: domains; rearranged.
        size: how many.
        filled: how many entries of ``out`` are in use already.
        need: units to hand out.
        leaders: 1 when the leader goes with them.
        unit: see ``room_of``: 0 for slices, else pods per unit.
        order: how domains are compared.
        counts: what fits.
        out: the domains that got something are appended here.
        given: their units.

    Returns:
        Entries of ``out`` in use, the domain that hosts the leader or -1, and what is still missing
        (0 whenever the counts hold).
    """
    host = -1
    front = -1
    if leaders > 0:
        at = leader_front(pool, size, need, unit, False, order, counts)
        if at >= 0:
            front = pool[at]
            pool[at] = pool[size - 1]
            size -= 1
    else:
        size = keep_roomy(pool, size, unit, counts)
    heapify(pool, size, False, order, counts)
    while need > 0 or leaders > 0:
        if front >= 0:
            d = front
            front = -1
        elif size > 0:
            d = pop(pool, size, False, order, counts)
            size -= 1
        else:
            break
        holds = room_of(d, unit, leaders > 0, counts) >= need
        if leaders > 0:
            holds = holds and counts.leader[d] >= leaders
        if holds and order.packing:
            d = tightest(d, pool, size, need, unit, leaders > 0, False, order, counts)
        share = min(room_of(d, unit, leaders > 0, counts), need)
        if leaders > 0 and counts.leader[d] > 0:
            leaders = 0
            host = d
        if share > 0 or host == d:
            out[filled] = d
            given[d] = share
            filled += 1
        need -= share
    return filled, host, need + leaders


@kernel
def drop_empty(chosen: Index, used: int, given: Quantity) -> int:
    """Keep the leaves that got pods; the leader's leaf may have none."""
    kept = 0
    for i in range(used):
        if given[chosen[i]] > 0:
            chosen[kept] = chosen[i]
            kept += 1
    return kept
