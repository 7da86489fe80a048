"""How large a gang is: from its labels, or from the counts in the object that makes its pods."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeGuard

from stowplan.api.errors import Violation
from stowplan.api.models import core
from stowplan.placement import keys, reasons
from stowplan.placement.reasons import Reason
from stowplan.placement.records import OwnerRecord, PodRecord

_MOST_DIGITS = 9


@dataclass(frozen=True, slots=True)
class Role:
    """Pods that one template of an owner makes.

    Attributes:
        name: see ``role_of``.
        pods: how many.
        template: for the requests of pods that do not exist yet.
    """

    name: str
    pods: int
    template: core.PodTemplate | None


@dataclass(frozen=True, slots=True)
class Size:
    """How many pods a gang has.

    Attributes:
        pods: the count.
        ahead: its pods are made one after another, so seats are reserved before all exist.
        grows: pods beyond the count join the gang's domain.
        without_succeeded: the count leaves out pods that succeeded.
        is_part: some pods that were asked for are done, so the others need not be whole slices.
        roles: where the owner makes unlike pods; empty for one role.
    """

    pods: int
    ahead: bool = False
    grows: bool = False
    without_succeeded: bool = False
    is_part: bool = False
    roles: tuple[Role, ...] = ()


@dataclass(slots=True)
class Owners:
    """The controllers and PodGroups that are known, by namespace, kind and name."""

    known: dict[tuple[str, str, str], OwnerRecord] = field(default_factory=dict)

    def set(self, owner: OwnerRecord) -> None:
        """Add or replace an owner."""
        self.known[owner.namespace, owner.kind, owner.name] = owner

    def remove(self, namespace: str, kind: str, name: str) -> None:
        """Forget an owner."""
        self.known.pop((namespace, kind, name), None)

    def get(self, namespace: str, kind: str, name: str) -> OwnerRecord | None:
        """Return an owner if it is known."""
        return self.known.get((namespace, kind, name))


def size_of(kind: str, pods: Sequence[PodRecord], known: Owners) -> Size | Reason:
    """Return the size of the gang that ``pods`` (not empty) belong to, or why it is not known."""
    pod = pods[0]
    match kind:
        case "pod-group":
            return _stated(pods, keys.POD_GROUP_COUNT)
        case "LeaderWorkerSet":
            return _leader_worker_set(pods, known)
        case "Pod":
            return Size(1)
        case _:
            return _from_owner(kind, pod, known)


def _from_owner(kind: str, pod: PodRecord, known: Owners) -> Size | Reason:
    rule = _SIZES.get(kind)
    if rule is None:
        return reasons.owner_without_size(kind)
    owner = known.get(pod.namespace, kind, _owner_name(kind, pod))
    if owner is None:
        return reasons.owner_unknown(kind)
    return rule(owner)


def role_of(pod: PodRecord) -> str:
    """Return which of its owner's templates a pod comes from."""
    if keys.LWS_NAME in pod.labels:
        return "leader" if pod.labels.get(keys.LWS_RANK) == "0" else "worker"
    if keys.POD_GROUP_NAME in pod.labels:
        return pod.annotations.get(keys.ROLE_HASH, "")
    return pod.labels.get(keys.JOBSET_JOB, "")


def _owner_name(kind: str, pod: PodRecord) -> str:
    if kind == "PodGroup":
        return pod.labels.get(keys.COSCHEDULING_GROUP, "")
    if kind == "JobSet":
        return pod.labels.get(keys.JOBSET_NAME, "")
    return pod.owner.name if pod.owner else ""


def _stated(pods: Sequence[PodRecord], annotation: str) -> Size | Reason:
    texts = {pod.annotations.get(annotation) for pod in pods}
    if len(texts) > 1:
        stated = [int(text) for text in texts if _is_count(text)]
        if not stated:
            return reasons.SIZES_DIFFER
        return reasons.with_facts(reasons.SIZES_DIFFER, least=min(stated), most=max(stated))
    text = texts.pop()
    if text is None:
        violation = Violation(
            annotation, "required", None, "must be on every pod of the gang", "add the gang's size"
        )
        return reasons.request_invalid(violation)
    if not _is_count(text) or int(text) < 1:
        violation = Violation(
            annotation, "invalid", text, "must be a whole number of 1 or more", "correct it"
        )
        return reasons.request_invalid(violation)
    return Size(int(text))


