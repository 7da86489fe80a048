"""The objects of a job file: controllers of pods as their author wrote them, before they exist.

``core.Owner`` reads the same kinds as kube-apiserver shows them, and only for their counts.
"""

from typing import Annotated

from msgspec import Meta

from stowplan.api.models.core import Metadata, PodSpec
from stowplan.api.models.wire import Quantity, Wire

Count = Annotated[int, Meta(ge=0)]
Text = Annotated[str, Meta(min_length=1)]


class Template(Wire, frozen=True):
    """What pods are made from; unlike ``core.PodTemplate`` it must say what the pods are."""

    spec: PodSpec
    metadata: Metadata | None = None


class JobSpec(Wire, frozen=True):
    """``spec`` of a Job."""

    template: Template
    parallelism: Count | None = None
    completions: Count | None = None
    completion_mode: str | None = None


class Job(Wire, frozen=True):
    """``batch/v1`` Job."""

    metadata: Metadata
    spec: JobSpec


class JobTemplate(Wire, frozen=True):
    """The Job that a JobSet makes from a replicated job."""

    spec: JobSpec


class ReplicatedJob(Wire, frozen=True):
    """One entry of a JobSet's ``spec.replicatedJobs``."""

    name: str
    template: JobTemplate
    replicas: Count | None = None


class JobSetSpec(Wire, frozen=True):
    """``spec`` of a JobSet."""

    replicated_jobs: list[ReplicatedJob]


class JobSet(Wire, frozen=True):
    """``jobset.x-k8s.io`` JobSet."""

    metadata: Metadata
    spec: JobSetSpec


class Ordinals(Wire, frozen=True):
    """Where a StatefulSet begins to count."""

    start: Count = 0


class ScaledSpec(Wire, frozen=True):
    """``spec`` of a Deployment, a ReplicaSet or a StatefulSet; only the last has ordinals."""

    template: Template
    replicas: Count | None = None
    ordinals: Ordinals | None = None


class Scaled(Wire, frozen=True):
    """``apps/v1`` Deployment, ReplicaSet or StatefulSet."""

    metadata: Metadata
    spec: ScaledSpec


class LeaderWorkerTemplate(Wire, frozen=True):
    """The two templates of a LeaderWorkerSet; without its own the leader is like the workers."""

    worker_template: Template
    size: Annotated[int, Meta(ge=1)] | None = None
    leader_template: Template | None = None


class LeaderWorkerSetSpec(Wire, frozen=True):
    """``spec`` of a LeaderWorkerSet."""

    leader_worker_template: LeaderWorkerTemplate
    replicas: Count | None = None


class LeaderWorkerSet(Wire, frozen=True):
    """``leaderworkerset.x-k8s.io`` LeaderWorkerSet."""

    metadata: Metadata
    spec: LeaderWorkerSetSpec


class RoleResources(Wire, frozen=True):
    """What one pod of a ModelDeployment's role asks for beside cpu and memory."""

    accelerator: Quantity | None = None
    accelerator_sliced_memory_percentage: int | None = None
    accelerator_sliced_cores_percentage: int | None = None
    accelerator_partitioned_profile: str | None = None
    interface: Quantity | None = None


class RoleTopology(Wire, frozen=True):
    """What a role asks of the topology; an empty level asks for nothing."""

    required_level: str = ""


class ModelRole(Wire, frozen=True):
    """One entry of a ModelDeployment's ``spec.roles``."""

    name: Text
    instance_type: Text
    kind: str | None = None
    replicas: Annotated[int, Meta(ge=1, le=1024)] | None = None
    size: Annotated[int, Meta(ge=1, le=64)] | None = None
    resources: RoleResources | None = None
    topology: RoleTopology | None = None


class ModelDeploymentSpec(Wire, frozen=True):
    """``spec`` of a ModelDeployment."""

    roles: Annotated[list[ModelRole], Meta(min_length=1, max_length=10)]


class ModelDeployment(Wire, frozen=True):
    """``worker.gpustack.ai`` ModelDeployment."""

    metadata: Metadata
    spec: ModelDeploymentSpec


class UnitResources(Wire, frozen=True):
    """What goes with one accelerator of an InstanceType, or with one pod where it has none."""

    cpu: Quantity
    ram: Quantity


class InstanceTypeSpec(Wire, frozen=True):
    """The hardware of an InstanceType."""

    unit_resources: UnitResources
    acceleratable: bool = False
    accelerator_group: str = ""
    os: str = ""
    arch: str = ""


class InstanceTypeDetail(Wire, frozen=True):
    """What was seen of that hardware."""

    manufacturer: str = ""


class InstanceTypeStatus(Wire, frozen=True):
    """What is known of an InstanceType; ``entrance`` is the queue that its pods are sent to."""

    entrance: str = ""
    detail: InstanceTypeDetail | None = None


class InstanceType(Wire, frozen=True):
    """``worker.gpustack.ai`` InstanceType."""

    metadata: Metadata
    spec: InstanceTypeSpec
    status: InstanceTypeStatus | None = None
