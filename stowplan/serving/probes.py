"""``/healthz``, ``/readyz`` and ``/metrics``, beside other routes or on a listener of their own."""

from aiohttp import web

from stowplan.serving.readiness import Readiness
from stowplan.telemetry import metrics

READINESS = web.AppKey("readiness", Readiness)


def add_probes(application: web.Application, readiness: Readiness) -> None:
    """Add the three routes to ``application``."""
    application[READINESS] = readiness
    application.router.add_get("/healthz", _healthz)
    application.router.add_get("/readyz", _readyz)
    application.router.add_get("/metrics", _metrics)


def probe_application(readiness: Readiness) -> web.Application:
    """Return an application of the three routes and nothing else."""
    application = web.Application()
    add_probes(application, readiness)
    return application


async def _healthz(request: web.Request) -> web.Response:
    return web.Response(text="ok\n")  # a loop that hangs never gets here


async def _readyz(request: web.Request) -> web.Response:
    problem = request.app[READINESS].problem
    if problem is None:
        return web.Response(text="ok\n")
    return web.Response(status=503, text=f"{problem}\n")


async def _metrics(request: web.Request) -> web.Response:
    headers = {"Content-Type": metrics.CONTENT_TYPE}
    return web.Response(body=metrics.exposition(), headers=headers)
