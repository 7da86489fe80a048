"""Pods -> gangs: who belongs together, how many they are, what they ask and who comes first."""

from collections.abc import Sequence
from typing import Any

import pytest

from stowplan.placement import keys
from stowplan.placement.gangs import (
    MOST_PODS,
    Gang,
    GangId,
    GangIndex,
    assemble,
    gang_of,
)
from stowplan.placement.owners import Owners, Size, size_of
from stowplan.placement.reasons import Reason
from tests.build import OwnerObject, PodObject, gang, level, owner, pod


def owners(*objects: OwnerObject) -> Owners:
    known = Owners()
    for found in objects:
        known.set(found.record())
    return known


def assembled(members: Sequence[PodObject], *objects: OwnerObject) -> Gang | Reason:
    records = [member.record() for member in members]
    return assemble(gang_of(records[0]), records, owners(*objects))


def whole(members: Sequence[PodObject], *objects: OwnerObject) -> Gang:
    made = assembled(members, *objects)
    assert isinstance(made, Gang), made
    return made


def word(members: Sequence[PodObject], *objects: OwnerObject) -> str:
    made = assembled(members, *objects)
    assert isinstance(made, Reason), made
    return made.word


def names(made: Gang) -> list[str]:
    return [member.name for member in made.pods]


# --- Identity ------------------------------------------------------------------------------------


def lws(name: str, index: int, size: int = 2) -> PodObject:
    labels = {keys.LWS_NAME: "serve", keys.LWS_GROUP: "3", keys.LWS_RANK: str(index)}
    return pod(name).labelled(**labels).annotated(**{keys.LWS_SIZE: str(size)}).anywhere()


def in_job_set(name: str, job: int, index: int, template: str = "w") -> PodObject:
    return (
        pod(name)
        .labelled(
            **{
                keys.JOBSET_NAME: "js",
                keys.JOBSET_JOB: template,
                keys.JOBSET_JOB_INDEX: str(job),
                keys.JOB_INDEX: str(index),
            }
        )
        .owned_by("Job", f"js-{template}-{job}")
        .anywhere()
    )


@pytest.mark.parametrize(
    ("member", "want_kind", "want_name"),
    [
        pytest.param(pod("p").in_gang("g", 2), "pod-group", "g", id="Kueue's plain pod group"),
        pytest.param(
            pod("p").labelled(**{keys.COSCHEDULING_GROUP: "g"}), "PodGroup", "g", id="PodGroup"
        ),
        pytest.param(lws("p", 0), "LeaderWorkerSet", "serve/3", id="LeaderWorkerSet"),
        pytest.param(in_job_set("p", 0, 0), "JobSet", "js", id="JobSet before its Job"),
        pytest.param(
            in_job_set("p", 0, 0).in_gang("g", 2), "pod-group", "g", id="a group label before all"
        ),
        pytest.param(pod("p"), "Pod", "p", id="alone"),
    ],
)
def test_the_first_row_that_matches_names_the_gang(
    member: PodObject, want_kind: str, want_name: str
) -> None:
    assert gang_of(member.record()) == GangId("default", want_kind, want_name)


@pytest.mark.parametrize("kind", ["Job", "StatefulSet", "ReplicaSet"])
def test_a_controller_made_again_under_the_same_name_has_another_gang(kind: str) -> None:
    """contracts.md section 1: the identity of these is the owner's uid."""
    one = pod("p").owned_by(kind, "train", "uid-1").record()
    other = pod("p").owned_by(kind, "train", "uid-2").record()
    assert gang_of(one) != gang_of(other)
    assert gang_of(one) == gang_of(pod("q").owned_by(kind, "train", "uid-1").record())


def test_a_job_set_made_again_under_the_same_name_has_another_gang() -> None:
    one, other = in_job_set("p", 0, 0), in_job_set("p", 0, 0)
    one.labelled(**{keys.JOBSET_UID: "uid-1"})
    other.labelled(**{keys.JOBSET_UID: "uid-2"})
    assert gang_of(one.record()) != gang_of(other.record())


def test_gangs_of_different_namespaces_are_different() -> None:
    one, other = (pod("p").in_gang("g", 2).in_namespace(n).record() for n in ("a", "b"))
    assert gang_of(one) != gang_of(other)


