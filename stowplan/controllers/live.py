"""The live picture: each event of kube-apiserver is folded into the cluster as it comes."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from stowplan.api.errors import InvalidObjectError
from stowplan.api.models import core
from stowplan.api.objects import Object
from stowplan.kube.access import Access
from stowplan.kube.client import Kube
from stowplan.kube.errors import NotFoundError
from stowplan.kube.listing import pages
from stowplan.kube.reflector import Cause, Reflector
from stowplan.kube.resources import NODES, PODS, Resource
from stowplan.placement.cluster import Cluster
from stowplan.placement.gangs import GangId, gang_of
from stowplan.placement.records import NodeRecord, OwnerRecord, PodRecord
from stowplan.telemetry import metrics

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Owners:
    """A kind whose objects say how large gangs are."""

    resource: Resource
    optional: bool = False  # add-ons, which a cluster may not have


OWNERS = (
    _Owners(Resource("batch", "v1", "jobs", "Job")),
    _Owners(Resource("apps", "v1", "replicasets", "ReplicaSet")),
    _Owners(Resource("apps", "v1", "statefulsets", "StatefulSet")),
    _Owners(Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet"), optional=True),
    _Owners(
        Resource("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet"),
        optional=True,
    ),
    _Owners(Resource("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup"), optional=True),
)

FOLLOWED = (NODES, PODS, *(owners.resource for owners in OWNERS))


async def fetched(access: Access) -> list[Object]:
    """Return all objects that placement reads, for a question that is asked once."""
    found: list[Object] = []
    optional = {each.resource for each in OWNERS if each.optional}
    async with Kube(access) as kube:
        for resource in FOLLOWED:
            try:
                async for page, _ in pages(kube, resource):
                    found += page
            except NotFoundError:
                if resource not in optional:
                    raise
    return found


@dataclass(slots=True, eq=False)
class _NodeStore:
    cluster: Cluster

    def set(self, name: str, found: Object) -> None:
        node = NodeRecord.of(found.read(core.Node))
        if self.cluster.state.nodes.get(name) != node:
            self.cluster.state.set_node(node)

    def remove(self, name: str) -> None:
        self.cluster.state.remove_node(name)

    def names(self) -> Iterable[str]:
        return self.cluster.state.nodes


@dataclass(slots=True, eq=False)
class _PodStore:
    cluster: Cluster

    def set(self, name: str, found: Object) -> GangId | None:
        pod = PodRecord.of(found.read(core.Pod))
        if self.cluster.state.pods.get(name) == pod:
            return None
        self.cluster.set_pod(pod)
        return gang_of(pod) if pod.asks else None

    def remove(self, name: str) -> GangId | None:
        pod = self.cluster.state.pods.get(name)
        self.cluster.remove_pod(name)
        return gang_of(pod) if pod is not None and pod.asks else None

    def names(self) -> Iterable[str]:
        return self.cluster.state.pods


@dataclass(slots=True, eq=False)
class _OwnerStore:
    cluster: Cluster
    kind: str

    def set(self, name: str, found: Object) -> None:
        owner = OwnerRecord.of(self.kind, found.read(core.Owner))
        if self.cluster.owners.get(owner.namespace, owner.kind, owner.name) != owner:
            self.cluster.set_owner(owner)

    def remove(self, name: str) -> None:
        namespace, _, own = name.partition("/")
        if self.cluster.owners.get(namespace, self.kind, own) is not None:
            self.cluster.remove_owner(namespace, self.kind, own)

    def names(self) -> Iterable[str]:
        known = self.cluster.owners.known
        return [f"{space}/{name}" for space, kind, name in known if kind == self.kind]


class _Folding(Protocol):
    """Folds one kind into the cluster, and returns the gang that a change is about, if any."""

    def set(self, name: str, found: Object) -> GangId | None: ...

    def remove(self, name: str) -> GangId | None: ...

    def names(self) -> Iterable[str]: ...


Changed = Callable[[GangId | None], None]


@dataclass(slots=True, eq=False)
class _Readable:
    """A store that forgets what cannot be read, so that one object does not hold up the others."""

    folding: _Folding
    kind: str
    changed: Changed

    def set(self, name: str, found: Object) -> None:
        try:
            gang = self.folding.set(name, found)
        except InvalidObjectError as error:
            gang = self.folding.remove(name)
            metrics.child(metrics.OBJECTS_UNREADABLE_TOTAL, self.kind).inc()
            violations = [str(violation) for violation in error.violations]
            log.error("object unreadable", kind=self.kind, name=name, violations=violations)
        self.changed(gang)

    def remove(self, name: str) -> None:
        self.changed(self.folding.remove(name))

    def names(self) -> Iterable[str]:
        return self.folding.names()


def _nothing(gang: GangId | None) -> None:
    """Be told of a change, and do nothing."""


@dataclass(slots=True, eq=False)
class Live:
    """Keeps a cluster like the one that kube-apiserver tells of.

    Attributes:
        kube: whom to ask.
        cluster: the picture.
        changed: called after every event, before the next one is looked at, with the gang of a pod
            that asks.
    """

    kube: Kube
    cluster: Cluster
    changed: Changed = _nothing
    reflectors: Sequence[Reflector] = field(init=False)

    def __post_init__(self) -> None:
        """Follow nodes and owners as well as pods."""
        owners = (
            self._reflector(
                each.resource, _OwnerStore(self.cluster, each.resource.kind), each.optional
            )
            for each in OWNERS
        )
        nodes = self._reflector(NODES, _NodeStore(self.cluster))
        pods = self._reflector(PODS, _PodStore(self.cluster))
        self.reflectors = (nodes, pods, *owners)

    def _reflector(
        self, resource: Resource, folding: _Folding, optional: bool = False
    ) -> Reflector:
        kind = resource.kind

        def restarted(cause: Cause) -> None:
            metrics.child(metrics.WATCH_RESTARTS_TOTAL, kind, cause).inc()

        readable = _Readable(folding, kind, lambda gang: self.changed(gang))
        return Reflector(self.kube, resource, readable, optional=optional, on_restart=restarted)

    def behind_seconds(self) -> float:
        """Return for how long nobody has told us of some kind; 0 while every watch is open."""
        return max(each.behind_seconds() for each in self.reflectors)

    async def synced(self) -> None:
        """Return once everything was listed."""
        for each in self.reflectors:
            await each.synced.wait()

    async def run(self) -> None:
        """Follow the server until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for each in self.reflectors:
                tasks.create_task(each.run())
