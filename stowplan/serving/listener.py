"""One socket, and the aiohttp application behind it."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

import structlog
from aiohttp import web

from stowplan.api.errors import InvalidObjectError, Violation
from stowplan.serving.address import Address
from stowplan.serving.draining import close_when_draining
from stowplan.serving.readiness import Readiness
from stowplan.serving.tls import ReloadingCertificate

log = structlog.get_logger()

# kube-scheduler and kube-apiserver drop idle connections after 90 s. A server must never be first:
# it might close one just as the peer writes a request that nobody repeats (facts E5, E6, A20).
KEEP_ALIVE_SECONDS = 3600.0
# How long a request that is still running may take once draining is over.
FINISH_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Listener:
    """What listens where.

    Attributes:
        name: how logs call it: ``extender``, ``probes``.
        application: built elsewhere; it must not have been started yet.
        address: where to listen; with port 0 the system chooses.
        certificate: answer over TLS with it; None for plain HTTP.
        keep_alive_seconds: how long a connection may idle.
    """

    name: str
    application: web.Application
    address: Address
    certificate: ReloadingCertificate | None = None
    keep_alive_seconds: float = KEEP_ALIVE_SECONDS


@contextlib.asynccontextmanager
async def listening(listener: Listener, readiness: Readiness) -> AsyncIterator[Address]:
    """Start the application, listen, and yield the address that was bound; at the end stop both.

    Raises:
        InvalidObjectError: when the address cannot be had.
    """
    close_when_draining(listener.application, readiness)
    runner = web.AppRunner(
        listener.application,
        access_log=None,  # decisions are logged where they are made
        keepalive_timeout=listener.keep_alive_seconds,
        shutdown_timeout=FINISH_SECONDS,
    )
    try:
        await runner.setup()
        bound = await _bind(listener, runner)
        log.info(
            "listening",
            listener=listener.name,
            address=str(bound),
            scheme="https" if listener.certificate else "http",
        )
        yield bound
    finally:
        await runner.cleanup()


async def _bind(listener: Listener, runner: web.AppRunner) -> Address:
    tls = listener.certificate.context if listener.certificate else None
    site = web.TCPSite(runner, listener.address.host, listener.address.port, ssl_context=tls)
    try:
        await site.start()
    except OSError as error:
        problem = f"must be an address that is free to listen on: {error.strerror}"
        remedy = "choose another one, or stop the process that has it"
        violation = Violation("address", "invalid", str(listener.address), problem, remedy)
        raise InvalidObjectError(f"the {listener.name} listener", [violation]) from error
    host, port = runner.addresses[0][:2]
    return Address(host, port)
