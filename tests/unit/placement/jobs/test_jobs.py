from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from stowplan.api.errors import InvalidObjectError
from stowplan.placement import keys
from stowplan.placement.answers.answer import DoesNotFit, Fits
from stowplan.placement.answers.ask import ask
from stowplan.placement.cluster import Cluster
from stowplan.placement.gangs import MOST_PODS, Gang, GangId
from stowplan.placement.jobs.already_there import whole_gang
from stowplan.placement.jobs.controllers import MOST_MADE
from stowplan.placement.jobs.expand import Jobs, Wanted, expand
from stowplan.placement.jobs.templates import shown
from stowplan.placement.reasons import Reason
from tests.build import GPU, Json, PodObject, cluster, level, node, owner, pod

RACK = level("rack")
ASKS = {keys.REQUIRED[0]: RACK}


def template(gpus: int = 4, annotations: Mapping[str, str] = ASKS) -> Json:
    requests = {GPU: str(gpus)}
    return {
        "metadata": {"annotations": dict(annotations)},
        "spec": {"containers": [{"name": "main", "resources": {"limits": requests}}]},
    }


def made(kind: str, api_version: str, name: str, **spec: Any) -> Json:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def job(name: str = "train", **spec: Any) -> Json:
    return made("Job", "batch/v1", name, **{"template": template(), **spec})


def indexed(name: str = "train", pods: int = 4, **spec: Any) -> Json:
    return job(name, completions=pods, parallelism=pods, completionMode="Indexed", **spec)


def job_set(*jobs: Json, name: str = "train") -> Json:
    return made("JobSet", "jobset.x-k8s.io/v1alpha2", name, replicatedJobs=list(jobs))


def replicated(name: str, replicas: int, pods: int, **spec: Any) -> Json:
    inner = {"parallelism": pods, "completions": pods, "template": template(), **spec}
    return {"name": name, "replicas": replicas, "template": {"spec": inner}}


def leader_worker_set(replicas: int, size: int, **templates: Json) -> Json:
    both = {"size": size, "workerTemplate": template(), **templates}
    kind, version = "LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1"
    return made(kind, version, "serve", replicas=replicas, leaderWorkerTemplate=both)


def scaled(kind: str, replicas: int | None, name: str = "web", **spec: Any) -> Json:
    given = {} if replicas is None else {"replicas": replicas}
    return made(kind, "apps/v1", name, template=template(), **given, **spec)


def racks(*names: str, nodes: int = 2) -> list[Json]:
    return [
        node(f"{rack}-x{i}").at(block="b1", rack=rack).gpus(8)
        for rack in names
        for i in range(1, nodes + 1)
    ]


def names(wanted: Wanted) -> list[str]:
    return [shown(pod.name) for pod in wanted.pods]


def only(*objects: Json) -> Wanted:
    (wanted,) = expand(objects).gangs
    return wanted


def gang_in(there: Cluster, *objects: Json) -> Gang | Reason:
    jobs = expand(objects)
    return whole_gang(there, jobs, jobs.gangs[0], 0.0)


def answer(there: Cluster, jobs: Jobs, wanted: Wanted) -> Fits | DoesNotFit:
    gang = whole_gang(there, jobs, wanted, 0.0)
    assert isinstance(gang, Gang)
    return ask(there, gang, take=True)


def refused(*objects: Json) -> list[str]:
    with pytest.raises(InvalidObjectError) as error:
        expand(objects)
    return [str(violation) for violation in error.value.violations]


# --- what each kind makes ---------------------------------------------------------------------


def test_an_indexed_job_makes_a_pod_for_each_index_in_its_first_wave() -> None:
    wanted = only(job(completions=9, parallelism=3, completionMode="Indexed"))
    assert wanted.title == "Job default/train"
    assert wanted.gang == GangId("default", "Job", "train")
    assert names(wanted) == ["train-0-*", "train-1-*", "train-2-*"]
    assert [pod.rank for pod in wanted.pods] == [0, 1, 2]
    assert [pod.labels[keys.JOB_INDEX] for pod in wanted.pods] == ["0", "1", "2"]
    assert all(pod.owner and pod.owner.kind == "Job" for pod in wanted.pods)
    assert wanted.pods[0].requests == ((GPU, 4), ("pods", 1))


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, 1, id="one by default"),
        pytest.param({"parallelism": 3}, 3, id="a work queue of three"),
        pytest.param({"completions": 3}, 1, id="three, one after another"),
        pytest.param({"parallelism": 5, "completions": 2}, 2, id="no more than completions"),
    ],
)
def test_a_job_makes_as_many_pods_as_run_at_once(spec: Json, want: int) -> None:
    wanted = only(job(**spec))
    assert names(wanted) == ["train-*"] * want
    assert len({pod.key for pod in wanted.pods}) == want
    assert {pod.rank for pod in wanted.pods} == {None}


