"""Nodes and pods, one event at a time, in any order, leave the same room as all at once."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.placement.filters import Filters
from stowplan.placement.podsets.plan import NoFit
from stowplan.placement.podsets.podset import Assigned, PodSet, fit
from stowplan.placement.records import Amounts, NodeRecord, PodRecord
from stowplan.placement.request import TopologyRequest
from stowplan.placement.shapes import Shapes
from stowplan.placement.state import ClusterState
from stowplan.topology.capacity import LIMIT, per_pod
from stowplan.topology.levels import HOSTNAME, Levels
from tests.build import GPU, NodeObject, level, levels, node, pod
from tests.strategies import EXAMPLES

HOSTS = levels("rack")
RACKS = Levels((level("rack"),))


#   rack   r1       r2
#   node   a   b    c      8 GPUs each
def three_nodes(at: Levels = HOSTS) -> ClusterState:
    state = ClusterState(at)
    for name, rack in (("a", "r1"), ("b", "r1"), ("c", "r2")):
        state.set_node(gpu_node(name, rack).record())
    return state


def gpu_node(name: str, rack: str = "r1", gpus: int = 8) -> NodeObject:
    return node(name).at(rack=rack).gpus(gpus)


def gpus(count: int) -> Amounts:
    return per_pod({GPU: count})


def free(state: ClusterState, resource: str = GPU) -> dict[str, int]:
    """Return the free room by leaf."""
    view = state.view()
    row = view.leaves.free[view.row_of(resource)]
    paths = view.tree.paths[view.tree.first_leaf :]
    return {path[-1]: int(amount) for path, amount in zip(paths, row, strict=True)}


def holds(state: ClusterState, shapes: Shapes, podset: PodSet) -> list[str] | NoFit:
    """Return the leaves of an answer, or the refusal without the number of a domain."""
    answer = fit(state.view(), shapes, podset, "mixed")
    if isinstance(answer, NoFit):
        return replace(answer, top=-1)
    tree = state.view().tree
    return [tree.paths[tree.first_leaf + leaf][-1] for leaf, _ in answer.leaves]


def podset(count: int = 1, filters: Filters | None = None) -> PodSet:
    request = TopologyRequest(required=level("rack"))
    return PodSet("p", count, gpus(1), filters or Filters(), request)


# --- Room ----------------------------------------------------------------------------------------


def test_bound_pods_take_room_until_they_end_or_are_gone() -> None:
    state = three_nodes()
    bound = pod("p").gpus(3).on("a")
    state.set_pod(pod("p").gpus(3).record())
    assert free(state)["a"] == 8
    state.set_pod(bound.record())
    assert free(state)["a"] == 5
    state.set_pod(bound.terminating().record())
    assert free(state)["a"] == 5  # until it is gone
    assert state.set_pod(bound.phase("Failed").record()) == "a"
    assert free(state)["a"] == 8
    state.remove_pod("default/p")
    assert (free(state)["a"], free(state, "pods")["a"]) == (8, 110)


def test_a_pod_that_is_resized_or_moves_changes_the_room_at_once() -> None:
    state = three_nodes()
    state.set_pod(pod("p").gpus(3).on("a").record())
    state.set_pod(pod("p").gpus(5).on("a").record())
    assert free(state)["a"] == 3
    assert state.set_pod(pod("p").gpus(5).on("c").record()) == "a"
    assert free(state) == {"a": 8, "b": 8, "c": 3}


def test_a_pod_may_be_seen_before_its_node_and_outlive_it() -> None:
    state = ClusterState(HOSTS)
    state.set_pod(pod("p").gpus(3).on("a").record())
    assert free(state) == {}
    state.set_node(gpu_node("a").record())
    assert free(state) == {"a": 5}
    state.remove_node("a")
    assert free(state) == {}
    state.set_node(gpu_node("a", "r9", 4).record())
    assert free(state) == {"a": 1}
    state.remove_pod("default/p")
    assert free(state) == {"a": 4}


def test_a_node_that_is_cordoned_gives_no_room_and_keeps_its_pods() -> None:
    state = three_nodes()
    state.set_pod(pod("p").gpus(3).on("a").record())
    state.set_node(gpu_node("a").cordoned().record())
    assert free(state)["a"] == 0
    assert holds(state, Shapes(), podset(count=9)) != ["a", "b"]
    state.set_node(gpu_node("a").record())
    assert free(state)["a"] == 5


def test_a_resource_may_appear_and_go_on_a_node() -> None:
    state = three_nodes()
    state.set_pod(pod("p").asking(**{"example.com/nic": "1"}).on("a").record())
    assert free(state, "example.com/nic") == {"a": 0, "b": 0, "c": 0}
    state.set_node(gpu_node("a").offering(**{"example.com/nic": "4"}).record())
    assert free(state, "example.com/nic") == {"a": 3, "b": 0, "c": 0}
    state.set_node(gpu_node("a").record())
    assert free(state, "example.com/nic")["a"] <= 0
    state.remove_pod("default/p")
    assert free(state, "example.com/nic")["a"] == 0


def test_a_node_that_moves_to_another_rack_or_loses_its_label_is_found_there_or_nowhere() -> None:
    state, shapes = three_nodes(), Shapes()
    assert holds(state, shapes, podset(9)) == ["a", "b"]
    state.set_node(gpu_node("a", "r2").record())
    assert holds(state, shapes, podset(9)) == ["a", "c"]
    state.set_node(gpu_node("a").without(level("rack")).record())
    assert state.view().left_out == ("a",)
    assert isinstance(holds(state, shapes, podset(9)), NoFit)


def test_room_beyond_the_limit_is_cut_and_overcommitted_room_is_negative() -> None:
    state = ClusterState(HOSTS)
    state.set_node(gpu_node("a").offering(memory="100Ei").record())
    assert free(state, "memory")["a"] == LIMIT - 1
    for i in range(3):
        state.set_pod(pod(f"p{i}").asking(memory="100Ei").gpus(9).on("a").record())
    assert free(state, "memory")["a"] == 1 - LIMIT
    assert free(state)["a"] == 8 - 27


def test_a_pod_that_turns_into_a_topology_pod_leaves_the_other_usage_at_once() -> None:
    """Section 1: a pod that turns from other to topology pod changes the usage at once."""
    state = ClusterState(HOSTS, count_topology_pods=False)
    state.set_node(gpu_node("a").record())
    state.set_pod(pod("p").gpus(3).on("a").record())
    state.set_pod(pod("p").gpus(3).on("a").requires("rack").record())
    assert free(state)["a"] == 8
    state.remove_pod("default/p")
    assert free(state)["a"] == 8


# --- No host level -------------------------------------------------------------------------------


def test_without_a_host_level_rooms_add_up_and_one_bad_node_leaves_the_others() -> None:
    state = three_nodes(RACKS)
    state.set_pod(pod("p").gpus(3).on("b").record())
    assert free(state) == {"r1": 13, "r2": 8}
    state.set_node(gpu_node("a").not_ready().record())
    assert free(state) == {"r1": 5, "r2": 8}
    state.set_node(gpu_node("b").cordoned().record())
    assert (free(state), state.view().leaves.usable.tolist()) == ({"r1": 0, "r2": 8}, [0, 1])
    state.set_node(gpu_node("a").record())
    assert free(state) == {"r1": 8, "r2": 8}


def test_without_a_host_level_filters_do_not_act() -> None:
    state = three_nodes(RACKS)
    state.set_node(gpu_node("c", "r2").tainted("x").record())
    view = state.view()
    answer = fit(view, Shapes(), podset(8, Filters(selector=(("no", "where"),))), "mixed")
    assert isinstance(answer, Assigned)


# --- Filters of warm shapes ----------------------------------------------------------------------


def named(name: str) -> Filters:
    return Filters(selector=((HOSTNAME, name),))


@pytest.mark.parametrize(
    "filters",
    [
        pytest.param(Filters(), id="judged by class"),
        pytest.param(named("a"), id="judged by node"),
    ],
)
def test_a_taint_that_another_node_has_already_is_seen_by_warm_shapes(filters: Filters) -> None:
    state, shapes = ClusterState(HOSTS), Shapes()
    state.set_node(gpu_node("a").record())
    state.set_node(gpu_node("b").tainted("broken").record())
    assert holds(state, shapes, podset(filters=filters)) == ["a"]
    state.set_node(gpu_node("a").tainted("broken").record())
    assert isinstance(holds(state, shapes, podset(filters=filters)), NoFit)
    state.set_node(gpu_node("a").record())
    assert holds(state, shapes, podset(filters=filters)) == ["a"]


def test_a_hostname_label_that_changes_is_seen_by_warm_shapes() -> None:
    """The class of a node leaves its hostname out, so only filters by node can tell."""
    state, shapes = ClusterState(HOSTS), Shapes()
    state.set_node(gpu_node("a").record())
    assert holds(state, shapes, podset(filters=named("a"))) == ["a"]
    state.set_node(gpu_node("a").labelled(**{HOSTNAME: "other"}).record())
    assert isinstance(holds(state, shapes, podset(filters=named("a"))), NoFit)
    assert holds(state, shapes, podset(filters=named("other"))) == ["a"]


def test_a_label_that_changes_to_one_that_another_node_has_is_seen_by_warm_shapes() -> None:
    state, shapes = ClusterState(HOSTS), Shapes()
    both = Filters(selector=(("pool", "x"), (HOSTNAME, "a")))
    state.set_node(gpu_node("a").labelled(pool="x").record())
    state.set_node(gpu_node("b").labelled(pool="y").record())
    assert holds(state, shapes, podset(filters=both)) == ["a"]
    state.set_node(gpu_node("a").labelled(pool="y").record())
    assert isinstance(holds(state, shapes, podset(filters=both)), NoFit)


# --- Generation ----------------------------------------------------------------------------------


Event = Callable[[ClusterState], object]


@pytest.mark.parametrize(
    ("event", "want"),
    [
        pytest.param(lambda s: s.set_node(gpu_node("a").record()), False, id="same node"),
        pytest.param(
            lambda s: s.set_node(gpu_node("a").annotated(beat="7").record()), False, id="annotation"
        ),
        pytest.param(lambda s: s.set_node(gpu_node("a", gpus=4).record()), True, id="room"),
        pytest.param(
            lambda s: s.set_node(gpu_node("a").labelled(x="1").record()), True, id="label"
        ),
        pytest.param(lambda s: s.set_node(gpu_node("a").tainted("x").record()), True, id="taint"),
        pytest.param(lambda s: s.set_node(gpu_node("a").cordoned().record()), True, id="cordon"),
        pytest.param(
            lambda s: s.set_node(gpu_node("a").not_ready().record()), True, id="not ready"
        ),
        pytest.param(lambda s: s.set_node(gpu_node("d").record()), True, id="new node"),
        pytest.param(lambda s: s.set_node(gpu_node("d").cordoned().record()), False, id="useless"),
        pytest.param(lambda s: s.remove_node("a"), True, id="node gone"),
        pytest.param(lambda s: s.remove_node("nobody"), False, id="unknown node gone"),
        pytest.param(lambda s: s.set_pod(pod("q").gpus(1).record()), False, id="unbound pod"),
        pytest.param(lambda s: s.set_pod(pod("q").gpus(1).on("b").record()), True, id="bound pod"),
        pytest.param(
            lambda s: s.set_pod(pod("p").gpus(3).on("a").terminating().record()),
            False,
            id="deletion",
        ),
        pytest.param(
            lambda s: s.set_pod(pod("p").gpus(3).on("a").phase("Pending").record()),
            False,
            id="phase",
        ),
        pytest.param(
            lambda s: s.set_pod(pod("p").gpus(3).on("a").phase("Succeeded").record()),
            True,
            id="end",
        ),
        pytest.param(lambda s: s.remove_pod("default/p"), True, id="pod gone"),
        pytest.param(lambda s: s.remove_pod("default/nobody"), False, id="unknown pod gone"),
        pytest.param(lambda s: s.take("a", gpus(1)), True, id="seat"),
        pytest.param(
            lambda s: s.set_pod(pod("q").gpus(1).on("nowhere").record()),
            False,
            id="pod on a node that is not there",
        ),
    ],
)
def test_the_generation_changes_when_an_answer_could_and_only_then(
    event: Event, want: bool
) -> None:
    state = three_nodes()
    state.set_pod(pod("p").gpus(3).on("a").record())
    for warm in (False, True):
        if warm:
            state = three_nodes()
            state.set_pod(pod("p").gpus(3).on("a").record())
            state.view()
        before = state.generation
        event(state)
        assert (state.generation != before) is want


# --- Any order -----------------------------------------------------------------------------------

NODES = ("a", "b", "c")


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[str, NodeRecord | PodRecord | None]]:
    """Draw events on three nodes and four pods."""
    events: list[tuple[str, NodeRecord | PodRecord | None]] = []
    for _ in range(draw(st.integers(1, 12))):
        if draw(st.booleans()):
            name = draw(st.sampled_from(NODES))
            found = gpu_node(name, draw(st.sampled_from(("r1", "r2"))), draw(st.integers(0, 8)))
            match draw(st.integers(0, 5)):
                case 0:
                    events.append((name, None))
                    continue
                case 1:
                    found.cordoned()
                case 2:
                    found.tainted("x")
                case 3:
                    found.without(level("rack"))
                case 4:
                    found.offering(**{f"example.com/{name}": "1"})
                case _:
                    pass
            events.append((name, found.record()))
        else:
            name = f"p{draw(st.integers(0, 3))}"
            if draw(st.integers(0, 4)) == 0:
                events.append((f"default/{name}", None))
                continue
            made = pod(name).gpus(draw(st.integers(0, 5)))
            if draw(st.integers(0, 3)):
                made.on(draw(st.sampled_from((*NODES, "gone"))))
                made.phase(draw(st.sampled_from(("Pending", "Running", "Succeeded", "Failed"))))
            events.append((f"default/{name}", made.record()))
    return events


def apply(state: ClusterState, name: str, found: NodeRecord | PodRecord | None) -> None:
    match found:
        case NodeRecord():
            state.set_node(found)
        case PodRecord():
            state.set_pod(found)
        case None:
            if "/" in name:
                state.remove_pod(name)
            else:
                state.remove_node(name)


@given(histories(), st.sampled_from((HOSTS, RACKS)))
@settings(max_examples=2 * EXAMPLES)
def test_any_history_leaves_the_state_of_what_is_there_in_the_end(
    history: list[tuple[str, NodeRecord | PodRecord | None]], at: Levels
) -> None:
    live, shapes = ClusterState(at), Shapes()
    for name, found in history:
        before = live.generation
        answers = holds(live, shapes, podset(3))
        apply(live, name, found)
        if live.generation == before:  # then no answer may change
            assert holds(live, shapes, podset(3)) == answers
    fresh = ClusterState(at)
    for record in live.nodes.values():
        fresh.set_node(record)
    for member in live.pods.values():
        fresh.set_pod(member)
    one, other = live.view(), fresh.view()
    assert one.tree.paths == other.tree.paths
    assert one.left_out == other.left_out
    for resource in set(one.rows) | set(other.rows):
        if {r for n in live.nodes.values() for r, _ in n.allocatable} >= {resource}:
            assert free(live, resource) == free(fresh, resource)
    assert one.leaves.usable.tolist() == other.leaves.usable.tolist()
    for count in (1, 3, 9):
        assert holds(live, shapes, podset(count)) == holds(fresh, Shapes(), podset(count))


def test_a_record_that_differs_only_in_its_annotations_changes_no_array() -> None:
    state = three_nodes()
    view = state.view()
    record = replace(state.nodes["a"], annotations=7)
    state.set_node(record)
    assert state.view() is view
