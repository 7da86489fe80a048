"""Counts of every domain agree with the oracle, counted at once or change by change."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.placement.podsets.podset import fit
from stowplan.placement.podsets.shortage import exclusions
from stowplan.placement.shapes import Shapes, ask_of
from stowplan.placement.state import RING, ClusterState, View
from stowplan.topology.fit import (
    MOST_PODS,
    Ask,
    Counts,
    Leaves,
    Slicing,
    count_leaf,
    count_leaves,
    counts_of,
    pods_per_domain,
)
from stowplan.topology.levels import HOSTNAME, Levels
from stowplan.topology.tree import DomainTree
from tests import strategies
from tests.oracle import domains
from tests.oracle import fit as oracle
from tests.strategies import EXAMPLES, Drawing, Wish, drawings, wishes


@st.composite
def problems(draw: st.DrawFn, /, **kinds: Any) -> tuple[Drawing, Wish]:
    drawing = draw(drawings())
    return drawing, draw(wishes(len(drawing.keys), **kinds))


def counted(view: View, wish: Wish) -> dict[tuple[str, ...], int]:
    """Return pods by path; domains without a usable node are not in the tree (section 1)."""
    ask = ask_of(strategies.amounts_of(wish.per_pod), strategies.filters_of(wish), view)
    out = np.full(view.tree.domain_count, -7, dtype=np.int64)
    pods_per_domain(view.tree, view.leaves, ask, out)
    return dict(zip(view.tree.paths, out.tolist(), strict=True))


@given(problems())
@settings(max_examples=2 * EXAMPLES)
def test_the_kernel_counts_every_domain_as_the_oracle_does(case: tuple[Drawing, Wish]) -> None:
    drawing, wish = case
    got = counted(strategies.state_of(drawing).view(), wish)
    leaves = strategies.leaves_of(drawing, wish)
    per_pod = {**dict(wish.per_pod), "pods": 1}
    want = oracle.pods_per_domain(leaves, len(drawing.keys), per_pod)
    assert got == {**dict.fromkeys(got, 0), **want}


@given(problems(slices=True))
@settings(max_examples=2 * EXAMPLES)
def test_slices_leader_and_affinity_are_counted_as_the_oracle_counts_them(
    case: tuple[Drawing, Wish],
) -> None:
    drawing, wish = case
    depth = len(drawing.keys)
    request = strategies.request_of(wish)
    level, size = wish.slices[0]
    ask = domains.ask_of(replace(request, mode="slices-only"), depth)
    view = strategies.state_of(drawing).view()
    podset = strategies.podset_of(drawing, wish)
    unit_at = np.ones(depth, dtype=np.int64)
    for at, unit in ask.inner.items():
        unit_at[at] = unit

    worker = ask_of(podset.amounts, podset.filters, view)
    leader = None if podset.leader is None else ask_of(*podset.leader, view)
    counts = counts_of(view.tree, view.leaves, worker, leader, None, Slicing(level, size, unit_at))
    leaves = domains.merged_leaves(strategies.leaves_of(drawing, replace(wish, weights=())))
    number = {path: d for d, path in enumerate(view.tree.paths)}
    for at_level in domains.counted(leaves, depth, request, ask):
        for domain in at_level:
            d = number[domain.values]
            got = {name: int(getattr(counts, name)[d]) for name in Counts._fields}
            want = {name: getattr(domain, name) for name in Counts._fields}
            if leader is None:
                got.pop("leader"), want.pop("leader")
            assert got == want, domain.values


@given(problems(slices=False, leader=False, affinity=False))
@settings(max_examples=EXAMPLES)
def test_the_scarcest_resource_of_a_full_leaf_is_the_one_of_the_oracle(
    case: tuple[Drawing, Wish],
) -> None:
    """Unclamped floor division on both sides: what the specification leaves open at negative room.

    Resources that no node offers, and are used all the same, are left out: their room is 0 here.
    """
    drawing, wish = case
    offered = {name for node in drawing.nodes for name, _ in node.offers}
    nodes = tuple(
        replace(n, used=tuple((k, v) for k, v in n.used if k in offered)) for n in drawing.nodes
    )
    drawing = replace(drawing, nodes=nodes)
    view = strategies.state_of(drawing).view()
    _, found = exclusions(view, strategies.podset_of(drawing, wish))
    answer = oracle.place(
        strategies.leaves_of(drawing, wish),
        len(drawing.keys),
        replace(strategies.request_of(wish), mode="required", level=0, count=10**9, slices=()),
    )
    if isinstance(answer, oracle.Failed):
        got = {what: count for (by, what), count in found.items() if by == "resource"}
        assert got == answer.limited


# --- Change by change ----------------------------------------------------------------------------


def change(state: ClusterState, drawing: Drawing, data: st.DataObject) -> Drawing:
    """Make one random change and return the drawing of what is there now."""
    nodes = list(drawing.nodes)
    at = data.draw(st.integers(0, len(nodes) - 1))
    node = nodes[at]
    match data.draw(st.sampled_from(("take", "give", "ready", "taint", "pool", "room", "gone"))):
        case "take":
            used = dict(node.used)
            used["cpu"] = used.get("cpu", 0) + 2
            state.take(node.name, (("cpu", 2),))
            nodes[at] = replace(node, used=tuple(used.items()))
            return replace(drawing, nodes=tuple(nodes))
        case "give":
            state.give_back(node.name, node.used)
            nodes[at] = replace(node, used=())
            return replace(drawing, nodes=tuple(nodes))
        case "ready":
            nodes[at] = replace(node, usable=not node.usable)
        case "taint":
            nodes[at] = replace(node, tainted=not node.tainted)
        case "pool":
            nodes[at] = replace(node, pool="y" if node.pool == "x" else "x")
        case "room":
            offers = dict(node.offers)
            offers["gpu"] = data.draw(st.integers(0, 9))
            nodes[at] = replace(node, offers=tuple(sorted(offers.items())))
        case _:
            state.remove_node(node.name)
            if data.draw(st.booleans()) and len(nodes) > 1:
                state.give_back(node.name, node.used)
                del nodes[at]
                return replace(drawing, nodes=tuple(nodes))
    state.set_node(strategies.record_of(drawing, nodes[at]))
    return replace(drawing, nodes=tuple(nodes))


@given(problems(slices=False, leader=False, affinity=False), st.data())
@settings(max_examples=EXAMPLES)
def test_counts_kept_warm_equal_a_recount_after_any_changes(
    case: tuple[Drawing, Wish], data: st.DataObject
) -> None:
    drawing, wish = case
    state, shapes = strategies.state_of(drawing), Shapes()
    for _ in range(data.draw(st.integers(1, 8))):
        podset = strategies.podset_of(drawing, wish)
        warm = fit(state.view(), shapes, podset, wish.profile)
        fresh = strategies.state_of(drawing)
        assert warm == fit(fresh.view(), Shapes(), podset, wish.profile)
        shape = shapes.get(podset.amounts, podset.filters, state.view())
        if shape.seen == state.view().head:
            got = dict(zip(state.view().tree.paths, shape.counts.pods.tolist(), strict=True))
            assert got == counted(fresh.view(), wish)
        drawing = change(state, drawing, data)


@pytest.mark.parametrize("changes", [1, RING - 1, RING, RING + 1, 3 * RING + 5])
def test_a_shape_that_lags_past_the_ring_is_recounted(changes: int) -> None:
    drawing = Drawing(
        ("rack", HOSTNAME),
        tuple(strategies.Drawn(f"n{i}", (f"r{i % 2}",), (("pods", 9),), ()) for i in range(4)),
    )
    state, shapes = strategies.state_of(drawing), Shapes()
    podset = strategies.podset_of(drawing, Wish("required", 0, 1, ()))
    fit(state.view(), shapes, podset, "mixed")
    view = state.view()
    # The state would log each change so; here only one leaf truly differs.
    state.take("n3", (("pods", 5),))
    for _ in range(changes - 1):
        view.changed[view.head & (RING - 1)] = 0
        view.head += 1
    fit(view, shapes, podset, "mixed")
    shape = shapes.get(podset.amounts, podset.filters, view)
    assert shape.counts.pods.tolist() == [18, 13, 9, 9, 9, 4]


def test_many_shapes_push_out_the_one_least_recently_used_and_no_answer_changes() -> None:
    drawing = Drawing(
        ("rack", HOSTNAME),
        (strategies.Drawn("n0", ("r0",), (("cpu", 600), ("pods", 9)), ()),),
    )
    state, shapes = strategies.state_of(drawing), Shapes()
    asked = [
        strategies.podset_of(drawing, Wish("required", 0, 1, (("cpu", n),))) for n in range(1, 400)
    ]
    for _ in range(2):
        for podset in asked:
            assert not hasattr(fit(state.view(), shapes, podset, "mixed"), "kind")


# --- Kernels by hand -----------------------------------------------------------------------------


def one_leaf(free: list[float]) -> tuple[DomainTree, Leaves]:
    tree = DomainTree.of(Levels(("rack",)), [(("r",), "n")])
    rows = np.array([[amount] for amount in [*free, 0.0]])
    return tree, Leaves(rows, np.ones(1, dtype=np.uint8), np.zeros(1, dtype=np.int32))


def ask_for(*amounts: float) -> Ask:
    return Ask(
        rows=np.arange(len(amounts), dtype=np.int32),
        amounts=np.array(amounts, dtype=np.float64),
        class_allowed=np.ones(1, dtype=np.uint8),
        leaf_allowed=np.empty(0, dtype=np.uint8),
    )


@given(st.integers(-(2**53) + 1, 2**53 - 1), st.integers(1, 2**53), st.integers(0, 2**31))
@settings(max_examples=5 * EXAMPLES)
def test_a_quotient_of_whole_numbers_below_the_limit_is_exact(
    room: int, amount: int, pods: int
) -> None:
    near = min(max(amount * pods - 1, 1 - 2**53), 2**53 - 1)  # one short of whole pods
    for free in (room, near, min(near + 1, 2**53 - 1)):
        tree, leaves = one_leaf([float(free)])
        out = np.zeros(1, dtype=np.int64)
        pods_per_domain(tree, leaves, ask_for(amount), out)
        want = max(0, min(free // amount, MOST_PODS))
        assert out[0] == want
        assert count_leaf(leaves, ask_for(amount), 0) == want


@pytest.mark.parametrize("leaf_count", [0, 1, 2047, 2048, 2049, 5000])
def test_leaves_are_counted_the_same_across_blocks(leaf_count: int) -> None:
    free = np.vstack([np.arange(leaf_count) % 7, np.zeros(leaf_count)]).astype(np.float64)
    leaves = Leaves(free, np.ones(leaf_count, dtype=np.uint8), np.zeros(leaf_count, dtype=np.int32))
    out = np.full(leaf_count, -1, dtype=np.int64)
    count_leaves(leaves, ask_for(2), np.empty(2048), out)
    assert out.tolist() == [n % 7 // 2 for n in range(leaf_count)]


def test_a_leaf_is_closed_by_its_node_its_class_or_its_name() -> None:
    _, leaves = one_leaf([8.0])
    ask = ask_for(2)
    assert count_leaf(leaves, ask, 0) == 4
    for closed in (
        (leaves._replace(usable=np.zeros(1, dtype=np.uint8)), ask),
        (leaves, ask._replace(class_allowed=np.zeros(1, dtype=np.uint8))),
        (leaves, ask._replace(leaf_allowed=np.zeros(1, dtype=np.uint8))),
    ):
        out = np.full(1, -1, dtype=np.int64)
        count_leaves(*closed, np.empty(4), out)
        assert (count_leaf(*closed, 0), out[0]) == (0, 0)


def test_a_leaf_of_thousands_of_pods_is_counted_without_the_compiler_too() -> None:
    """A flag is one byte, and plain Python must not count pods in one byte."""
    tree, leaves = one_leaf([70_000.0])
    out = np.zeros(1, dtype=np.int64)
    pods_per_domain(tree, leaves, ask_for(1), out)
    assert (out[0], count_leaf(leaves, ask_for(1), 0)) == (70_000, 70_000)
    named = ask_for(1)._replace(leaf_allowed=np.ones(1, dtype=np.uint8))
    pods_per_domain(tree, leaves, named, out)
    assert out[0] == 70_000


def test_arrays_of_another_tree_are_refused() -> None:
    tree, leaves = one_leaf([8.0])
    with pytest.raises(ValueError, match="must have shapes"):
        pods_per_domain(tree, leaves, ask_for(1), np.zeros(2, dtype=np.int64))
