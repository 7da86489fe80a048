import asyncio
import socket
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from stowplan.api.errors import InvalidObjectError
from stowplan.serving.address import Address
from stowplan.serving.listener import KEEP_ALIVE_SECONDS, Listener, listening
from stowplan.serving.readiness import Readiness
from tests.unit.serving.wire import DEADLINE_SECONDS, exchange

ANYWHERE = Address("127.0.0.1", 0)


def application() -> web.Application:
    async def hello(request: web.Request) -> web.Response:
        return web.Response(text="hello")

    app = web.Application()
    app.router.add_get("/hello", hello)
    return app


async def test_the_bound_address_is_logged_and_yielded() -> None:
    with capture_logs() as logged:
        async with listening(Listener("main", application(), ANYWHERE), Readiness()) as bound:
            assert bound.port > 0
    assert {
        "event": "listening",
        "listener": "main",
        "address": str(bound),
        "scheme": "http",
        "log_level": "info",
    } in logged


async def test_one_connection_carries_many_requests() -> None:
    async with listening(Listener("main", application(), ANYWHERE), Readiness()) as bound:
        reader, writer = await asyncio.open_connection(bound.host, bound.port)
        for _ in range(3):
            head = await exchange(reader, writer, "/hello")
            assert head.startswith(b"HTTP/1.1 200")
            assert b"connection: close" not in head.lower()
        writer.close()


def test_an_idle_connection_outlives_the_patience_of_every_peer() -> None:
    assert Listener("main", application(), ANYWHERE).keep_alive_seconds == KEEP_ALIVE_SECONDS
    assert KEEP_ALIVE_SECONDS > 90


async def test_an_idle_connection_is_closed_after_keep_alive_seconds() -> None:
    brief = Listener("main", application(), ANYWHERE, keep_alive_seconds=0.05)
    async with listening(brief, Readiness()) as bound, asyncio.timeout(DEADLINE_SECONDS):
        reader, writer = await asyncio.open_connection(bound.host, bound.port)
        await exchange(reader, writer, "/hello")
        assert await reader.read() == b""
        writer.close()


@pytest.mark.parametrize(
    ("path", "want_status"),
    [
        pytest.param("/hello", b"200", id="an answer"),
        pytest.param("/nothing", b"404", id="an unknown path"),
    ],
)
async def test_while_draining_every_answer_closes_its_connection(
    path: str, want_status: bytes
) -> None:
    readiness = Readiness()
    async with (
        listening(Listener("main", application(), ANYWHERE), readiness) as bound,
        asyncio.timeout(DEADLINE_SECONDS),
    ):
        reader, writer = await asyncio.open_connection(bound.host, bound.port)
        await exchange(reader, writer, path)
        readiness.start_draining()
        head = await exchange(reader, writer, path)
        assert head.startswith(b"HTTP/1.1 " + want_status)
        assert b"\r\nconnection: close\r\n" in head.lower()
        assert await reader.read() == b""
        writer.close()


async def test_an_address_in_use_is_refused_with_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = Address("127.0.0.1", taken.getsockname()[1])
        with pytest.raises(InvalidObjectError) as refused:
            async with listening(Listener("main", application(), address), Readiness()):
                pytest.fail("it listened")
    [violation] = refused.value.violations
    assert "in use" in violation.problem
    assert violation.value == str(address)
    assert refused.value.what == "the main listener"


async def test_an_application_that_cannot_start_is_cleaned_up() -> None:
    ended: list[str] = []

    async def first(app: web.Application) -> AsyncIterator[None]:
        yield
        ended.append("first")

    async def second(app: web.Application) -> AsyncIterator[None]:
        raise LookupError("no state")
        yield

    app = application()
    app.cleanup_ctx.extend([first, second])
    with pytest.raises(LookupError, match="no state"):
        async with listening(Listener("main", app, ANYWHERE), Readiness()):
            pytest.fail("it listened")
    assert ended == ["first"]