def test_a_job_set_is_one_gang_of_all_its_jobs() -> None:
    wanted = only(job_set(replicated("driver", 1, 1), replicated("worker", 2, 2)))
    assert wanted.gang == GangId("default", "JobSet", "train")
    assert names(wanted) == [
        "train-driver-0-0-*",
        "train-worker-0-0-*",
        "train-worker-0-1-*",
        "train-worker-1-0-*",
        "train-worker-1-1-*",
    ]
    gang = gang_in(cluster(*racks("r1")), job_set(replicated("driver", 1, 1)))
    assert isinstance(gang, Gang)
    assert [podset.name for podset in gang.podsets] == ["driver"]


def test_jobs_of_a_job_set_are_indexed_unless_they_say_otherwise() -> None:
    wanted = only(job_set(replicated("worker", 1, 2, completionMode="NonIndexed")))
    assert names(wanted) == ["train-worker-0-*", "train-worker-0-*"]


def test_each_group_of_a_leader_worker_set_is_a_gang_with_a_leader_of_its_own() -> None:
    leads = template(gpus=1)
    first, second = expand([leader_worker_set(2, 3, leaderTemplate=leads)]).gangs
    assert first.title == "LeaderWorkerSet default/serve, group 0"
    assert second.gang == GangId("default", "LeaderWorkerSet", "serve/1")
    assert names(second) == ["serve-1", "serve-1-1", "serve-1-2"]
    assert [dict(pod.requests)[GPU] for pod in first.pods] == [1, 4, 4]
    assert {pod.annotations[keys.LWS_SIZE] for pod in first.pods} == {"3"}


def test_without_a_template_of_its_own_the_leader_is_like_the_workers() -> None:
    wanted = only(leader_worker_set(1, 2))
    assert [dict(pod.requests)[GPU] for pod in wanted.pods] == [4, 4]


def test_a_stateful_set_counts_from_where_it_says() -> None:
    wanted = only(scaled("StatefulSet", 3, name="db", ordinals={"start": 9}))
    assert names(wanted) == ["db-9", "db-10", "db-11"]
    assert [pod.labels[keys.STATEFULSET_INDEX] for pod in wanted.pods] == ["9", "10", "11"]


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet"])
@pytest.mark.parametrize(("replicas", "want"), [(None, 1), (3, 3)])
def test_a_deployment_is_the_gang_of_one_replica_set(
    kind: str, replicas: int | None, want: int
) -> None:
    wanted = only(scaled(kind, replicas))
    assert wanted.title == f"{kind} default/web"
    assert wanted.gang.kind == "ReplicaSet"
    assert names(wanted) == ["web-*"] * want
    gang = gang_in(cluster(*racks("r1")), scaled(kind, replicas))
    assert isinstance(gang, Gang)
    assert gang.size == want


def test_pods_of_one_group_are_one_gang_wherever_they_stand_in_the_file() -> None:
    pods = [pod(f"train-{i}").in_gang("train", 2).requires("rack") for i in range(2)]
    both = expand([pods[0], pod("solo").anywhere(), pods[1]]).gangs
    assert [wanted.title for wanted in both] == ["pod group default/train", "Pod default/solo"]
    assert names(both[0]) == ["train-0", "train-1"]


def test_two_jobs_can_make_the_pods_of_one_group() -> None:
    labelled = template()
    labelled["metadata"] |= {
        "labels": {keys.POD_GROUP_NAME: "both"},
        "annotations": {keys.POD_GROUP_COUNT: "2", **ASKS},
    }
    jobs = [job(name, template=labelled) for name in ("one", "two")]
    gang = gang_in(cluster(*racks("r1")), *jobs)
    assert isinstance(gang, Gang)
    assert gang.size == 2