# --- Size ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "spec", "status", "want"),
    [
        ("Job", {"parallelism": 4}, {}, 4),
        ("Job", {}, {}, 1),
        ("Job", {"parallelism": 4, "completions": 10}, {}, 4),
        ("Job", {"parallelism": 4, "completions": 10}, {"succeeded": 8}, 2),
        ("Job", {"parallelism": 4, "completions": 10}, {"failedIndexes": "0,3-9"}, 2),
        (
            "Job",
            {"parallelism": 4, "completions": 10},
            {"succeeded": 5, "failedIndexes": "1-3"},
            2,
        ),
        ("Job", {"parallelism": 0}, {}, 0),
        ("Job", {"parallelism": 4, "completions": 4}, {"succeeded": 9}, 0),
        ("StatefulSet", {"replicas": 3}, {}, 3),
        ("StatefulSet", {}, {}, 1),
        ("ReplicaSet", {"replicas": 3}, {}, 3),
        ("PodGroup", {"minMember": 5}, {}, 5),
        ("PodGroup", {}, {}, 1),
    ],
)
def test_the_owner_s_counts_say_how_large_a_gang_is(
    kind: str, spec: dict[str, Any], status: dict[str, Any], want: int
) -> None:
    member = pod("p").owned_by(kind, "x").labelled(**{keys.COSCHEDULING_GROUP: "x"}).record()
    made = size_of(kind, [member], owners(owner(kind, "x", **spec).with_status(**status)))
    assert isinstance(made, Size)
    assert made.pods == want


def test_a_job_set_is_the_sum_of_its_jobs() -> None:
    jobs = [
        {"name": "a", "replicas": 2, "template": {"spec": {"parallelism": 4, "completions": 3}}},
        {"name": "b", "template": {"spec": {"parallelism": 5}}},
        {"name": "c", "template": {"spec": {}}},
        {"name": "d", "replicas": 0, "template": {"spec": {"parallelism": 9}}},
    ]
    made = size_of(
        "JobSet",
        [in_job_set("p", 0, 0).record()],
        owners(owner("JobSet", "js", replicatedJobs=jobs)),
    )
    assert isinstance(made, Size)
    assert (made.pods, made.ahead) == (2 * 3 + 5 + 1, False)


def test_a_replica_set_counts_to_its_deployment_s_replicas() -> None:
    member = pod("p").owned_by("ReplicaSet", "x").record()
    growing = owner("ReplicaSet", "x", replicas=1).desiring(6)
    assert size_of("ReplicaSet", [member], owners(growing)) == Size(6, ahead=True)
    nonsense = owner("ReplicaSet", "x", replicas=2).desiring("many")
    assert size_of("ReplicaSet", [member], owners(nonsense)) == Size(2, ahead=True)


@pytest.mark.parametrize("text", ["0", "-1", "eight", "", "1.5", "٣", "9" * 10, "8 ", "9" * 5000])
def test_a_size_that_is_no_whole_number_of_1_or_more_is_refused(text: str) -> None:
    assert word([pod("p").in_gang("g", text).requires("rack")]) == "RequestInvalid"


def test_failed_indexes_that_nobody_can_read_do_no_harm() -> None:
    """The status is written by the Job controller, but a file may hold anything."""
    job = owner("Job", "x", parallelism=2, completions=3)
    job.with_status(failedIndexes="1,-,x,5-," + "9" * 5000)
    members = [pod(f"p{i}").owned_by("Job", "x").anywhere() for i in range(2)]
    assembled(members, job)


def test_a_size_that_no_pod_states_is_named_as_missing() -> None:
    made = assembled([pod("p").labelled(**{keys.POD_GROUP_NAME: "g"}).requires("rack")])
    assert isinstance(made, Reason)
    assert keys.POD_GROUP_COUNT in made.text


# --- Completeness --------------------------------------------------------------------------------


def test_a_gang_is_whole_when_all_of_its_pods_are_there() -> None:
    made = whole(gang("train", 8))
    assert (made.size, len(made.pods), made.podset_of) == (8, 8, (0,) * 8)
    assert [(p.count, p.request.required) for p in made.podsets] == [(8, level("rack"))]


def test_a_gang_that_says_8_and_sends_7_is_incomplete() -> None:
    assert word(gang("train", 8)[:7]) == "Incomplete"


