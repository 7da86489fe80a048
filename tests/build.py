"""Kubernetes objects for tests, written as a sentence.

``node("b1-r1-x3").at(block="b1", rack="r1").gpus(8)`` and
``pod("train-0").in_gang("train", 8).requires("rack").gpus(4)`` are plain dictionaries, as ``kubectl
get -o json`` prints them: hand them to ``Objects.of``, or dump them. Short level names stand for
keys below ``topology.example.com``.
"""

from typing import Any, Self

from stowplan.api.models import core
from stowplan.api.models.wire import read
from stowplan.placement import keys
from stowplan.placement.cluster import Cluster, Objects, Policy
from stowplan.placement.records import NodeRecord, OwnerRecord, PodRecord
from stowplan.topology.levels import HOSTNAME, Levels

Json = dict[str, Any]

GPU = "nvidia.com/gpu"
_PREFIX = "topology.example.com/"
_API_VERSIONS = {
    "Job": "batch/v1",
    "JobSet": "jobset.x-k8s.io/v1alpha2",
    "PodGroup": "scheduling.x-k8s.io/v1alpha1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
}


def level(short: str) -> str:
    """Return the label key of a level: ``rack`` is topology.example.com/rack."""
    if short == "host":
        return HOSTNAME
    return short if "/" in short else _PREFIX + short


def levels(*short: str) -> Levels:
    """Return these levels, coarse to fine, and the host level."""
    return Levels.over_hosts([level(name) for name in short])