@pytest.mark.parametrize("told", [True, False], ids=["in the file", "nowhere"])
def test_a_group_of_the_coscheduling_plugin_is_as_large_as_it_says_or_as_the_file(
    told: bool,
) -> None:
    pods = [pod(f"p-{i}").labelled(**{keys.COSCHEDULING_GROUP: "g"}).anywhere() for i in range(3)]
    said = [owner("PodGroup", "g", minMember=2)] if told else []
    gang = gang_in(cluster(*racks("r1")), *pods, *said)
    assert isinstance(gang, Gang)
    assert (gang.size, len(gang.pods)) == (2 if told else 3, 2 if told else 3)


def test_a_group_that_the_cluster_knows_is_as_large_as_it_is_there() -> None:
    pods = [pod(f"p-{i}").labelled(**{keys.COSCHEDULING_GROUP: "g"}).anywhere() for i in range(3)]
    there = cluster(*racks("r1"), owner("PodGroup", "g", minMember=5))
    gang = gang_in(there, *pods)
    assert isinstance(gang, Reason)
    assert gang.facts == (("there", 3), ("needed", 5))


@pytest.mark.parametrize(
    "obj",
    [
        pytest.param(indexed(), id="Job"),
        pytest.param(job_set(replicated("worker", 2, 2)), id="JobSet"),
        pytest.param(leader_worker_set(1, 4), id="LeaderWorkerSet"),
        pytest.param(scaled("Deployment", 4), id="Deployment"),
        pytest.param(scaled("ReplicaSet", 4), id="ReplicaSet"),
        pytest.param(scaled("StatefulSet", 4), id="StatefulSet"),
    ],
)
def test_every_kind_is_complete_by_itself_and_fits_one_rack(obj: Json) -> None:
    there = cluster(*racks("r1"))
    jobs = expand([obj])
    found = answer(there, jobs, jobs.gangs[0])
    assert isinstance(found, Fits)
    assert (found.size, found.domain) == (4, ("b1", "r1"))
    assert all(place.new for place in found.places)


def test_gangs_of_one_file_are_placed_beside_each_other() -> None:
    there = cluster(*racks("r1", "r2"))
    jobs = expand([leader_worker_set(3, 4)])
    found = [answer(there, jobs, wanted) for wanted in jobs.gangs]
    assert [isinstance(each, Fits) for each in found] == [True, True, False]


def test_the_queue_of_a_job_is_kueues_wherever_it_is_written() -> None:
    on_job = indexed()
    on_job["metadata"]["labels"] = {keys.HELD_LABELS[0]: "team-a"}
    on_pod = pod("solo").anywhere().labelled(**{keys.HELD_LABELS[0]: "team-b"})
    assert [wanted.queue for wanted in expand([on_job, on_pod, indexed("more")]).gangs] == [
        "team-a",
        "team-b",
        "",
    ]


def test_a_gang_of_which_no_pod_asks_is_told_apart() -> None:
    quiet, asking = expand([indexed("quiet", template=template(annotations={})), indexed()]).gangs
    assert (quiet.asks, asking.asks) == (False, True)


def test_a_gang_that_is_too_large_is_refused_for_its_size_and_not_made() -> None:
    gang = gang_in(cluster(*racks("r1")), indexed(pods=50_000))
    assert isinstance(gang, Reason)
    assert gang.word == "TooLarge"
    assert "50000 pods" in gang.text
    assert len(only(indexed(pods=50_000)).pods) == MOST_PODS + 1


# --- a job that is there already ----------------------------------------------------------------


def running(name: str, on: str, uid: str = "u", rank: int | None = None) -> PodObject:
    found = pod(name).owned_by("Job", "train", uid).requires("rack").gpus(4).on(on)
    return found if rank is None else found.labelled(**{keys.JOB_INDEX: str(rank)})


def test_pods_that_run_keep_their_nodes_and_only_the_missing_ones_are_placed() -> None:
    there = cluster(
        *racks("r1", "r2"),
        running("train-0-abcde", "r2-x1", rank=0),
        running("train-2-fghij", "r2-x1", rank=2),
        owner("Job", "train", parallelism=4, completions=4),
    )
    jobs = expand([indexed()])
    found = answer(there, jobs, jobs.gangs[0])
    assert isinstance(found, Fits)
    assert found.domain == ("b1", "r2")
    assert {shown(p.pod): (p.node, p.new) for p in found.places} == {
        "train-0-abcde": ("r2-x1", False),
        "train-1-*": ("r2-x2", True),
        "train-2-fghij": ("r2-x1", False),
        "train-3-*": ("r2-x2", True),
    }