def test_a_gang_that_says_8_and_sends_9_is_a_contradiction() -> None:
    ninth = pod("train-8").in_gang("train", 8).requires("rack").gpus(8)
    assert word([*gang("train", 8), ninth]) == "Contradiction"


def test_succeeded_pods_count_as_present_and_failed_and_terminating_ones_do_not() -> None:
    members = gang("train", 4)
    members[0].on("n1").phase("Succeeded")
    assert [p.count for p in whole(members).podsets] == [3]
    members[0].phase("Failed")
    assert word(members) == "Incomplete"
    members[0].phase("Pending").terminating()
    assert word(members) == "Incomplete"


def test_the_size_of_a_job_leaves_succeeded_pods_out() -> None:
    members = [pod(f"p{i}").owned_by("Job", "x").requires("rack") for i in range(3)]
    members[0].on("n1").phase("Succeeded")
    job = owner("Job", "x", parallelism=2, completions=3).with_status(succeeded=1)
    made = whole(members, job)
    assert (made.size, names(made), made.is_part) == (2, ["p1", "p2"], True)


@pytest.mark.parametrize("kind", ["Job", "StatefulSet", "ReplicaSet", "PodGroup"])
def test_a_gang_whose_owner_is_not_known_is_incomplete_and_says_so(kind: str) -> None:
    member = pod("p").owned_by(kind, "x").requires("rack")
    if kind == "PodGroup":
        member.labelled(**{keys.COSCHEDULING_GROUP: "x"})
    made = assembled([member])
    assert isinstance(made, Reason)
    assert made.word == "Incomplete"
    assert kind in made.text


def test_a_controller_of_another_kind_must_name_its_gang() -> None:
    made = assembled([pod("p").owned_by("RayCluster", "x").requires("rack")])
    assert isinstance(made, Reason)
    assert made.word == "Incomplete"
    assert "group label" in made.text
    labelled = [pod("p").owned_by("RayCluster", "x").in_gang("g", 1).requires("rack")]
    assert whole(labelled).size == 1


def test_a_job_of_another_api_group_is_not_a_job() -> None:
    """Volcano's Job is a controller of another kind: it has no parallelism."""
    member = pod("p").owned_by("Job", "x").requires("rack")
    member["metadata"]["ownerReferences"][0]["apiVersion"] = "batch.volcano.sh/v1alpha1"
    assert word([member], owner("Job", "x", parallelism=1)) == "Incomplete"


def test_pods_made_one_after_another_are_placed_at_the_first() -> None:
    one = [pod("web-0").owned_by("StatefulSet", "web").requires("rack").gpus(8)]
    made = whole(one, owner("StatefulSet", "web", replicas=3))
    assert (made.ahead, made.podsets[0].count) == (True, 3)
    parallel = owner("StatefulSet", "web", replicas=3, podManagementPolicy="Parallel")
    assert word(one, parallel) == "Incomplete"


def test_pods_of_a_pod_group_beyond_its_minimum_join() -> None:
    members = [pod(f"p{i}").labelled(**{keys.COSCHEDULING_GROUP: "g"}).anywhere() for i in range(3)]
    made = whole(members, owner("PodGroup", "g", minMember=2))
    assert (made.is_part, made.size, made.podsets[0].count) == (False, 2, 2)
    assert word(members[:1], owner("PodGroup", "g", minMember=2)) == "Incomplete"


def test_a_gang_of_too_many_pods_is_refused() -> None:
    assert word([pod("p").in_gang("g", MOST_PODS + 1).anywhere()]) == "TooLarge"
    assert word([pod("p").in_gang("g", MOST_PODS).anywhere()]) == "Incomplete"


# --- Contradictions ------------------------------------------------------------------------------


def test_pods_that_state_different_sizes_contradict_each_other() -> None:
    members = [*gang("train", 2)[:1], pod("train-1").in_gang("train", 3).requires("rack")]
    assert word(members) == "Contradiction"


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(pod("train-1").in_gang("train", 2).requires("block"), id="another level"),
        pytest.param(pod("train-1").in_gang("train", 2).prefers("rack"), id="another mode"),
        pytest.param(pod("train-1").in_gang("train", 2), id="one that asks for nothing"),
        pytest.param(
            pod("train-1").in_gang("train", 2).requires("rack").sliced("host", 2), id="slices"
        ),
        pytest.param(
            pod("train-1")
            .in_gang("train", 2)
            .requires("rack")
            .annotated(**{keys.PACKING: "best-fit"}),
            id="another packing",
        ),
    ],
)
def test_pods_that_ask_for_different_things_contradict_each_other(other: PodObject) -> None:
    assert word([gang("train", 2)[0], other]) == "Contradiction"


