"""A cluster in which gangs are placed: its control plane, a kubelet, and replicas of ours.

Scenarios make objects and then look at the world: which pods are bound, and where.
"""

import asyncio
import contextlib
import json
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from stowplan.api.errors import UnavailableError
from stowplan.kube.access import Kubeconfig
from stowplan.kube.client import Kube
from stowplan.kube.errors import NotFoundError
from stowplan.kube.resources import LEASES, NODES, PLACEMENTS, PODS, Resource
from tests.build import Json, NodeObject, PodObject, node, pod
from tests.controlplane.bed import Child, ControlPlane, answers, fetched, free_port
from tests.controlplane.kubelet import Kubelet, kubelet
from tests.controlplane.waiting import until

ROOT = Path(__file__).resolve().parents[2]
LEVELS = "topology.example.com/block,topology.example.com/rack"
RACK = "topology.example.com/rack"
NAMESPACE = "stowplan-system"
LEASE_SECONDS = 2.0
ROLE = "stowplan.dev/role"
CRDS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False
)


@dataclass(slots=True)
class World:
    """What a scenario acts on.

    Attributes:
        plane: the control plane.
        kube: somebody who may do everything.
        kubelet: runs what is bound.
        port: where the extender is expected; that of the replica that leads, if there are several.
        replicas: processes of ours, running or not.
        ports: where each of them listens, by the name of its pod; one alone has no pod.
    """

    plane: ControlPlane
    kube: Kube
    kubelet: Kubelet
    port: int
    scheduler: Child
    replicas: list[Child] = field(default_factory=list)
    ports: dict[str, int] = field(default_factory=dict)

    @property
    def pods(self) -> Mapping[str, dict[str, Any]]:
        """All pods by name, as the kubelet sees them."""
        return {name.partition("/")[2]: pod for name, pod in self.kubelet.pods.items()}

    def replica(self, *flags: str, port: int | None = None) -> Child:
        """Return a process of ours that is not started."""
        number = len(self.replicas)
        port = self.port if port is None else port
        made = Child(
            [
                *(sys.executable, "-m", "stowplan", "serve"),
                *("--kubeconfig", str(service_account(self.plane)), "--levels", LEVELS),
                *("--listen", f"127.0.0.1:{port}", "--drain-seconds", "0", "--log-format", "json"),
                *("--lease-seconds", f"{LEASE_SECONDS}", "--lease-renew-seconds", "1.3"),
                *("--lease-retry-seconds", "0.2", *flags),
            ],
            self.plane.folder / f"replica-{port}-{number}.log",
            lambda: answers(f"http://127.0.0.1:{port}/readyz"),
            {"PYTHONPATH": str(ROOT)},
        )
        self.replicas.append(made)
        return made

    async def replica_in_a_pod(self, name: str) -> Child:
        """Start one of several replicas; which one the scheduler reaches its label says."""
        port = self.ports[name] = free_port()
        await self.make_pod_of_ours(name)
        made = self.replica("--pod-name", name, port=port)
        await self.start(made)
        return made

    async def make_pod_of_ours(self, name: str) -> None:
        """Make the pod that a replica would run in."""
        made = pod(name).in_namespace(NAMESPACE).on("elsewhere")
        await self.kube.create(PODS, {**made, "status": {}})

    def leader(self) -> str | None:
        """Return the pod that wears the role label."""
        worn = (name for name in self.ports if name in self.pods)
        labels = {name: self.pods[name]["metadata"].get("labels", {}) for name in worn}
        return next((n for n, each in labels.items() if each.get(ROLE) == "leader"), None)

    def port_of_leader(self) -> int | None:
        """Return where the replica listens that the scheduler reaches."""
        name = self.leader()
        return None if name is None else self.ports[name]

    async def ungate(self, pods: Iterable[PodObject]) -> None:
        """Take the scheduling gates off pods."""
        remove = [{"op": "remove", "path": "/spec/schedulingGates"}]
        for each in pods:
            await self.kube.patch(PODS, "default", each["metadata"]["name"], remove)

    async def start(self, child: Child) -> None:
        """Start a process and return when it is ready."""
        await asyncio.to_thread(child.start)

    async def leads(self, port: int) -> None:
        """Return once the replica on a port decides."""
        said = "stowplan_server_leading 1.0"
        await until(lambda: answers(f"http://127.0.0.1:{port}/metrics", said))

    async def nodes(self, racks: Mapping[str, int], per_node: int = 8) -> None:
        """Make nodes: ``{"b1/r1": 4}`` is four nodes in rack r1 of block b1, eight GPUs each."""
        for path, count in racks.items():
            block, rack = path.split("/")
            for x in range(count):
                made = node(f"{block}-{rack}-x{x}").at(block=block, rack=rack).gpus(per_node)
                await self.make_node(made)

    async def make_node(self, made: NodeObject) -> None:
        """Make a node, ready."""
        await self.kube.create(NODES, made)

    async def make(self, pods: Iterable[PodObject]) -> None:
        """Submit pods, one after another."""
        for each in pods:
            for container in each["spec"]["containers"]:
                resources = container["resources"]  # devices have no requests of their own
                resources["limits"] = {k: v for k, v in resources["requests"].items() if "/" in k}
            await self.kube.create(PODS, {**each, "status": {}})

    def bound(self, prefix: str = "") -> dict[str, str]:
        """Return the node of each bound pod."""
        return {
            name: bound_to
            for name, found in self.pods.items()
            if name.startswith(prefix) and (bound_to := found["spec"].get("nodeName"))
        }

    def racks(self, prefix: str) -> Counter[str]:
        """Return how many of the bound pods are in each rack."""
        return Counter(name.rpartition("-")[0] for name in self.bound(prefix).values())

    def message(self, name: str) -> str:
        """Return why a pod is not scheduled; empty where nobody says."""
        conditions = self.pods.get(name, {}).get("status", {}).get("conditions") or ()
        return next((c.get("message", "") for c in conditions if c["type"] == "PodScheduled"), "")

    async def whole(self, prefix: str, size: int, seconds: float = 30.0) -> float:
        """Return after how long all pods of a gang were bound, all of them in one rack."""
        waited = await until(lambda: len(self.bound(prefix)) == size, seconds)
        assert list(self.racks(prefix).values()) == [size]
        return waited

    async def refused(self, name: str, word: str, seconds: float = 30.0) -> str:
        """Return the message of a pod that is refused for a reason of ours."""
        await until(lambda: f"stowplan {word}" in self.message(name), seconds)
        return self.message(name)

    async def placement(self, name: str) -> Json:
        """Return the status of a Placement; empty where there is none."""
        try:
            found = await self.kube.get(PLACEMENTS, "default", name)
        except NotFoundError:
            return {}
        status: Json = found.get("status") or {}
        return status

    async def placements(self) -> list[str]:
        """Return the names of all Placements."""
        return [each["metadata"]["name"] for each in await self.kube.list(PLACEMENTS)]

    async def phase(self, name: str, phase: str) -> Json:
        """Return the status of a Placement once it is in a phase."""

        async def there() -> bool:
            return (await self.placement(name)).get("phase") == phase

        await until(there)
        return await self.placement(name)

    def counted(self, metric: str) -> float:
        """Return the sum of all series of a metric of the replica that is alone."""
        text = fetched(f"http://127.0.0.1:{self.port}/metrics")
        lines = [
            line for line in text.splitlines() if line.startswith((metric + "{", metric + " "))
        ]
        assert lines, metric
        return sum(float(line.rpartition(" ")[2]) for line in lines)

    def logged(self, replica: int) -> list[Json]:
        """Return what a replica logged."""
        lines = self.replicas[replica].log.read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def overcommitted(self) -> dict[str, int]:
        """Return nodes whose pods ask for more GPUs than there are: 8 on each."""
        used: dict[str, int] = defaultdict(int)
        for found in self.pods.values():
            ended = found.get("status", {}).get("phase") in ("Succeeded", "Failed")
            if (name := found["spec"].get("nodeName")) and not ended:
                for container in found["spec"]["containers"]:
                    requests = container.get("resources", {}).get("requests", {})
                    used[name] += int(requests.get("nvidia.com/gpu", 0))
        return {name: n for name, n in used.items() if n > 8}


