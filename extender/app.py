"""Builds the aiohttp application: routes, size limits, lifetimes."""

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import Any

import structlog
from aiohttp import web

from extender import handlers
from stowplan.placement.cluster import Cluster, Objects
from stowplan.serving.readiness import Readiness
from stowplan.telemetry import metrics
from stowplan.topology import jit

log = structlog.get_logger()

KERNELS = "kernels"  # the part of readiness that start_kernels reports
_EXPIRE_EVERY_SECONDS = 1.0


def build_application(
    cluster: Cluster, *, body_limit_bytes: int, deadline_seconds: float
) -> web.Application:
    """Return the extender over ``cluster``.

    Args:
        cluster: what decisions read and write; only this application may change it meanwhile.
        body_limit_bytes: of one request; 15,000 long names are 0.65 MB (fact E56).
        deadline_seconds: how long a body may take to arrive; below the scheduler's ``httpTimeout``,
            or its scheduling loop waits for us (fact V14).
    """
    app = web.Application(client_max_size=body_limit_bytes)
    app[handlers.CLUSTER] = cluster
    app[handlers.STARTED] = asyncio.Event()
    app[handlers.WARNED] = []
    app[handlers.DEADLINE_SECONDS] = deadline_seconds
    app.router.add_post("/filter", handlers.filter_nodes)
    app.router.add_post("/prioritize", handlers.prioritize_nodes)
    return app


async def start_kernels(app: web.Application, readiness: Readiness) -> None:
    """Compile every kernel, or load it from the cache, before the first decision is made."""
    spent = await asyncio.to_thread(jit.warm_up)
    app[handlers.STARTED].set()
    readiness.ready(KERNELS)
    log.info("kernels ready", duration_seconds=round(spent, 3))


async def keep_ledger(cluster: Cluster) -> None:
    """Free seats that nobody came for, and show the ledger's size, for ever."""
    while True:
        for gang in cluster.expire(time.monotonic()):
            log.info("reservation expired", gang=str(gang))
        metrics.LEDGER_SEATS.set(cluster.ledger.seat_count)
        metrics.LEDGER_GANGS.set(len(cluster.ledger.reservations))
        metrics.STATE_GENERATION.set(cluster.state.generation)
        await asyncio.sleep(_EXPIRE_EVERY_SECONDS)


async def replace_cluster(cluster: Cluster, objects: Iterable[Mapping[str, Any]]) -> None:
    """Take over a new version of the cluster's objects.

    Raises:
        InvalidObjectError: the version is broken; nothing of it was taken.
    """
    cluster.replace(await asyncio.to_thread(Objects.of, objects))
