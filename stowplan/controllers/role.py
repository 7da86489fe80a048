"""The label by which the extender's Service finds the pod that decides."""

from dataclasses import dataclass

import structlog

from stowplan.kube.client import Kube
from stowplan.kube.errors import NotFoundError
from stowplan.kube.resources import PODS
from stowplan.placement import keys

log = structlog.get_logger()


@dataclass(slots=True, eq=False)
class Role:
    """Marks one of our own pods.

    Attributes:
        kube: whom to tell.
        namespace: of our pods.
        pod: this process's own; None outside of a cluster, where there is nothing to mark.
    """

    kube: Kube
    namespace: str
    pod: str | None

    async def drop(self) -> None:
        """Take the label off our own pod: whoever wore it before a restart does not lead now."""
        if self.pod is not None:
            await self._mark(self.pod, None)

    async def take(self) -> None:
        """Wear the label, and nobody else."""
        if self.pod is None:
            return
        selector = f"{keys.ROLE}={keys.LEADER}"
        for other in await self.kube.list(PODS, self.namespace, selector):
            if (name := other["metadata"]["name"]) != self.pod:
                await self._mark(name, None)
        await self._mark(self.pod, keys.LEADER)
        log.info("role taken", pod=self.pod)

    async def _mark(self, name: str, role: str | None) -> None:
        try:
            labels = {keys.ROLE: role}
            await self.kube.patch(PODS, self.namespace, name, {"metadata": {"labels": labels}})
        except NotFoundError:
            log.warning("own pod not found", pod=name, namespace=self.namespace)