class NodeObject(Json):
    """``v1/Node``; each method changes it and returns it."""

    def at(self, **values: str) -> Self:
        """Label it with a value per level."""
        return self.labelled(**{level(short): value for short, value in values.items()})

    def labelled(self, **labels: str) -> Self:
        """Add labels."""
        self["metadata"]["labels"].update(labels)
        return self

    def without(self, label: str) -> Self:
        """Remove a label."""
        self["metadata"]["labels"].pop(label)
        return self

    def annotated(self, **annotations: str) -> Self:
        """Add annotations."""
        self["metadata"].setdefault("annotations", {}).update(annotations)
        return self

    def offering(self, **amounts: str) -> Self:
        """Set allocatable resources."""
        self["status"]["allocatable"].update(amounts)
        return self

    def gpus(self, count: int) -> Self:
        """Set allocatable GPUs."""
        return self.offering(**{GPU: str(count)})

    def tainted(self, key: str, value: str = "", effect: str = "NoSchedule") -> Self:
        """Add a taint."""
        self["spec"].setdefault("taints", []).append({"key": key, "value": value, "effect": effect})
        return self

    def cordoned(self) -> Self:
        """Make it unschedulable."""
        self["spec"]["unschedulable"] = True
        return self

    def not_ready(self) -> Self:
        """Take its Ready condition away from True."""
        self["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
        return self

    def record(self) -> NodeRecord:
        """Return what placement keeps of it."""
        return NodeRecord.of(read(core.Node, self, f"Node {self['metadata']['name']}"))


def node(name: str) -> NodeObject:
    """Return a ready node of 128 cores, 1 Ti and 110 pod slots, without GPUs and levels."""
    return NodeObject(
        apiVersion="v1",
        kind="Node",
        metadata={"name": name, "labels": {HOSTNAME: name}},
        spec={},
        status={
            "allocatable": {"cpu": "128", "memory": "1Ti", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    )


class PodObject(Json):
    """``v1/Pod``; each method changes it and returns it."""

    def in_namespace(self, namespace: str) -> Self:
        """Move it to a namespace."""
        self["metadata"]["namespace"] = namespace
        return self

    def made_again(self, uid: str) -> Self:
        """Give it another uid: a pod of the same name that replaces it."""
        self["metadata"]["uid"] = uid
        return self

    def labelled(self, **labels: str) -> Self:
        """Add labels."""
        self["metadata"]["labels"].update(labels)
        return self

    def annotated(self, **annotations: str) -> Self:
        """Add annotations."""
        self["metadata"]["annotations"].update(annotations)
        return self

    def in_gang(self, name: str, size: int | str) -> Self:
        """Name its gang as Kueue does for plain pods."""
        return self.labelled(**{keys.POD_GROUP_NAME: name}).annotated(
            **{keys.POD_GROUP_COUNT: str(size)}
        )

    def ranked(self, rank: int) -> Self:
        """Give it a rank in its gang."""
        return self.labelled(**{keys.POD_GROUP_INDEX: str(rank)})

    def requires(self, short: str) -> Self:
        """Ask for one domain of a level."""
        return self.annotated(**{keys.REQUIRED[0]: level(short)})

    def prefers(self, short: str) -> Self:
        """Ask for one domain of a level, if possible."""
        return self.annotated(**{keys.PREFERRED[0]: level(short)})

    def anywhere(self) -> Self:
        """Ask for any place."""
        return self.annotated(**{keys.UNCONSTRAINED[0]: "true"})

    def sliced(self, short: str, size: int, **inner: int) -> Self:
        """Keep ``size`` pods in one domain of a level, and so many in one of each inner level."""
        layers = {short: size, **inner}.items()
        return self.annotated(**{keys.OUR_SLICES: ",".join(f"{level(s)}={n}" for s, n in layers)})

    def with_smaller_last_slice(self) -> Self:
        """Let the pods that fill no whole slice make a smaller one."""
        return self.annotated(**{keys.LAST_SLICE: "smaller"})

    def at_most(self, short: str, share: str) -> Self:
        """Ask for at most so many pods, or a percentage, in one domain of a level."""
        return self.annotated(**{keys.MAX_PER_DOMAIN: f"{level(short)}={share}"})

    def of_role(self, role: str) -> Self:
        """Say which podset of its gang it belongs to, as Kueue does for plain pods."""
        return self.annotated(**{keys.ROLE_HASH: role})

    def in_group(self, name: str) -> Self:
        """Share a domain with the podsets of the same group."""
        return self.annotated(**{keys.PODSET_GROUP[0]: name})

    def packed(self, profile: str) -> Self:
        """Name its packing profile."""
        return self.annotated(**{keys.PACKING: profile})

    def preferring(self, weight: int, **labels: str) -> Self:
        """Add a term of preferred node affinity."""
        match = [{"key": k, "operator": "In", "values": [v]} for k, v in labels.items()]
        affinity = self["spec"].setdefault("affinity", {}).setdefault("nodeAffinity", {})
        affinity.setdefault("preferredDuringSchedulingIgnoredDuringExecution", []).append(
            {"weight": weight, "preference": {"matchExpressions": match}}
        )
        return self

    def asking(self, **amounts: str) -> Self:
        """Request resources."""
        requests = self["spec"]["containers"][0]["resources"]["requests"]
        requests.update(amounts)
        return self

    def gpus(self, count: int) -> Self:
        """Request GPUs."""
        return self.asking(**{GPU: str(count)})

    def selecting(self, **labels: str) -> Self:
        """Add to the node selector."""
        self["spec"].setdefault("nodeSelector", {}).update(labels)
        return self

    def on(self, name: str) -> Self:
        """Bind it to a node, where it runs."""
        self["spec"]["nodeName"] = name
        return self.phase("Running")

    def phase(self, phase: str) -> Self:
        """Set how far it has come."""
        self["status"]["phase"] = phase
        return self

    def terminating(self) -> Self:
        """Begin its deletion."""
        self["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        return self

    def nominated_to(self, name: str) -> Self:
        """Let preemption hold a node for it."""
        self["status"]["nominatedNodeName"] = name
        return self

    def gated_by(self, gate: str) -> Self:
        """Add a scheduling gate."""
        self["spec"].setdefault("schedulingGates", []).append({"name": gate})
        return self

    def owned_by(self, kind: str, name: str, uid: str = "") -> Self:
        """Set its controller."""
        self["metadata"]["ownerReferences"] = [
            {
                "apiVersion": _API_VERSIONS.get(kind, "example.com/v1"),
                "kind": kind,
                "name": name,
                "uid": uid or f"uid-of-{kind}-{name}",
                "controller": True,
            }
        ]
        return self

    def record(self) -> PodRecord:
        """Return what placement keeps of it."""
        return PodRecord.of(read(core.Pod, self, f"Pod {self['metadata']['name']}"))


def pod(name: str) -> PodObject:
    """Return a pending pod that asks for nothing."""
    return PodObject(
        apiVersion="v1",
        kind="Pod",
        metadata={"name": name, "namespace": "default", "labels": {}, "annotations": {}},
        spec={
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example.com/any:1",
                    "resources": {"requests": {}},
                }
            ]
        },
        status={"phase": "Pending"},
    )


class OwnerObject(Json):
    """A controller of pods, or a PodGroup."""

    def with_status(self, **status: Any) -> Self:
        """Set status fields."""
        self["status"].update(status)
        return self

    def desiring(self, replicas: int | str) -> Self:
        """State the Deployment's replicas, as its controller does on a ReplicaSet."""
        self["metadata"]["annotations"] = {keys.DESIRED_REPLICAS: str(replicas)}
        return self

    def record(self) -> OwnerRecord:
        """Return what placement keeps of it."""
        return OwnerRecord.of(self["kind"], read(core.Owner, self, f"{self['kind']}"))


def owner(kind: str, name: str, **spec: Any) -> OwnerObject:
    """Return a Job, JobSet, StatefulSet, ReplicaSet or PodGroup with these fields in its spec."""
    return OwnerObject(
        apiVersion=_API_VERSIONS[kind],
        kind=kind,
        metadata={"name": name, "namespace": "default", "uid": f"uid-of-{kind}-{name}"},
        spec=spec,
        status={},
    )


def gang(name: str, size: int, gpus: int = 8, rack: str = "rack") -> list[PodObject]:
    """Return all pods of a gang that requires one ``rack``, ranked, each with ``gpus``."""
    return [
        pod(f"{name}-{i}").in_gang(name, size).ranked(i).requires(rack).gpus(gpus)
        for i in range(size)
    ]


def cluster(*objects: Json, at: Levels | None = None, **policy: Any) -> Cluster:
    """Return the live picture of these objects; levels are block and rack unless said."""
    made = Cluster(Policy(levels=at or levels("block", "rack"), **policy))
    made.replace(Objects.of(objects))
    return made
