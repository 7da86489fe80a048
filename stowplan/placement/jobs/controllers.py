"""What each kind of controller makes of its object: pods, as they will stand in the cluster.

``MAKERS`` is the list of kinds. A maker returns the gangs of one object, and notes what is wrong.
"""

from collections.abc import Callable, Iterator, Mapping

import msgspec

from stowplan.api.models import core, jobs
from stowplan.api.models.wire import read
from stowplan.api.objects import Json
from stowplan.placement import keys
from stowplan.placement.gangs import MOST_PODS
from stowplan.placement.jobs.templates import Defects, Pods, note_misspelt
from stowplan.placement.records import OwnerLink, PodRecord

MOST_MADE = 100_000  # pods of one object; more than any cluster holds

Made = list[tuple[str, list[PodRecord]]]  # what tells a gang of one object from another; its pods


def _pod(obj: Json, namespace: str, defects: Defects) -> Made:
    pod = read(core.Pod, obj, defects.what)
    note_misspelt(pod.metadata.annotations, "", defects)
    record = PodRecord.of(pod)
    Pods(record, "").judge(None, defects)
    return [("", [record])]


def _job(obj: Json, namespace: str, defects: Defects) -> Made:
    """Later waves of a Job join the domain of the first, so only the first is made."""
    job = read(jobs.Job, obj, defects.what)
    pods = Pods.of(job.spec.template, "spec.template.", namespace, defects)
    if pods is None or not _some(_pods_of(job.spec), "spec.parallelism", defects):
        return []
    pods.judge(None, defects)
    return [("", list(_of_job(pods, obj["metadata"]["name"], job.spec, {})))]


def _pods_of(spec: jobs.JobSpec) -> int:
    parallelism = 1 if spec.parallelism is None else spec.parallelism
    return parallelism if spec.completions is None else min(parallelism, spec.completions)


def _of_job(
    pods: Pods, name: str, spec: jobs.JobSpec, labels: Mapping[str, str]
) -> Iterator[PodRecord]:
    owner = OwnerLink("Job", name, "")
    for i in range(_bounded(_pods_of(spec))):
        if spec.completion_mode == "Indexed":
            yield pods.made(f"{name}-{i}-*", owner, i, {**labels, keys.JOB_INDEX: str(i)})
        else:
            yield pods.made(f"{name}-*{i}", owner, labels=labels)


def _job_set(obj: Json, namespace: str, defects: Defects) -> Made:
    """All jobs of a JobSet are one gang, and its jobs are indexed where they do not say."""
    found = read(jobs.JobSet, obj, defects.what).spec.replicated_jobs
    counts = [replicas_of(job.replicas) * _pods_of(job.template.spec) for job in found]
    enough = _some(sum(counts), "spec.replicatedJobs", defects)
    made: list[PodRecord] = []
    for at, job in enumerate(found):
        path = f"spec.replicatedJobs[{at}].template.spec.template."
        pods = Pods.of(job.template.spec.template, path, namespace, defects)
        if pods is None or not enough:
            continue
        pods.judge(sum(counts), defects)
        mode = job.template.spec.completion_mode or "Indexed"
        spec = msgspec.structs.replace(job.template.spec, completion_mode=mode)
        name = obj["metadata"]["name"]
        for number in range(replicas_of(job.replicas)):
            if len(made) > MOST_PODS:
                break
            labels = {
                keys.JOBSET_NAME: name,
                keys.JOBSET_JOB: job.name,
                keys.JOBSET_JOB_INDEX: str(number),
            }
            made += _of_job(pods, f"{name}-{job.name}-{number}", spec, labels)
    return [("", made)]


def _leader_worker_set(obj: Json, namespace: str, defects: Defects) -> Made:
    """Every group of a LeaderWorkerSet is a gang."""
    spec = read(jobs.LeaderWorkerSet, obj, defects.what).spec
    both = spec.leader_worker_template
    size, replicas = replicas_of(both.size), replicas_of(spec.replicas)
    at = "spec.leaderWorkerTemplate."
    workers = Pods.of(both.worker_template, f"{at}workerTemplate.", namespace, defects)
    leaders = workers
    if both.leader_template is not None:
        leaders = Pods.of(both.leader_template, f"{at}leaderTemplate.", namespace, defects)
    if workers is None or leaders is None or not _some(size * replicas, "spec.replicas", defects):
        return []
    for pods in (workers,) if leaders is workers else (leaders, workers):
        pods.judge(size, defects)
    name = obj["metadata"]["name"]
    return [
        (f", group {group}", list(_of_group(leaders, workers, name, group, size)))
        for group in range(replicas)
    ]


