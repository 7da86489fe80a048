"""Lost nodes and changed sizes: what had a place keeps it, by our rules and by Kueue's."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from stowplan.placement.filters import Filters
from stowplan.placement.kueue.assignment import Assignment
from stowplan.placement.kueue.places import assignment_of
from stowplan.placement.kueue.replace import replace_lost, waits_for_its_owner
from stowplan.placement.kueue.resize import Resized, resize
from stowplan.placement.podsets.plan import NoFit
from stowplan.placement.podsets.podset import Assigned, PodSet, fit
from stowplan.placement.request import Layer, TopologyRequest
from stowplan.placement.rules import KUEUE, STOWPLAN, Rules
from stowplan.placement.shapes import Shapes
from stowplan.placement.state import ClusterState
from stowplan.topology.levels import HOSTNAME
from tests.build import level, levels, node
from tests.strategies import EXAMPLES

#   block  b1                    b2
#   rack   r1     r2      r3     r4     r5
#   hosts  4      4       4      4      4        8 GPUs each
RACKS = {"r1": "b1", "r2": "b1", "r3": "b1", "r4": "b2", "r5": "b2"}
GPU = (("nvidia.com/gpu", 8), ("pods", 1))


def drawn(rules: Rules = STOWPLAN, width: int = 4) -> ClusterState:
    state = ClusterState(levels("block", "rack"), rules=rules)
    for rack, block in RACKS.items():
        for x in range(width):
            state.set_node(node(f"{rack}x{x}").at(block=block, rack=rack).gpus(8).record())
    return state


def podset(count: int, **asked: object) -> PodSet:
    return PodSet("main", count, GPU, Filters(), TopologyRequest(**asked))  # type: ignore[arg-type]


def on(*hosts: str) -> Assignment:
    return Assignment((HOSTNAME,), tuple(((host,), 1) for host in sorted(hosts)))


def bind(state: ClusterState, assigned: Assignment) -> None:
    for (host,), count in assigned.domains:
        state.take(host, tuple((name, n * count) for name, n in GPU))


def lose(state: ClusterState, *hosts: str) -> None:
    for host in hosts:
        state.remove_node(host)


def repaired(
    state: ClusterState, wanted: PodSet, assigned: Assignment, lost: list[str], rules: Rules
) -> Assignment:
    answer = replace_lost(state, Shapes(), wanted, assigned, lost, "mixed", rules)
    assert isinstance(answer, Assignment), answer
    return answer


def per_rack(assigned: Assignment) -> dict[str, int]:
    found: Counter[str] = Counter()
    for (host,), count in assigned.domains:
        found[host[:2]] += count
    return dict(found)


def test_several_lost_nodes_are_replaced_together_inside_the_required_domain() -> None:
    state, before = drawn(), on("r1x0", "r1x1", "r2x0", "r2x1")
    bind(state, before)
    lose(state, "r1x0", "r2x1")
    after = repaired(state, podset(4, required=level("block")), before, ["r1x0", "r2x1"], STOWPLAN)
    assert after.count == 4
    assert {"r1x1", "r2x0"} <= {host for (host,), _ in after.domains}
    assert all(RACKS[host[:2]] == "b1" for (host,), _ in after.domains)


def test_every_broken_slice_is_mended_where_it_lies() -> None:
    state = drawn()
    before = on("r1x0", "r1x1", "r2x0", "r2x1", "r4x0", "r4x1")
    bind(state, before)
    lose(state, "r1x0", "r4x1")
    wanted = podset(6, preferred=level("block"), layers=(Layer(level("rack"), 2),))
    after = repaired(state, wanted, before, ["r1x0", "r4x1"], STOWPLAN)
    assert per_rack(after) == {"r1": 2, "r2": 2, "r4": 2}


def test_a_whole_lost_slice_goes_as_a_whole_into_the_required_domain() -> None:
    state = drawn(width=2)
    before = on("r1x0", "r1x1", "r2x0", "r2x1")
    bind(state, before)
    lose(state, "r1x0", "r1x1")
    wanted = podset(4, required=level("block"), layers=(Layer(level("rack"), 2),))
    assert per_rack(repaired(state, wanted, before, ["r1x0", "r1x1"], STOWPLAN)) == {
        "r2": 2,
        "r3": 2,
    }


def test_by_kueue_s_rules_only_the_first_lost_node_is_replaced() -> None:
    state, before = drawn(KUEUE), on("r1x0", "r1x1")
    bind(state, before)
    lost = ["r1x0", "r1x1"]
    after = repaired(state, podset(2, required=level("rack")), before, lost, KUEUE)
    assert {host for (host,), _ in after.domains} == {"r1x1", "r1x2"}
    lose(state, "r1x1")
    stale = replace_lost(
        state, Shapes(), podset(2, required=level("rack")), before, lost, "mixed", KUEUE
    )
    assert stale == NoFit("stale", "r1x1")


def test_a_domain_that_is_gone_counts_as_lost_by_our_rules() -> None:
    state, before = drawn(), on("r1x0", "r1x1")
    bind(state, before)
    lose(state, "r1x0", "r1x1")
    after = repaired(state, podset(2, required=level("rack")), before, ["r1x0"], STOWPLAN)
    assert after.count == 2
    assert len(per_rack(after)) == 1


def test_what_does_not_fit_changes_nothing() -> None:
    state, before = drawn(), on("r1x0", "r1x1", "r1x2", "r1x3")
    bind(state, before)
    lose(state, "r1x0")
    rooms = state.view().leaves.free.copy()
    answer = replace_lost(
        state, Shapes(), podset(4, required=level("rack")), before, ["r1x0"], "mixed", STOWPLAN
    )
    assert isinstance(answer, NoFit)
    assert (state.view().leaves.free == rooms).all()


def test_an_assignment_without_lost_hosts_stays_as_it_is() -> None:
    before = on("r1x0")
    assert (
        repaired(drawn(), podset(1, required=level("rack")), before, ["r2x0"], STOWPLAN) is before
    )


@pytest.mark.parametrize(
    ("kinds", "group", "want"),
    [
        (["Pod"], False, True),
        (["Pod"], True, False),
        (["Pod", "Pod"], False, False),
        (["Job"], False, False),
        ([], False, False),
    ],
)
def test_a_workload_of_one_bare_pod_waits_for_its_owner(
    kinds: list[str], group: bool, want: bool
) -> None:
    assert waits_for_its_owner(kinds, group) is want


requests = st.sampled_from(
    [
        {"required": level("block")},
        {"preferred": level("rack")},
        {"unconstrained": True},
        {"required": level("block"), "layers": (Layer(level("rack"), 2),)},
        {"layers": (Layer(level("rack"), 4), Layer(HOSTNAME, 2))},
    ]
)


@given(requests, st.integers(1, 6), st.sets(st.integers(0, 3), min_size=1), st.booleans())
@settings(max_examples=EXAMPLES)
def test_only_lost_pods_move_and_what_was_asked_still_holds(
    asked: dict[str, object], pairs: int, lost_at: set[int], half: bool
) -> None:
    """Law of section 20: the result obeys the first two laws whenever the old one did."""
    small = (("nvidia.com/gpu", 4), ("pods", 1))
    count = pairs * (4 if len(asked.get("layers", ())) == 2 else 2)  # type: ignore[arg-type]
    wanted = replace(podset(count, **asked), amounts=small)
    state = drawn()
    placed = fit(state.view(), Shapes(), wanted, "mixed")
    assume(isinstance(placed, Assigned))
    assert isinstance(placed, Assigned)
    before = assignment_of(state.view(), placed.leaves)
    hosts = [host for (host,), _ in before.domains]
    lost = sorted({hosts[at % len(hosts)] for at in lost_at})
    for (host,), n in before.domains:
        if host not in lost:
            state.take(host, tuple((name, amount * n) for name, amount in small))
    if half:
        lose(state, *lost)
    after = replace_lost(state, Shapes(), wanted, before, lost, "mixed", STOWPLAN)
    if isinstance(after, NoFit):
        return
    kept = {path: n for path, n in before.domains if path[0] not in lost}
    got = dict(after.domains)
    assert after.count == before.count
    assert all(got.get(path, 0) >= n for path, n in kept.items())
    assert not set(lost) & {host for (host,), _ in after.domains}
    if "required" in asked:
        assert len({RACKS[host[:2]] for (host,), _ in after.domains}) == 1
    for layer in wanted.request.slices:
        sums = per_rack(after) if layer.level != HOSTNAME else {p[0]: n for p, n in after.domains}
        assert all(n % layer.size == 0 for n in sums.values())


@pytest.mark.parametrize("rules", [STOWPLAN, KUEUE], ids=["stowplan", "kueue"])
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_a_podset_that_changes_its_size_keeps_its_places(rules: Rules, size: int) -> None:
    state, before = drawn(rules), on("r1x0", "r1x1", "r1x2")
    answer = resize(
        state, Shapes(), podset(size, unconstrained=True), Resized(before), "mixed", rules
    )
    assert isinstance(answer, Resized)
    assert answer.workers.count == size
    shorter, longer = sorted([before.domains, answer.workers.domains], key=len)
    assert set(shorter) <= set(longer)


def test_by_our_rules_growth_stays_in_the_required_domain() -> None:
    state, before = drawn(), on("r1x0", "r1x1")
    grown = resize(
        state, Shapes(), podset(4, required=level("rack")), Resized(before), "mixed", STOWPLAN
    )
    assert isinstance(grown, Resized)
    assert per_rack(grown.workers) == {"r1": 4}
    too_far = resize(
        state, Shapes(), podset(5, required=level("rack")), Resized(before), "mixed", STOWPLAN
    )
    assert isinstance(too_far, NoFit)


def test_the_state_is_as_before_a_change_of_size() -> None:
    state, before = drawn(), on("r1x0")
    rooms, generation = state.view().leaves.free.copy(), state.generation
    resize(state, Shapes(), podset(3, unconstrained=True), Resized(before), "mixed", STOWPLAN)
    assert (state.view().leaves.free == rooms).all()
    assert state.generation == generation