@pytest.mark.parametrize("text", ["even", "", "Mixed", "x" * 10_000_000])
def test_a_packing_that_nobody_knows_is_refused(text: str) -> None:
    made = assembled([pod("p").in_gang("g", 1).anywhere().annotated(**{keys.PACKING: text})])
    assert isinstance(made, Reason)
    assert made.word == "RequestInvalid"
    assert len(str(made)) < 300


def test_a_preferred_level_may_stand_beside_a_required_one() -> None:
    made = assembled([pod("p").in_gang("g", 1).requires("block").prefers("rack")])
    assert isinstance(made, Gang)
    assert (made.request.required, made.request.preferred) == (level("block"), level("rack"))


def test_a_job_s_slices_are_judged_by_its_whole_and_not_by_what_is_left_of_it() -> None:
    """contracts.md section 1: later waves join; 2 left of 8 is no fault of the request."""
    members = [pod(f"p{i}").owned_by("Job", "x").requires("rack").sliced("host", 4) for i in (6, 7)]
    job = owner("Job", "x", parallelism=4, completions=8).with_status(succeeded=6)
    made = assembled(members, job)
    assert not isinstance(made, Reason), made


def test_what_is_left_of_a_group_of_which_pods_succeeded_is_a_part() -> None:
    members = [member.sliced("host", 2) for member in gang("g", 4)]
    assert not whole(members).is_part
    members[0].on("n1").phase("Succeeded")
    made = whole(members)
    assert (made.is_part, made.podsets[0].count) == (True, 3)


# --- Podsets and ranks ---------------------------------------------------------------------------


def test_pods_of_unlike_shape_are_podsets_of_their_own() -> None:
    members = [pod("lead").in_gang("g", 3).ranked(0).requires("rack").asking(cpu="1")]
    members += [pod(f"w{i}").in_gang("g", 3).ranked(i).requires("rack").gpus(8) for i in (1, 2)]
    made = whole(members)
    assert [p.count for p in made.podsets] == [1, 2]
    assert (names(made), made.podset_of) == (["lead", "w1", "w2"], (0, 1, 1))


def test_a_role_hash_makes_a_podset_of_its_own() -> None:
    """contracts.md section 1: podset = annotation role-hash, else equal shape."""
    members = gang("g", 4)
    for i, member in enumerate(members):
        member.annotated(**{keys.ROLE_HASH: f"role-{i % 2}"})
    assert [p.count for p in whole(members).podsets] == [2, 2]


def test_each_replicated_job_of_a_job_set_is_a_podset() -> None:
    """contracts.md section 1: one podset per replicated job, equal shapes or not."""
    members = [in_job_set(f"js-{t}-0-{i}", 0, i, t) for t in ("a", "b") for i in range(2)]
    jobs = [{"name": t, "template": {"spec": {"parallelism": 2}}} for t in ("a", "b")]
    made = whole(members, owner("JobSet", "js", replicatedJobs=jobs))
    assert [p.count for p in made.podsets] == [2, 2]
    assert names(made) == ["js-a-0-0", "js-a-0-1", "js-b-0-0", "js-b-0-1"]


def test_pods_of_a_job_set_come_by_job_and_then_by_completion() -> None:
    members = [in_job_set(f"js-{job}-{i}", job, i) for i in (1, 0) for job in (10, 2)]
    jobs = [{"name": "w", "replicas": 2, "template": {"spec": {"parallelism": 2}}}]
    made = whole(members, owner("JobSet", "js", replicatedJobs=jobs))
    assert names(made) == ["js-2-0", "js-2-1", "js-10-0", "js-10-1"]


def test_without_ranks_names_come_in_natural_order() -> None:
    members = [pod(f"p-{i}").in_gang("g", 4).anywhere() for i in ("10", "2", "1", "02x")]
    assert names(whole(members)) == ["p-1", "p-2", "p-02x", "p-10"]