def test_a_job_that_runs_already_is_not_placed_twice() -> None:
    """Both racks are half full of the job itself, so a second copy would not fit."""
    there = cluster(*racks("r1"), *(running(f"train-{i}", "r1-x1") for i in range(2)))
    jobs = expand([job(parallelism=2)])
    found = answer(there, jobs, jobs.gangs[0])
    assert isinstance(found, Fits)
    assert [place.new for place in found.places] == [False, False]


def test_pods_that_wait_are_replaced_by_those_of_the_file() -> None:
    waiting = [pod(f"train-{i}").owned_by("Job", "train", "u").anywhere() for i in range(6)]
    there = cluster(*racks("r1"), *waiting, owner("Job", "train", parallelism=6))
    gang = gang_in(there, job(parallelism=2))
    assert isinstance(gang, Gang)
    assert gang.size == 2
    assert {shown(pod.name) for pod in gang.pods} == {"train-*"}
    assert gang.podsets[0].request.required == RACK


@pytest.mark.parametrize(
    "gone",
    [
        pytest.param(running("train-0", "r1-x1").phase("Failed"), id="failed"),
        pytest.param(running("train-0", "r1-x1").phase("Succeeded"), id="succeeded"),
        pytest.param(running("train-0", "r1-x1").terminating(), id="being deleted"),
    ],
)
def test_pods_that_have_ended_do_not_count(gone: PodObject) -> None:
    gang = gang_in(cluster(*racks("r1"), gone), job(parallelism=2))
    assert isinstance(gang, Gang)
    assert (gang.size, len(gang.pods), gang.bound) == (2, 2, ())


def test_a_deployment_is_found_by_its_replica_set_that_has_most_pods() -> None:
    there = cluster(
        *racks("r1", "r2"),
        pod("web-6c8b-1").owned_by("ReplicaSet", "web-6c8b").gpus(4).requires("rack").on("r2-x1"),
        pod("web-4d2f-1").owned_by("ReplicaSet", "web-4d2f").gpus(4).phase("Succeeded"),
        pod("web-api-9-1").owned_by("ReplicaSet", "web-api-9").gpus(4).on("r1-x1"),
        owner("ReplicaSet", "web-6c8b", replicas=1).desiring(1),
    )
    jobs = expand([scaled("Deployment", 3)])
    found = answer(there, jobs, jobs.gangs[0])
    assert isinstance(found, Fits)
    assert (found.gang.name, found.size, found.domain) == ("web-6c8b", 3, ("b1", "r2"))
    assert [place.new for place in found.places].count(False) == 1


def test_pods_with_names_of_their_own_are_matched_by_them() -> None:
    there = cluster(*racks("r1"), pod("db-1").owned_by("StatefulSet", "db").on("r1-x1"))
    gang = gang_in(there, scaled("StatefulSet", 3, name="db"))
    assert isinstance(gang, Reason)  # the one that runs asks for nothing: they disagree
    assert gang.word == "Contradiction"


def test_a_larger_file_grows_the_job_in_its_domain() -> None:
    runs = [
        pod(f"db-{i}").owned_by("StatefulSet", "db").requires("rack").gpus(4).on("r2-x1")
        for i in range(2)
    ]
    there = cluster(*racks("r1", "r2"), *runs, owner("StatefulSet", "db", replicas=2))
    jobs = expand([scaled("StatefulSet", 4, name="db")])
    found = answer(there, jobs, jobs.gangs[0])
    assert isinstance(found, Fits)
    assert [(place.node, place.new) for place in found.places] == [
        ("r2-x1", False),
        ("r2-x1", False),
        ("r2-x2", True),
        ("r2-x2", True),
    ]


def test_what_was_asked_changes_nothing_in_the_cluster() -> None:
    waiting = pod("train-0").owned_by("Job", "train", "u").requires("rack").gpus(4)
    there = cluster(*racks("r1"), waiting, owner("Job", "train", parallelism=6))
    before = (dict(there.state.pods), dict(there.owners.known), there.state.generation)
    gang_in(there, job(parallelism=2))
    assert (there.state.pods, there.owners.known, there.state.generation) == before


