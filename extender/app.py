"""Builds the aiohttp application: routes, size limits, lifetimes."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import structlog
from aiohttp import web

from extender import handlers
from extender.authority import Alone, Authority
from stowplan.api.objects import Json, Object
from stowplan.placement.cluster import Cluster, Objects
from stowplan.serving.readiness import Readiness
from stowplan.telemetry import metrics
from stowplan.topology import jit

log = structlog.get_logger()

KERNELS = "kernels"  # the part of readiness that start_kernels reports
_EVERY_SECONDS = 1.0


def build_application(
    cluster: Cluster,
    *,
    body_limit_bytes: int,
    deadline_seconds: float,
    authority: Authority | None = None,
) -> web.Application:
    """Return the extender over ``cluster``.

    Args:
        cluster: what decisions read and write; only this application may change it meanwhile.
        body_limit_bytes: of one request; 15,000 long names are 0.65 MB (fact E56).
        deadline_seconds: how long a body may take to arrive; below the scheduler's ``httpTimeout``,
            or its scheduling loop waits for us (fact V14). As long again for a decision to be
            written down.
        authority: who may decide; None where nobody else does, and nothing is written down.
    """
    app = web.Application(client_max_size=body_limit_bytes)
    app[handlers.CLUSTER] = cluster
    app[handlers.STARTED] = asyncio.Event()
    app[handlers.WARNED] = []
    app[handlers.DEADLINE_SECONDS] = deadline_seconds
    app[handlers.AUTHORITY] = authority or Alone()
    app.router.add_post("/filter", handlers.filter_nodes)
    app.router.add_post("/prioritize", handlers.prioritize_nodes)
    return app


async def start_kernels(app: web.Application, readiness: Readiness) -> None:
    """Compile every kernel, or load it from the cache, before the first decision is made."""
    log.info("compiling kernels", note="half a minute the first time, then from the cache")
    spent = await _in_daemon_thread(jit.warm_up)
    app[handlers.STARTED].set()
    readiness.ready(KERNELS)
    log.info("kernels ready", duration_seconds=round(spent, 3))


async def _in_daemon_thread(work: Callable[[], float]) -> float:
    """Return what ``work`` does; unlike asyncio's own threads it does not hold up the exit."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[float] = loop.create_future()

    def run() -> None:
        try:
            result = work()
        except BaseException as error:
            settle(done.set_exception, error)
        else:
            settle(done.set_result, result)

    def settle(how: Callable[[Any], None], outcome: object) -> None:
        def once() -> None:
            if not done.done():
                how(outcome)

        with contextlib.suppress(RuntimeError):  # the loop has closed: nobody waits any more
            loop.call_soon_threadsafe(once)

    threading.Thread(target=run, name="kernels", daemon=True).start()
    return await done


def tell_cluster(cluster: Cluster) -> None:
    """Log what was loaded, and which levels the nodes lack: such nodes are not used at all."""
    state = cluster.state
    nodes = state.nodes.values()
    log.info(
        "cluster loaded",
        nodes=len(state.nodes),
        nodes_in_tree=len(state.view().tree.nodes),
        pods=len(state.pods),
        owners=len(cluster.owners.known),
    )
    for key in state.levels.keys:
        lacking = sum(key not in node.labels for node in nodes)
        if lacking:
            every = lacking == len(state.nodes)
            what = "no node carries a level" if every else "nodes lack a level and are not used"
            log.warning(what, topology_level=key, nodes=lacking)


async def keep_ledger(cluster: Cluster) -> None:
    """Free seats that nobody came for, for ever."""
    while True:
        for gang in cluster.expire(time.monotonic()):
            log.info("reservation expired", gang=str(gang))
        await asyncio.sleep(_EVERY_SECONDS)


async def keep_metrics(cluster: Cluster) -> None:
    """Show the ledger's size and how far the picture has come, for ever."""
    while True:
        metrics.LEDGER_SEATS.set(cluster.ledger.seat_count)
        metrics.LEDGER_GANGS.set(len(cluster.ledger.reservations))
        metrics.STATE_GENERATION.set(cluster.state.generation)
        await asyncio.sleep(_EVERY_SECONDS)


async def replace_cluster(cluster: Cluster, objects: Iterable[Object | Json]) -> None:
    """Take over a new version of the cluster's objects.

    Raises:
        InvalidObjectError: the version is broken; nothing of it was taken.
    """
    cluster.replace(await asyncio.to_thread(Objects.of, objects))
    tell_cluster(cluster)
