"""What is down: the API server, the history of etcd, we ourselves."""

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from stowplan.kube.resources import PODS
from tests.build import PodObject, pod
from tests.controlplane.bed import (
    ControlPlane,
    compact,
    control_plane,
    free_port,
    kubeconfig_of,
)
from tests.controlplane.forwarder import forwarder
from tests.controlplane.waiting import until
from tests.controlplane.world import NAMESPACE, extender, gang, world

pytestmark = [pytest.mark.controlplane, pytest.mark.slow]

MARKER = "stowplan.dev/filter-time"


@pytest.fixture
def fragile(built: None, tmp_path: Path) -> Iterator[ControlPlane]:
    """A control plane of this test alone."""
    with control_plane(tmp_path) as running:
        yield running


def marked(pods: list[PodObject]) -> list[PodObject]:
    """Let kube-scheduler ask us about pods."""
    return [each.asking(**{MARKER: "1"}) for each in pods]


def only_marked(port: int) -> dict[str, object]:
    """Return a configuration by which we are asked about no other pod."""
    managed = [{"name": MARKER, "ignoredByScheduler": True}]
    return {"extenders": [extender(port, managedResources=managed)]}


async def test_a_server_that_is_away_and_forgets_its_history_loses_no_gang(
    fragile: ControlPlane,
) -> None:
    async with world(fragile) as it:
        await it.nodes({"b1/r1": 4, "b1/r2": 4})
        await it.make(gang("before", 3))
        await it.whole("before", 3)
        members = gang("across", 4)
        await it.make(members[:2])
        await it.refused("across-0", "Incomplete")
        await asyncio.to_thread(fragile.apiserver.kill)
        await asyncio.to_thread(compact, fragile)
        await asyncio.sleep(20)
        await asyncio.to_thread(fragile.apiserver.start)
        await until(lambda: it.kubelet.follows())
        await it.make(members[2:])
        await it.whole("across", 4, 60)
        assert len(it.bound("before")) == 3
        assert it.overcommitted() == {}
        assert it.replicas[0].process is not None
        assert it.replicas[0].process.poll() is None


async def test_with_the_marker_we_are_asked_about_no_other_pod_and_nobody_misses_us(
    plane: ControlPlane,
) -> None:
    async with world(plane, configuration=only_marked) as it:
        await it.nodes({"b1/r1": 4})
        await it.make(pod(f"plain-{i}").asking(cpu="1") for i in range(8))
        await until(lambda: len(it.bound("plain")) == 8)
        assert it.counted("stowplan_decisions_total") == 0
        await it.make(marked(gang("train", 2)))
        await it.whole("train", 2)
        assert it.counted("stowplan_decisions_total") > 0
        it.replicas[0].kill()
        await it.make(marked(gang("later", 1)))
        await it.make(pod(f"more-{i}").asking(cpu="1") for i in range(8))
        assert await until(lambda: len(it.bound("more")) == 8) < 5
        assert it.bound("later") == {}
        await it.start(it.replica())
        await it.whole("later", 1)


async def test_a_process_that_hangs_holds_the_scheduler_for_a_second_a_try(
    plane: ControlPlane,
) -> None:
    async with world(plane, configuration=only_marked) as it:
        await it.nodes({"b1/r1": 4})
        it.replicas[0].signal(signal.SIGSTOP)
        await it.make(marked(gang("train", 2)))
        await asyncio.sleep(0.2)
        for i in range(5):
            await it.make([pod(f"plain-{i}").asking(cpu="1")])
            assert await until(lambda name=f"plain-{i}": name in it.bound()) < 3
        it.replicas[0].signal(signal.SIGCONT)
        await it.whole("train", 2)


def by_another_way(plane: ControlPlane, port: int) -> tuple[str, str]:
    """Return the flag of a kubeconfig that leads to the API server by another port."""
    kubeconfig = plane.folder / f"by-port-{port}.kubeconfig"
    user = plane.authority.issue(f"system:serviceaccount:{NAMESPACE}:stowplan")
    kubeconfig.write_text(kubeconfig_of(f"https://127.0.0.1:{port}", plane.authority, user))
    return "--kubeconfig", str(kubeconfig)


async def test_a_picture_that_is_too_old_is_no_ground_for_a_decision(plane: ControlPlane) -> None:
    """The scheduler still reaches the API server; we do not."""
    way, there = free_port(), [plane.port]
    async with (
        forwarder(way, lambda: there[0] if there else None) as cut,
        world(plane, replica=False) as it,
    ):
        await it.start(it.replica("--stale-after-seconds", "1", *by_another_way(plane, way)))
        await it.leads(it.port)
        await it.nodes({"b1/r1": 2})
        await it.make(gang("before", 1))
        await it.whole("before", 1)
        there.clear()
        cut()
        await asyncio.sleep(2)
        await it.make([*gang("train", 1), pod("plain").asking(cpu="1")])
        await it.refused("train-0", "StateStale")
        await until(lambda: "plain" in it.bound())
        there.append(plane.port)
        await it.whole("train", 1)


async def test_room_that_the_scheduler_saw_before_we_did_wakes_who_was_refused_meanwhile(
    plane: ControlPlane,
) -> None:
    """What the API server tells us comes a quarter of a second late (fact V5)."""
    way = free_port()
    async with (
        forwarder(way, lambda: plane.port, lag_seconds=0.25),
        world(plane, replica=False) as it,
    ):
        await it.start(it.replica(*by_another_way(plane, way)))
        await it.leads(it.port)
        await it.nodes({"b1/r1": 3, "b1/r2": 1})
        await until(lambda: it.counted("stowplan_state_generation") >= 4)
        await it.make(gang("first", 3))
        await it.whole("first", 3)
        await it.make(gang("second", 3))
        await it.refused("second-2", "NoDomainFits")
        for i in range(3):
            await it.kube.delete(PODS, "default", f"first-{i}", grace_seconds=0)
        assert await it.whole("second", 3) < 3
        assert any(each["event"] == "gang woken" for each in it.logged(0))
