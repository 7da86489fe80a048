"""The extender behind a real listener on a loopback port, and the cluster of the pictures."""

import asyncio
import contextlib
import io
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson
from aiohttp import web

from extender.app import KERNELS, build_application, start_kernels
from stowplan.placement.cluster import Cluster, Objects, Policy
from stowplan.serving.address import Address
from stowplan.serving.listener import Listener, listening
from stowplan.serving.readiness import Readiness
from stowplan.telemetry import metrics
from stowplan.topology.levels import Levels
from tests.build import NodeObject, node

Json = dict[str, Any]

ANYWHERE = Address("127.0.0.1", 0)
WAIT_SECONDS = 30.0  # for what must happen, but not how fast
BLOCK, RACK = "topology.example.com/block", "topology.example.com/rack"
NAMES = ("b1-r1-x1", "b1-r1-x2", "b1-r2-x1", "b1-r2-x2")


def four_nodes() -> list[NodeObject]:
    """Return nodes of 8 GPUs.

    block b1 ─┬─ rack r1 ── b1-r1-x1  b1-r1-x2
              └─ rack r2 ── b1-r2-x1  b1-r2-x2
    """
    return [
        node(name).at(block=name.split("-")[0], rack=name.split("-")[1]).gpus(8) for name in NAMES
    ]


def cluster_of(*objects: Json, keys: Sequence[str] = (BLOCK, RACK), **policy: Any) -> Cluster:
    """Return the live picture of ``objects``."""
    made = Cluster(Policy(levels=Levels.over_hosts(keys), **policy))
    made.replace(Objects.of(objects))
    return made


def encoded(pod: Any, names: Iterable[str] = NAMES) -> bytes:
    """Return a request as kube-scheduler sends it with ``nodeCacheCapable: true``."""
    return b'{"Pod":%s,"Nodes":null,"NodeNames":%s}' % (orjson.dumps(pod), orjson.dumps([*names]))


def encoded_with_nodes(pod: Any, nodes: Sequence[Json]) -> bytes:
    """Return a request as kube-scheduler sends it with ``nodeCacheCapable: false``."""
    listed = orjson.dumps({"metadata": {}, "items": nodes})
    return b'{"Pod":%s,"Nodes":%s,"NodeNames":null}' % (orjson.dumps(pod), listed)


@dataclass(slots=True)
class Served:
    """A running extender.

    Attributes:
        cluster: what it decides on.
        app: the application; to be looked at, not changed.
        readiness: its switch between serving and draining.
        address: where it listens.
        session: keeps connections open, as kube-scheduler does.
    """

    cluster: Cluster
    app: web.Application
    readiness: Readiness
    address: Address
    session: aiohttp.ClientSession

    async def post(self, verb: str, body: bytes) -> bytes:
        """Return the answer, which always is a 200 with its length in the head (facts E2, E4)."""
        async with self.session.post(
            f"http://{self.address}/{verb}", data=io.BytesIO(body)
        ) as response:
            answer = await response.read()
            assert response.status == 200
            assert response.headers["Content-Length"] == str(len(answer))
            assert "Transfer-Encoding" not in response.headers
            assert "Content-Encoding" not in response.headers
            assert response.headers["Content-Type"].startswith("application/json")
            return answer

    async def kernels(self) -> None:
        """Get the kernels ready, as the process does beside its listener."""
        await start_kernels(self.app, self.readiness)


@contextlib.asynccontextmanager
async def served(
    cluster: Cluster,
    *,
    kernels: bool = True,
    body_limit_bytes: int = 16 << 20,
    deadline_seconds: float = WAIT_SECONDS,
) -> AsyncIterator[Served]:
    """Serve ``cluster`` until the block ends."""
    readiness = Readiness(KERNELS)
    app = build_application(
        cluster, body_limit_bytes=body_limit_bytes, deadline_seconds=deadline_seconds
    )
    timeout = aiohttp.ClientTimeout(total=WAIT_SECONDS)
    async with (
        listening(Listener("extender", app, ANYWHERE), readiness) as address,
        aiohttp.ClientSession(timeout=timeout) as session,
    ):
        extender = Served(cluster, app, readiness, address, session)
        if kernels:
            await extender.kernels()
        yield extender


@contextlib.asynccontextmanager
async def connected(
    address: Address,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Open one connection by hand, so that a test sees it and not what a client makes of it."""
    reader, writer = await asyncio.open_connection(address.host, address.port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def head_of(verb: str, length: int, *headers: str) -> bytes:
    """Return the head of a POST."""
    lines = [f"POST /{verb} HTTP/1.1", "Host: localhost", f"Content-Length: {length}", *headers]
    return "\r\n".join([*lines, "", ""]).encode()


async def read_response(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Return head and body of the next response."""
    async with asyncio.timeout(WAIT_SECONDS):
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        return head, await reader.readexactly(length)


def counted(name: str, **labels: str) -> float:
    """Return the value of a series of ours."""
    value = metrics.REGISTRY.get_sample_value(name, labels)
    assert value is not None, f"no series {name} with {labels}"
    return value


def overpromised(cluster: Cluster) -> list[str]:
    """Return what is wrong with the books, from nothing but pods, seats and allocatable.

    Room used on a node is that of the pods bound there and of the seats promised there; it must
    never exceed what the node has, unless bound pods alone already do.
    """
    bound: dict[str, dict[str, int]] = {}
    promised: dict[str, dict[str, int]] = {}
    for pod in cluster.state.pods.values():
        if pod.node and not pod.ended:
            _add(bound.setdefault(pod.node, {}), pod.requests)
    for reservation in cluster.ledger.reservations.values():
        for seat in reservation.seats:
            known = cluster.state.pods.get(seat.pod or "")
            if not (known and known.node and not known.ended):
                _add(promised.setdefault(seat.node, {}), seat.amounts)
    problems = []
    for name in {*bound, *promised, *cluster.state.nodes}:
        total = dict(bound.get(name, {}))
        _add(total, promised.get(name, {}).items())
        if (kept := cluster.state.used_on(name)) != {k: n for k, n in total.items() if n}:
            problems.append(f"{name}: the books say {kept} used, pods and seats say {total}")
        has = dict(cluster.state.nodes[name].allocatable) if name in cluster.state.nodes else {}
        problems += (
            f"{name}: {total[resource]} of {has.get(resource, 0)} {resource} promised"
            for resource in promised.get(name, {})
            if total[resource] > has.get(resource, 0)
        )
    return problems


def _add(total: dict[str, int], more: Iterable[tuple[str, int]]) -> None:
    for name, amount in more:
        total[name] = total.get(name, 0) + amount