def extender(port: int, **more: Any) -> Json:
    """Return what the configuration of kube-scheduler says of us."""
    return {
        "urlPrefix": f"http://127.0.0.1:{port}",
        "filterVerb": "filter",
        "nodeCacheCapable": True,
        "httpTimeout": "1s",
        **more,
    }


@contextlib.asynccontextmanager
async def world(
    plane: ControlPlane,
    *flags: str,
    configuration: Callable[[int], Json] | None = None,
    replica: bool = True,
) -> AsyncIterator[World]:
    """Start a scheduler and a replica of ours, and leave an empty cluster behind."""
    port = free_port()
    async with Kube(Kubeconfig((plane.admin,))) as kube:
        await install(kube)
        asked = {"extenders": [extender(port)]} if configuration is None else configuration(port)
        scheduler = plane.scheduler(**asked)
        async with kubelet(kube) as one:
            made = World(plane, kube, one, port, scheduler)
            try:
                if replica:
                    await made.start(made.replica(*flags))
                    await made.leads(port)
                await made.start(scheduler)
                yield made
            finally:
                await asyncio.to_thread(scheduler.stop)
                for each in made.replicas:
                    await asyncio.to_thread(end, each)
                await empty(made)


def end(replica: Child) -> None:
    """End a process of ours, even one that was stopped."""
    if replica.process is not None and replica.process.poll() is None:
        replica.signal(signal.SIGCONT)
        replica.stop()


async def install(kube: Kube) -> None:
    """Create our kinds, once."""
    for file in ("crds/placements.yaml", "rbac/stowplan.yaml"):
        for found in yaml.safe_load_all((ROOT / "manifests" / file).read_text()):
            await kube.apply(resource_of(found), found, "test")

    async def served() -> bool:
        try:
            await kube.list(PLACEMENTS)
        except (NotFoundError, UnavailableError):  # its storage is being made
            return False
        return True

    await until(served)


async def empty(world: World) -> None:
    """Delete whatever a scenario made."""
    for resource in (PLACEMENTS, PODS, NODES, LEASES):
        for found in await world.kube.list(resource):
            meta = found["metadata"]
            with contextlib.suppress(NotFoundError):
                await world.kube.delete(
                    resource, meta.get("namespace", ""), meta["name"], grace_seconds=0
                )


def resource_of(found: Json) -> Resource:
    """Return the kind of an object of our manifests."""
    group, _, version = found["apiVersion"].rpartition("/")
    kind = found["kind"]
    namespaced = "namespace" in found["metadata"]
    return Resource(group, version, f"{kind.lower()}s", kind, namespaced)


def service_account(plane: ControlPlane) -> Path:
    """Return a kubeconfig of the service account that our manifests make."""
    return plane.kubeconfig(f"system:serviceaccount:{NAMESPACE}:stowplan")


def gang(name: str, size: int, gpus: int = 8, level: str = "rack") -> list[PodObject]:
    """Return the pods of a gang, each with a rank."""
    return [
        pod(f"{name}-{i}").in_gang(name, size).ranked(i).requires(level).gpus(gpus)
        for i in range(size)
    ]
