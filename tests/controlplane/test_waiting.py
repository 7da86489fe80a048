"""Pods that wait: what it costs, what wakes them, and that their reason stands still."""

import asyncio
import random

import pytest

from stowplan.kube.resources import PODS
from tests.build import pod
from tests.controlplane.bed import ControlPlane
from tests.controlplane.waiting import until
from tests.controlplane.world import gang, world

pytestmark = [pytest.mark.controlplane, pytest.mark.slow]


async def test_twenty_gangs_at_once_are_whole_in_one_rack_or_not_bound_at_all(
    plane: ControlPlane,
) -> None:
    async with world(plane) as it:
        await it.nodes({f"b{b}/r{r}": 16 for b in range(4) for r in range(8)})
        sizes = {f"gang{i:02}": random.Random(i).choice((2, 4, 8, 12, 16)) for i in range(20)}
        sizes |= {"huge": 17}  # no rack has so many nodes
        members = [each for name, size in sizes.items() for each in gang(name, size)]
        random.Random(7).shuffle(members)
        await it.make(members)
        must = sum(size for name, size in sizes.items() if name != "huge")
        await until(lambda: len(it.bound("gang")) == must, 60)
        await it.refused("huge-0", "NoDomainFits")
        for name, size in sizes.items():
            assert list(it.racks(name).values()) == ([] if name == "huge" else [size])
        assert it.overcommitted() == {}


async def test_a_reason_does_not_change_and_is_answered_from_memory(plane: ControlPlane) -> None:
    """Each of 500 events of other pods makes the scheduler try the refused pods again."""
    async with world(plane) as it:
        await it.nodes({"b1/r1": 4})
        await it.make(gang("large", 5))
        first = {each: await it.refused(each, "NoDomainFits") for each in ("large-0", "large-4")}
        changed = {name: _since(it.pods[name]) for name in first}
        await it.make(pod(f"busy-{i}").asking(cpu="1") for i in range(10))
        await until(lambda: len(it.bound("busy")) == 10)
        judged = it.counted("stowplan_decision_duration_seconds_count")
        for i in range(500):
            mark = {"metadata": {"annotations": {"example.com/event": str(i)}}}
            await it.kube.patch(PODS, "default", f"busy-{i % 10}", mark)
        await asyncio.sleep(1.0)
        assert {name: it.message(name) for name in first} == first
        assert {name: _since(it.pods[name]) for name in first} == changed
        assert it.counted("stowplan_decision_duration_seconds_count") > judged
        events = [each for each in it.logged(0) if each["event"] == "gang refused"]
        reasons = [each["reason"] for each in events if "NoDomainFits" in each["reason"]]
        assert len(set(reasons)) == 1
        assert len(reasons) < 20


def _since(pod: dict[str, object]) -> object:
    status = pod["status"]
    assert isinstance(status, dict)
    return [c["lastTransitionTime"] for c in status["conditions"] if c["type"] == "PodScheduled"]


async def test_a_gang_that_becomes_complete_wakes_the_pods_that_waited_for_it(
    plane: ControlPlane,
) -> None:
    async with world(plane) as it:
        await it.nodes({"b1/r1": 4})
        members = gang("train", 3)
        await it.make(members[:2])
        for name in ("train-0", "train-1"):
            await it.refused(name, "Incomplete")
        status = await it.phase("pod-group.train", "Incomplete")
        assert status["conditions"][0]["message"] == "waiting for the other pods of the gang"
        await it.make(members[2:])
        assert await it.whole("train", 3) < 3


async def test_a_typo_in_a_level_is_told_with_the_levels_that_there_are(
    plane: ControlPlane,
) -> None:
    async with world(plane) as it:
        await it.nodes({"b1/r1": 2})
        await it.make(gang("typo", 2, level="rak"))
        message = await it.refused("typo-0", "LevelUnknown")
        assert "no level 'topology.example.com/rak'; levels are " in message


async def test_a_placement_goes_with_its_gang(plane: ControlPlane) -> None:
    async with world(plane) as it:
        await it.nodes({"b1/r1": 2})
        await it.make(gang("train", 2))
        await it.phase("pod-group.train", "Bound")
        for name in ("train-0", "train-1"):
            await it.kube.delete(PODS, "default", name, grace_seconds=0)

        async def gone() -> bool:
            return await it.placement("pod-group.train") == {}

        await until(gone)


async def test_seats_of_pods_that_do_not_come_are_given_up(plane: ControlPlane) -> None:
    """The scheduler is stopped before it could bind what it was told."""
    async with world(plane, "--reservation-seconds", "2") as it:
        await it.nodes({"b1/r1": 2})
        first, last = gang("train", 2)
        await it.make([first, last.gated_by("example.com/later")])
        await until(lambda: len(it.bound("train")) == 1)
        await it.make(gang("other", 1))
        await it.refused("other-0", "NoDomainFits")
        await it.kube.delete(PODS, "default", "train-0", grace_seconds=0)
        await it.whole("other", 1)