def _of_group(
    leaders: Pods, workers: Pods, name: str, group: int, size: int
) -> Iterator[PodRecord]:
    sizes = {keys.LWS_SIZE: str(size)}
    for i in range(_bounded(size)):
        labels = {keys.LWS_NAME: name, keys.LWS_GROUP: str(group), keys.LWS_RANK: str(i)}
        if i == 0:
            owner = OwnerLink("StatefulSet", name, "")
            yield leaders.made(f"{name}-{group}", owner, i, labels, sizes)
        else:
            owner = OwnerLink("StatefulSet", f"{name}-{group}", "")
            yield workers.made(f"{name}-{group}-{i}", owner, i, labels, sizes)


def _stateful_set(obj: Json, namespace: str, defects: Defects) -> Made:
    spec, pods = _scaled(obj, namespace, defects)
    if pods is None:
        return []
    name, start = obj["metadata"]["name"], spec.ordinals.start if spec.ordinals else 0
    owner = OwnerLink("StatefulSet", name, "")
    ordinals = range(start, start + _bounded(replicas_of(spec.replicas)))
    label = keys.STATEFULSET_INDEX
    return [("", [pods.made(f"{name}-{i}", owner, i, {label: str(i)}) for i in ordinals])]


def _replica_set(obj: Json, namespace: str, defects: Defects) -> Made:
    spec, pods = _scaled(obj, namespace, defects)
    if pods is None:
        return []
    owner = OwnerLink("ReplicaSet", replica_set_name(obj), "")
    name = obj["metadata"]["name"]
    numbers = range(_bounded(replicas_of(spec.replicas)))
    return [("", [pods.made(f"{name}-*{i}", owner) for i in numbers])]


def _scaled(obj: Json, namespace: str, defects: Defects) -> tuple[jobs.ScaledSpec, Pods | None]:
    spec = read(jobs.Scaled, obj, defects.what).spec
    pods = Pods.of(spec.template, "spec.template.", namespace, defects)
    replicas = replicas_of(spec.replicas)
    if pods is None or not _some(replicas, "spec.replicas", defects):
        return spec, None
    pods.judge(replicas, defects)
    return spec, pods


def replicas_of(given: int | None) -> int:
    """Return a count that is 1 where it is not given, as everywhere in Kubernetes."""
    return 1 if given is None else given


def _bounded(pods: int) -> int:
    """Return how many to make: one gang too large is refused for its stated size alone."""
    return min(pods, MOST_PODS + 1)


def _some(pods: int, path: str, defects: Defects) -> bool:
    """Whether an object makes pods, and not far too many; else it is noted."""
    if pods == 0:
        defects.note(path, "invalid", 0, "must make at least one pod", "raise it")
    elif pods > MOST_MADE:
        problem = f"must make at most {MOST_MADE:,} pods"
        defects.note(path, "invalid", pods, problem, "lower the counts")
    return 0 < pods <= MOST_MADE


MAKERS: Mapping[tuple[str, str], Callable[[Json, str, Defects], Made]] = {
    ("", "Pod"): _pod,
    ("batch", "Job"): _job,
    ("jobset.x-k8s.io", "JobSet"): _job_set,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): _leader_worker_set,
    ("apps", "Deployment"): _replica_set,
    ("apps", "ReplicaSet"): _replica_set,
    ("apps", "StatefulSet"): _stateful_set,
}


# Where a kind has its pods' template; of several the one that stands for all.
TEMPLATES: Mapping[str, str] = {
    "Job": "spec.template",
    "JobSet": "spec.replicatedJobs[*].template.spec.template",
    "LeaderWorkerSet": "spec.leaderWorkerTemplate.workerTemplate",
    "Deployment": "spec.template",
    "ReplicaSet": "spec.template",
    "StatefulSet": "spec.template",
}


def replica_set_name(obj: Json) -> str:
    """Return the name of a ReplicaSet; a Deployment's ends in a hash that only it can know."""
    name: str = obj["metadata"]["name"]
    return f"{name}-*" if obj["kind"] == "Deployment" else name
