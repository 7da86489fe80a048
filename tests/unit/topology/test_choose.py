"""The heap hands domains out in the total order of the oracle, and the tightest is the oracle's."""

from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.topology.choose import (
    Order,
    first_named,
    heapify,
    keep_roomy,
    one_domain,
    pop,
    precedes,
    tightest,
)
from stowplan.topology.fit import Counts
from stowplan.topology.tree import Flags
from tests.oracle import domains as oracle
from tests.strategies import EXAMPLES

small = st.integers(0, 3)


@st.composite
def many_domains(draw: st.DrawFn) -> list[oracle.Domain]:
    """Draw domains in the order of their values, as a tree numbers them."""
    rows = draw(st.lists(st.tuples(small, small, st.integers(0, 1), small, small), max_size=12))
    return [
        oracle.Domain(
            values=(f"{i:02}",),
            affinity=affinity,
            leader=leader,
            pods=max(pods, pods_wl),
            pods_wl=pods_wl if leader else 0,
            slices=max(pods, pods_wl) // 2,
            slices_wl=pods_wl // 2 if leader else 0,
        )
        for i, (pods, pods_wl, leader, affinity, _) in enumerate(rows)
    ]


def counts_of(found: list[oracle.Domain]) -> Counts:
    return Counts(
        *(np.array([getattr(d, name) for d in found], dtype=np.int64) for name in Counts._fields)
    )


def all_named(found: list[oracle.Domain]) -> Flags:
    return np.ones(len(found), dtype=np.uint8)


flags = st.booleans()


@given(many_domains(), flags, flags, flags, st.randoms(use_true_random=False))
@settings(max_examples=3 * EXAMPLES)
def test_the_heap_hands_out_domains_in_the_total_order(
    found: list[oracle.Domain], with_leader: bool, packing: bool, affinity: bool, chance: Random
) -> None:
    numbers = list(range(len(found)))
    chance.shuffle(numbers)
    heap = np.array(numbers, dtype=np.int32)
    order, counts = Order(packing, affinity), counts_of(found)
    heapify(heap, heap.size, with_leader, order, counts)
    got = [pop(heap, size, with_leader, order, counts) for size in range(heap.size, 0, -1)]
    want = oracle.ordered(found, with_leader, packing, affinity)
    assert [found[d].values for d in got] == [domain.values for domain in want]
    if found:
        assert first_named(0, len(found), with_leader, order, counts, all_named(found)) == got[0]


@given(many_domains(), flags, flags, flags)
@settings(max_examples=EXAMPLES)
def test_the_order_is_total(
    found: list[oracle.Domain], with_leader: bool, packing: bool, affinity: bool
) -> None:
    order, counts = Order(packing, affinity), counts_of(found)
    for a in range(len(found)):
        for b in range(len(found)):
            one = precedes(a, b, with_leader, order, counts)
            other = precedes(b, a, with_leader, order, counts)
            assert one + other == (a != b)


@given(many_domains(), flags, flags, small, flags, flags, st.sampled_from((0, 1, 2)))
@settings(max_examples=3 * EXAMPLES)
def test_the_tightest_domain_is_the_one_of_the_oracle(
    found: list[oracle.Domain],
    with_leader: bool,
    packing: bool,
    need: int,
    affinity: bool,
    sort_with_leader: bool,
    unit: int,
) -> None:
    """Called only when the first domain in order holds it; ``unit`` above 1 counts inner slices."""
    order, counts = Order(packing, affinity), counts_of(found)
    if unit:
        for domain in found:  # as the oracle does below the slice level, after sorting
            domain.slices, domain.slices_wl = domain.pods // unit, domain.pods_wl // unit
    heap = np.arange(len(found), dtype=np.int32)
    heapify(heap, heap.size, sort_with_leader, order, counts)
    in_order = [
        pop(heap, size, sort_with_leader, order, counts) for size in range(heap.size, 0, -1)
    ]
    candidates = [found[d] for d in in_order]
    if not candidates or not oracle.holds(candidates[0], need, int(with_leader), True):
        return
    rest = np.array(sorted(in_order[1:]), dtype=np.int32)  # any arrangement
    got = tightest(
        in_order[0], rest, rest.size, need, unit, with_leader, sort_with_leader, order, counts
    )
    want = oracle.tightest(candidates, need, int(with_leader), True, affinity)
    assert found[got].values == want.values


@given(many_domains(), st.integers(1, 3), st.integers(0, 1), flags)
@settings(max_examples=2 * EXAMPLES)
def test_one_domain_holds_everything_or_none_does(
    found: list[oracle.Domain], need: int, leaders: int, packing: bool
) -> None:
    if not leaders:  # without a leader both counts are the same
        for domain in found:
            domain.leader, domain.pods_wl, domain.slices_wl = 0, domain.pods, domain.slices
    order, counts = Order(packing, False), counts_of(found)
    got = one_domain(0, len(found), need, leaders, order, counts, all_named(found))
    in_order = oracle.ordered(found, True, packing, False)
    holding = [d for d in in_order if oracle.holds(d, need, leaders, True)]
    if not holding:
        assert got == -1
    elif packing:
        assert found[got] is oracle.tightest(in_order, need, leaders, True, False)
    else:
        assert found[got] is holding[0]


@given(many_domains(), st.sampled_from((0, 1, 2)))
@settings(max_examples=EXAMPLES)
def test_only_domains_with_room_stay_in_the_pool(found: list[oracle.Domain], unit: int) -> None:
    pool = np.arange(len(found), dtype=np.int32)
    kept = keep_roomy(pool, pool.size, unit, counts_of(found))
    want = [
        d for d, domain in enumerate(found) if (domain.pods // unit if unit else domain.slices) > 0
    ]
    assert pool[:kept].tolist() == want
