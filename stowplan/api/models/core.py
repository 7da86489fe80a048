"""Pods, Nodes and the owners that say how many pods a gang has.

Every list and map may be JSON null (fact E8), and a quantity may be a bare number.
"""

from typing import Any

from msgspec import field

from stowplan.api.models.wire import Quantity, Wire


class OwnerReference(Wire, frozen=True):
    """One entry of ``metadata.ownerReferences``."""

    kind: str
    name: str
    api_version: str = ""
    uid: str = ""
    controller: bool | None = None


class Metadata(Wire, frozen=True):
    """What every object has."""

    name: str = ""
    namespace: str | None = None
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None
    deletion_timestamp: str | None = None


class Taint(Wire, frozen=True):
    """One entry of ``spec.taints``."""

    key: str
    value: str = ""
    effect: str = ""


class Condition(Wire, frozen=True):
    """One entry of ``status.conditions``."""

    type: str
    status: str


class NodeSpec(Wire, frozen=True):
    """What an administrator set on a node."""

    unschedulable: bool | None = None
    taints: list[Taint] | None = None


class NodeStatus(Wire, frozen=True):
    """What the kubelet reported."""

    allocatable: dict[str, Quantity] | None = None
    conditions: list[Condition] | None = None


class Node(Wire, frozen=True):
    """``v1/Node``."""

    metadata: Metadata
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class Resources(Wire, frozen=True):
    """Requests and limits of a container or of a whole pod."""

    requests: dict[str, Quantity] | None = None
    limits: dict[str, Quantity] | None = None


class Container(Wire, frozen=True):
    """One container; an init container with ``restartPolicy: Always`` is a sidecar."""

    name: str = ""
    resources: Resources | None = None
    restart_policy: str | None = None


class Requirement(Wire, frozen=True):
    """One expression of a node selector term."""

    key: str
    operator: str
    values: list[str] | None = None


class NodeSelectorTerm(Wire, frozen=True):
    """Expressions that all must hold; a term without any matches nothing."""

    match_expressions: list[Requirement] | None = None
    match_fields: list[Requirement] | None = None


class NodeSelector(Wire, frozen=True):
    """Terms of which one must match."""

    node_selector_terms: list[NodeSelectorTerm] | None = None


class PreferredTerm(Wire, frozen=True):
    """A term that adds its weight to the nodes that it matches."""

    weight: int = 0
    preference: NodeSelectorTerm | None = None


class NodeAffinity(Wire, frozen=True):
    """Which nodes a pod must have, and which it would rather have."""

    required: NodeSelector | None = field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: list[PreferredTerm] | None = field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Wire, frozen=True):
    """Pod affinity is judged by kube-scheduler after us, so it is not read."""

    node_affinity: NodeAffinity | None = None


class Toleration(Wire, frozen=True):
    """One entry of ``spec.tolerations``; an empty operator is Equal, an empty effect is any."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class Named(Wire, frozen=True):
    """An entry of which only the name matters: a scheduling gate."""

    name: str = ""


class Volume(Wire, frozen=True):
    """A volume; only whether it is a claim matters, since its binding may take minutes."""

    persistent_volume_claim: dict[str, Any] | None = None
    ephemeral: dict[str, Any] | None = None


class PodSpec(Wire, frozen=True):
    """What the pod asks for."""

    node_name: str = ""
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    overhead: dict[str, Quantity] | None = None
    resources: Resources | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    scheduling_gates: list[Named] | None = None
    volumes: list[Volume] | None = None
    resource_claims: list[Named] | None = None
    scheduling_group: dict[str, Any] | None = None


class ContainerStatus(Wire, frozen=True):
    """What a container has by now, which an in-place resize makes differ from what is asked."""

    name: str = ""
    resources: Resources | None = None
    allocated_resources: dict[str, Quantity] | None = None


class PodCondition(Wire, frozen=True):
    """One entry of a pod's ``status.conditions``."""

    type: str
    reason: str = ""


class PodStatus(Wire, frozen=True):
    """How far the pod has come."""

    phase: str = ""
    nominated_node_name: str | None = None
    conditions: list[PodCondition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    resources: Resources | None = None
    allocated_resources: dict[str, Quantity] | None = None


class Pod(Wire, frozen=True):
    """``v1/Pod``."""

    metadata: Metadata
    spec: PodSpec | None = None
    status: PodStatus | None = None


class PodHead(Wire, frozen=True):
    """A pod of which nothing but the metadata is looked at."""

    metadata: Metadata


class PodTemplate(Wire, frozen=True):
    """What pods are made from."""

    metadata: Metadata | None = None
    spec: PodSpec | None = None


class LeaderWorkerTemplate(Wire, frozen=True):
    """The two templates of a LeaderWorkerSet; without its own the leader is like the workers."""

    size: int | None = None
    leader_template: PodTemplate | None = None
    worker_template: PodTemplate | None = None


class Ordinals(Wire, frozen=True):
    """Where a StatefulSet begins to count."""

    start: int = 0


class OwnerSpec(Wire, frozen=True):
    """The counts and templates of a Job, StatefulSet, ReplicaSet, JobSet, LWS or PodGroup.

    Attributes:
        startup_policy: an object in a JobSet, text in a LeaderWorkerSet.
    """

    parallelism: int | None = None
    completions: int | None = None
    replicas: int | None = None
    min_member: int | None = None
    pod_management_policy: str | None = None
    startup_policy: dict[str, Any] | str | None = None
    template: PodTemplate | None = None
    replicated_jobs: list["ReplicatedJob"] | None = None
    leader_worker_template: LeaderWorkerTemplate | None = None
    ordinals: Ordinals | None = None


class JobTemplate(Wire, frozen=True):
    """The Job that a JobSet makes from a replicated job."""

    spec: OwnerSpec | None = None


class ReplicatedJob(Wire, frozen=True):
    """One entry of a JobSet's ``spec.replicatedJobs``."""

    name: str = ""
    replicas: int | None = None
    template: JobTemplate | None = None
    depends_on: list[dict[str, Any]] | None = None


class OwnerStatus(Wire, frozen=True):
    """How far a Job has come; failed indexes are written like ``1,3-5``."""

    succeeded: int | None = None
    failed_indexes: str | None = None


class Owner(Wire, frozen=True):
    """A controller of pods, whatever its kind."""

    metadata: Metadata
    spec: OwnerSpec | None = None
    status: OwnerStatus | None = None
