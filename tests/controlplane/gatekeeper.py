"""Sees every write of a Placement before it is stored: an admission webhook of the test's own."""

import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from typing import Any

from aiohttp import web

from stowplan.kube.client import Kube
from stowplan.kube.errors import NotFoundError
from stowplan.kube.resources import Resource
from tests.controlplane.bed import ControlPlane, free_port

WEBHOOKS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    False,
)


@contextlib.asynccontextmanager
async def gatekeeper(
    plane: ControlPlane, kube: Kube, seen: Callable[[dict[str, Any]], None]
) -> AsyncIterator[None]:
    """Call ``seen`` with the request of each write, which is then let through."""
    pair, port = plane.authority.issue("gatekeeper"), free_port()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)

    async def review(request: web.Request) -> web.Response:
        asked = await request.json()
        seen(asked["request"])
        answer = {"uid": asked["request"]["uid"], "allowed": True}
        return web.json_response({**asked, "request": None, "response": answer})

    app = web.Application(client_max_size=1 << 24)
    app.router.add_post("/", review)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, ssl_context=context).start()
    rule = {
        "apiGroups": ["stowplan.dev"],
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["placements", "placements/status"],
    }
    hook = {
        "name": "gatekeeper.example.com",
        "clientConfig": {"url": f"https://127.0.0.1:{port}/", "caBundle": plane.authority.bundle()},
        "rules": [rule],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 5,
    }
    await kube.apply(WEBHOOKS, {"metadata": {"name": "gatekeeper"}, "webhooks": [hook]}, "test")
    try:
        yield
    finally:
        with contextlib.suppress(NotFoundError):
            await kube.delete(WEBHOOKS, "", "gatekeeper")
        await runner.cleanup()
