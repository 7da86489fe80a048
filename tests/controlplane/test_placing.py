"""Gangs placed by a real kube-scheduler that asks a process of ours; the world is looked at."""

import asyncio

import pytest

from stowplan.kube.resources import PODS
from tests.build import pod
from tests.controlplane.bed import ControlPlane
from tests.controlplane.waiting import until
from tests.controlplane.world import RACK, gang, world

pytestmark = [pytest.mark.controlplane, pytest.mark.slow]

FOUR_RACKS = {"b1/r1": 16, "b1/r2": 16, "b2/r1": 16, "b2/r2": 16}


async def test_a_gang_is_bound_into_one_rack_in_the_order_of_its_ranks(plane: ControlPlane) -> None:
    async with world(plane) as it:
        await it.nodes(FOUR_RACKS)
        await it.make(gang("train", 8))
        await it.whole("train", 8)
        nodes = [it.bound("train")[f"train-{i}"] for i in range(8)]
        assert nodes == sorted(nodes)
        status = await it.phase("pod-group.train", "Bound")
        assert status["where"] == nodes[0].rpartition("-")[0].replace("-", "/")
        assert {seat["name"]: seat["node"] for seat in status["decision"]["seats"]} == it.bound()


async def test_a_gang_that_is_too_large_waits_with_the_reason_and_starts_when_room_is_freed(
    plane: ControlPlane,
) -> None:
    async with world(plane) as it:
        await it.nodes({"b1/r1": 4, "b1/r2": 4})
        await it.make(gang("first", 3))
        await it.whole("first", 3)
        await it.make(gang("second", 4))
        await it.whole("second", 4)
        await it.make(gang("third", 3))
        message = await it.refused("third-2", "NoDomainFits")
        assert f"no {RACK} domain fits all 3 pods: nvidia.com/gpu" in message
        status = await it.phase("pod-group.third", "Waiting")
        assert status["conditions"][0]["reason"] == "NoDomainFits"
        for i in range(3):
            await it.kube.delete(PODS, "default", f"first-{i}", grace_seconds=0)
        waited = await it.whole("third", 3)
        assert waited < 3
        assert it.overcommitted() == {}


async def test_of_two_gangs_that_need_more_than_half_one_is_whole_and_one_waits_whole(
    plane: ControlPlane,
) -> None:
    async with world(plane) as it:
        await it.nodes({"b1/r1": 8})
        one, other = gang("one", 5), gang("two", 5)
        await it.make(each for pair in zip(one, other, strict=True) for each in pair)
        await until(lambda: len(it.bound()) == 5)
        await asyncio.sleep(1.0)
        assert sorted((len(it.bound("one")), len(it.bound("two")))) == [0, 5]


async def test_pods_that_ask_for_nothing_are_bound_beside_gangs(plane: ControlPlane) -> None:
    async with world(plane) as it:
        await it.nodes({"b1/r1": 2})
        await it.make(pod(f"plain-{i}").gpus(1) for i in range(4))
        await until(lambda: len(it.bound("plain")) == 4)
        await it.make(gang("train", 2, gpus=4))
        await it.whole("train", 2)
        assert it.overcommitted() == {}
