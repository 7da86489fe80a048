"""The way out: ask peers to leave, give them time, then stop.

kube-scheduler does not repeat a call that dies because we close its idle connection (fact E6), so
while draining every response says ``Connection: close`` and the peer opens its next one elsewhere.
"""

import asyncio
import contextlib
import signal
from collections.abc import Iterator

import structlog
from aiohttp import web

from stowplan.serving.readiness import Readiness

log = structlog.get_logger()


def close_when_draining(application: web.Application, readiness: Readiness) -> None:
    """Make every response of ``application`` end its connection while ``readiness`` drains."""

    async def close(request: web.Request, response: web.StreamResponse) -> None:
        if readiness.draining:
            response.force_close()
            response.headers["Connection"] = "close"  # by now the headers are made

    application.on_response_prepare.append(close)


class Stop:
    """What signals have asked for: to drain and stop, or to stop at once."""

    def __init__(self, readiness: Readiness) -> None:
        """Start draining ``readiness`` with the first signal."""
        self._readiness = readiness
        self._asked = asyncio.Event()
        self._at_once = asyncio.Event()
        self._starting = asyncio.current_task()

    @property
    def asked(self) -> bool:
        """Whether a signal has come."""
        return self._asked.is_set()

    def started(self) -> None:
        """Say that there is something to drain; before, a signal cancels the task that starts."""
        self._starting = None

    def receive(self, name: signal.Signals) -> None:
        """Act on a signal: SIGTERM drains; SIGINT, or any second signal, stops at once."""
        if self.asked or name == signal.SIGINT:
            self._at_once.set()
        if not self.asked and self._starting is not None:
            self._starting.cancel()
        self._asked.set()
        self._readiness.start_draining()
        log.info("stop requested", signal=name.name)

    async def drained(self, drain_seconds: float) -> None:
        """Return when a signal has come and peers have had ``drain_seconds`` to leave."""
        await self._asked.wait()
        log.info("draining", drain_seconds=drain_seconds)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(drain_seconds):
                await self._at_once.wait()


@contextlib.contextmanager
def stop_signals(readiness: Readiness) -> Iterator[Stop]:
    """Listen to SIGTERM and SIGINT; call it in the task that starts the servers."""
    loop = asyncio.get_running_loop()
    stop = Stop(readiness)
    names = (signal.SIGTERM, signal.SIGINT)
    for name in names:
        loop.add_signal_handler(name, stop.receive, name)
    try:
        yield stop
    finally:
        for name in names:
            loop.remove_signal_handler(name)
