"""The objects of a job file: controllers of pods as their author wrote them, before they exist.

``core.Owner`` reads the same kinds as kube-apiserver shows them, and only for their counts.
"""

from pydantic import Field

from stowplan.api.models.core import Metadata, PodSpec, Quantity, Wire


class Template(Wire):
    """What pods are made from; unlike ``core.PodTemplate`` it must say what the pods are."""

    metadata: Metadata | None = None
    spec: PodSpec


class JobSpec(Wire):
    """``spec`` of a Job."""

    parallelism: int | None = Field(default=None, ge=0)
    completions: int | None = Field(default=None, ge=0)
    completion_mode: str | None = None
    template: Template


class Job(Wire):
    """``batch/v1`` Job."""

    metadata: Metadata
    spec: JobSpec


class JobTemplate(Wire):
    """The Job that a JobSet makes from a replicated job."""

    spec: JobSpec


class ReplicatedJob(Wire):
    """One entry of a JobSet's ``spec.replicatedJobs``."""

    name: str
    replicas: int | None = Field(default=None, ge=0)
    template: JobTemplate


class JobSetSpec(Wire):
    """``spec`` of a JobSet."""

    replicated_jobs: list[ReplicatedJob]


class JobSet(Wire):
    """``jobset.x-k8s.io`` JobSet."""

    metadata: Metadata
    spec: JobSetSpec


class Ordinals(Wire):
    """Where a StatefulSet begins to count."""

    start: int = Field(default=0, ge=0)


class ScaledSpec(Wire):
    """``spec`` of a Deployment, a ReplicaSet or a StatefulSet; only the last has ordinals."""

    replicas: int | None = Field(default=None, ge=0)
    ordinals: Ordinals | None = None
    template: Template


class Scaled(Wire):
    """``apps/v1`` Deployment, ReplicaSet or StatefulSet."""

    metadata: Metadata
    spec: ScaledSpec


class LeaderWorkerTemplate(Wire):
    """The two templates of a LeaderWorkerSet; without its own the leader is like the workers."""

    size: int | None = Field(default=None, ge=1)
    leader_template: Template | None = None
    worker_template: Template


class LeaderWorkerSetSpec(Wire):
    """``spec`` of a LeaderWorkerSet."""

    replicas: int | None = Field(default=None, ge=0)
    leader_worker_template: LeaderWorkerTemplate


class LeaderWorkerSet(Wire):
    """``leaderworkerset.x-k8s.io`` LeaderWorkerSet."""

    metadata: Metadata
    spec: LeaderWorkerSetSpec


class RoleResources(Wire):
    """What one pod of a ModelDeployment's role asks for beside cpu and memory."""

    accelerator: Quantity | None = None
    accelerator_sliced_memory_percentage: int | None = None
    accelerator_sliced_cores_percentage: int | None = None
    accelerator_partitioned_profile: str | None = None
    interface: Quantity | None = None


class RoleTopology(Wire):
    """What a role asks of the topology; an empty level asks for nothing."""

    required_level: str = ""


class ModelRole(Wire):
    """One entry of a ModelDeployment's ``spec.roles``."""

    name: str = Field(min_length=1)
    kind: str | None = None
    replicas: int | None = Field(default=None, ge=1, le=1024)
    size: int | None = Field(default=None, ge=1, le=64)
    instance_type: str = Field(min_length=1)
    resources: RoleResources | None = None
    topology: RoleTopology | None = None


class ModelDeploymentSpec(Wire):
    """``spec`` of a ModelDeployment."""

    roles: list[ModelRole] = Field(min_length=1, max_length=10)


class ModelDeployment(Wire):
    """``worker.gpustack.ai`` ModelDeployment."""

    metadata: Metadata
    spec: ModelDeploymentSpec


class UnitResources(Wire):
    """What goes with one accelerator of an InstanceType, or with one pod where it has none."""

    cpu: Quantity
    ram: Quantity


class InstanceTypeSpec(Wire):
    """The hardware of an InstanceType."""

    acceleratable: bool = False
    accelerator_group: str = ""
    os: str = ""
    arch: str = ""
    unit_resources: UnitResources


class InstanceTypeDetail(Wire):
    """What was seen of that hardware."""

    manufacturer: str = ""


class InstanceTypeStatus(Wire):
    """What is known of an InstanceType; ``entrance`` is the queue that its pods are sent to."""

    entrance: str = ""
    detail: InstanceTypeDetail | None = None


class InstanceType(Wire):
    """``worker.gpustack.ai`` InstanceType."""

    metadata: Metadata
    spec: InstanceTypeSpec
    status: InstanceTypeStatus | None = None