def _is_count(text: str | None) -> TypeGuard[str]:
    """Whether a text is a whole number that is not absurdly long."""
    return bool(text and text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS)


def _leader_worker_set(pods: Sequence[PodRecord], known: Owners) -> Size | Reason:
    """The size that every pod states; under ``LeaderReady`` workers come after a running leader."""
    size = _stated(pods, keys.LWS_SIZE)
    name = pods[0].labels.get(keys.LWS_NAME, "")
    owner = known.get(pods[0].namespace, "LeaderWorkerSet", name)
    if isinstance(size, Reason) or owner is None:
        return size
    if owner.spec.startup_policy != "LeaderReady" and not owner.exclusive:
        return size
    both = owner.spec.leader_worker_template or core.LeaderWorkerTemplate()
    leader = Role("leader", 1, both.leader_template or both.worker_template)
    return Size(
        size.pods, ahead=True, roles=(leader, Role("worker", size.pods - 1, both.worker_template))
    )


def _job(owner: OwnerRecord) -> Size:
    """``min(parallelism, completions - succeeded - failed for good)``; later waves join."""
    parallelism = 1 if owner.spec.parallelism is None else owner.spec.parallelism
    over = (owner.status.succeeded or 0) + _index_count(owner.status.failed_indexes or "")
    pods = parallelism
    if owner.spec.completions is not None:
        pods = min(parallelism, owner.spec.completions - over)
    return Size(max(pods, 0), grows=True, without_succeeded=True, is_part=over > 0)


def _index_count(text: str) -> int:
    """Return how many indexes ``1,3-5`` names."""
    count = 0
    for part in filter(None, text.split(",")):
        low, _, high = part.partition("-")
        ends = (low, high or low)
        if all(map(_is_count, ends)):
            count += int(ends[1]) - int(ends[0]) + 1
    return count


def _job_set(owner: OwnerRecord) -> Size:
    """Sum over replicated jobs of replicas x min(parallelism, completions)."""
    roles = []
    jobs = owner.spec.replicated_jobs or ()
    for job in jobs:
        spec = (job.template and job.template.spec) or core.OwnerSpec()
        parallelism = 1 if spec.parallelism is None else spec.parallelism
        pods = parallelism if spec.completions is None else min(parallelism, spec.completions)
        replicas = 1 if job.replicas is None else job.replicas
        roles.append(Role(job.name, replicas * pods, spec.template))
    policy = owner.spec.startup_policy
    in_order = isinstance(policy, dict) and policy.get("startupPolicyOrder") == "InOrder"
    ahead = in_order or owner.exclusive or any(job.depends_on for job in jobs)
    return Size(sum(role.pods for role in roles), ahead=ahead, roles=tuple(roles))


def _stateful_set(owner: OwnerRecord) -> Size:
    """``spec.replicas``; unless it is parallel, each pod waits for the one before it."""
    ahead = owner.spec.pod_management_policy != "Parallel"
    return Size(1 if owner.spec.replicas is None else owner.spec.replicas, ahead=ahead)


def _replica_set(owner: OwnerRecord) -> Size:
    """The Deployment's count: a ReplicaSet under a rollout grows step by step towards it."""
    if _is_count(owner.desired):
        return Size(int(owner.desired), ahead=True)
    return Size(1 if owner.spec.replicas is None else owner.spec.replicas, ahead=True)


def _pod_group(owner: OwnerRecord) -> Size:
    """``minMember``; pods above it join the domain."""
    return Size(max(owner.spec.min_member or 1, 1), grows=True)


_SIZES = {
    "Job": _job,
    "JobSet": _job_set,
    "StatefulSet": _stateful_set,
    "ReplicaSet": _replica_set,
    "PodGroup": _pod_group,
}
