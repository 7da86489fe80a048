"""Pods, Nodes and the owners that say how many pods a gang has.

Every list and map may be JSON null (fact E8), and a quantity may be a bare number.
"""

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from stowplan.api.errors import InvalidObjectError, Violation


class Wire(BaseModel):
    """A frozen mirror of a peer's object: its camel-case names, unknown fields passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel, strict=True)


def _text(value: object) -> object:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


Quantity = Annotated[str, BeforeValidator(_text)]


class OwnerReference(Wire):
    """One entry of ``metadata.ownerReferences``."""

    api_version: str = ""
    kind: str
    name: str
    uid: str = ""
    controller: bool | None = None


class Metadata(Wire):
    """What every object has."""

    name: str = ""
    namespace: str | None = None
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None
    deletion_timestamp: str | None = None


class Taint(Wire):
    """One entry of ``spec.taints``."""

    key: str
    value: str = ""
    effect: str = ""


class Condition(Wire):
    """One entry of ``status.conditions``."""

    type: str
    status: str


class NodeSpec(Wire):
    """What an administrator set on a node."""

    unschedulable: bool | None = None
    taints: list[Taint] | None = None


class NodeStatus(Wire):
    """What the kubelet reported."""

    allocatable: dict[str, Quantity] | None = None
    conditions: list[Condition] | None = None


class Node(Wire):
    """``v1/Node``."""

    metadata: Metadata
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class Resources(Wire):
    """Requests and limits of a container or of a whole pod."""

    requests: dict[str, Quantity] | None = None
    limits: dict[str, Quantity] | None = None


class Container(Wire):
    """One container; an init container with ``restartPolicy: Always`` is a sidecar."""

    name: str = ""
    resources: Resources | None = None
    restart_policy: str | None = None


class Requirement(Wire):
    """One expression of a node selector term."""

    key: str
    operator: str
    values: list[str] | None = None


class NodeSelectorTerm(Wire):
    """Expressions that all must hold; a term without any matches nothing."""

    match_expressions: list[Requirement] | None = None
    match_fields: list[Requirement] | None = None


class NodeSelector(Wire):
    """Terms of which one must match."""

    node_selector_terms: list[NodeSelectorTerm] | None = None


class PreferredTerm(Wire):
    """A term that adds its weight to the nodes that it matches."""

    weight: int = 0
    preference: NodeSelectorTerm | None = None


class NodeAffinity(Wire):
    """Which nodes a pod must have, and which it would rather have."""

    required: NodeSelector | None = Field(
        default=None, alias="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: list[PreferredTerm] | None = Field(
        default=None, alias="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Wire):
    """Pod affinity is judged by kube-scheduler after us, so it is not read."""

    node_affinity: NodeAffinity | None = None


class Toleration(Wire):
    """One entry of ``spec.tolerations``; an empty operator is Equal, an empty effect is any."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class Named(Wire):
    """An entry of which only the name matters: a scheduling gate."""

    name: str = ""


class Volume(Wire):
    """A volume; only whether it is a claim matters, since its binding may take minutes."""

    persistent_volume_claim: dict[str, Any] | None = None
    ephemeral: dict[str, Any] | None = None


class PodSpec(Wire):
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


class PodStatus(Wire):
    """How far the pod has come."""

    phase: str = ""
    nominated_node_name: str | None = None


class Pod(Wire):
    """``v1/Pod``."""

    metadata: Metadata
    spec: PodSpec | None = None
    status: PodStatus | None = None


class PodHead(Wire):
    """A pod of which nothing but the metadata is looked at."""

    metadata: Metadata


class PodTemplate(Wire):
    """What pods are made from."""

    metadata: Metadata | None = None
    spec: PodSpec | None = None


class LeaderWorkerTemplate(Wire):
    """The two templates of a LeaderWorkerSet; without its own the leader is like the workers."""

    size: int | None = None
    leader_template: PodTemplate | None = None
    worker_template: PodTemplate | None = None


class OwnerSpec(Wire):
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


class JobTemplate(Wire):
    """The Job that a JobSet makes from a replicated job."""

    spec: OwnerSpec | None = None


class ReplicatedJob(Wire):
    """One entry of a JobSet's ``spec.replicatedJobs``."""

    name: str = ""
    replicas: int | None = None
    template: JobTemplate | None = None
    depends_on: list[dict[str, Any]] | None = None


class OwnerStatus(Wire):
    """How far a Job has come; failed indexes are written like ``1,3-5``."""

    succeeded: int | None = None
    failed_indexes: str | None = None


class Owner(Wire):
    """A controller of pods, whatever its kind."""

    kind: str
    metadata: Metadata
    spec: OwnerSpec | None = None
    status: OwnerStatus | None = None


Model = TypeVar("Model", bound=Wire)


def read(model: type[Model], obj: object, what: str | Callable[[], str]) -> Model:
    """Return ``obj``, parsed JSON, as ``model``.

    Args:
        model: what it must be.
        obj: the object.
        what: names the object in an error, or returns its name: thousands of names are not needed.

    Raises:
        InvalidObjectError: one violation for each field that is wrong.
    """
    try:
        return model.model_validate(obj)
    except ValidationError as error:
        named = what if isinstance(what, str) else what()
        raise InvalidObjectError(named, map(_violation, error.errors(include_url=False))) from error


def _violation(error: ErrorDetails) -> Violation:
    path = ""
    for step in error["loc"]:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else str(step)
    missing = error["type"] == "missing"
    problem = error["msg"].removeprefix("Input should be ")
    return Violation(
        path=path or "(the whole object)",
        code="required" if missing else "invalid",
        value=None if missing else error["input"],
        problem="must be present" if missing else f"must be {problem}",
        remedy="add it" if missing else "correct this field",
    )
