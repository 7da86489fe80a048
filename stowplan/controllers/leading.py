"""Everything that live placement needs beside the extender, put together."""

import asyncio
import os
import socket
import uuid
from dataclasses import dataclass

import structlog

from stowplan.api.errors import StowplanError
from stowplan.controllers.leader import Leader
from stowplan.controllers.live import Live
from stowplan.controllers.placements import Written
from stowplan.controllers.role import Role
from stowplan.kube.client import Kube
from stowplan.kube.lease import Elector, Terms
from stowplan.kube.reflector import Reflector
from stowplan.kube.resources import PLACEMENTS
from stowplan.placement.cluster import Cluster
from stowplan.placement.gangs import GangId
from stowplan.telemetry import metrics

log = structlog.get_logger()

_METRICS_SECONDS = 1.0


@dataclass(slots=True, eq=False)
class Leading:
    """The picture, what is written down, and the election of who writes.

    Attributes:
        kube: the server.
        live: keeps the picture.
        placements: keeps what is written down.
        leader: decides while the Lease is ours.
    """

    kube: Kube
    live: Live
    placements: Reflector
    leader: Leader

    @classmethod
    def of(
        cls,
        kube: Kube,
        cluster: Cluster,
        lease: tuple[str, str],
        terms: Terms,
        pod: str | None,
        stale_after_seconds: float,
    ) -> "Leading":
        """Put it together; ``lease`` is a namespace and a name, ``pod`` our own pod in it."""
        written = Written()
        elector = Elector(kube, *lease, identity(), terms)
        live = Live(kube, cluster)
        role = Role(kube, lease[0], pod)
        leader = Leader(kube, cluster, live, written, elector, role, stale_after_seconds)

        def changed(gang: GangId | None) -> None:
            leader.changed(gang)

        live.changed = changed
        return cls(kube, live, Reflector(kube, PLACEMENTS, written), leader)

    async def run(self) -> None:
        """Follow, stand for election and decide, until cancelled."""
        async with self.kube, asyncio.TaskGroup() as tasks:
            tasks.create_task(self.live.run())
            tasks.create_task(self.placements.run())
            tasks.create_task(self._keep_metrics())
            await self._drop_role()
            await self.live.synced()
            await self.placements.synced.wait()
            tasks.create_task(self.leader.elector.run(self.leader.lead))

    async def _drop_role(self) -> None:
        while True:
            try:
                await self.leader.role.drop()
                return
            except StowplanError as error:
                log.warning("role not dropped", error=str(error))
            await asyncio.sleep(self.leader.elector.terms.retry_seconds)

    async def _keep_metrics(self) -> None:
        while True:
            metrics.STATE_BEHIND_SECONDS.set(self.live.behind_seconds())
            metrics.LEADING.set(self.leader.unable() is None)
            await asyncio.sleep(_METRICS_SECONDS)


def identity() -> str:
    """Return a name of this process that no other has, nor itself when it is started again."""
    return f"{os.environ.get('HOSTNAME') or socket.gethostname()}_{uuid.uuid4().hex[:12]}"
