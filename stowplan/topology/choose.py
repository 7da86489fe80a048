"""The total order of domains, the tightest of them, and which ones to fill (sections 4 and 5)."""

from typing import NamedTuple

from stowplan.topology.fit import Counts
from stowplan.topology.jit import kernel
from stowplan.topology.tree import Flags, Index, Quantity, TreeArrays

FOUND = 0
NOT_ENOUGH = 1
NO_LEADER_HOST = 2

MOST = 2**62  # more than any sum of counts
_BLOCK = 256


class Order(NamedTuple):
    """How domains of one level are compared.

    Attributes:
        packing: fullest use of few domains first; else the least room first.
        use_affinity: preferred node affinity counts before room.
        roomy: among equal slices more pods come first, not fewer. Below the slice level slices are
            all 0, so pods are what is compared there.
    """

    packing: bool
    use_affinity: bool
    roomy: bool = False


class Style(NamedTuple):
    """How domains are filled, level by level.

    Attributes:
        fill_from: from this level on the least room comes first; above it, packing.
        use_affinity: preferred node affinity counts before room.
        roomy_below: packing goes on below the slice level: the roomiest domains come first there.
            Kueue begins with the smallest (a quirk, section 6).
    """

    fill_from: int
    use_affinity: bool
    roomy_below: bool


class Search(NamedTuple):
    """Where to place how much; whole numbers only, so that it crosses into the kernel cheaply.

    Attributes:
        level: where to begin.
        low: first domain to look at on that level.
        high: end of them.
        stop: the coarsest level to try; ``level`` itself where there is no other.
        required: one domain or nothing; else several domains of ``stop`` in the end.
        need: slices to place.
        leaders: 1 when a leader, or a smaller last slice, goes with them, else 0.
    """

    level: int
    low: int
    high: int
    stop: int
    required: bool
    need: int
    leaders: int


@kernel
def order_at(style: Style, level: int, slice_level: int) -> Order:
    """Return how domains of ``level`` are compared."""
    packing = level < style.fill_from
    return Order(packing, style.use_affinity, packing and style.roomy_below and level > slice_level)


@kernel
def precedes(a: int, b: int, with_leader: bool, order: Order, counts: Counts) -> bool:
    """Return whether domain ``a`` stands before ``b``.

    Numbers of domains follow their paths of values, so the smaller number settles what is left.
    """
    if with_leader and counts.leader[a] != counts.leader[b]:
        return bool(counts.leader[a] > counts.leader[b])
    if order.use_affinity and counts.affinity[a] != counts.affinity[b]:
        return bool(counts.affinity[a] > counts.affinity[b])
    slices = counts.slices_wl if with_leader else counts.slices
    if slices[a] != slices[b]:
        return bool((slices[a] > slices[b]) == order.packing)
    pods = counts.pods_wl if with_leader else counts.pods
    if pods[a] != pods[b]:
        return bool((pods[a] < pods[b]) != order.roomy)
    return a < b


@kernel
def sink(heap: Index, size: int, at: int, with_leader: bool, order: Order, counts: Counts) -> None:
    """Move ``heap[at]`` down until nothing below it precedes it."""
    moved = heap[at]
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and precedes(heap[child + 1], heap[child], with_leader, order, counts):
            child += 1
        if not precedes(heap[child], moved, with_leader, order, counts):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = moved


