"""Who leads: one of several replicas at a time, by a ``coordination.k8s.io/v1`` Lease.

Written for what the library's own election lacks (fact C16): only clocks that cannot be set count,
every request has an end, each term has a number of its own, and work ends before the Lease does.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import structlog

from stowplan.api.errors import UnavailableError
from stowplan.kube.client import Json, Kube
from stowplan.kube.errors import ConflictError, NotFoundError, RefusedError
from stowplan.kube.resources import LEASES

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Terms:
    """How long a Lease holds; the defaults are kube-scheduler's.

    Attributes:
        lease_seconds: after the holder's last sign of life others may take it.
        renew_seconds: after its last sign of life the holder itself stops; less than that.
        retry_seconds: how often each of them tries; less again.
    """

    lease_seconds: float = 15.0
    renew_seconds: float = 10.0
    retry_seconds: float = 2.0


@dataclass(slots=True, eq=False)
class Elector:
    """One candidate.

    Attributes:
        kube: whom to ask.
        namespace, name: of the Lease.
        identity: of this process and of no other, now or later.
        terms: how long a Lease holds.
        epoch: number of the term that this candidate leads or led last; it only rises, whoever
            leads.
    """

    kube: Kube
    namespace: str
    name: str
    identity: str
    terms: Terms = field(default_factory=Terms)
    epoch: int = -1
    _lease: Json | None = None  # as last seen
    _seen_at: float = 0.0  # when it last changed
    _held_until: float = -1.0
    _highest: int = -1  # number of a term that was ever seen

    def holds(self) -> bool:
        """Whether this candidate leads at this moment; ask before every write.

        It may have been stopped since it last looked, for longer than the Lease lasts.
        """
        return time.monotonic() < self._held_until

    def resign(self) -> None:
        """End the term: somebody else was seen to lead."""
        self._held_until = -1.0

    async def run(self, lead: Callable[[int], Awaitable[None]]) -> None:
        """Wait for a term, call ``lead`` with its number, and again, until cancelled.

        ``lead`` is cancelled when the term ends. What it raises is raised here, once the Lease is
        given back; so is it when this is cancelled.
        """
        try:
            while True:
                await self._acquire()
                log.info("leading", lease=self.name, epoch=self.epoch)
                await self._term(lead)
                log.warning("no longer leading", lease=self.name, epoch=self.epoch)
        finally:
            await self._release()

    async def _term(self, lead: Callable[[int], Awaitable[None]]) -> None:
        """Lead until the Lease is lost, or ``lead`` ends, which only a failure makes it do."""
        work = asyncio.ensure_future(lead(self.epoch))
        renewing = asyncio.ensure_future(self._renew())
        try:
            await asyncio.wait((work, renewing), return_when=asyncio.FIRST_COMPLETED)
            if renewing.done():
                self._held_until = -1.0
            if work.done():
                await work
                raise RuntimeError("what leads must not end by itself")
        finally:
            for task in (work, renewing):
                task.cancel()
            for task in (work, renewing):
                with contextlib.suppress(asyncio.CancelledError):
                    await task

    async def _acquire(self) -> None:
        """Return once the Lease is ours, with a new number."""
        while True:
            try:
                async with asyncio.timeout(self.terms.renew_seconds):
                    if await self._try_to_acquire():
                        return
            except (TimeoutError, UnavailableError, ConflictError) as error:
                log.info("lease not taken", lease=self.name, error=str(error))
            except RefusedError as error:  # a role is missing, say, and somebody may add it
                log.error("lease refused", lease=self.name, error=str(error))
            await asyncio.sleep(self.terms.retry_seconds * random.uniform(1.0, 1.2))

    async def _try_to_acquire(self) -> bool:
        began = time.monotonic()
        found = await self._look()
        if found is None:  # the first time, or somebody deleted it
            epoch = self._highest + 1
            made = await self.kube.create(LEASES, self._ours({}, epoch, _now()))
            self.epoch = self._highest = epoch
            return self._has(made, began)
        spec = found.get("spec") or {}
        lasts = spec.get("leaseDurationSeconds") or self.terms.lease_seconds
        if spec.get("holderIdentity") and time.monotonic() < self._seen_at + lasts:
            return False
        # Every term has a number of its own, even if nobody led between two terms of ours.
        epoch = max(spec.get("leaseTransitions") or 0, self._highest) + 1
        made = await self.kube.replace(LEASES, self._ours(found, epoch, _now()))
        self.epoch = self._highest = epoch
        return self._has(made, began)

    async def _look(self) -> Json | None:
        """Return the Lease, and note when it changed: times in it are of other clocks."""
        try:
            found = await self.kube.get(LEASES, self.namespace, self.name)
        except NotFoundError:
            return None
        known = self._lease
        if known is None or _version(known) != _version(found):
            self._lease, self._seen_at = found, time.monotonic()
            transitions = (found.get("spec") or {}).get("leaseTransitions") or 0
            self._highest = max(self._highest, transitions)
        return found

    def _has(self, lease: Json, began: float) -> bool:
        """Note that the Lease is ours since ``began``, before it was asked for."""
        self._lease, self._seen_at = lease, time.monotonic()
        self._held_until = began + self.terms.renew_seconds
        return self.holds()

    async def _renew(self) -> None:
        """Return when the Lease is lost."""
        while self.holds():
            await asyncio.sleep(self.terms.retry_seconds)
            began = time.monotonic()
            left = self._held_until - began
            if left <= 0 or self._lease is None:
                return
            spec = self._lease["spec"]
            wanted = self._ours(self._lease, self.epoch, spec["acquireTime"])
            try:
                async with asyncio.timeout(min(left, self.terms.renew_seconds / 2)):
                    self._has(await self.kube.replace(LEASES, wanted), began)
            except (TimeoutError, UnavailableError) as error:
                log.warning("lease not renewed", lease=self.name, error=str(error))
            except ConflictError:
                if not await self._still_ours():
                    return
            except RefusedError as error:
                log.error("lease refused", lease=self.name, error=str(error))

    async def _still_ours(self) -> bool:
        """Look who holds the Lease after somebody wrote it: us, if our own write came back late."""
        with contextlib.suppress(TimeoutError, UnavailableError):
            async with asyncio.timeout(self.terms.renew_seconds / 2):
                found = await self._look()
                spec = (found or {}).get("spec") or {}
                return (spec.get("holderIdentity"), spec.get("leaseTransitions")) == (
                    self.identity,
                    self.epoch,
                )
        return True  # nobody knows; our own deadline decides

    async def _release(self) -> None:
        """Give the Lease back, so that others need not wait for its end."""
        held, self._held_until = self.holds(), -1.0
        if not held or self._lease is None:
            return
        spec = {**self._lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
        with contextlib.suppress(TimeoutError, UnavailableError, RefusedError):
            async with asyncio.timeout(self.terms.retry_seconds):
                await self.kube.replace(LEASES, {**self._lease, "spec": spec})

    def _ours(self, lease: Json, epoch: int, acquired: str) -> Json:
        meta = {"namespace": self.namespace, "name": self.name, **lease.get("metadata", {})}
        spec: dict[str, Any] = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": max(round(self.terms.lease_seconds), 1),
            "acquireTime": acquired,
            "renewTime": _now(),
            "leaseTransitions": epoch,
        }
        return {"metadata": meta, "spec": spec}


def _now() -> str:
    """Return the time for people; nobody decides by it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _version(lease: Json) -> str:
    return str(lease["metadata"]["resourceVersion"])
