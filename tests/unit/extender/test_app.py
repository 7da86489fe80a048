"""What runs beside the handlers: kernels, the ledger's clock, new versions of the cluster."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, MutableMapping
from typing import Any

import pytest

from extender import app as extender_app
from stowplan.api.errors import InvalidObjectError
from stowplan.placement.cluster import Cluster
from stowplan.serving.readiness import Readiness
from tests.build import gang, pod
from tests.contract import go
from tests.unit.extender.served import (
    NAMES,
    RACK,
    WAIT_SECONDS,
    cluster_of,
    counted,
    encoded,
    four_nodes,
    overpromised,
    served,
)

Logged = list[MutableMapping[str, Any]]


async def until(what: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while not what():  # noqa: ASYNC110 - nothing tells when it becomes true
            await asyncio.sleep(0.005)


@contextlib.asynccontextmanager
async def kept(cluster: Cluster) -> AsyncIterator[None]:
    """Let the ledger's clock run until the block ends."""
    loops = (extender_app.keep_ledger(cluster), extender_app.keep_metrics(cluster))
    tasks = [asyncio.create_task(each) for each in loops]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_kernels_make_the_process_ready_and_are_logged(logged: Logged) -> None:
    app = extender_app.build_application(cluster_of(), body_limit_bytes=1, deadline_seconds=1.0)
    readiness = Readiness(extender_app.KERNELS)
    await extender_app.start_kernels(app, readiness)
    assert readiness.problem is None
    assert [entry["event"] for entry in logged] == ["compiling kernels", "kernels ready"]


async def test_seats_that_nobody_comes_for_are_freed_logged_and_measured(logged: Logged) -> None:
    cluster = cluster_of(*four_nodes(), keep_seconds=0.05)
    pods = gang("train", 2, rack=RACK)
    async with served(cluster) as extender, kept(cluster):
        for each in pods:
            await extender.post("filter", encoded(each))
        await until(lambda: not cluster.ledger.reservations)
        assert cluster.ledger.seat_count == 0
    async with kept(cluster):
        await until(lambda: counted("stowplan_ledger_gangs") == 0)
    assert counted("stowplan_ledger_seats") == 0
    assert counted("stowplan_state_generation") == cluster.state.generation
    (entry,) = (entry for entry in logged if entry["event"] == "reservation expired")
    assert entry["gang"] == "default/train"
    assert overpromised(cluster) == []


async def test_what_callers_left_behind_goes_with_them() -> None:
    """Pods that no file ever names come and go for months: none of them may stay in memory."""
    cluster = cluster_of(*four_nodes(), keep_seconds=0.001)
    async with served(cluster) as extender:
        for i in range(20):
            await extender.post("filter", encoded(pod(f"big-{i}").requires(RACK).gpus(99)))
            await extender.post("filter", encoded(pod(f"small-{i}").requires(RACK).gpus(1)))
    async with kept(cluster):
        await until(lambda: not cluster.ledger.reservations)
    cluster.expire(asyncio.get_running_loop().time() + 1e6)
    assert cluster.refusals == {}


async def test_a_new_version_is_taken_over_and_seats_stay() -> None:
    pods = gang("train", 2, rack=RACK)
    cluster = cluster_of(*four_nodes(), *pods)
    async with served(cluster) as extender:
        before = go.filter_result(await extender.post("filter", encoded(pods[0]))).only_node
        more = pod("busy").gpus(8).on(next(n for n in NAMES if n[:5] != str(before)[:5]))
        await extender_app.replace_cluster(cluster, [*four_nodes(), *pods, more])
        after = go.filter_result(await extender.post("filter", encoded(pods[0]))).only_node
        assert after == before
        assert cluster.ledger.seat_count == 2
        refused = gang("wide", 2, rack=RACK)
        await extender.post("filter", encoded(refused[0]))
        found = go.filter_result(await extender.post("filter", encoded(refused[1])))
        assert found.reason.startswith("stowplan NoDomainFits")
        assert overpromised(cluster) == []


async def test_a_broken_version_is_refused_whole() -> None:
    cluster = cluster_of(*four_nodes())
    generation = cluster.state.generation
    broken = four_nodes()[:1]
    broken[0].offering(cpu="many")
    with pytest.raises(InvalidObjectError, match="must be a quantity"):
        await extender_app.replace_cluster(cluster, [*broken, pod("x").on(NAMES[0])])
    assert cluster.state.generation == generation
    assert sorted(cluster.state.nodes) == sorted(NAMES)
    assert cluster.state.pods == {}


async def test_a_gang_whose_pods_are_gone_gives_its_seats_back() -> None:
    pods = gang("train", 2, rack=RACK)
    cluster = cluster_of(*four_nodes(), *pods)
    async with served(cluster) as extender:
        await extender.post("filter", encoded(pods[0]))
        assert cluster.ledger.seat_count == 2
        await extender_app.replace_cluster(cluster, four_nodes())
        assert cluster.ledger.seat_count == 0
        assert overpromised(cluster) == []


async def test_a_node_that_vanishes_under_a_seat_is_left_and_the_seat_moves() -> None:
    each = pod("solo").requires(RACK).gpus(8)
    cluster = cluster_of(*four_nodes(), each)
    async with served(cluster) as extender:
        before = go.filter_result(await extender.post("filter", encoded(each))).only_node
        left = [n for n in four_nodes() if n["metadata"]["name"] != before]
        await extender_app.replace_cluster(cluster, [*left, each])
        names = [n["metadata"]["name"] for n in left]
        after = go.filter_result(await extender.post("filter", encoded(each, names)))
        assert after.only_node in names, after
        assert overpromised(cluster) == []
