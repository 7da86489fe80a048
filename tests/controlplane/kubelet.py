"""A kubelet for all nodes at once: runs what is bound, and confirms what is deleted."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from typing import Any

from stowplan.api.objects import Object
from stowplan.kube.client import Kube
from stowplan.kube.errors import ConflictError, NotFoundError
from stowplan.kube.reflector import Reflector
from stowplan.kube.resources import PODS


class Kubelet:
    """Keeps the phase of every bound pod as a kubelet would; a store for a reflector.

    Attributes:
        pods: all of them, as they are now.
        ends: names of pods that succeed as soon as they run, by their beginning.
    """

    def __init__(self, kube: Kube) -> None:
        self.kube = kube
        self.pods: dict[str, dict[str, Any]] = {}
        self.ends: tuple[str, ...] = ()
        self.following: Reflector | None = None
        self._doing: dict[str, asyncio.Task[None]] = {}

    def set(self, name: str, found: Object) -> None:
        self.pods[name] = dict(found.values())
        if name not in self._doing:
            self._doing[name] = asyncio.create_task(self._do(name))

    def remove(self, name: str) -> None:
        self.pods.pop(name, None)

    def names(self) -> Iterable[str]:
        return self.pods

    def follows(self) -> bool:
        """Whether it sees what happens now."""
        return self.following is not None and self.following.behind_seconds() == 0

    async def _do(self, name: str) -> None:
        """Bring one pod where it should be, step by step."""
        try:
            while (pod := self.pods.get(name)) is not None:
                with contextlib.suppress(ConflictError):
                    if not await self._step(pod):
                        return
        except NotFoundError:
            self.pods.pop(name, None)
        finally:
            del self._doing[name]

    async def _step(self, pod: dict[str, Any]) -> bool:
        """Do one thing that is due; return whether there was one."""
        meta, phase = pod["metadata"], pod.get("status", {}).get("phase")
        space, name = meta["namespace"], meta["name"]
        if not pod["spec"].get("nodeName"):
            return False
        if meta.get("deletionTimestamp"):
            await self.kube.delete(PODS, space, name, uid=meta["uid"], grace_seconds=0)
            self.pods.pop(f"{space}/{name}", None)
            return False
        if phase == "Pending":
            ready = [{"type": "Ready", "status": "True"}]
            status = {"phase": "Running", "conditions": ready}
        elif phase == "Running" and name.startswith(self.ends):
            status = {"phase": "Succeeded"}
        else:
            return False
        found = await self.kube.patch(PODS, space, name, {"status": status}, "status")
        if f"{space}/{name}" in self.pods:
            self.pods[f"{space}/{name}"] = found
        return True


@contextlib.asynccontextmanager
async def kubelet(kube: Kube) -> AsyncIterator[Kubelet]:
    """Run one."""
    made = Kubelet(kube)
    following = made.following = Reflector(kube, PODS, made)
    task = asyncio.create_task(following.run())
    try:
        yield made
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
