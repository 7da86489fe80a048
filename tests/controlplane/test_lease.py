"""Electors against a real kube-apiserver: at most one leads, and somebody does."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stowplan.kube.access import Kubeconfig
from stowplan.kube.client import Kube
from stowplan.kube.lease import Elector, Terms
from stowplan.kube.resources import LEASES
from tests.controlplane.bed import control_plane
from tests.controlplane.waiting import until

pytestmark = pytest.mark.controlplane

TERMS = Terms(lease_seconds=2.0, renew_seconds=1.3, retry_seconds=0.2)


class Candidate:
    """An elector, with the numbers of its terms and whether its work runs."""

    def __init__(self, kube: Kube, lease: str, identity: str) -> None:
        self.elector = Elector(kube, "default", lease, identity, TERMS)
        self.epochs: list[int] = []
        self.works = False
        self.fails = asyncio.Event()
        self.task = asyncio.create_task(self.elector.run(self._lead))

    async def _lead(self, epoch: int) -> None:
        self.epochs.append(epoch)
        self.works = True
        try:
            await self.fails.wait()
            raise ValueError("the work failed")
        finally:
            self.works = False

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.wait((self.task,))


@contextlib.asynccontextmanager
async def candidates(kube: Kube, lease: str, *names: str) -> AsyncIterator[list[Candidate]]:
    """Several of them, the first of which leads already."""
    made: list[Candidate] = []
    try:
        for name in names:
            made.append(Candidate(kube, lease, name))
            await until(lambda: made[0].works)
        yield made
    finally:
        for each in made:
            await each.stop()


async def test_one_leads_and_the_next_does_when_it_leaves(kube: Kube) -> None:
    async with candidates(kube, "leave", "one", "two", "three") as (one, two, three):
        assert one.elector.holds()
        await asyncio.sleep(TERMS.lease_seconds + 0.5)
        assert (one.epochs, two.epochs, three.epochs) == ([0], [], [])
        await one.stop()
        assert not one.works
        waited = await until(lambda: two.works or three.works)
        assert waited < TERMS.lease_seconds - 0.2  # it was given back
        assert two.works != three.works
        assert sorted(two.epochs + three.epochs) == [1]
        spec = (await kube.get(LEASES, "default", "leave"))["spec"]
        assert spec["leaseTransitions"] == 1


async def test_work_that_fails_gives_the_lease_back(kube: Kube) -> None:
    async with candidates(kube, "fail", "one", "two") as (one, two):
        one.fails.set()
        with pytest.raises(ValueError, match="the work failed"):
            await one.task
        await until(lambda: two.works)
        assert (one.epochs, two.epochs) == ([0], [1])


async def test_a_lease_that_another_took_is_no_longer_ours(kube: Kube) -> None:
    async with candidates(kube, "stolen", "one") as (one,):
        lease = await kube.get(LEASES, "default", "stolen")
        stolen = {**lease["spec"], "holderIdentity": "thief", "leaseTransitions": 7}
        for _ in range(20):  # it is renewed all the time, so this may conflict
            with contextlib.suppress(Exception):
                await kube.patch(LEASES, "default", "stolen", {"spec": stolen})
                break
        await until(lambda: not one.works)
        await until(lambda: one.works)  # the thief does not renew it
        assert one.epochs == [0, 8]


async def test_a_lease_that_somebody_deletes_is_taken_again(kube: Kube) -> None:
    async with candidates(kube, "deleted", "one") as (one,):
        await kube.delete(LEASES, "default", "deleted")
        await until(lambda: len(one.epochs) == 2)
        assert one.epochs == [0, 1]


async def test_who_cannot_reach_the_server_stops_before_others_may_begin(
    built: None, tmp_path: Path
) -> None:
    with control_plane(tmp_path) as plane:
        async with (
            Kube(Kubeconfig((plane.admin,))) as kube,
            candidates(kube, "away", "one") as (one,),
        ):
            await asyncio.to_thread(plane.apiserver.kill)
            waited = await until(lambda: not one.works)
            assert waited < TERMS.lease_seconds
            assert not one.elector.holds()
            await asyncio.to_thread(plane.apiserver.start)
            await until(lambda: one.works)
            assert one.epochs == [0, 1]