def job_set(*names: str, pods: int = 2, **spec: Any) -> OwnerObject:
    jobs = [{"name": t, "template": {"spec": {"parallelism": pods}}} for t in names]
    return owner("JobSet", "js", replicatedJobs=jobs, **spec)


def test_a_template_that_nobody_can_read_is_a_reason_and_no_crash() -> None:
    """The pods that are still to be made are like their template, which a file may get wrong."""
    ordered = job_set("a", "b", startupPolicy={"startupPolicyOrder": "InOrder"})
    container = {"name": "c", "resources": {"requests": {"cpu": "lots"}}}
    ordered["spec"]["replicatedJobs"][1]["template"]["spec"]["template"] = {
        "spec": {"containers": [container]}
    }
    members = [in_job_set(f"js-a-0-{i}", 0, i, "a") for i in range(2)]
    assert isinstance(assembled(members, ordered), Reason)


def test_ranks_come_before_names() -> None:
    members = [pod(f"p-{9 - i}").in_gang("g", 4).ranked(i * 5).anywhere() for i in range(4)]
    assert names(whole(members[::-1])) == ["p-9", "p-8", "p-7", "p-6"]


@pytest.mark.parametrize(
    ("label", "text", "want"),
    [
        (keys.POD_GROUP_INDEX, "7", 7),
        (keys.LWS_RANK, "0", 0),
        (keys.JOB_INDEX, "12", 12),
        (keys.STATEFULSET_INDEX, "3", 3),
        (keys.JOB_INDEX, "-1", None),
        (keys.JOB_INDEX, "x", None),
        (keys.JOB_INDEX, "²", None),
        (keys.JOB_INDEX, "9" * 5000, None),
    ],
)
def test_a_rank_is_a_whole_number_of_a_rank_label(label: str, text: str, want: int | None) -> None:
    assert pod("p").labelled(**{label: text}).record().rank == want


def test_a_name_of_thousands_of_digits_is_ordered_too() -> None:
    """No real pod has it, but the extender reads names from the network."""
    members = [pod("9" * 5000 + f"-{i}").in_gang("g", 2).anywhere() for i in (1, 0)]
    assert len(whole(members).pods) == 2


def test_the_order_in_which_pods_come_does_not_matter() -> None:
    members = gang("train", 6)
    members[3].gpus(4)
    one, other = whole(members), whole(members[::-1])
    assert (one.podsets, names(one)) == (other.podsets, names(other))


# --- The index -----------------------------------------------------------------------------------


def test_the_index_follows_pods_from_gang_to_gang() -> None:
    index = GangIndex(callers_count_for=60)
    one, two = GangId("default", "pod-group", "a"), GangId("default", "pod-group", "b")
    before, after = (pod("p").in_gang(name, 1).record() for name in ("a", "b"))
    index.set_pod(None, before)
    assert (list(index.members(one, 0)), index.ids()) == (["default/p"], [one])
    index.set_pod(before, after)
    assert (list(index.members(one, 0)), index.ids()) == ([], [two])
    index.remove_pod(after)
    assert index.ids() == []


def test_a_caller_that_no_object_confirms_counts_for_a_while() -> None:
    index = GangIndex(callers_count_for=60)
    caller = pod("p").in_gang("a", 2).record()
    name = gang_of(caller)
    index.heard_from(name, caller, 100.0)
    assert list(index.members(name, 160.0)) == ["default/p"]
    assert list(index.members(name, 160.1)) == []


def test_the_version_of_a_gang_changes_exactly_when_its_pods_do() -> None:
    index = GangIndex(callers_count_for=60)
    caller = pod("p").in_gang("a", 2).record()
    name = gang_of(caller)
    versions = [index.version(name)]
    index.heard_from(name, caller, 0.0)
    versions.append(index.version(name))
    index.heard_from(name, caller, 10.0)
    assert index.version(name) == versions[-1]
    index.set_pod(None, caller)
    versions.append(index.version(name))
    index.heard_from(name, caller, 20.0)
    assert index.version(name) == versions[-1]
    index.remove_pod(caller)
    versions.append(index.version(name))
    index.heard_from(name, caller, 30.0)
    versions.append(index.version(name))
    assert len(set(versions)) == len(versions) - 1  # a gang without pods has version 0
