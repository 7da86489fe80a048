"""Assignments are added, cut, priced and compared with the topology."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.placement.kueue.assignment import Assignment, inside, knows_levels
from stowplan.placement.request import Layer, Share, TopologyRequest
from stowplan.topology.levels import HOSTNAME, Levels
from stowplan.topology.tree import Path
from tests.strategies import EXAMPLES

BLOCK, RACK = "topology.example.com/block", "topology.example.com/rack"
TOPOLOGY = Levels((BLOCK, RACK, HOSTNAME))
RACKS = Levels((BLOCK, RACK))

# b1          b2
# |- r1       `- r1
# |  |- h1       `- h3
# |  `- h2
# `- r1b
#    `- h4
LEAVES: list[Path] = [
    ("b1", "r1", "h1"),
    ("b1", "r1", "h2"),
    ("b1", "r1b", "h4"),
    ("b2", "r1", "h3"),
]

paths = st.tuples(st.sampled_from(("a", "ab", "b")), st.sampled_from(("", "r", "r1", "r1b")))
domains = st.lists(st.tuples(paths, st.integers(1, 9)), max_size=8).map(tuple)
assignments = st.builds(Assignment, st.just(RACKS.keys), domains)


def on_hosts(**pods: int) -> Assignment:
    return Assignment((HOSTNAME,), tuple(((host,), count) for host, count in pods.items()))


@given(assignments, assignments)
@settings(max_examples=EXAMPLES)
def test_the_order_of_two_merged_assignments_does_not_matter(a: Assignment, b: Assignment) -> None:
    assert a.merge(b) == b.merge(a)


@given(assignments, assignments, assignments)
@settings(max_examples=EXAMPLES)
def test_of_three_merged_assignments_any_two_may_come_first(
    a: Assignment, b: Assignment, c: Assignment
) -> None:
    assert a.merge(b).merge(c) == a.merge(b.merge(c))


@given(assignments, assignments)
@settings(max_examples=EXAMPLES)
def test_a_merge_names_each_domain_once_in_order_and_loses_no_pod(
    a: Assignment, b: Assignment
) -> None:
    merged = a.merge(b)
    named = [path for path, _ in merged.domains]
    assert named == sorted({path for path, _ in (*a.domains, *b.domains)})
    for path, count in merged.domains:
        assert count == sum(n for at, n in (*a.domains, *b.domains) if at == path)


def test_merged_hosts_are_in_the_order_of_their_full_paths() -> None:
    above: dict[Path, Path] = {("h1",): ("b2", "r1", "h1"), ("h2",): ("b1", "r1", "h2")}
    assert on_hosts(h1=1).merge(on_hosts(h2=1), above.__getitem__) == on_hosts(h2=1, h1=1)


def test_assignments_in_different_levels_cannot_be_merged() -> None:
    with pytest.raises(ValueError, match="levels must be equal"):
        on_hosts(h1=1).merge(Assignment(RACKS.keys, ()))


@given(assignments, st.integers(-3, 90))
@settings(max_examples=EXAMPLES)
def test_a_shrunk_assignment_has_the_count_that_was_asked_for(a: Assignment, count: int) -> None:
    assert a.shrink(count).count == max(min(count, a.count), 0)


@given(assignments, st.integers(0, 90))
@settings(max_examples=EXAMPLES)
def test_what_shrinking_leaves_is_the_beginning(a: Assignment, count: int) -> None:
    seats = [path for path, pods in a.domains for _ in range(pods)]
    left = a.shrink(count)
    assert [path for path, pods in left.domains for _ in range(pods)] == seats[:count]
    assert all(pods > 0 for _, pods in left.domains)


@given(assignments, st.integers(0, 90), st.integers(0, 90))
@settings(max_examples=EXAMPLES)
def test_shrinking_twice_is_shrinking_once_to_the_smaller(a: Assignment, m: int, n: int) -> None:
    assert a.shrink(m).shrink(n) == a.shrink(min(m, n))


def test_each_pod_uses_what_it_requests_and_one_slot() -> None:
    assert on_hosts(h1=2, h2=3).usage((("cpu", 250), ("gpu", 8))) == (
        (("h1",), (("cpu", 500), ("gpu", 16), ("pods", 2))),
        (("h2",), (("cpu", 750), ("gpu", 24), ("pods", 3))),
    )


def test_a_slot_that_the_request_names_is_not_counted_twice() -> None:
    ((_, used),) = on_hosts(h1=2).usage((("cpu", 0), ("pods", 1)))
    assert used == (("pods", 2),)


@given(assignments)
@settings(max_examples=EXAMPLES)
def test_all_domains_together_use_as_many_slots_as_there_are_pods(a: Assignment) -> None:
    assert sum(dict(used)["pods"] for _, used in a.usage((("gpu", 1),))) == a.count


@pytest.mark.parametrize(
    ("assignment", "levels", "want"),
    [
        pytest.param(on_hosts(h1=1, h3=1), TOPOLOGY, None, id="all hosts are there"),
        pytest.param(on_hosts(h1=1, h8=1, h9=1), TOPOLOGY, ("h8",), id="the first that is gone"),
        pytest.param(on_hosts(b1=1), TOPOLOGY, ("b1",), id="a host called like a block"),
        pytest.param(
            Assignment(TOPOLOGY.keys, ((("b9", "r9", "h1"), 1),)),
            TOPOLOGY,
            None,
            id="a host whose rack was renamed",
        ),
        pytest.param(
            Assignment(RACKS.keys, ((("b1", "r1"), 1), (("b2", "r1b"), 1))),
            RACKS,
            ("b2", "r1b"),
            id="a rack of that name under another block",
        ),
        pytest.param(Assignment((RACK,), ((("r1",), 1),)), RACKS, ("r1",), id="a level was put in"),
        pytest.param(on_hosts(h1=1), RACKS, ("h1",), id="the host level was taken out"),
        pytest.param(
            Assignment(RACKS.keys, ((("b1", "r1"), 1),)),
            TOPOLOGY,
            ("b1", "r1"),
            id="the host level was put in",
        ),
        pytest.param(Assignment((RACK,), ()), TOPOLOGY, None, id="nothing is named"),
    ],
)
def test_a_domain_that_is_gone_makes_an_assignment_stale(
    assignment: Assignment, levels: Levels, want: Path | None
) -> None:
    assert assignment.stale(levels, [path[: levels.depth] for path in LEAVES]) == want


@pytest.mark.parametrize(
    ("request_", "want"),
    [
        pytest.param(TopologyRequest(), False, id="nothing is asked"),
        pytest.param(TopologyRequest(index_label="i"), False, id="only ranks are named"),
        pytest.param(TopologyRequest(unconstrained=True), True, id="any level will do"),
        pytest.param(TopologyRequest(unconstrained=False), True, id="false is a request as well"),
        pytest.param(TopologyRequest(required=BLOCK), True, id="required"),
        pytest.param(TopologyRequest(required="zone"), False, id="required, unknown"),
        pytest.param(TopologyRequest(preferred=RACK), True, id="preferred"),
        pytest.param(
            TopologyRequest(required=BLOCK, preferred="cell"),
            False,
            id="preferred beside a required level, unknown",
        ),
        pytest.param(
            TopologyRequest(slice_level=RACK, slice_size=2), True, id="nothing but plain slices"
        ),
        pytest.param(
            TopologyRequest(required=BLOCK, slice_level="cell", slice_size=2),
            False,
            id="plain slices at an unknown level",
        ),
        pytest.param(
            TopologyRequest(required=BLOCK, layers=(Layer(RACK, 4), Layer("cell", 2))),
            False,
            id="an unknown layer",
        ),
        pytest.param(
            TopologyRequest(required=BLOCK, share=Share("cell", pods=1)),
            False,
            id="a share of an unknown level",
        ),
    ],
)
def test_a_topology_knows_a_request_if_it_has_all_its_levels(
    request_: TopologyRequest, want: bool
) -> None:
    assert knows_levels(RACKS, request_) is want


@given(paths, paths)
@settings(max_examples=EXAMPLES)
def test_a_domain_is_inside_itself_and_all_that_is_above_it(path: Path, other: Path) -> None:
    assert all(inside(path, path[:depth]) for depth in range(len(path) + 1))
    assert inside(path, other) is (path == other)


@pytest.mark.parametrize(
    ("domain", "within", "want"),
    [
        pytest.param(("b1", "r1b", "h4"), ("b1", "r1"), False, id="a rack with a longer name"),
        pytest.param(("b1", "r1"), ("b1", "r1", "h1"), False, id="the domain above"),
        pytest.param(("b2", "r1"), ("b1",), False, id="the same rack name elsewhere"),
        pytest.param(("b1", "r1"), (), True, id="anywhere"),
    ],
)
def test_inside_compares_value_by_value(domain: Path, within: Path, want: bool) -> None:
    assert inside(domain, within) is want


@pytest.mark.parametrize(
    ("assignment", "want"),
    [
        pytest.param(on_hosts(h2=1, h1=1), True, id="named"),
        pytest.param(on_hosts(h2=1), False, id="not named"),
        pytest.param(
            Assignment(TOPOLOGY.keys, ((("b1", "r1", "h1"), 1),)), True, id="named with its path"
        ),
        pytest.param(
            Assignment(RACKS.keys, ((("b1", "h1"), 1),)), False, id="a rack of the same name"
        ),
        pytest.param(Assignment((HOSTNAME,), ()), False, id="nothing is placed"),
    ],
)
def test_pods_are_on_a_node_that_a_host_level_names(assignment: Assignment, want: bool) -> None:
    assert assignment.on_node("h1") is want