# --- what is refused --------------------------------------------------------------------------


def broken(quantity: str) -> Json:
    found = template()
    found["spec"]["containers"][0]["resources"]["limits"][GPU] = quantity
    return found


@pytest.mark.parametrize(
    ("obj", "want"),
    [
        pytest.param(
            made("CronJob", "batch/v1", "nightly"),
            "CronJob default/nightly: kind: must be a kind whose pods are known: Pod, Job,",
            id="an unknown kind",
        ),
        pytest.param(
            made("Job", "batch/v1beta1", "train"),
            "apiVersion: must be batch/v1: no cluster serves another version any more "
            "(got 'batch/v1beta1'); write batch/v1",
            id="a version that is gone",
        ),
        pytest.param(
            made("Job", "batch.volcano.sh/v1alpha1", "train"),
            "(got 'batch.volcano.sh/v1alpha1 Job')",
            id="a known name in another group",
        ),
        pytest.param(
            job(template=broken("many")),
            f"Job default/train: spec.template.spec.containers[0].resources.limits['{GPU}']: "
            "must be a quantity",
            id="a quantity that is none",
        ),
        pytest.param(
            made("Job", "batch/v1", "train", parallelism=2),
            "Job default/train: spec.template: must be present",
            id="no template",
        ),
        pytest.param(
            job(parallelism="4"),
            "Job default/train: spec.parallelism: must be a whole number (got '4')",
            id="a number in quotes",
        ),
        pytest.param(
            job(parallelism=0),
            "Job default/train: spec.parallelism: must make at least one pod",
            id="no pod",
        ),
        pytest.param(
            scaled("Deployment", -1),
            "Deployment default/web: spec.replicas: must be at least 0",
            id="fewer than none",
        ),
        pytest.param(
            leader_worker_set(MOST_MADE, 2),
            "LeaderWorkerSet default/serve: spec.replicas: must make at most 100,000 pods",
            id="far too many",
        ),
        pytest.param(
            job_set(replicated("worker", 1, 2, template=broken("-1"))),
            "JobSet default/train: spec.replicatedJobs[0].template.spec.template.spec.containers"
            f"[0].resources.limits['{GPU}']: must not be negative",
            id="deep in a JobSet",
        ),
        pytest.param(
            job(template=template(annotations={"stowplan.dev/required-topolgy": RACK})),
            "spec.template.metadata.annotations[stowplan.dev/required-topolgy]: must be a key that "
            "stowplan knows; did you mean stowplan.dev/required-topology?",
            id="a mistyped annotation",
        ),
        pytest.param(
            scaled("StatefulSet", 2)
            | {
                "spec": {
                    "replicas": 2,
                    "template": template(annotations={**ASKS, keys.OUR_SLICES: f"{RACK}=4"}),
                }
            },
            "spec.template.metadata.annotations[stowplan.dev/slices][0].size: must not be larger",
            id="a slice larger than the gang",
        ),
    ],
)
def test_a_defect_is_told_with_its_place(obj: Json, want: str) -> None:
    assert any(want in line for line in refused(obj)), refused(obj)


def test_all_defects_of_all_objects_are_told_at_once() -> None:
    lines = refused(
        job(template=broken("many"), parallelism=0),
        made("CronJob", "batch/v1", "nightly"),
        pod("solo").gpus(1).asking(cpu="lots").annotated(**{keys.REQUIRED[0]: "a rack"}),
        scaled("Deployment", 0),
    )
    assert [line.partition(": ")[0] for line in lines] == [
        "Job default/train",
        "CronJob default/nightly",
        "Pod default/solo",
        "Deployment default/web",
    ]


def test_what_comes_with_jobs_and_makes_no_pods_is_passed_over() -> None:
    service = made("Service", "v1", "train")
    assert [wanted.title for wanted in expand([service, indexed()]).gangs] == ["Job default/train"]


@pytest.mark.parametrize("objects", [(), (made("Service", "v1", "train"),)], ids=["empty", "none"])
def test_a_file_that_makes_no_pods_is_refused(objects: Sequence[Json]) -> None:
    (line,) = refused(*objects)
    assert line.startswith("(all objects): must hold an object that makes pods: Pod, Job, JobSet")
