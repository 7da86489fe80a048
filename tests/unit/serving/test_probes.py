from collections.abc import AsyncIterator

import aiohttp
import pytest

from stowplan.serving.address import Address
from stowplan.serving.listener import Listener, listening
from stowplan.serving.probes import probe_application
from stowplan.serving.readiness import Readiness


@pytest.fixture
def readiness() -> Readiness:
    return Readiness("kernels", "state")


@pytest.fixture
async def session(readiness: Readiness) -> AsyncIterator[aiohttp.ClientSession]:
    probes = Listener("probes", probe_application(readiness), Address("127.0.0.1", 0))
    async with (
        listening(probes, readiness) as address,
        aiohttp.ClientSession(f"http://{address}") as session,
    ):
        yield session


async def get(session: aiohttp.ClientSession, path: str) -> tuple[int, str]:
    async with session.get(path) as response:
        return response.status, await response.text()


async def test_healthz_is_yes_while_nothing_is_ready(session: aiohttp.ClientSession) -> None:
    assert await get(session, "/healthz") == (200, "ok\n")


async def test_readyz_names_every_part_that_is_waited_for(
    session: aiohttp.ClientSession, readiness: Readiness
) -> None:
    readiness.not_ready("state", "nodes.json: must be JSON\n  see the log")
    want = "kernels: not ready yet; state: nodes.json: must be JSON see the log\n"
    assert await get(session, "/readyz") == (503, want)


async def test_readyz_is_yes_once_every_part_is_ready(
    session: aiohttp.ClientSession, readiness: Readiness
) -> None:
    readiness.ready("kernels")
    assert await get(session, "/readyz") == (503, "state: not ready yet\n")
    readiness.ready("state")
    assert await get(session, "/readyz") == (200, "ok\n")


async def test_a_part_may_stop_being_ready(
    session: aiohttp.ClientSession, readiness: Readiness
) -> None:
    readiness.ready("kernels")
    readiness.ready("state")
    readiness.not_ready("state", "too old")
    assert await get(session, "/readyz") == (503, "state: too old\n")


async def test_readyz_says_draining_and_nothing_else(
    session: aiohttp.ClientSession, readiness: Readiness
) -> None:
    readiness.start_draining()
    readiness.ready("kernels")
    assert await get(session, "/readyz") == (503, "draining\n")
    assert await get(session, "/healthz") == (200, "ok\n")


async def test_metrics_are_prometheus_text(session: aiohttp.ClientSession) -> None:
    async with session.get("/metrics") as response:
        assert response.status == 200
        assert response.headers["Content-Type"].startswith("text/plain; version=")
        assert "stowplan_build_info{" in await response.text()


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
async def test_probes_answer_head_and_refuse_to_be_posted_to(
    session: aiohttp.ClientSession, readiness: Readiness, path: str
) -> None:
    readiness.ready("kernels")
    readiness.ready("state")
    async with session.head(path) as response:
        assert response.status == 200
    async with session.post(path) as response:
        assert response.status == 405
