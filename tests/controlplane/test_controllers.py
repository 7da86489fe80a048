"""Gangs that the usual controllers make, with the real controllers."""

from collections.abc import Iterator
from typing import Any

import pytest

from stowplan.kube.resources import PODS, Resource
from tests.build import GPU, Json, pod
from tests.controlplane.bed import ControlPlane, control_plane
from tests.controlplane.waiting import until
from tests.controlplane.world import RACK, World, world

pytestmark = [pytest.mark.controlplane, pytest.mark.slow]

JOBS = Resource("batch", "v1", "jobs", "Job")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet")
NAMED = {"namespace": "default"}


@pytest.fixture(scope="module")
def plane(built: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane with controllers."""
    with control_plane(tmp_path_factory.mktemp("managed"), manager=True) as running:
        yield running


def template(name: str, gpus: int = 8, **annotations: str) -> Json:
    """Return a template of pods that must share a rack."""
    container = {
        "name": "main",
        "image": "registry.example.com/any:1",
        "resources": {"limits": {GPU: str(gpus)}},
    }
    asked = {"stowplan.dev/required-topology": RACK, **annotations}
    return {
        "metadata": {"labels": {"app": name}, "annotations": asked},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
    }


def job(name: str, completions: int, parallelism: int, **spec: Any) -> Json:
    pods = template(name)
    pods["spec"]["restartPolicy"] = "Never"
    counts = {"completions": completions, "parallelism": parallelism}
    whole = {"completionMode": "Indexed", "template": pods, **counts, **spec}
    return {"metadata": {**NAMED, "name": name}, "spec": whole}


async def deleted(it: World, resource: Resource, name: str) -> None:
    """Delete an owner; its pods go with it."""
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
    await it.kube.request("DELETE", resource.path("default", name), options)
    await until(lambda: not any(each.startswith(name) for each in it.pods), 60)


async def test_a_job_is_placed_in_the_order_of_its_indexes(plane: ControlPlane) -> None:
    async with world(plane) as it:
        await it.nodes({"b1/r1": 3, "b1/r2": 5})
        await it.kube.create(JOBS, job("train", 4, 4))
        await it.whole("train-", 4)
        index = "batch.kubernetes.io/job-completion-index"
        by_rank = sorted(
            (int(each["metadata"]["labels"][index]), each["spec"]["nodeName"])
            for each in it.pods.values()
        )
        assert [name for _, name in by_rank] == sorted(name for _, name in by_rank)
        (placement,) = [each for each in await it.placements() if "train" in each]
        status = await it.phase(placement, "Bound")
        assert status["where"] == "b1/r2"
        await deleted(it, JOBS, "train")
        await until(lambda: not it.pods)

        async def gone() -> bool:
            return await it.placements() == []

        await until(gone, 60)


async def test_later_waves_of_a_job_join_the_domain_of_the_first(plane: ControlPlane) -> None:
    async with world(plane) as it:
        await it.nodes({"b1/r1": 4, "b1/r2": 4})
        it.kubelet.ends = ("waves-",)
        await it.kube.create(JOBS, job("waves", 6, 2))

        async def done() -> bool:
            found = await it.kube.get(JOBS, "default", "waves")
            return (found.get("status") or {}).get("succeeded") == 6

        await until(done, 60)
        assert list(it.racks("waves-").values()) == [6]
        await deleted(it, JOBS, "waves")


@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
async def test_a_stateful_set_is_placed_whole_however_its_pods_are_made(
    plane: ControlPlane, policy: str
) -> None:
    async with world(plane) as it:
        await it.nodes({"b1/r1": 3, "b1/r2": 4})
        pods = template("db")
        whole = {
            "replicas": 4,
            "serviceName": "db",
            "podManagementPolicy": policy,
            "selector": {"matchLabels": {"app": "db"}},
            "template": pods,
        }
        await it.kube.create(STATEFUL_SETS, {"metadata": {**NAMED, "name": "db"}, "spec": whole})
        await it.whole("db-", 4, 60)
        nodes = [it.bound()[f"db-{i}"] for i in range(4)]
        assert nodes == sorted(nodes)
        # One that is made again finds its own seat.
        await it.kube.delete(PODS, "default", "db-2", grace_seconds=0)
        await until(lambda: "db-2" not in it.bound())
        await it.whole("db-", 4, 60)
        assert set(it.racks("db-")) == {"b1-r2"}
        await deleted(it, STATEFUL_SETS, "db")


async def test_a_deployment_is_placed_whole_and_a_rollout_is_a_gang_of_its_own(
    plane: ControlPlane,
) -> None:
    async with world(plane) as it:
        await it.nodes({"b1/r1": 4, "b1/r2": 4})
        whole = {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template("web"),
            "strategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
        }
        await it.kube.create(DEPLOYMENTS, {"metadata": {**NAMED, "name": "web"}, "spec": whole})
        await it.whole("web-", 3)
        (first,) = it.racks("web-")
        changed = {"metadata": {"annotations": {"example.com/version": "2"}}}
        await it.kube.patch(DEPLOYMENTS, "default", "web", {"spec": {"template": changed}})
        await until(
            lambda: list(it.racks("web-").values()) == [3] and set(it.racks("web-")) != {first}, 60
        )
        assert it.overcommitted() == {}
        await deleted(it, DEPLOYMENTS, "web")


async def test_a_controller_of_another_kind_must_name_its_gang(plane: ControlPlane) -> None:
    async with world(plane) as it:
        await it.nodes({"b1/r1": 2})
        owned = pod("custom-0").requires("rack").gpus(8)
        await it.make([owned.owned_by("Thing", "custom", "0f4c8a0e-0000-4000-8000-000000000000")])
        message = await it.refused("custom-0", "Incomplete")
        assert "a Thing states no size; name the gang with a group label" in message
