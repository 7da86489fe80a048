"""A slow, plain picture of a cluster and of what was promised in it, to hold the ledger against.

``World`` is the truth, as the API server has it: Kubernetes objects and what they use. ``Recount``
adds up what a cluster's pods and seats use, from their records alone.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from stowplan.placement.cluster import Cluster, Objects, Policy
from stowplan.placement.keys import API_GROUPS
from stowplan.placement.ledger import Seat
from stowplan.placement.records import PodRecord
from stowplan.topology.levels import HOSTNAME, Levels

BLOCK, RACK = "topology.example.com/block", "topology.example.com/rack"
LEVELS = Levels.over_hosts([BLOCK, RACK])
OURS, GPU = "stowplan.dev/", "nvidia.com/gpu"
VERSIONS = {
    "Job": "batch/v1",
    "PodGroup": "scheduling.x-k8s.io/v1alpha1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
}
Json = dict[str, Any]


@dataclass
class Node:
    """A node; ``rack`` is written ``b0/r1``."""

    name: str
    rack: str
    gpus: int
    pods: int = 6
    ready: bool = True
    cordoned: bool = False
    gone: bool = False

    @property
    def usable(self) -> bool:
        return self.ready and not self.cordoned and not self.gone

    def domain(self, level: str) -> str:
        return {BLOCK: self.rack.partition("/")[0], RACK: self.rack}.get(level, self.name)

    def manifest(self) -> Json:
        labels = {BLOCK: self.domain(BLOCK), RACK: self.rack.replace("/", "-"), HOSTNAME: self.name}
        ready = "True" if self.ready else "False"
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.name, "labels": labels},
            "spec": {"unschedulable": True} if self.cordoned else {},
            "status": {
                "allocatable": {GPU: str(self.gpus), "pods": str(self.pods), "cpu": "64"},
                "conditions": [{"type": "Ready", "status": ready}],
            },
        }


@dataclass
class Gang:
    """What a user wants: so many pods of some kind, asking for some level."""

    kind: str
    name: str
    size: int
    mode: str
    level: str
    gpus: tuple[int, ...] = (1,)
    claim: bool = False
    completions: int | None = None
    uid: str = ""
    made: int = 0
    spoiled: bool = (
        False  # somebody else bound a pod of it, so its domain is no longer ours to keep
    )

    @property
    def ahead(self) -> bool:
        return self.kind in ("StatefulSet", "ReplicaSet")

    @property
    def owned(self) -> bool:
        return self.kind in ("Job", "StatefulSet", "ReplicaSet")

    def manifest(self, succeeded: int = 0) -> Json | None:
        meta: Json = {"name": self.name, "namespace": "ml", "uid": self.uid}
        match self.kind:
            case "Job":
                spec: Json = {"parallelism": self.size, "completions": self.completions}
            case "StatefulSet" | "ReplicaSet":
                spec = {"replicas": self.size}
            case "PodGroup":
                spec = {"minMember": self.size}
            case _:
                return None
        status = {"succeeded": succeeded} if self.kind == "Job" else {}
        version = f"{API_GROUPS.get(self.kind, 'example.com')}/v1"
        return {
            "apiVersion": version,
            "kind": self.kind,
            "metadata": meta,
            "spec": spec,
            "status": status,
        }


@dataclass
class Pod:
    """A pod of a gang, or an ordinary one (no gang)."""

    name: str
    uid: str
    gang: Gang | None
    gpus: int
    rank: int | None = None
    node: str = ""
    phase: str = "Pending"
    terminating: bool = False
    nominated: str = ""
    told: bool = False  # it is bound where it was told

    @property
    def key(self) -> str:
        return f"ml/{self.name}"

    @property
    def ended(self) -> bool:
        return self.phase in ("Succeeded", "Failed")

    @property
    def live(self) -> bool:
        return not self.ended and not self.terminating

    @property
    def waits(self) -> bool:
        return self.live and not self.node

    @property
    def use(self) -> Counter[str]:
        return Counter({"pods": 1, **({GPU: self.gpus} if self.gpus else {})})

    def manifest(self) -> Json:
        labels: dict[str, str] = {}
        annotations: dict[str, str] = {}
        meta: Json = {"name": self.name, "namespace": "ml", "uid": self.uid}
        meta |= {"labels": labels, "annotations": annotations}
        spec: Json = {"containers": [{"resources": {"requests": {GPU: str(self.gpus)}}}]}
        if self.gang is not None:
            gang = self.gang
            value = "true" if gang.mode == "unconstrained" else gang.level
            annotations[f"{OURS}{gang.mode}-topology"] = value
            if gang.kind == "group":
                labels["kueue.x-k8s.io/pod-group-name"] = gang.name
                annotations["kueue.x-k8s.io/pod-group-total-count"] = str(gang.size)
            elif gang.kind == "PodGroup":
                labels["scheduling.x-k8s.io/pod-group"] = gang.name
            elif gang.owned:
                owner = {"kind": gang.kind, "name": gang.name, "uid": gang.uid, "controller": True}
                meta["ownerReferences"] = [{"apiVersion": VERSIONS[gang.kind], **owner}]
            if gang.kind == "StatefulSet":
                labels["apps.kubernetes.io/pod-index"] = str(self.rank)
            if gang.claim:
                spec["volumes"] = [{"persistentVolumeClaim": {"claimName": "data"}}]
        if self.terminating:
            meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        if self.node:
            spec["nodeName"] = self.node
        status = {"phase": self.phase, "nominatedNodeName": self.nominated}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": meta,
            "spec": spec,
            "status": status,
        }

    def record(self) -> PodRecord:
        return Objects.of([self.manifest()]).pods[self.key]


@dataclass
class World:
    """The objects as they are, whether anybody has seen them or not."""

    nodes: dict[str, Node] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    gangs: list[Gang] = field(default_factory=list)
    made: int = 0

    def uid(self) -> str:
        self.made += 1
        return f"uid-{self.made}"

    def add(self, gang: Gang) -> Gang:
        gang.uid = self.uid()
        self.gangs.append(gang)
        return gang

    def make(self, gang: Gang | None, name: str = "", **more: Any) -> Pod:
        """Make one pod: the next of ``gang``, or an ordinary one."""
        if gang is None:
            pod = Pod(name or f"plain-{self.made}", self.uid(), None, more.pop("gpus", 1), **more)
        else:
            rank = gang.made
            if gang.kind == "StatefulSet":
                taken = {p.rank for p in self.of(gang)}
                rank = next(r for r in range(gang.size + 1) if r not in taken)
            gpus = more.pop("gpus", gang.gpus[rank % len(gang.gpus)])
            name = name or (gang.name if gang.kind == "single" else f"{gang.name}-{rank}")
            pod = Pod(name, self.uid(), gang, gpus, rank, **more)
            gang.made += 1
        self.pods[pod.key] = pod
        return pod

    def of(self, gang: Gang) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.gang is gang]

    def owner(self, gang: Gang) -> Json | None:
        return gang.manifest(sum(pod.phase == "Succeeded" for pod in self.of(gang)))

    def objects(self) -> list[Json]:
        return [
            *(node.manifest() for node in self.nodes.values() if not node.gone),
            *(owner for gang in self.gangs if (owner := self.owner(gang)) is not None),
            *(pod.manifest() for pod in self.pods.values()),
        ]

    def room(self, node: Node) -> Counter[str]:
        """What kube-scheduler would find left on a node."""
        room = Counter({GPU: node.gpus, "pods": node.pods})
        for pod in self.pods.values():
            if pod.node == node.name and not pod.ended:
                room.subtract(pod.use)
        return room

    def feasible(self, pod: Pod) -> list[str]:
        """The nodes that kube-scheduler would offer, by name."""
        return [
            name
            for name, node in self.nodes.items()
            if node.usable and all(self.room(node)[r] >= n for r, n in pod.use.items())
        ]

    def start(self) -> Cluster:
        """A process that has read all objects and knows nothing else."""
        cluster = Cluster(Policy(LEVELS))
        cluster.replace(Objects.of(self.objects()))
        return cluster


def racks(gpus: int = 4, blocks: int = 2, racks: int = 2, nodes: int = 2) -> World:
    """Equal nodes in equal racks: ``n-b0-r1-0`` is the first node of the second rack."""
    world = World()
    for b in range(blocks):
        for r in range(racks):
            for n in range(nodes):
                name = f"n-b{b}-r{r}-{n}"
                world.nodes[name] = Node(name, f"b{b}/r{r}", gpus)
    return world


def open_seats(cluster: Cluster) -> Iterator[Seat]:
    """Every seat that is promised and not bound."""
    for reservation in cluster.ledger.reservations.values():
        for seat in reservation.seats:
            if not seat.bound:
                yield seat


def used(pods: Iterable[PodRecord], seats: Iterable[Seat], node: str) -> Counter[str]:
    """What bound pods and open seats use on a node, added up one by one; zeros left out."""
    total: Counter[str] = Counter()
    for pod in pods:
        if pod.node == node and pod.phase not in ("Succeeded", "Failed"):
            total.update(dict(pod.requests))
    for seat in seats:
        if seat.node == node:
            total.update(dict(seat.amounts))
    return total


def recount(cluster: Cluster, node: str) -> Counter[str]:
    """What the cluster's pods and seats use on a node."""
    return used(cluster.state.pods.values(), open_seats(cluster), node)
