"""Gangs of others, several schedulers, and owners whose controllers cannot be had here."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from stowplan.api.errors import UnavailableError
from stowplan.kube.errors import NotFoundError
from stowplan.kube.resources import PODS, Resource
from tests.build import Json, PodObject, pod
from tests.controlplane.bed import ControlPlane, control_plane
from tests.controlplane.waiting import until
from tests.controlplane.world import CRDS, RACK, World, extender, gang, world

pytestmark = [pytest.mark.controlplane, pytest.mark.slow]

JOB_SETS = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")
LEADER_WORKER_SETS = Resource(
    "leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet"
)
POD_GROUPS = Resource("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup")
NATIVE_GROUPS = Resource("scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup")


async def served(it: World, resource: Resource) -> None:
    """Let the API server know an add-on's kind, whatever its objects look like."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": resource.version, "served": True, "storage": True}
    names = {"plural": resource.plural, "kind": resource.kind}
    crd = {
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": {**names, "singular": resource.kind.lower()},
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        },
    }
    await it.kube.apply(CRDS, crd, "test")

    async def there() -> bool:
        try:
            await it.kube.list(resource)
        except (NotFoundError, UnavailableError):
            return False
        return True

    await until(there)


@pytest.fixture(scope="module")
def plane(built: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane that knows native gangs."""
    gates = "GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true"
    with control_plane(tmp_path_factory.mktemp("native"), gates=gates) as running:
        yield running


async def test_a_job_set_is_placed_role_by_role(plane: ControlPlane) -> None:
    async with world(plane, replica=False) as it:
        await served(it, JOB_SETS)
        await it.start(it.replica())
        await it.leads(it.port)
        await it.nodes({"b1/r1": 3, "b1/r2": 5})

        def replicated(name: str, pods: int) -> Json:
            template: Json = {"spec": {"parallelism": pods, "completions": pods}}
            return {"name": name, "replicas": 1, "template": template}

        spec = {"replicatedJobs": [replicated("driver", 1), replicated("worker", 3)]}
        meta = {"namespace": "default", "name": "set"}
        made = await it.kube.create(JOB_SETS, {"metadata": meta, "spec": spec})

        def member(job: str, index: int) -> PodObject:
            return (
                pod(f"set-{job}-0-{index}")
                .requires("rack")
                .gpus(8)
                .labelled(
                    **{
                        "jobset.sigs.k8s.io/jobset-name": "set",
                        "jobset.sigs.k8s.io/replicatedjob-name": job,
                        "jobset.sigs.k8s.io/job-index": "0",
                        "jobset.sigs.k8s.io/jobset-uid": made["metadata"]["uid"],
                        "batch.kubernetes.io/job-completion-index": str(index),
                    }
                )
            )

        await it.make([member("driver", 0), *(member("worker", i) for i in range(2))])
        await it.refused("set-driver-0-0", "Incomplete")
        await it.make([member("worker", 2)])
        await it.whole("set-", 4)
        await it.kube.delete(JOB_SETS, "default", "set")


async def test_each_group_of_a_leader_worker_set_is_a_gang(plane: ControlPlane) -> None:
    async with world(plane, replica=False) as it:
        await served(it, LEADER_WORKER_SETS)
        await it.start(it.replica())
        await it.leads(it.port)
        await it.nodes({"b1/r1": 3, "b1/r2": 3})

        def member(group: int, rank: int) -> PodObject:
            name = f"lws-{group}" if rank == 0 else f"lws-{group}-{rank}"
            labels = {
                "leaderworkerset.sigs.k8s.io/name": "lws",
                "leaderworkerset.sigs.k8s.io/group-index": str(group),
                "leaderworkerset.sigs.k8s.io/worker-index": str(rank),
            }
            size = {"leaderworkerset.sigs.k8s.io/size": "3"}
            return pod(name).requires("rack").gpus(8).labelled(**labels).annotated(**size)

        await it.make(member(group, rank) for rank in range(3) for group in range(2))
        await it.whole("lws-0", 3)
        await it.whole("lws-1", 3)
        assert it.racks("lws-0") != it.racks("lws-1")
        nodes = [it.bound()[name] for name in ("lws-0", "lws-0-1", "lws-0-2")]
        assert nodes == sorted(nodes)


async def test_pods_above_a_pod_group_s_minimum_join_its_domain(plane: ControlPlane) -> None:
    async with world(plane, replica=False) as it:
        await served(it, POD_GROUPS)
        await it.start(it.replica())
        await it.leads(it.port)
        await it.nodes({"b1/r1": 4, "b1/r2": 4})
        meta = {"namespace": "default", "name": "grp"}
        await it.kube.create(POD_GROUPS, {"metadata": meta, "spec": {"minMember": 2}})
        label = {"scheduling.x-k8s.io/pod-group": "grp"}
        members = [pod(f"grp-{i}").requires("rack").gpus(8).labelled(**label) for i in range(4)]
        await it.make(members[:2])
        await it.whole("grp-", 2)
        await it.make(members[2:])
        await it.whole("grp-", 4)


async def test_a_native_gang_is_handed_back_untouched(plane: ControlPlane) -> None:
    """The scheduler simulates with it; nothing of ours may be reserved."""
    async with world(plane) as it:
        await it.nodes({"b1/r1": 2, "b1/r2": 4})
        group = {
            "metadata": {"namespace": "default", "name": "native"},
            "spec": {
                "schedulingPolicy": {"gang": {"minCount": 4}},
                "schedulingConstraints": {"topology": [{"key": RACK}]},
            },
        }
        await it.kube.create(NATIVE_GROUPS, group)
        members = [pod(f"native-{i}").gpus(8) for i in range(4)]
        for each in members:
            each["spec"]["schedulingGroup"] = {"podGroupName": "native"}
        await it.make(members)
        await it.whole("native-", 4)
        assert await it.placements() == []
        await it.kube.delete(NATIVE_GROUPS, "default", "native")


async def test_two_schedulers_share_one_of_us(plane: ControlPlane) -> None:
    async with world(plane) as it:
        profile: list[dict[str, Any]] = [{"schedulerName": "second"}]
        second = plane.scheduler(extenders=[extender(it.port)], profiles=profile)
        await it.start(second)
        try:
            await it.nodes({"b1/r1": 4, "b1/r2": 4})
            others = gang("other", 4)
            for each in others:
                each["spec"]["schedulerName"] = "second"
            mixed = [each for pair in zip(gang("train", 4), others, strict=True) for each in pair]
            await it.make(mixed)
            await it.whole("train", 4)
            await it.whole("other", 4)
            assert it.overcommitted() == {}
        finally:
            await asyncio.to_thread(second.stop)


async def test_room_that_preemption_nominated_is_left_alone(plane: ControlPlane) -> None:
    async with world(plane) as it:
        await it.nodes({"b1/r1": 2, "b1/r2": 2})
        nominated = pod("vip").gpus(8).gated_by("example.com/later")
        await it.make([nominated])
        status = {"status": {"nominatedNodeName": "b1-r1-x0"}}
        await it.kube.patch(PODS, "default", "vip", status, "status")
        await asyncio.sleep(0.5)
        await it.make(gang("train", 2))
        await it.whole("train", 2)
        assert set(it.racks("train")) == {"b1-r2"}
