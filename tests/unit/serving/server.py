"""The process that ``test_run`` sends signals to: probes, and a route that waits for its stdin.

Arguments: the drain seconds, the address file, and optionally ``slow-start``.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from aiohttp import web

from stowplan.serving.address import Address
from stowplan.serving.listener import Listener
from stowplan.serving.probes import add_probes, probe_application
from stowplan.serving.readiness import Readiness
from stowplan.serving.run import run, serve
from stowplan.telemetry import logs

ANYWHERE = Address("127.0.0.1", 0)


async def slow(request: web.Request) -> web.Response:
    """Answer once the test has written a line."""
    print("running", flush=True)
    return web.Response(text=await asyncio.to_thread(sys.stdin.readline))


async def never_started(app: web.Application) -> AsyncIterator[None]:
    """Hold the start up until it is given up."""
    print("starting", flush=True)
    await asyncio.Event().wait()
    yield


def main() -> None:
    """Serve."""
    logs.configure("json", "info")
    readiness = Readiness()
    app = web.Application()
    add_probes(app, readiness)
    app.router.add_get("/slow", slow)
    if sys.argv[3:] == ["slow-start"]:
        app.cleanup_ctx.append(never_started)
    listeners = [
        Listener("main", app, ANYWHERE),
        Listener("probes", probe_application(readiness), ANYWHERE),
    ]
    run(serve(listeners, readiness, float(sys.argv[1]), address_file=Path(sys.argv[2])))


if __name__ == "__main__":
    main()
