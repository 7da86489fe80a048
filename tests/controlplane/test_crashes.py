"""Replicas that are killed, stopped and replaced in the middle of a gang."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest

from stowplan.kube.resources import PLACEMENTS
from tests.build import PodObject
from tests.controlplane.bed import Child, ControlPlane
from tests.controlplane.forwarder import forwarder
from tests.controlplane.gatekeeper import gatekeeper
from tests.controlplane.waiting import until
from tests.controlplane.world import LEASE_SECONDS, World, gang, world

pytestmark = [pytest.mark.controlplane, pytest.mark.slow]

GATE = "example.com/later"


def halves(name: str, size: int) -> tuple[list[PodObject], list[PodObject]]:
    """Return a gang of which half is held up by a gate of somebody else's."""
    members = gang(name, size)
    return members[: size // 2], [each.gated_by(GATE) for each in members[size // 2 :]]


async def test_the_rest_of_a_gang_lands_in_its_domain_after_a_crash(plane: ControlPlane) -> None:
    async with world(plane) as it:
        await it.nodes({"b1/r1": 8, "b1/r2": 16})
        first, rest = halves("train", 8)
        await it.make(rest + first)
        await until(lambda: len(it.bound("train")) == 4)
        (rack,) = it.racks("train")
        it.replicas[0].kill()
        other = gang("other", 2)  # would fit between, and must not take the seats of the rest
        await it.make(other)
        await it.ungate(rest)
        await it.start(it.replica())
        await it.whole("train", 8)
        assert it.racks("train") == {rack: 8}
        await it.whole("other", 2)
        assert it.overcommitted() == {}
        await it.phase("pod-group.train", "Bound")


@contextlib.asynccontextmanager
async def two_replicas(plane: ControlPlane) -> AsyncIterator[tuple[World, dict[str, Child]]]:
    async with world(plane, replica=False) as it, forwarder(it.port, it.port_of_leader):
        replicas = {name: await it.replica_in_a_pod(name) for name in ("ours-0", "ours-1")}
        await until(lambda: it.leader() is not None)
        yield it, replicas


async def test_another_replica_takes_over_in_the_middle_of_a_gang(plane: ControlPlane) -> None:
    async with two_replicas(plane) as (it, replicas):
        await it.nodes({"b1/r1": 8, "b1/r2": 16})
        first, rest = halves("train", 8)
        await it.make(rest + first)
        await until(lambda: len(it.bound("train")) == 4)
        (rack,) = it.racks("train")
        led = it.leader()
        assert led is not None
        replicas[led].kill()
        await it.ungate(rest)
        await it.whole("train", 8)
        assert it.racks("train") == {rack: 8}
        assert it.leader() != led


@pytest.mark.parametrize("write", [1, 2, 3])
async def test_a_leader_that_is_stopped_past_its_lease_and_wakes_up_changes_nothing(
    plane: ControlPlane, write: int
) -> None:
    """It is stopped while its n-th write of a Placement is under way."""
    async with two_replicas(plane) as (it, replicas):
        await it.nodes({"b1/r1": 4, "b1/r2": 4, "b2/r1": 4})
        led = it.leader()
        assert led is not None
        writes = 0

        def seen(_: dict[str, Any]) -> None:
            nonlocal writes
            writes += 1
            if writes == write:
                replicas[led].signal(signal.SIGSTOP)

        async with gatekeeper(plane, it.kube, seen):
            await it.make(gang("one", 3) + gang("two", 3))
            await until(lambda: writes >= write)
            await until(lambda: it.leader() != led)
            replicas[led].signal(signal.SIGCONT)
            await it.whole("one", 3)
            await it.whole("two", 3)
            await asyncio.sleep(LEASE_SECONDS)
        assert it.overcommitted() == {}
        for name in ("one", "two"):
            status = await it.phase(f"pod-group.{name}", "Bound")
            seats = {seat["name"]: seat["node"] for seat in status["decision"]["seats"]}
            assert seats == it.bound(name)
        assert len(await it.kube.list(PLACEMENTS)) == 2
