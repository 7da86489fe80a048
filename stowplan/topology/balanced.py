"""Even shares for a preferred request: balanced placement (domain-fit, section 9).

The shares are those of the domains one level below the asked one, or of the asked level itself
where that holds the slices. The smallest is as large as it can be; then the fewest domains of the
asked level serve; all lie below one parent. ``even_shares`` is the whole of it, and the descent to
the leaves goes on from there.

Only who asks for it by name comes here, so what runs outside the kernels may allocate.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stowplan.topology.choose import MOST, Order, Search, heapify, pop
from stowplan.topology.fit import Counts, Slicing, add_up
from stowplan.topology.jit import kernel
from stowplan.topology.tree import Index, Quantity, TreeArrays

MOST_STATES = 1 << 16  # ends the search for a best set; see there


@dataclass(frozen=True, slots=True, eq=False)
class Shares:
    """Which domains get how many slices.

    Attributes:
        level: the level of the domains.
        floor: no domain gets less.
        domains: (K,) in the order in which they were filled.
        slices: (K,) what each gets; never more than it holds.
        host: the domain that hosts the leader beside its slices; -1 without a leader.
    """

    level: int
    floor: int
    domains: Index
    slices: Quantity
    host: int


class Asked(NamedTuple):
    """What even shares are looked for.

    Attributes:
        tree: the domains.
        search: the level asked, its domains to look at, and how much to place.
        slicing: which pods stay together.
        order: how domains are compared.
        counts: what fits.
    """

    tree: TreeArrays
    search: Search
    slicing: Slicing
    order: Order
    counts: Counts


def even_shares(
    tree: TreeArrays, search: Search, slicing: Slicing, use_affinity: bool, counts: Counts
) -> Shares | None:
    """Return the even shares of a preferred request, or None: there is no balanced answer.

    A domain without a name is no share, nor is one below it. Where a limit holds per domain of a
    level above the shares, they could not keep it: no balanced answer either.

    Args:
        tree: the domains.
        search: the level asked, its domains to look at, and how much to place.
        slicing: which pods stay together. A smaller last slice is hosted as a leader is.
        use_affinity: preferred node affinity counts before room.
        counts: what fits. They stay as they are, and hold for the descent too: below the chosen
            domains nothing is pruned but who could host the leader elsewhere.
    """
    level = search.level + (search.level < slicing.level)
    if search.need < 1 or slicing.share_level < level:
        return None
    order = Order(packing=True, use_affinity=use_affinity)
    counts = _complete(counts, tree.parent.size)
    named, kept = blank(counts), blank(counts)
    starts, pool = tree.level_start.copy(), np.empty_like(tree.parent)
    asked = Asked(tree, search, slicing, order, counts)
    prune(asked, search.low, search.high, 0, starts, named)
    asked = asked._replace(counts=named)
    floor, low, high = best_group(asked, starts, pool, kept)
    if floor == 0:
        return None
    prune(asked, low, high, floor, starts, kept)
    need, leaders, size = search.need, search.leaders, slicing.size
    candidates = np.arange(low, high, dtype=np.int32)
    if level > search.level:
        above = best_set(by_evenness(tree, low, high, kept), need, leaders, size, order, kept)
        if above is None:
            return None
        candidates = _children(tree, np.sort(above))
    chosen = best_set(candidates, need, leaders, size, order, kept)
    if chosen is None:
        return None
    given = spread(chosen, need, leaders, floor, order, kept)
    if given is None:
        return None
    domains, slices = given
    return Shares(level, floor, domains, slices, int(domains[0]) if leaders else -1)


def blank(counts: Counts) -> Counts:
    """Return counts of as many domains, to be filled."""
    return Counts(*(np.empty_like(column) for column in counts))


def _complete(counts: Counts, domain_count: int) -> Counts:
    """Return counts with a leader and an affinity per domain, 0 where neither is counted."""
    if counts.leader.size == domain_count:
        return counts
    none = np.zeros(domain_count, dtype=np.int64)
    return counts._replace(leader=none, affinity=none)


def _children(tree: TreeArrays, domains: Index) -> Index:
    bounds = zip(tree.child_start[domains], tree.child_start[domains + 1], strict=True)
    return np.concatenate([np.arange(low, high, dtype=np.int32) for low, high in bounds])


# --- The group and its floor (steps 1 to 5) ------------------------------------------------------


@kernel
def best_group(asked: Asked, starts: Index, pool: Index, kept: Counts) -> tuple[int, int, int]:
    """Return the highest floor, and the siblings of the asked level that have it as a range.

    Floor 0: none has. Of equal floors the fewest domains decide, then the first.

    Args:
        asked: what is looked for.
        starts: (L + 1,) scratch.
        pool: (D,) scratch.
        kept: (D,) scratch.
    """
    tree, search = asked.tree, asked.search
    best, fewest, best_low, best_high = 0, 0, search.low, search.low
    low = search.low
    while low < search.high:
        above = tree.parent[low]
        high = search.high if above < 0 else min(int(tree.child_start[above + 1]), search.high)
        if above < 0 or tree.named[above] > 0:
            floor, used = _floor_of(asked, low, high, starts, pool, kept)
            if floor > best or (floor == best and used < fewest):
                best, fewest, best_low, best_high = floor, used, low, high
        low = high
    return best, best_low, best_high


@kernel
def _floor_of(
    asked: Asked, low: int, high: int, starts: Index, pool: Index, kept: Counts
) -> tuple[int, int]:
    """Return the floor of one group of siblings, 0 for none, and how many of them it takes.

    The second floor leaves room for the leader in the last domain of the workers too.
    """
    tree, search, counts = asked.tree, asked.search, asked.counts
    first, end = low, high
    if search.level < asked.slicing.level:
        first, end = int(tree.child_start[low]), int(tree.child_start[high])
    size = _list(first, end, pool)
    used, host, last = greedy(pool, size, search.need, search.leaders, asked.order, counts)
    floor = search.need // max(used, 1)
    if host >= 0:
        floor = min(floor, counts.slices_wl[host])
    if last >= 0:
        floor = min(floor, counts.slices[last])
    second = floor
    if host >= 0 and last >= 0:
        second = min(floor, counts.slices_wl[last])
    while used > 0 and floor > 0:
        prune(asked, low, high, floor, starts, kept)
        size = _list(low, high, pool)
        needed, _, _ = greedy(pool, size, search.need, search.leaders, asked.order, kept)
        if needed > 0:
            return floor, needed
        if floor == second:
            break
        floor = second
    return 0, 0


@kernel
def _list(low: int, high: int, pool: Index) -> int:
    for i in range(high - low):
        pool[i] = low + i
    return high - low


@kernel
def greedy(
    pool: Index, size: int, need: int, leaders: int, order: Order, counts: Counts
) -> tuple[int, int, int]:
    """Return how many domains a largest-first filling takes, the leader's and the last other one.

    The first is 0 when everything does not fit, the others are -1 where there is none. ``pool``
    holds ``size`` domains and is rearranged: those taken stand last. The filling ends at a domain
    without slices, also where affinity puts others after it.
    """
    taken, host, last = 0, -1, -1
    if leaders > 0:
        heapify(pool, size, True, order, counts)
        host = pop(pool, size, True, order, counts) if size > 0 else -1
        if host < 0 or counts.leader[host] == 0:
            return 0, -1, -1
        size -= 1
        pool[size] = host
        taken = 1
        need -= counts.slices_wl[host]
    heapify(pool, size, False, order, counts)
    while need > 0 and size > 0:
        last = pop(pool, size, False, order, counts)
        if counts.slices[last] == 0:
            break
        size -= 1
        pool[size] = last
        taken += 1
        need -= counts.slices[last]
    return (taken, host, last) if need <= 0 else (0, -1, -1)


@kernel
def prune(asked: Asked, low: int, high: int, floor: int, starts: Index, kept: Counts) -> None:
    """Copy the counts of siblings and their children to ``kept``, without what is below ``floor``.

    Floor 0 takes away only what has no name. Children first; then the siblings are summed again
    and judged too. Children below the slice level hold no slices to be judged by, and nobody looks
    at them.
    """
    tree, search = asked.tree, asked.search
    if search.level == asked.slicing.level:
        for d in range(low, high):
            _keep(d, tree.named[d] > 0, floor, asked.counts, kept)
        return
    for d in range(low, high):
        for c in range(tree.child_start[d], tree.child_start[d + 1]):
            _keep(c, tree.named[d] > 0 and tree.named[c] > 0, floor, asked.counts, kept)
    for i in range(starts.size):  # a tree in which the siblings are all that is summed
        starts[i] = low if i <= search.level else high
    siblings = TreeArrays(starts, tree.parent, tree.child_start, tree.named)
    has_leader = search.leaders > 0 and asked.slicing.rest == 0
    add_up(siblings, asked.slicing, has_leader, kept)
    for d in range(low, high):
        _keep(d, tree.named[d] > 0, floor, kept, kept)


@kernel
def _keep(d: int, named: bool, floor: int, counts: Counts, kept: Counts) -> None:
    """Copy what a domain holds: nothing with too few slices, no leader with too few beside it."""
    stays = named and counts.slices[d] >= floor
    hosts = stays and counts.slices_wl[d] >= floor
    kept.slices[d] = counts.slices[d] if stays else 0
    kept.pods[d] = counts.pods[d] if stays else 0
    kept.slices_wl[d] = counts.slices_wl[d] if hosts else 0
    kept.pods_wl[d] = counts.pods_wl[d] if hosts else 0
    kept.leader[d] = counts.leader[d] if hosts else 0
    kept.affinity[d] = counts.affinity[d] if named else 0


# --- The best set (step 6) -----------------------------------------------------------------------


def by_evenness(tree: TreeArrays, low: int, high: int, counts: Counts) -> Index:
    """Return siblings in the order in which the best set at the asked level is looked for.

    Those that host the leader first, then more slices beside it, then more even children.
    """
    first, end = tree.child_start[low], tree.child_start[high]
    # Ascending, so that equal children have equal sums, in whichever order they come.
    ascending = np.lexsort((counts.pods[first:end], tree.parent[first:end]))
    evenness = np.zeros(high - low)
    add_evenness(tree.child_start, low, high, counts.pods[first:end][ascending], evenness)
    keys = (-evenness, -counts.slices_wl[low:high], -counts.leader[low:high])
    return (low + np.lexsort(keys)).astype(np.int32)  # stable: then by values


@kernel
def add_evenness(
    child_start: Index, low: int, high: int, pods: Quantity, evenness: NDArray[np.float64]
) -> None:
    """Add the entropy, base 2, of how the pods of each domain lie in its children."""
    first = child_start[low]
    for d in range(low, high):
        total = 0
        for c in range(child_start[d], child_start[d + 1]):
            total += pods[c - first]
        for c in range(child_start[d], child_start[d + 1]):
            if pods[c - first] > 0:
                part = pods[c - first] / total
                evenness[d - low] -= part * math.log2(part)


class States(NamedTuple):
    """What sets of domains leave missing, and the first way there that was found.

    Attributes:
        best: (3,) pods that are missing at the best end, the state before it, the last domain.
        hold: (K + 1,) the most pods that so many of the domains to come hold; a set has K.
        taken: (S,) how many domains.
        leaders: (S,) leaders that are missing.
        pods: (S,) pods that are missing; negative where there is room to spare.
        before: (S,) the state without the last domain.
        domain: (S,) the last domain.
        slots: (2 S,) 1 + state, to be found by ``taken``, ``leaders`` and ``pods``; 0: none.
    """

    best: Quantity
    hold: Quantity
    taken: Index
    leaders: Index
    pods: Quantity
    before: Index
    domain: Index
    slots: Index

    @classmethod
    def of(cls, used: int, most: int) -> "States":
        """Allocate for ``most`` states, a power of two, of sets of ``used`` domains."""
        best, hold = np.zeros(3, dtype=np.int64), np.zeros(used + 1, dtype=np.int64)
        taken, leaders, before, domain = np.empty((4, most), dtype=np.int32)
        pods, slots = np.empty(most, dtype=np.int64), np.zeros(2 * most, dtype=np.int32)
        return cls(best, hold, taken, leaders, pods, before, domain, slots)


def best_set(
    candidates: Index,
    need: int,
    leaders: int,
    size: int,
    order: Order,
    counts: Counts,
    most_states: int = MOST_STATES,
) -> Index | None:
    """Return as few domains as ``greedy`` takes, with the least pods to spare; None: no set.

    Args:
        candidates: domains in the order in which they are looked at: the first of equal sets stays.
        need: slices that the set must hold, counted in pods.
        leaders: 1 when it hosts the leader too, whose loss counts in the one domain that hosts it.
        size: pods of one slice.
        order: how domains are compared.
        counts: what fits.
        most_states: how many ways to begin a set are looked at. Where there are more, the set is
            the best so far, else that of ``greedy``: it may spare more than the least.
    """
    pool = candidates.copy()
    used, _, _ = greedy(pool, pool.size, need, leaders, order, counts)
    if used == 0:
        return None
    able = candidates[(counts.slices[candidates] > 0) | (counts.leader[candidates] > 0)]
    largest = np.sort(counts.pods[able])[::-1].copy()
    kinds = np.zeros((2, able.size), dtype=np.int32)
    chosen = pool[pool.size - used :]
    states = States.of(used, most_states)
    count = least_spare(able, need * size, leaders, counts, largest, kinds, states, chosen)
    return chosen if states.best[0] > -MOST or count == most_states else None


@kernel
def least_spare(
    candidates: Index,
    pods: int,
    leaders: int,
    counts: Counts,
    largest: Quantity,
    kinds: Index,
    states: States,
    chosen: Index,
) -> int:
    """Write the best set of its size to ``chosen``, if any, and return how many states there were.

    A dynamic programme over what is still missing. Domains with equal counts are of one kind: what
    one adds to a state leads nowhere new with another, so each state meets each kind once.
    ``candidates`` have slices or room for the leader, ``largest`` are their pods, descending;
    ``kinds`` (2, candidates), a domain of each and how many states it was added to, are zeros yet.
    """
    states.best[0] = -MOST
    states.taken[0], states.leaders[0], states.pods[0] = 0, leaders, pods
    count, kind_count = 1, 0
    for i in range(candidates.size):
        d = candidates[i]
        _pass(counts.pods[d], largest[: candidates.size - i], states.hold)
        kind = _kind_of(d, kinds[0], kind_count, counts)
        if kind == kind_count:
            kinds[0, kind] = d
            kind_count += 1
        low, high = kinds[1, kind], count
        kinds[1, kind] = high
        for missing in range(leaders + 1):  # states that have their leader come first
            for s in range(low, high):
                if states.leaders[s] != missing:
                    continue
                if counts.slices[d] > 0:
                    left = states.pods[s] - counts.pods[d]
                    count = _reach(s, d, missing, left, count, states)
                if missing > 0 and counts.leader[d] > 0:
                    left = states.pods[s] - counts.pods_wl[d]
                    count = _reach(s, d, missing - 1, left, count, states)
        if states.best[0] == 0 or count == states.pods.size:
            break
    if states.best[0] > -MOST:
        before, domain = states.best[1], states.best[2]
        for i in range(chosen.size - 1, -1, -1):
            chosen[i] = domain
            before, domain = states.before[before], states.domain[before]
    return count


@kernel
def _pass(pods: int, largest: Quantity, hold: Quantity) -> None:
    """Take a domain out of those to come, and say again what these hold."""
    left = largest.size - 1
    at = left
    while largest[at] < pods:
        at -= 1
    largest[at:left] = largest[at + 1 : left + 1]
    for k in range(1, hold.size):
        hold[k] = hold[k - 1] + largest[k - 1] if k <= left else -MOST


@kernel
def _kind_of(d: int, kinds: Index, kind_count: int, counts: Counts) -> int:
    """Return the kind of a domain, ``kind_count`` when it is a new one."""
    for kind in range(kind_count):
        other = kinds[kind]
        if (
            counts.pods[d] == counts.pods[other]
            and counts.pods_wl[d] == counts.pods_wl[other]
            and counts.leader[d] == counts.leader[other]
            and (counts.slices[d] > 0) == (counts.slices[other] > 0)
        ):
            return kind
    return kind_count


@kernel
def _reach(before: int, domain: int, leaders: int, pods: int, count: int, states: States) -> int:
    """Note what is missing once ``domain`` is taken too; return how many states there are then.

    A full set is no state, but may be the best end. What holds everything already is none either,
    nor what the domains to come cannot complete.
    """
    taken = states.taken[before] + 1
    more = states.hold.size - 1 - taken
    if more == 0:
        if leaders == 0 and pods <= 0 and pods > states.best[0]:
            states.best[0], states.best[1], states.best[2] = pods, before, domain
        return count
    if pods > states.hold[more] or (leaders == 0 and pods <= 0) or count == states.pods.size:
        return count
    mixed = 40503 * pods + 1000003 * taken + leaders
    slot = (mixed ^ (mixed >> 17)) & (states.slots.size - 1)
    while states.slots[slot] > 0:
        s = states.slots[slot] - 1
        if states.pods[s] == pods and states.taken[s] == taken and states.leaders[s] == leaders:
            return count
        slot = (slot + 1) & (states.slots.size - 1)
    states.slots[slot] = count + 1
    states.taken[count], states.leaders[count], states.pods[count] = taken, leaders, pods
    states.before[count], states.domain[count] = before, domain
    return count + 1


# --- The shares (step 8) -------------------------------------------------------------------------


def spread(
    chosen: Index, need: int, leaders: int, floor: int, order: Order, counts: Counts
) -> tuple[Index, Quantity] | None:
    """Return domains in order and their slices: the floor, and the extra front to back.

    None when ``need`` slices cannot be handed out so. The leader sits in the first domain.
    """
    domains = chosen.copy()
    arrange(domains, order, counts)
    room = counts.slices[domains]
    room[:leaders] = counts.slices_wl[domains[:leaders]]
    extra = need - floor * domains.size
    slices = floor + np.diff(np.minimum(np.cumsum(room - floor), extra), prepend=0)
    if extra < 0 or (room < floor).any() or slices.sum() < need:
        return None
    return domains, slices


@kernel
def arrange(domains: Index, order: Order, counts: Counts) -> None:
    """Bring domains into the order with leader."""
    heapify(domains, domains.size, True, order, counts)
    for size in range(domains.size, 0, -1):
        domains[size - 1] = pop(domains, size, True, order, counts)
    domains[:] = domains[::-1].copy()
