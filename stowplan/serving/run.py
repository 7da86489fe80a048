"""Runs servers from the first bound socket to the last finished request."""

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

import structlog

from stowplan.serving import tls
from stowplan.serving.address import Address
from stowplan.serving.draining import stop_signals
from stowplan.serving.listener import Listener, listening
from stowplan.serving.readiness import Readiness

log = structlog.get_logger()

T = TypeVar("T")
Background = Callable[[], Coroutine[Any, Any, None]]


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run ``main`` on a new event loop, uvloop's where there is one, and return its result."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(main)


async def serve(
    listeners: Sequence[Listener],
    readiness: Readiness,
    drain_seconds: float,
    *,
    background: Sequence[Background] = (),
    address_file: Path | None = None,
    certificate_check_seconds: float = tls.CHECK_SECONDS,
) -> None:
    """Serve until SIGTERM or SIGINT, then drain and return.

    Args:
        listeners: the first is the main one. They start in reverse order and stop in this one, so
            that probes on a listener of their own outlive what they report on.
        readiness: what ``/readyz`` answers; draining starts with the signal.
        drain_seconds: how long peers may take to leave after SIGTERM. SIGINT does not wait.
        background: runs beside the servers; one that fails ends them, and its error is raised.
        address_file: receives the bound addresses, one a line in the order of ``listeners``.
        certificate_check_seconds: how often certificate files are looked at.
    """
    certificates = [each.certificate for each in listeners if each.certificate]
    watches = [lambda c=c: c.watch(certificate_check_seconds) for c in certificates]
    async with contextlib.AsyncExitStack() as stack:
        stop = stack.enter_context(stop_signals(readiness))
        try:
            bound = await _start(stack, listeners, readiness)
        except asyncio.CancelledError:
            if not stop.asked:
                raise
            _uncancel()  # a signal came while we were starting: there is nothing to drain
            return
        stop.started()
        if address_file is not None:
            await asyncio.to_thread(_write_addresses, address_file, bound)
        await _beside([*background, *watches], stop.drained(drain_seconds))
    log.info("stopped")


async def _start(
    stack: contextlib.AsyncExitStack, listeners: Sequence[Listener], readiness: Readiness
) -> list[Address]:
    bound = [
        await stack.enter_async_context(listening(listener, readiness))
        for listener in reversed(listeners)
    ]
    return bound[::-1]


async def _beside(background: Sequence[Background], main: Coroutine[Any, Any, None]) -> None:
    """Return when ``main`` has; raise what any of ``background`` raises before."""
    waited = asyncio.create_task(main)
    tasks = {waited, *(asyncio.create_task(each()) for each in background)}
    running = tasks
    try:
        while waited in running:
            done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _uncancel() -> None:
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()


def _write_addresses(file: Path, bound: Sequence[Address]) -> None:
    """Write the file whole or not at all: somebody polls for it."""
    unfinished = file.with_name(f".{file.name}.{os.getpid()}")
    unfinished.write_text("".join(f"{address}\n" for address in bound), encoding="utf-8")
    unfinished.replace(file)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if sys.platform == "win32":
        return None
    import uvloop

    return uvloop.new_event_loop
