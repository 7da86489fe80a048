"""The server of the filter bench: the real application, a null handler, and who it is.

Started by ``bench.filtering`` as a process of its own: ``python -m bench.server NODES GANGS CPU``.
It prints its port, and ends when its standard input does, so it cannot outlive its parent.
"""

import asyncio
import gc
import os
import sys
import time
from pathlib import Path

import orjson
from aiohttp import web

from bench.calls import FRESH, GANG_SIZE, HOPELESS, SEATED
from bench.clusters import cluster, pods
from extender import handlers
from extender.app import build_application
from stowplan.placement.cluster import Cluster
from stowplan.serving.address import Address
from stowplan.serving.listener import Listener, listening
from stowplan.serving.readiness import Readiness
from stowplan.serving.run import run
from stowplan.telemetry import logs
from stowplan.topology import jit

_BODY_LIMIT = 16 << 20
_LONGEST_SECONDS = 300.0


async def null(request: web.Request) -> web.Response:
    """Parse the whole body and echo all names: what any handler of this kind would pay."""
    args = orjson.loads(await request.read())
    answer = {
        "NodeNames": args["NodeNames"],
        "Nodes": None,
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }
    return web.Response(body=orjson.dumps(answer), content_type="application/json")


async def who(request: web.Request) -> web.Response:
    """Say who answers, and how much CPU time it has used."""
    loop = asyncio.get_running_loop()
    return web.json_response(
        {
            "pid": os.getpid(),
            "nodes": len(request.app[handlers.CLUSTER].state.nodes),
            "loop": type(loop).__module__.partition(".")[0],
            "cpu_ns": time.process_time_ns(),
        }
    )


async def free(request: web.Request) -> web.Response:
    """Take the seats of the fresh gangs away, so that they can be placed again."""
    ledger = request.app[handlers.CLUSTER].ledger
    placed = [gang for gang in ledger.reservations if gang.name.startswith(FRESH)]
    for gang in placed:
        ledger.free(gang)
    return web.json_response({"freed": len(placed)})


def _cluster(nodes: int, gangs: int) -> Cluster:
    made = cluster(nodes)
    waiting = [*(f"{FRESH}-{number}" for number in range(gangs)), SEATED]
    for pod in (pod for gang in waiting for pod in pods(gang, GANG_SIZE)):
        made.set_pod(pod)
    for pod in pods(HOPELESS, 16, gpus=8):
        made.set_pod(pod)
    return made


def _application(nodes: int, gangs: int) -> web.Application:
    app = build_application(
        _cluster(nodes, gangs), body_limit_bytes=_BODY_LIMIT, deadline_seconds=0.8
    )
    app[handlers.STARTED].set()
    app.router.add_post("/bench/null", null)
    app.router.add_get("/bench/who", who)
    app.router.add_post("/bench/free", free)
    return app


async def _until_parent_ends() -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async with asyncio.timeout(_LONGEST_SECONDS):
        await reader.read()


async def _serve(application: web.Application) -> None:
    listener = Listener("bench", application, Address("127.0.0.1", 0))
    async with listening(listener, Readiness()) as bound:
        print(bound.port, flush=True)
        await _until_parent_ends()


def main(nodes: int, gangs: int, cpu: int) -> None:
    """Serve on a port of the system's choice until standard input ends."""
    if cpu >= 0:
        os.sched_setaffinity(0, {cpu})
    with Path(os.devnull).open("w") as nowhere:
        logs.configure("json", "info", nowhere)  # what the log costs belongs to the answer
        application = _application(nodes, gangs)
        jit.warm_up()
        gc.collect()
        gc.freeze()
        run(_serve(application))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