@kernel
def heapify(heap: Index, size: int, with_leader: bool, order: Order, counts: Counts) -> None:
    """Arrange the first ``size`` domains so that ``pop`` hands them out in order.

    A heap, because few of many domains are taken: sorting all of them would cost more.
    """
    for at in range(size // 2 - 1, -1, -1):
        sink(heap, size, at, with_leader, order, counts)


@kernel
def pop(heap: Index, size: int, with_leader: bool, order: Order, counts: Counts) -> int:
    """Take the first domain out of the heap of ``size``; ``size - 1`` are left."""
    first = heap[0]
    heap[0] = heap[size - 1]
    sink(heap, size - 1, 0, with_leader, order, counts)
    return int(first)


@kernel
def room_of(domain: int, unit: int, with_leader: bool, counts: Counts) -> int:
    """Return how many units ``domain`` holds: slices (unit 0), else groups of ``unit`` pods."""
    if unit == 0:
        return int(counts.slices_wl[domain] if with_leader else counts.slices[domain])
    pods = counts.pods_wl[domain] if with_leader else counts.pods[domain]
    return int(pods // unit)


@kernel
def tightest(
    first: int,
    rest: Index,
    size: int,
    need: int,
    unit: int,
    with_leader: bool,
    sort_with_leader: bool,
    order: Order,
    counts: Counts,
) -> int:
    """Return the domain with the least room that holds ``need``, leader included.

    Args:
        first: the first domain in order, which holds it.
        rest: domains after it, in any arrangement.
        size: how many of them.
        need: units to hold.
        unit: see ``room_of``.
        with_leader: the leader is still missing, so it must fit too.
        sort_with_leader: which order decides between equals.
        order: how domains are compared; only those with the affinity of ``first`` qualify.
        counts: what fits.
    """
    best = first
    least = room_of(first, unit, with_leader, counts)
    for i in range(size):
        d = rest[i]
        room = room_of(d, unit, with_leader, counts)
        if room < need or room > least or (with_leader and counts.leader[d] == 0):
            continue
        if order.use_affinity and counts.affinity[d] != counts.affinity[first]:
            continue
        if room < least or (best != first and precedes(d, best, sort_with_leader, order, counts)):
            best = d
            least = room
    return best


@kernel
def leader_front(
    pool: Index,
    size: int,
    need: int,
    unit: int,
    sort_with_leader: bool,
    order: Order,
    counts: Counts,
) -> int:
    """Return the position of the domain to host the leader first, or -1 (section 5, collect 1).

    It is the first in order that can host it and whose loss all of them together can bear.
    """
    if size < 2:
        return -1
    total = 0
    for i in range(size):
        total += room_of(pool[i], unit, False, counts)
    front = -1
    for i in range(size):
        d = pool[i]
        if counts.leader[d] == 0:
            continue
        loss = room_of(d, unit, False, counts) - room_of(d, unit, True, counts)
        if total - loss >= need and (
            front < 0 or precedes(d, pool[front], sort_with_leader, order, counts)
        ):
            front = i
    return front


@kernel
def first_of(low: int, high: int, with_leader: bool, order: Order, counts: Counts) -> int:
    """Return the first domain in order of ``low`` up to ``high``, which must not be empty."""
    first = low
    for d in range(low + 1, high):
        if precedes(d, first, with_leader, order, counts):
            first = d
    return first


@kernel
def first_named(
    low: int, high: int, with_leader: bool, order: Order, counts: Counts, named: Flags
) -> int:
    """Return the first domain in order of those that have a name, or -1."""
    first = -1
    for d in range(low, high):
        if named[d] and (first < 0 or precedes(d, first, with_leader, order, counts)):
            first = d
    return first


@kernel
def one_domain(
    low: int, high: int, need: int, leaders: int, order: Order, counts: Counts, named: Flags
) -> int:
    """Return the one domain of ``low`` up to ``high`` to hold everything, or -1.

    Packing: the tightest of those that share the affinity of the first that holds it. Least room
    first: the first in order that holds it. Both are one pass, since nobody needs the order itself.
    """
    best = -1
    for d in range(low, high):
        if named[d] == 0 or counts.slices_wl[d] < need:
            continue
        if leaders > 0 and counts.leader[d] < leaders:
            continue
        if best < 0:
            best = d
        elif order.use_affinity and counts.affinity[d] != counts.affinity[best]:
            if counts.affinity[d] > counts.affinity[best]:
                best = d
        elif order.packing and counts.slices_wl[d] != counts.slices_wl[best]:
            if counts.slices_wl[d] < counts.slices_wl[best]:
                best = d
        elif precedes(d, best, leaders > 0, order, counts):
            best = d
    return best


@kernel
def least_sufficient(low: int, high: int, need: int, pods: Quantity, named: Flags) -> int:
    """Return what ``one_domain`` returns for a plain request: the least count that suffices.

    Slices are pods then, so both orders come to this, and of equals the first. A block at a time,
    and without a branch inside, it vectorises: 6,400 racks take under 2 us, ten times less.
    """
    part = pods[low:high]
    has_name = named[low:high]
    least = MOST
    block_of_least = -1
    for start in range(0, part.size, _BLOCK):
        block = part[start : start + _BLOCK]
        names = has_name[start : start + _BLOCK]
        here = MOST
        for i in range(block.size):
            count = block[i] if block[i] >= need and names[i] else MOST
            here = count if count < here else here
        if here < least:
            least = here
            block_of_least = start
            if least == need:
                break
    if block_of_least < 0:
        return -1
    for i in range(block_of_least, part.size):
        if part[i] == least and has_name[i]:
            return low + i
    return -1


@kernel
def choose_domains(
    tree: TreeArrays,
    search: Search,
    slice_level: int,
    style: Style,
    counts: Counts,
    plain: bool,
    pool: Index,
    chosen: Index,
    report: Quantity,
) -> int:
    """Write to ``chosen`` the domains to fill and return how many; 0 when it does not fit.

    Args:
        tree: the domains.
        search: where to place how much.
        slice_level: the level whose domains hold whole slices.
        style: how domains are filled.
        counts: what fits.
        plain: see ``place``.
        pool: scratch.
        chosen: output.
        report: output: outcome, level, how many slices fit, the first domain in order.
    """
    level, low, high = search.level, search.low, search.high
    need, leaders = search.need, search.leaders
    while True:
        order = order_at(style, level, slice_level)
        last = level <= search.stop
        if plain:
            best = least_sufficient(low, high, need, counts.pods, tree.named)
        else:
            best = one_domain(low, high, need, leaders, order, counts, tree.named)
        if best >= 0 and order.use_affinity and order.packing and not (search.required and last):
            # Preferred judges only the first in order; one of less affinity does not stop the
            # climb.
            top = first_named(low, high, leaders > 0, order, counts, tree.named)
            if counts.affinity[top] != counts.affinity[best]:
                best = -1
        report[1] = level
        if best >= 0:
            chosen[0] = best
            report[0] = FOUND
            return 1
        if last:
            break
        level -= 1
        low, high = tree.parent[low], tree.parent[high - 1] + 1
    report[3] = first_named(low, high, leaders > 0, order, counts, tree.named)
    if search.required:
        report[0] = NOT_ENOUGH
        report[2] = counts.slices[report[3]] if report[3] >= 0 else 0
        return 0
    return collect(low, high, need, leaders, order, counts, pool, chosen, report)


@kernel
def collect(
    low: int,
    high: int,
    need: int,
    leaders: int,
    order: Order,
    counts: Counts,
    pool: Index,
    chosen: Index,
    report: Quantity,
) -> int:
    """Write to ``chosen`` several domains that hold everything together and return how many."""
    size = high - low
    for i in range(size):
        pool[i] = low + i
    taken = 0
    if leaders > 0:
        host = leader_front(pool, size, need, 0, True, order, counts)
        if host < 0:
            host = first_of(low, high, True, order, counts) - low
        if counts.leader[low + host] == 0:
            report[0] = NO_LEADER_HOST
            report[2] = need
            return 0
        d = pool[host]
        pool[host] = pool[size - 1]
        size -= 1
        if order.packing and counts.slices_wl[d] >= need:
            chosen[0] = tightest(d, pool, size, need, 0, True, True, order, counts)
            report[0] = FOUND
            return 1
        chosen[0] = d
        taken = 1
        need -= counts.slices_wl[d]
    size = keep_roomy(pool, size, 0, counts)
    heapify(pool, size, False, order, counts)
    while need > 0 and size > 0:
        d = pop(pool, size, False, order, counts)
        size -= 1
        if order.packing and counts.slices[d] >= need:
            d = tightest(d, pool, size, need, 0, False, False, order, counts)
        chosen[taken] = d
        taken += 1
        need -= counts.slices[d]
    report[0] = FOUND if need <= 0 else NOT_ENOUGH
    report[2] = report[4] - max(need, 0)
    return taken if need <= 0 else 0


@kernel
def keep_roomy(pool: Index, size: int, unit: int, counts: Counts) -> int:
    """Drop domains without room, which can only be handed nothing; return how many stay."""
    kept = 0
    for i in range(size):
        if room_of(pool[i], unit, False, counts) > 0:
            pool[kept] = pool[i]
            kept += 1
    return kept
