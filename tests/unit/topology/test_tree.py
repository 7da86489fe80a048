"""A domain tree is parallel arrays over contiguous ranges, whatever paths it is made of."""

from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.topology.levels import HOSTNAME, Levels
from stowplan.topology.tree import DomainTree, Path
from tests.strategies import EXAMPLES

VALUES = ("a", "ab", "b", "b1", "Z", "10", "9")
Nodes = list[tuple[Path, str]]


@st.composite
def trees(draw: st.DrawFn) -> tuple[Levels, Nodes]:
    depth = draw(st.integers(1, 4))
    path = st.tuples(*[st.sampled_from(VALUES)] * depth)
    paths = draw(st.lists(path, max_size=20))
    return Levels(tuple(f"level-{i}" for i in range(depth))), [
        (path, f"n{i}") for i, path in enumerate(paths)
    ]


@given(trees())
@settings(max_examples=2 * EXAMPLES)
def test_domains_are_the_prefixes_of_the_paths_level_by_level_in_order(
    case: tuple[Levels, Nodes],
) -> None:
    levels, nodes = case
    tree = DomainTree.of(levels, nodes)
    want = [sorted({path[: level + 1] for path, _ in nodes}) for level in range(len(levels.keys))]
    assert list(tree.paths) == [path for paths in want for path in paths]
    assert tree.domain_count == len(tree.paths)
    assert tree.leaf_count == len(want[-1])
    ends = [tree.range_of(level) for level in range(levels.depth)]
    assert [high - low for low, high in ends] == [len(paths) for paths in want]
    assert [tree.level_of(d) for d in range(tree.domain_count)] == [
        level for level, paths in enumerate(want) for _ in paths
    ]


@given(trees())
@settings(max_examples=2 * EXAMPLES)
def test_parents_and_children_agree_with_the_paths(case: tuple[Levels, Nodes]) -> None:
    tree = DomainTree.of(*case)
    for d, path in enumerate(tree.paths):
        parent = int(tree.arrays.parent[d])
        assert (tree.paths[parent] if parent >= 0 else ()) == path[:-1]
        low, high = (int(tree.arrays.child_start[d + i]) for i in (0, 1))
        children = [c for c, other in enumerate(tree.paths) if other[:-1] == path]
        assert list(range(low, high)) == children
    assert tree.arrays.child_start[tree.domain_count] == tree.domain_count


@given(trees())
@settings(max_examples=2 * EXAMPLES)
def test_leaves_under_a_domain_are_one_range_and_its_ancestors_contain_it(
    case: tuple[Levels, Nodes],
) -> None:
    tree = DomainTree.of(*case)
    leaves = tree.paths[tree.first_leaf :]
    for d, path in enumerate(tree.paths):
        low, high = tree.leaves_under(d)
        assert list(leaves[low:high]) == [leaf for leaf in leaves if leaf[: len(path)] == path]
        for level in range(len(path)):
            assert tree.paths[tree.ancestor(d, level)] == path[: level + 1]


@given(trees())
@settings(max_examples=2 * EXAMPLES)
def test_each_leaf_holds_its_nodes_by_name_and_none_is_lost(case: tuple[Levels, Nodes]) -> None:
    tree = DomainTree.of(*case)
    leaves = tree.paths[tree.first_leaf :]
    assert tree.node_start[0] == 0
    assert tree.node_start[-1] == len(tree.nodes) == len(case[1])
    for leaf, path in enumerate(leaves):
        held = tree.nodes[tree.node_start[leaf] : tree.node_start[leaf + 1]]
        assert list(held) == sorted(name for at, name in case[1] if at == path)


@given(trees(), st.randoms(use_true_random=False))
@settings(max_examples=EXAMPLES)
def test_the_order_of_nodes_does_not_matter(case: tuple[Levels, Nodes], chance: Random) -> None:
    levels, nodes = case
    shuffled = list(nodes)
    chance.shuffle(shuffled)
    one, other = DomainTree.of(levels, nodes), DomainTree.of(levels, shuffled)
    assert (one.paths, one.nodes) == (other.paths, other.nodes)
    for name in one.arrays._fields:
        assert np.array_equal(getattr(one.arrays, name), getattr(other.arrays, name))


#   block  b1      b2
#   rack   r1  r2  r1        r1 exists twice; host r1 is called like a rack
#   host   a   r1  b
def test_a_domain_is_its_path_and_never_its_bare_value() -> None:
    levels = Levels(("block", "rack", HOSTNAME))
    nodes = [
        (("b1", "r1", "a"), "a"),
        (("b1", "r2", "r1"), "r1"),
        (("b2", "r1", "b"), "b"),
    ]
    tree = DomainTree.of(levels, nodes)
    assert tree.paths[:5] == (("b1",), ("b2",), ("b1", "r1"), ("b1", "r2"), ("b2", "r1"))
    assert tree.nodes == ("a", "r1", "b")
    assert tree.arrays.parent.tolist() == [-1, -1, 0, 0, 1, 2, 3, 4]


def test_a_tree_without_nodes_has_no_domains() -> None:
    tree = DomainTree.of(Levels(("block", "rack")), [])
    assert (tree.domain_count, tree.leaf_count, tree.first_leaf) == (0, 0, 0)
    assert tree.range_of(1) == (0, 0)
    assert tree.node_start.tolist() == [0]
