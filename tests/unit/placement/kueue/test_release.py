"""Gated pods are released to the places of their podset: by rank where all ranks are sound."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from stowplan.api.errors import Violation
from stowplan.api.models import core
from stowplan.api.models.wire import read as read_as
from stowplan.placement.keys import INDEX_OFFSET, KUEUE_GATE, OUR_GATE, PODSET, WORKLOAD_SLICE
from stowplan.placement.kueue.assignment import Assignment
from stowplan.placement.kueue.release import (
    GatedPodSet,
    GatedWorkload,
    Member,
    Released,
    Unseen,
    releases,
)
from stowplan.placement.request import TopologyRequest
from stowplan.topology.levels import HOSTNAME
from stowplan.topology.tree import Path
from tests.build import pod
from tests.strategies import EXAMPLES

ANYHOW = TopologyRequest()
BY_INDEX = TopologyRequest(index_label="index")
BY_JOB = TopologyRequest(index_label="index", subgroup_index_label="job", subgroup_count=2)

# Ranks 0 and 1 belong to h1, 2 to h2, 3 to h3.
FOUR = Assignment((HOSTNAME,), ((("h1",), 2), (("h2",), 1), (("h3",), 1)))
ONE = Assignment((HOSTNAME,), ((("h1",), 1),))


def member(name: str, index: object = None, **changes: Any) -> Member:
    """Return a gated pod of podset main; without an index it has no such label."""
    labels = {} if index is None else {"index": str(index)}
    gated = Member(f"default/{name}", "w", "main", gates=(KUEUE_GATE,), labels=labels)
    return replace(gated, **changes)


def on(host: str, name: str, index: object = None, **changes: Any) -> Member:
    """Return a pod that was released to a host before."""
    return member(name, index, gates=(), selector={HOSTNAME: host}, **changes)


def of_job(name: str, index: object, job: object) -> Member:
    return member(name, labels={"index": str(index), "job": str(job)})


def workload(
    request: TopologyRequest = BY_INDEX,
    assignment: Assignment | None = FOUR,
    count: int = 4,
    unhealthy: Sequence[str] = (),
) -> GatedWorkload:
    podset = GatedPodSet("main", count, request, assignment)
    return GatedWorkload("w", True, (podset,), frozenset(unhealthy))


def released(of: GatedWorkload, members: Sequence[Member], gate: str = KUEUE_GATE) -> Released:
    found = releases(of, members, gate)
    assert isinstance(found, Released), found
    return found


def places(found: Released) -> dict[str, str]:
    """Return the host of each released pod, or its joined path."""
    return {
        each.pod.removeprefix("default/"): "/".join(value for _, value in each.selector)
        for each in found.releases
    }


# --- By rank -------------------------------------------------------------------------------------


def test_rank_k_gets_place_k_whatever_the_pods_are_called() -> None:
    found = released(workload(), [member(f"p{i}", 3 - i) for i in range(4)])
    assert places(found) == {"p3": "h1", "p2": "h1", "p1": "h2", "p0": "h3"}
    assert not found.doubts


def test_the_jobs_of_a_podset_follow_one_another() -> None:
    members = [of_job("p0", 1, 1), of_job("p1", 0, 1), of_job("p2", 1, 0), of_job("p3", 0, 0)]
    found = released(workload(BY_JOB), members)
    assert places(found) == {"p3": "h1", "p2": "h1", "p1": "h2", "p0": "h3"}


@pytest.mark.parametrize(
    ("offset", "first_index"),
    [
        pytest.param("1", 1, id="from one"),
        pytest.param("+2", 2, id="a sign is allowed"),
        pytest.param("-0", 0, id="none"),
    ],
)
def test_the_offset_is_taken_off_every_index(offset: str, first_index: int) -> None:
    members = [member(f"p{i}", first_index + 3 - i, offset=offset) for i in range(4)]
    found = released(workload(), members)
    assert places(found) == {"p3": "h1", "p2": "h1", "p1": "h2", "p0": "h3"}


def test_an_offset_below_zero_leaves_the_first_places_to_nobody() -> None:
    members = [member(f"p{i}", 2 - i, offset="-1") for i in range(3)]
    assert places(released(workload(), members)) == {"p2": "h1", "p1": "h2", "p0": "h3"}


def test_the_offset_that_counts_is_that_of_the_first_pod_by_name() -> None:
    members = [member("p1", 1, offset="x"), member("p0", 3, offset="1")]
    assert places(released(workload(), members)) == {"p1": "h1", "p0": "h2"}


def group(*podsets: tuple[str, int], request: TopologyRequest = BY_INDEX) -> GatedWorkload:
    """Return podsets of one group, each with a place per pod."""
    asks = replace(request, group="g")
    at = {1: ONE, 4: FOUR}
    return GatedWorkload("w", True, tuple(GatedPodSet(n, c, asks, at[c]) for n, c in podsets))


def worker(name: str, index: int, **changes: Any) -> Member:
    return member(name, index, podset="workers", **changes)


@pytest.mark.parametrize("leader_first", [True, False], ids=["leader first", "leader last"])
def test_the_ranks_of_workers_start_after_their_leader(leader_first: bool) -> None:
    podsets = [("leader", 1), ("workers", 4)]
    of = group(*(podsets if leader_first else reversed(podsets)))
    members = [member("l", 0, podset="leader"), *(worker(f"p{i}", 4 - i) for i in range(4))]
    found = released(of, members)
    assert places(found) == {"l": "h1", "p3": "h1", "p2": "h1", "p1": "h2", "p0": "h3"}
    assert not found.doubts


def test_the_leaders_pods_and_the_written_offset_add_up() -> None:
    members = [worker(f"p{i}", 5 - i, offset="1") for i in range(4)]
    found = released(group(("leader", 1), ("workers", 4)), members)
    assert places(found) == {"p3": "h1", "p2": "h1", "p1": "h2", "p0": "h3"}


def test_a_leader_and_one_worker_both_get_their_one_place() -> None:
    members = [member("l", 0, podset="leader"), worker("p", 1)]
    found = released(group(("leader", 1), ("workers", 1)), members)
    assert (places(found), found.doubts) == ({"l": "h1", "p": "h1"}, ())


def test_a_group_of_three_has_no_leader_so_indices_start_at_zero() -> None:
    of = group(("leader", 1), ("workers", 4), ("router", 1))
    members = [worker(f"p{i}", 3 - i) for i in range(4)]
    assert places(released(of, members)) == {"p3": "h1", "p2": "h1", "p1": "h2", "p0": "h3"}


def test_two_podsets_without_a_group_are_no_leader_and_workers() -> None:
    podsets = (GatedPodSet("leader", 1, BY_INDEX, ONE), GatedPodSet("workers", 4, BY_INDEX, FOUR))
    found = released(GatedWorkload("w", True, podsets), [worker("p0", 1), worker("p1", 0)])
    assert (places(found), found.doubts) == ({"p0": "h1", "p1": "h1"}, ())


def test_a_rank_on_a_listed_host_waits_and_the_others_keep_their_places() -> None:
    found = released(workload(unhealthy=["h1"]), [member(f"p{i}", 3 - i) for i in range(4)])
    assert places(found) == {"p1": "h2", "p0": "h3"}


def test_the_next_pod_of_a_rank_takes_the_place_of_the_one_that_ended() -> None:
    ended = on("h1", "old", 1, ended=True)
    assert places(released(workload(), [ended, member("new", 1)])) == {"new": "h1"}


# --- Any doubt about ranks: the whole podset in order --------------------------------------------

SOUND = [member("p0", 3), member("p1", 2), member("p2", 1)]


@pytest.mark.parametrize(
    ("odd", "want_problem"),
    [
        pytest.param(member("p3"), "has no number in label index", id="no label"),
        pytest.param(member("p3", ""), "has no number in label index", id="empty"),
        pytest.param(member("p3", "x"), "has no number in label index", id="text"),
        pytest.param(member("p3", "-0"), "has no number in label index", id="a sign"),
        pytest.param(member("p3", "0.0"), "has no number in label index", id="a fraction"),
        pytest.param(member("p3", "1_0"), "has no number in label index", id="an underscore"),
        pytest.param(member("p3", "\u0660"), "has no number in label index", id="digits of others"),
        pytest.param(member("p3", "9" * 99), "has no number in label index", id="endless"),
        pytest.param(member("p3", 4), "has rank 4, which is none of the 4 places", id="too high"),
        pytest.param(member("p3", 3), "has rank 3, as default/p0 has", id="one rank twice"),
        pytest.param(on("h2", "p3", 0), "is not in the place of its rank 0", id="runs elsewhere"),
        pytest.param(
            member("p3", 0, gates=()), "is not in the place of its rank 0", id="runs anywhere"
        ),
        pytest.param(
            member("p3", 0, gates=(OUR_GATE,)),
            "is not in the place of its rank 0",
            id="waits behind another gate",
        ),
    ],
)
def test_one_odd_pod_makes_the_whole_podset_fill_its_places_in_order(
    odd: Member, want_problem: str
) -> None:
    found = released(workload(), [*SOUND, odd])
    assert [(d.podset, d.pod, d.problem) for d in found.doubts] == [
        ("main", "default/p3", want_problem)
    ]
    assert found.releases == released(workload(ANYHOW), [*SOUND, odd]).releases


@pytest.mark.parametrize(
    ("request_of_jobs", "odd", "want_problem"),
    [
        pytest.param(
            replace(BY_JOB, subgroup_count=None),
            of_job("p", 0, 0),
            "has a label for its job, but the podset does not say how many jobs there are",
            id="number of jobs missing",
        ),
        pytest.param(
            replace(BY_JOB, subgroup_count=0),
            of_job("p", 0, 0),
            "has a label for its job, but the podset does not say how many jobs there are",
            id="no jobs",
        ),
        pytest.param(
            BY_JOB, of_job("p", 2, 0), "has index 2 in a job of 2", id="beyond its job's size"
        ),
        pytest.param(
            BY_JOB, of_job("p", 0, 2), "has no number below 2 in label job", id="job too high"
        ),
        pytest.param(
            BY_JOB, of_job("p", 0, "x"), "has no number below 2 in label job", id="job is text"
        ),
        pytest.param(
            BY_JOB, member("p", 0), "has no number below 2 in label job", id="job is missing"
        ),
    ],
)
def test_an_odd_job_makes_the_whole_podset_fill_its_places_in_order(
    request_of_jobs: TopologyRequest, odd: Member, want_problem: str
) -> None:
    found = released(workload(request_of_jobs), [odd, of_job("q", 1, 1)])
    assert [doubt.problem for doubt in found.doubts] == [want_problem]
    assert places(found) == {"p": "h1", "q": "h1"}


def test_jobs_of_a_podset_that_they_do_not_divide_are_of_the_smaller_size() -> None:
    """Five pods in two jobs: indices 0 and 1 of jobs 0 and 1, and the fifth place stays empty."""
    five = replace(FOUR, domains=(*FOUR.domains, (("h4",), 1)))
    of = workload(BY_JOB, five, count=5)
    assert places(released(of, [of_job("p", 1, 1)])) == {"p": "h3"}
    assert released(of, [of_job("p", 0, 2)]).doubts


def test_a_rank_below_zero_is_a_doubt() -> None:
    found = released(workload(), [member("p0", 0, offset="1"), member("p1", 1, offset="1")])
    assert found.doubts[0].problem == "has rank -1, which is none of the 4 places"
    assert places(found) == {"p0": "h1", "p1": "h1"}


def test_a_rank_beyond_the_admitted_count_is_a_doubt_even_where_there_is_a_place() -> None:
    found = released(workload(count=3), [member("p0", 3)])
    assert (places(found), len(found.doubts)) == ({"p0": "h1"}, 1)


def test_a_rank_beyond_the_assignment_is_a_doubt() -> None:
    found = released(workload(assignment=ONE), [member("p0", 1)])
    assert (places(found), len(found.doubts)) == ({"p0": "h1"}, 1)


def test_a_pod_that_is_being_deleted_keeps_its_rank_until_it_ends() -> None:
    """Its place is not free: the next pod of the rank waits where all other places are taken."""
    others = [on("h1", "p0", 0), on("h2", "p2", 2), on("h3", "p3", 3)]
    leaving, new = on("h1", "p1", 1), member("p1b", 1)
    assert places(released(workload(), [*others, leaving, new])) == {}
    assert places(released(workload(), [*others, replace(leaving, ended=True), new])) == {
        "p1b": "h1"
    }


def test_a_doubt_in_one_podset_leaves_the_ranks_of_another_alone() -> None:
    podsets = (GatedPodSet("main", 4, BY_INDEX, FOUR), GatedPodSet("workers", 4, BY_INDEX, FOUR))
    members = [member("p0"), member("p1", 0), worker("q0", 3), worker("q1", 0)]
    found = released(GatedWorkload("w", True, podsets), members)
    assert places(found) == {"p0": "h1", "p1": "h1", "q1": "h1", "q0": "h3"}
    assert [doubt.podset for doubt in found.doubts] == ["main"]


# --- In order ------------------------------------------------------------------------------------


def test_pods_that_are_there_already_are_taken_off_a_domains_count() -> None:
    members = [on("h1", "a"), on("h3", "b"), member("c"), member("d"), member("e")]
    assert places(released(workload(ANYHOW), members)) == {"c": "h1", "d": "h2"}


def test_a_listed_host_is_passed_over() -> None:
    found = released(workload(ANYHOW, unhealthy=["h1"]), [member(f"p{i}") for i in range(4)])
    assert places(found) == {"p0": "h2", "p1": "h3"}


def test_only_hosts_are_listed_so_a_rack_of_the_same_name_is_used() -> None:
    racks = Assignment(("block", "rack"), ((("b1", "h1"), 1),))
    found = released(workload(ANYHOW, racks, unhealthy=["h1", "b1"]), [member("p0")])
    assert found.releases[0].selector == (("block", "b1"), ("rack", "h1"))


def test_a_pod_on_a_place_that_was_taken_away_counts_nowhere() -> None:
    members = [on("gone", "a"), *(member(f"p{i}") for i in range(4))]
    assert len(released(workload(ANYHOW), members).releases) == 4


def test_more_pods_on_a_domain_than_its_count_take_nothing_from_others() -> None:
    members = [*(on("h2", f"r{i}") for i in range(3)), *(member(f"p{i}") for i in range(4))]
    assert places(released(workload(ANYHOW), members)) == {"p0": "h1", "p1": "h1", "p2": "h3"}


# --- Whole workloads -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("x", id="text"),
        pytest.param("1.5", id="a fraction"),
        pytest.param("1" * 99, id="endless"),
        pytest.param("\u0663", id="digits of others"),
        pytest.param(" 1", id="a space"),
    ],
)
@pytest.mark.parametrize("request_of", [BY_INDEX, ANYHOW], ids=["ranks", "no ranks"])
def test_an_offset_that_is_no_number_stops_the_workload_and_names_the_pod(
    text: str, request_of: TopologyRequest
) -> None:
    podsets = (
        GatedPodSet("main", 4, BY_INDEX, FOUR),
        GatedPodSet("workers", 4, request_of, FOUR),
    )
    members = [member("p0", 0), worker("q0", 0, offset=text), worker("q1", 1)]
    found = releases(GatedWorkload("w", True, podsets), members, KUEUE_GATE)
    assert isinstance(found, Violation)
    assert (found.code, found.value) == ("invalid", text)
    assert found.path == f"Pod default/q0: {INDEX_OFFSET}"
    assert found.problem == "must be a whole number"


def test_the_offset_of_a_pod_that_ended_is_not_read() -> None:
    members = [member("p0", 0, offset="x", ended=True), member("p1", 1)]
    assert places(released(workload(), members)) == {"p1": "h1"}


def test_releases_that_are_not_seen_yet_stop_the_whole_workload() -> None:
    assert releases(workload(), SOUND, KUEUE_GATE, unseen=2) == Unseen(2)


@pytest.mark.parametrize(
    "of",
    [
        pytest.param(replace(workload(), admitted=False), id="only reserved"),
        pytest.param(workload(assignment=None), id="no topology"),
        pytest.param(GatedWorkload("w", True, ()), id="no podsets"),
    ],
)
def test_without_admission_and_places_nothing_is_released_and_nothing_is_wrong(
    of: GatedWorkload,
) -> None:
    members = [member("p0", 0, offset="x")]
    assert releases(of, members, KUEUE_GATE, unseen=1) == Released()


def test_a_podset_without_places_does_not_hold_up_the_others() -> None:
    podsets = (GatedPodSet("main", 4, BY_INDEX, None), GatedPodSet("workers", 4, BY_INDEX, FOUR))
    members = [member("p0", 0, offset="x"), worker("q0", 3)]
    assert places(released(GatedWorkload("w", True, podsets), members)) == {"q0": "h3"}


def test_pods_of_other_workloads_and_podsets_are_left_alone() -> None:
    members = [member("p0", 0, workload="v"), member("p1", 1, podset="x"), member("p2", 2)]
    assert places(released(workload(), members)) == {"p2": "h2"}


def test_our_own_gate_is_released_by_the_same_rules() -> None:
    members = [member(f"p{i}", 3 - i, gates=(OUR_GATE, "other")) for i in range(4)]
    found = released(workload(), members, OUR_GATE)
    assert {each.gate for each in found.releases} == {OUR_GATE}
    assert places(found) == {"p3": "h1", "p2": "h1", "p1": "h2", "p0": "h3"}


def test_the_selector_names_every_level_of_the_assignment() -> None:
    racks = Assignment(("block", "rack"), ((("b1", "r1"), 1), (("b1", "r2"), 1)))
    found = released(workload(assignment=racks, count=2), [member("p0", 1)])
    assert found.releases[0].selector == (("block", "b1"), ("rack", "r2"))


# --- Reading a pod -------------------------------------------------------------------------------


def read(obj: dict[str, Any]) -> Member:
    return Member.of(read_as(core.Pod, obj, "Pod"))


def test_a_pod_is_read_by_kueues_marks() -> None:
    marked = pod("p0").in_namespace("team").labelled(**{PODSET: "main", "index": "3"})
    marked.annotated(**{"kueue.x-k8s.io/workload": "w", INDEX_OFFSET: "1"})
    marked.gated_by(KUEUE_GATE).gated_by("other").selecting(pool="x")
    assert read(marked) == Member(
        key="team/p0",
        workload="w",
        podset="main",
        gates=(KUEUE_GATE, "other"),
        selector={"pool": "x"},
        labels={PODSET: "main", "index": "3"},
        offset="1",
    )


def test_a_pod_of_a_workload_slice_belongs_to_its_chain() -> None:
    late = pod("p0").annotated(**{"kueue.x-k8s.io/workload": "second", WORKLOAD_SLICE: "first"})
    assert read(late).workload == "first"


@pytest.mark.parametrize(
    ("phase", "want_ended"),
    [
        ("Pending", False),
        ("Running", False),
        ("Unknown", False),
        ("Succeeded", True),
        ("Failed", True),
    ],
)
def test_a_pod_that_succeeded_or_failed_has_ended(phase: str, want_ended: bool) -> None:
    assert read(pod("p0").phase(phase)).ended is want_ended


def test_a_bare_pod_names_nothing() -> None:
    assert read({"metadata": {"name": "p0"}}) == Member("default/p0", None, None)


# --- Laws ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scene:
    """A podset with its pods, most of them as they should be."""

    of: GatedWorkload
    members: tuple[Member, ...]

    @property
    def podset(self) -> GatedPodSet:
        return self.of.podsets[0]

    @property
    def assignment(self) -> Assignment:
        assert self.podset.assignment is not None
        return self.podset.assignment

    def there(self, members: Sequence[Member]) -> Counter[Path]:
        """Return how many live pods were released to each domain."""
        keys = self.assignment.levels
        live = [m for m in members if KUEUE_GATE not in m.gates and not m.ended]
        return Counter(tuple(m.selector.get(key, "") for key in keys) for m in live)

    def release(self) -> Released:
        return released(self.of, self.members)

    def after(self, let_go: Released, taken: int | None = None) -> "Scene":
        """Return the scene once the first ``taken`` releases are done and seen."""
        done = {each.pod: each for each in let_go.releases[:taken]}
        return replace(
            self,
            members=tuple(
                replace(
                    m,
                    gates=tuple(g for g in m.gates if g != done[m.key].gate),
                    selector={**m.selector, **dict(done[m.key].selector)},
                )
                if m.key in done
                else m
                for m in self.members
            ),
        )


@st.composite
def assignments(draw: st.DrawFn) -> Assignment:
    size = draw(st.integers(1, 4))
    counts = draw(st.lists(st.integers(1, 3), min_size=size, max_size=size))
    if draw(st.booleans()):
        return Assignment((HOSTNAME,), tuple(((f"h{i}",), n) for i, n in enumerate(counts)))
    paths = [(f"b{i // 2}", f"r{i % 2}") for i in range(size)]
    return Assignment(("block", "rack"), tuple(zip(paths, counts, strict=True)))


@st.composite
def members_of(draw: st.DrawFn, assignment: Assignment, rank: int, jobs: int) -> Member:
    """Draw the pod of a rank: mostly sound and gated; else running, ended, elsewhere or odd."""
    size = max(assignment.count // jobs, 1)
    labels = {"index": str(rank % size), "job": str(rank // size)}
    if draw(st.integers(0, 9)) == 0:
        labels = draw(st.sampled_from([{}, {"index": "x"}, {"index": "0"}, {"index": "77"}]))
    places = [path for path, count in assignment.domains for _ in range(count)]
    pod = member(f"p{draw(st.integers(0, 999))}-{rank}", labels=labels)
    if draw(st.integers(0, 3)) == 0:
        path = places[rank % len(places)]
        if draw(st.integers(0, 3)) == 0:
            path = draw(st.sampled_from([*places, ("x", "y")]))
        pod = replace(pod, gates=(), selector=dict(zip(assignment.levels, path, strict=False)))
    return replace(pod, ended=draw(st.integers(0, 9)) == 0)


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    assignment = draw(assignments())
    jobs = draw(st.sampled_from([1, 1, 2, 3]))
    requests = (ANYHOW, BY_INDEX, replace(BY_JOB, subgroup_count=jobs))
    request = draw(st.sampled_from(requests if jobs == 1 else requests[2:]))
    pods = range(assignment.count + draw(st.integers(-2, 2)))
    members = [draw(members_of(assignment, rank, jobs)) for rank in pods]
    hosts = [path[-1] for path, _ in assignment.domains]
    unhealthy = draw(st.sets(st.sampled_from(hosts))) if draw(st.booleans()) else set()
    count = assignment.count
    return Scene(workload(request, assignment, count, tuple(unhealthy)), tuple(members))


@st.composite
def complete_scenes(draw: st.DrawFn, in_order: bool = False) -> Scene:
    """Draw all pods of a podset, gated, on a healthy cluster; with sound ranks if ``in_order``."""
    scene = draw(scenes())
    jobs = scene.podset.request.subgroup_count or 1
    size = scene.assignment.count // jobs
    assume(not in_order or size * jobs == scene.assignment.count)
    pods = [
        draw(members_of(scene.assignment, rank, jobs))
        if not in_order
        else member(
            f"p{draw(st.integers(0, 999))}-{rank}",
            labels={"index": str(rank % size), "job": str(rank // size)},
        )
        for rank in range(scene.assignment.count)
    ]
    gated = tuple(replace(m, gates=(KUEUE_GATE,), selector={}, ended=False) for m in pods)
    return Scene(replace(scene.of, unhealthy=frozenset()), gated)


@settings(max_examples=EXAMPLES)
@given(scene=scenes())
def test_no_place_gets_more_pods_than_it_has(scene: Scene) -> None:
    before = scene.there(scene.members)
    after = scene.there(scene.after(scene.release()).members)
    for path, count in scene.assignment.domains:
        assert after[path] <= max(count, before[path])


@settings(max_examples=EXAMPLES)
@given(scene=scenes())
def test_only_live_gated_pods_are_released_once_each_to_a_domain_of_the_assignment(
    scene: Scene,
) -> None:
    let_go = scene.release().releases
    waiting = {m.key for m in scene.members if KUEUE_GATE in m.gates and not m.ended}
    assert {each.pod for each in let_go} <= waiting
    assert len({each.pod for each in let_go}) == len(let_go)
    domains = {path for path, _ in scene.assignment.domains}
    for each in let_go:
        assert tuple(key for key, _ in each.selector) == scene.assignment.levels
        assert tuple(value for _, value in each.selector) in domains


@settings(max_examples=EXAMPLES)
@given(scene=complete_scenes())
def test_all_pods_of_a_complete_podset_fill_the_assignment_exactly(scene: Scene) -> None:
    after = scene.after(scene.release())
    assert scene.there(after.members) == dict(scene.assignment.domains)


@settings(max_examples=EXAMPLES)
@given(scene=scenes(), seed=st.integers())
def test_the_order_of_the_pods_does_not_matter(scene: Scene, seed: int) -> None:
    shuffled = Random(seed).sample(scene.members, len(scene.members))
    assert released(scene.of, shuffled) == scene.release()


@settings(max_examples=EXAMPLES)
@given(scene=complete_scenes(in_order=True))
def test_with_sound_ranks_rank_k_gets_place_k(scene: Scene) -> None:
    found = scene.release()
    paths = {each.pod: tuple(value for _, value in each.selector) for each in found.releases}
    want = [path for path, count in scene.assignment.domains for _ in range(count)]
    if scene.podset.request.index_label is not None:
        assert [paths[m.key] for m in scene.members] == want
    assert not found.doubts


@settings(max_examples=EXAMPLES)
@given(scene=scenes())
def test_with_any_doubt_the_podset_is_filled_as_if_it_named_no_index(scene: Scene) -> None:
    found = scene.release()
    podset = replace(scene.podset, request=ANYHOW)
    anyhow = released(replace(scene.of, podsets=(podset,)), scene.members)
    assert len(found.doubts) <= 1
    if found.doubts:
        assert found.releases == anyhow.releases


@settings(max_examples=EXAMPLES)
@given(scene=scenes())
def test_in_order_no_healthy_place_stays_open_while_a_pod_waits(scene: Scene) -> None:
    podset = replace(scene.podset, request=ANYHOW)
    anyhow = replace(scene, of=replace(scene.of, podsets=(podset,)))
    after = anyhow.after(anyhow.release()).members
    there, hosts = anyhow.there(after), scene.assignment.levels == (HOSTNAME,)
    is_open = any(
        there[path] < count and not (hosts and path[-1] in scene.of.unhealthy)
        for path, count in scene.assignment.domains
    )
    assert not (is_open and any(KUEUE_GATE in m.gates and not m.ended for m in after))


@settings(max_examples=EXAMPLES)
@given(scene=scenes())
def test_once_the_first_run_is_seen_a_second_one_releases_nothing(scene: Scene) -> None:
    assert scene.after(scene.release()).release().releases == ()


@settings(max_examples=EXAMPLES)
@given(scene=scenes(), taken=st.integers(0, 12))
def test_a_run_that_was_cut_off_is_finished_as_it_would_have_been(scene: Scene, taken: int) -> None:
    first = scene.release()
    resumed = scene.after(first, taken)
    after = resumed.after(resumed.release())
    assert scene.there(after.members) == scene.there(scene.after(first).members)


@settings(max_examples=EXAMPLES)
@given(scene=scenes())
def test_nothing_is_released_onto_a_listed_host(scene: Scene) -> None:
    for each in scene.release().releases:
        assert dict(each.selector).get(HOSTNAME) not in scene.of.unhealthy
