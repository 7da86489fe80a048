"""What is kept of a Node, a Pod and an owner: only what a decision reads."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from stowplan.api.errors import InvalidObjectError, Violation
from stowplan.api.models import core
from stowplan.api.models.wire import Quantity, text_of
from stowplan.placement import keys
from stowplan.placement.filters import Filters, Taint, Weights, repelling_taints, weighted_terms
from stowplan.topology import capacity

Amounts = tuple[tuple[str, int], ...]  # resource and base units, by resource name
_ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """One node.

    Attributes:
        labels: all of them; levels and selectors may name any.
        annotations: a digest that changes when they do; nothing reads their text.
        conditions: type and status, sorted.
    """

    name: str
    labels: Mapping[str, str]
    annotations: int
    allocatable: Amounts
    taints: tuple[Taint, ...]
    conditions: tuple[tuple[str, str], ...]
    unschedulable: bool

    @property
    def usable(self) -> bool:
        """Ready and not cordoned; a missing Ready condition counts as not ready."""
        return not self.unschedulable and ("Ready", "True") in self.conditions

    @classmethod
    def of(cls, node: core.Node) -> "NodeRecord":
        """Read a node.

        Raises:
            InvalidObjectError: a quantity of ``status.allocatable`` is none.
        """
        status = node.status or core.NodeStatus()
        spec = node.spec or core.NodeSpec()
        meta = node.metadata
        _require_name("Node", meta)
        reader = _Quantities(f"Node {meta.name}")
        allocatable = reader.read("status.allocatable", status.allocatable, capacity.offered)
        reader.finish()
        return cls(
            name=meta.name,
            labels=meta.labels or {},
            annotations=hash(frozenset((meta.annotations or {}).items())),
            allocatable=tuple(sorted(allocatable.items())),
            taints=repelling_taints(spec.taints),
            conditions=tuple(sorted((c.type, c.status) for c in status.conditions or ())),
            unschedulable=bool(spec.unschedulable),
        )


def node_changes(old: NodeRecord, new: NodeRecord) -> tuple[str, ...]:
    """Return which parts of a node that matter for scheduling differ, sorted; heartbeats do not."""
    parts = ("allocatable", "annotations", "conditions", "labels", "taints", "unschedulable")
    return tuple(part for part in parts if getattr(old, part) != getattr(new, part))


def asks_for_topology(annotations: Mapping[str, str] | None) -> bool:
    """Whether a pod with these annotations asks for topology, or tried to."""
    if not annotations:
        return False
    return not keys.REQUEST_KEYS.isdisjoint(annotations) or any(map(keys.is_mistyped, annotations))


@dataclass(frozen=True, slots=True)
class OwnerLink:
    """The controller of a pod.

    Attributes:
        kind: followed by its API group where another group has that kind, too:
            ``Job.batch.volcano.sh``.
    """

    kind: str
    name: str
    uid: str

    @classmethod
    def of(cls, owner: core.OwnerReference) -> "OwnerLink":
        """Read an owner reference."""
        group = owner.api_version.rpartition("/")[0]
        ours = not group or group == keys.API_GROUPS.get(owner.kind, group)
        return cls(owner.kind if ours else f"{owner.kind}.{group}", owner.name, owner.uid)


@dataclass(frozen=True, slots=True)
class PodRecord:
    """One pod.

    Attributes:
        uid: empty where it was not given.
        node: where it is bound; empty when it is not.
        requests: base units by resource, ``pods`` included; what one seat costs.
        labels: those of ``keys.LABELS_KEPT``.
        annotations: those of ``keys.ANNOTATIONS_KEPT``.
        nominated: node that kube-scheduler's preemption reserved for it, or empty.
        binds_slowly: it has a claim, whose binding can take minutes.
        native_group: it names a PodGroup of kube-scheduler's own.
        rank: its place in the gang, if a label tells it.
        preferred: weights of preferred node affinity.
    """

    namespace: str
    name: str
    uid: str
    node: str
    phase: str
    terminating: bool
    requests: Amounts
    filters: Filters
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    owner: OwnerLink | None = None
    gates: tuple[str, ...] = ()
    nominated: str = ""
    binds_slowly: bool = False
    native_group: bool = False
    rank: int | None = None
    preferred: Weights = ()

    @property
    def key(self) -> str:
        """``namespace/name``, as people type it."""
        return f"{self.namespace}/{self.name}"

    def is_another(self, pod: "PodRecord") -> bool:
        """Whether ``pod`` was made again under the same name; without uids nobody can tell."""
        return bool(self.uid and pod.uid) and self.uid != pod.uid

    @property
    def ended(self) -> bool:
        """Whether it will never run again."""
        return self.phase in _ENDED

    @property
    def asks(self) -> bool:
        """Whether it asks for topology: it carries one of the request keys."""
        return asks_for_topology(self.annotations)

    @property
    def held_by_kueue(self) -> bool:
        """Whether Kueue places and pins it, so that we hand it back untouched."""
        return (
            any(label in self.labels for label in keys.HELD_LABELS)
            or keys.HELD_ANNOTATION in self.annotations
            or any(gate.startswith(keys.KUEUE) for gate in self.gates)
        )

    @classmethod
    def of(cls, pod: core.Pod) -> "PodRecord":
        """Read a pod.

        Raises:
            InvalidObjectError: a quantity is none, or the pod has no name.
        """
        meta, spec, status = pod.metadata, pod.spec or core.PodSpec(), pod.status
        _require_name("Pod", meta)
        namespace = meta.namespace or "default"
        controller = next((o for o in meta.owner_references or () if o.controller), None)
        return cls(
            namespace=namespace,
            name=meta.name,
            uid=meta.uid,
            node=spec.node_name,
            phase=status.phase if status else "",
            terminating=meta.deletion_timestamp is not None,
            requests=effective_requests(spec, f"Pod {namespace}/{meta.name}", status),
            filters=Filters.of(spec),
            labels=_kept(meta.labels, keys.LABELS_KEPT),
            annotations=_kept(meta.annotations, keys.ANNOTATIONS_KEPT)
            | {key: "" for key in meta.annotations or () if keys.is_mistyped(key)},
            owner=OwnerLink.of(controller) if controller else None,
            gates=tuple(gate.name for gate in spec.scheduling_gates or ()),
            nominated=(status and status.nominated_node_name) or "",
            binds_slowly=bool(spec.resource_claims)
            or any(v.persistent_volume_claim or v.ephemeral for v in spec.volumes or ()),
            native_group=spec.scheduling_group is not None,
            rank=_rank(meta),
            preferred=weighted_terms(spec),
        )


def _rank(meta: core.Metadata) -> int | None:
    labels, annotations = meta.labels or {}, meta.annotations or {}
    for name in keys.RANKS:
        text = labels.get(name) or annotations.get(name)
        if text and text.isascii() and text.isdigit() and len(text) < 10:
            return int(text)
    return None


def effective_requests(
    spec: core.PodSpec, what: str, status: core.PodStatus | None = None
) -> Amounts:
    """Return what a pod costs its node: base units by resource, one of ``pods`` included.

    Kubernetes' rule: containers and sidecars add up; each other init container runs beside the
    sidecars started before it, and the largest such moment counts when it is larger; a request for
    the whole pod replaces the sum of that resource; overhead comes on top. While a container or a
    pod is resized in place, the most of what is asked, had and promised counts, and nothing that
    is asked in vain (read in kube-scheduler 1.36).

    Raises:
        InvalidObjectError: with every quantity that is none.
    """
    reader = _Quantities(what)
    resized = _Resized.of(status or core.PodStatus(), reader)
    running: dict[str, int] = {}
    for i, container in enumerate(spec.containers or ()):
        asked = reader.container(f"spec.containers[{i}]", container)
        _add(running, resized.of_container(container.name, asked))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for i, container in enumerate(spec.init_containers or ()):
        asked = reader.container(f"spec.initContainers[{i}]", container)
        if container.restart_policy == "Always":
            _add(sidecars, resized.of_container(container.name, asked))
            moment = sidecars
        else:
            moment = dict(sidecars)
            _add(moment, asked)
        _raise_to(peak, moment)
    _add(running, sidecars)
    _raise_to(running, peak)
    whole = spec.resources or core.Resources()
    limits = reader.read("spec.resources.limits", whole.limits, capacity.requested)
    running = limits | running  # a limit of the whole pod is a request where nobody made one
    asked = reader.read("spec.resources.requests", whole.requests, capacity.requested)
    running |= resized.of_pod(asked)
    _add(running, reader.read("spec.overhead", spec.overhead, capacity.requested))
    reader.finish()
    running.pop(keys.MARKER, None)
    return capacity.per_pod({name: min(v, capacity.LIMIT) for name, v in running.items()})


@dataclass(slots=True)
class _Resized:
    """What running containers, and a pod as a whole, count as while they are resized.

    Attributes:
        in_vain: the node can never give what is asked.
        containers: by name, what a container has and was promised.
        pod: the same of the whole pod; None where nobody said.
    """

    in_vain: bool
    containers: dict[str, dict[str, int]]
    pod: dict[str, int] | None

    @classmethod
    def of(cls, status: core.PodStatus, reader: "_Quantities") -> "_Resized":
        pending = [c.reason for c in status.conditions or () if c.type == "PodResizePending"]
        found = {}
        for field_of, statuses in (
            ("containerStatuses", status.container_statuses),
            ("initContainerStatuses", status.init_container_statuses),
        ):
            for i, each in enumerate(statuses or ()):
                if each.resources is not None:
                    at = f"status.{field_of}[{i}]"
                    found[each.name] = reader.granted(at, each.resources, each.allocated_resources)
        pod = None
        if status.resources is not None:
            pod = reader.granted("status", status.resources, status.allocated_resources)
        return cls(pending[:1] == ["Infeasible"], found, pod)

    def of_container(self, name: str, asked: dict[str, int]) -> dict[str, int]:
        return self._most(asked, self.containers.get(name))

    def of_pod(self, asked: dict[str, int]) -> dict[str, int]:
        """Only what the pod asks for as a whole is counted as a whole."""
        most = self._most(asked, self.pod)
        return {name: most.get(name, 0) for name in asked}

    def _most(self, asked: dict[str, int], granted: dict[str, int] | None) -> dict[str, int]:
        if granted is None:
            return asked
        most = {} if self.in_vain else dict(asked)
        _raise_to(most, granted)
        return most


@dataclass(frozen=True, slots=True)
class OwnerRecord:
    """A controller of pods, or a PodGroup: the counts that say how large a gang is.

    Attributes:
        desired: the count of the Deployment behind a ReplicaSet, as it is written there.
        exclusive: the owner waits for a scheduled leader before it makes the other pods.
    """

    namespace: str
    kind: str
    name: str
    uid: str
    desired: str | None
    exclusive: bool
    spec: core.OwnerSpec
    status: core.OwnerStatus

    @classmethod
    def of(cls, kind: str, owner: core.Owner) -> "OwnerRecord":
        """Read an owner of a kind."""
        meta = owner.metadata
        return cls(
            namespace=meta.namespace or "default",
            kind=kind,
            name=meta.name,
            uid=meta.uid,
            desired=(meta.annotations or {}).get(keys.DESIRED_REPLICAS),
            exclusive=not (meta.annotations or {}).keys().isdisjoint(keys.EXCLUSIVE),
            spec=owner.spec or core.OwnerSpec(),
            status=owner.status or core.OwnerStatus(),
        )


@dataclass(slots=True)
class _Quantities:
    """Reads quantities and collects every one that is wrong, so that all are reported at once."""

    what: str
    violations: list[Violation] = field(default_factory=list)

    def read(
        self, path: str, quantities: Mapping[str, Quantity] | None, unit: "capacity.Reader"
    ) -> dict[str, int]:
        amounts = {}
        for name, text in ((name, text_of(value)) for name, value in (quantities or {}).items()):
            try:
                amounts[name] = unit(name, text)
            except capacity.QuantityError as error:
                where = f"{path}.{name}" if "/" not in name else f"{path}[{name!r}]"
                self.violations.append(
                    Violation(where, "invalid", text, str(error), "correct this quantity")
                )
        return amounts

    def asked(self, path: str, resources: core.Resources) -> dict[str, int]:
        """Return requests; a limit without a request is one, as the API server defaults it."""
        limits = self.read(f"{path}.limits", resources.limits, capacity.requested)
        return limits | self.read(f"{path}.requests", resources.requests, capacity.requested)

    def container(self, path: str, container: core.Container) -> dict[str, int]:
        return self.asked(f"{path}.resources", container.resources or core.Resources())

    def granted(
        self, path: str, had: core.Resources, promised: Mapping[str, Quantity] | None
    ) -> dict[str, int]:
        """Return the most of what a container has and what its node promised."""
        most = self.read(f"{path}.resources.requests", had.requests, capacity.requested)
        at = f"{path}.allocatedResources"
        _raise_to(most, self.read(at, promised, capacity.requested))
        return most

    def finish(self) -> None:
        if self.violations:
            raise InvalidObjectError(self.what, self.violations)


def _require_name(kind: str, meta: core.Metadata) -> None:
    if not meta.name:
        missing = Violation("metadata.name", "required", None, "must be present", "add it")
        raise InvalidObjectError(kind, [missing])


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: dict[str, int], least: Mapping[str, int]) -> None:
    for name, amount in least.items():
        total[name] = max(total.get(name, 0), amount)


def _kept(found: Mapping[str, str] | None, wanted: Iterable[str]) -> dict[str, str]:
    if not found:
        return {}
    return {key: found[key] for key in wanted if key in found}
