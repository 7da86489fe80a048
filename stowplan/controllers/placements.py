"""Placements: decisions are written down before they are told, and taken over by the next leader.

Each replica follows all Placements. The one that leads writes them: one update of the status is the
commit of a decision. Every write names the version that it replaces and the leader's term, so what
a deposed leader still writes does not come through.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec
import structlog

from stowplan.api.errors import InvalidObjectError, StowplanError, UnavailableError
from stowplan.api.models.placement import Placement
from stowplan.api.models.wire import read
from stowplan.api.objects import Object
from stowplan.kube.client import Kube
from stowplan.kube.errors import ConflictError, NotFoundError
from stowplan.kube.resources import PLACEMENTS
from stowplan.placement import durable, reasons
from stowplan.placement.cluster import Cluster
from stowplan.placement.gangs import GangId
from stowplan.placement.reasons import Reason
from stowplan.placement.records import PodRecord

log = structlog.get_logger()

Json = dict[str, Any]

_AT_ONCE = 16  # requests
_TRIES = 5  # of one write that others get in the way of


class DeposedError(StowplanError):
    """Another leader has written since: this one must not write any more."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A Placement as the server has it.

    Attributes:
        placement: what is read of it.
        status: all of it, to compare with; None for none.
    """

    placement: Placement
    status: Json | None

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "Stored":
        """Read an object.

        Raises:
            InvalidObjectError: it is none of ours, by its form.
        """
        return cls(read(Placement, content, "Placement"), content.get("status"))

    @property
    def epoch(self) -> int:
        """The term of the leader that wrote it last."""
        return self.placement.status.epoch if self.placement.status else -1

    @property
    def decides(self) -> bool:
        """Whether it reserves anything."""
        return self.placement.status is not None and self.placement.status.decision is not None


def clock() -> durable.Clock:
    """Return this moment."""
    return durable.Clock(time.monotonic(), datetime.now(UTC))


def _nothing(gang: GangId) -> None:
    """Be told of a gang, and do nothing."""


@dataclass(slots=True, eq=False)
class Written:
    """What is written down, as far as it was seen; a store for a reflector.

    Attributes:
        by_gang: the Placements.
        leading: this process writes itself, and then knows better than what it is told late.
        strange: called while leading with the gang of a Placement that somebody else wrote.
    """

    by_gang: dict[GangId, Stored] = field(default_factory=dict)
    leading: bool = False
    strange: Callable[[GangId], None] = _nothing
    _gang_of: dict[str, GangId] = field(default_factory=dict)
    _seats: dict[str, tuple[str, str]] = field(default_factory=dict)  # pod key -> uid, node

    def set(self, name: str, found: Object) -> None:
        """Take over a Placement as it is told, unless it is older than what we wrote."""
        try:
            stored = Stored.of(found.values())
        except (InvalidObjectError, msgspec.DecodeError) as error:
            log.error("placement unreadable", placement=name, error=str(error))
            self.remove(name)
            return
        gang = durable.gang_named(stored.placement)
        if self.leading and gang in self.by_gang:
            return
        self.keep(gang, stored)
        if self.leading:  # written by a leader that was deposed a moment ago
            self.strange(gang)

    def keep(self, gang: GangId, stored: Stored) -> None:
        """Take over a Placement."""
        self.drop(gang)
        self.by_gang[gang] = stored
        meta, status = stored.placement.metadata, stored.placement.status
        self._gang_of[f"{meta.namespace}/{meta.name}"] = gang
        decision = status.decision if status else None
        for seat in (decision and decision.seats) or ():
            if seat.name:
                self._seats[f"{meta.namespace}/{seat.name}"] = (seat.uid, seat.node)

    def drop(self, gang: GangId) -> None:
        """Forget a gang's Placement."""
        stored = self.by_gang.pop(gang, None)
        if stored is None:
            return
        meta, status = stored.placement.metadata, stored.placement.status
        self._gang_of.pop(f"{meta.namespace}/{meta.name}", None)
        decision = status.decision if status else None
        for seat in (decision and decision.seats) or ():
            self._seats.pop(f"{meta.namespace}/{seat.name}", None)

    def remove(self, name: str) -> None:
        """Forget a Placement that is gone."""
        if (gang := self._gang_of.get(name)) is not None:
            self.drop(gang)

    def names(self) -> Iterable[str]:
        """Return what is there."""
        return self._gang_of

    def node_of(self, pod: PodRecord) -> str | None:
        """Return the node that is promised to a pod."""
        uid, node = self._seats.get(pod.key, ("", ""))
        return node if node and uid in ("", pod.uid) else None


@dataclass(slots=True, eq=False)
class Writer:
    """Writes Placements while this process leads.

    Attributes:
        kube: whom to tell.
        cluster: what was decided.
        written: what the server has.
        holds: whether we lead at this moment; asked before every write.
        owner_of: the reference to whoever makes a gang's pods, if it is known.
    """

    kube: Kube
    cluster: Cluster
    written: Written
    holds: Callable[[], bool]
    owner_of: Callable[[GangId], Json | None]
    epoch: int = -1
    _decisions: int = 0
    _locks: dict[GangId, asyncio.Lock] = field(default_factory=dict)

    async def write(self, gang: GangId) -> None:
        """Make a gang's Placement say what we know of it now.

        Raises:
            DeposedError: we do not lead any more.
            UnavailableError: nobody knows whether it was written; try again.
            RefusedError: it was not, and will not be.
        """
        async with self._lock(gang):
            await self._write(gang)

    async def withdraw(self, gang: GangId, reason: Reason) -> None:
        """Write that nothing is reserved for a gang, and free its seats then.

        Raises as ``write`` does.
        """
        async with self._lock(gang):
            if (reservation := self.cluster.ledger.reservations.get(gang)) is None:
                return
            touched = reservation.touched
            await self._put(gang, durable.withdrawn(gang, self.epoch, reason, clock()))
            if reservation.touched == touched:  # no pod came back meanwhile
                self.cluster.ledger.free(gang)
            else:
                await self._write(gang)

    async def delete(self, gang: GangId) -> None:
        """Delete the Placement of a gang that is gone, unless somebody wrote to it meanwhile."""
        async with self._lock(gang):
            stored = self.written.by_gang.get(gang)
            if stored is None:
                return
            self._must_lead()
            meta = stored.placement.metadata
            try:
                await self.kube.delete(
                    PLACEMENTS,
                    meta.namespace,
                    meta.name,
                    uid=meta.uid,
                    resource_version=meta.resource_version,
                )
            except NotFoundError:
                pass
            except ConflictError:
                await self._look(gang)
                return
            self.written.drop(gang)
        self._locks.pop(gang, None)

    async def stamp(self, gang: GangId) -> None:
        """Put our term on a Placement as it is, so that what an older leader writes fails."""
        async with self._lock(gang):
            stored = self.written.by_gang.get(gang)
            status = {**(stored.status or {}), "epoch": self.epoch} if stored else None
            if status is not None:
                await self._put(gang, status, as_it_is=True)

    def _lock(self, gang: GangId) -> asyncio.Lock:
        return self._locks.setdefault(gang, asyncio.Lock())

    async def _write(self, gang: GangId) -> None:
        self._decisions += 1
        decision = f"{self.epoch}-{self._decisions}"
        status = durable.status_of(self.cluster, gang, self.epoch, decision, clock())
        stored = self.written.by_gang.get(gang)
        if status is None and stored is not None and stored.decides:  # its pods went
            status = durable.withdrawn(gang, self.epoch, reasons.NO_POD, clock())
        if status is not None:
            await self._put(gang, status)
            await self._tell_size(gang)

    async def _tell_size(self, gang: GangId) -> None:
        """Write how many pods the gang has by now; nobody decides by it."""
        stored = self.written.by_gang.get(gang)
        size = durable.size_of(self.cluster, gang, time.monotonic())
        if stored is None or not size or stored.placement.spec.size == size:
            return
        meta = stored.placement.metadata
        self._must_lead()
        patch = {"spec": {"size": size}}
        found = await self.kube.patch(PLACEMENTS, meta.namespace, meta.name, patch)
        self.written.keep(gang, Stored.of(found))

    async def _put(self, gang: GangId, status: Json, as_it_is: bool = False) -> None:
        """Store a status, whatever else changed on the object meanwhile."""
        for _ in range(_TRIES):
            self._must_lead()
            stored = self.written.by_gang.get(gang) or await self._made(gang)
            if as_it_is:
                status = {**(stored.status or {}), "epoch": self.epoch}
            if stored.epoch > self.epoch:
                raise DeposedError(f"a leader of term {stored.epoch} wrote {gang}")
            if durable.same_but_for_times(stored.status, status):
                return
            meta = stored.placement.metadata
            body = {
                "metadata": {
                    "namespace": meta.namespace,
                    "name": meta.name,
                    "uid": meta.uid,
                    "resourceVersion": meta.resource_version,
                },
                "status": durable.since(stored.status, status),
            }
            try:
                found = await self.kube.replace(PLACEMENTS, body, "status")
            except (ConflictError, NotFoundError):
                await self._look(gang)
                continue
            self.written.keep(gang, Stored.of(found))
            return
        raise UnavailableError(f"the Placement of {gang} changed {_TRIES} times while we wrote it")

    async def _made(self, gang: GangId) -> Stored:
        """Create the object; there may be one that we have not seen."""
        size = durable.size_of(self.cluster, gang, time.monotonic())
        new = durable.new_placement(gang, size, self.owner_of(gang))
        try:
            stored = Stored.of(await self.kube.create(PLACEMENTS, new))
        except ConflictError:
            found = await self._look(gang)
            if found is None:
                raise UnavailableError(f"the Placement of {gang} came and went") from None
            return found
        self.written.keep(gang, stored)
        return stored

    async def _look(self, gang: GangId) -> Stored | None:
        """Return what the server has."""
        name = durable.name_of(gang)
        try:
            stored = Stored.of(await self.kube.get(PLACEMENTS, gang.namespace, name))
        except NotFoundError:
            self.written.drop(gang)
            return None
        self.written.keep(gang, stored)
        return stored

    def _must_lead(self) -> None:
        if not self.holds():
            raise DeposedError("the Lease ran out")


async def all_of(work: Iterable[Callable[[], Awaitable[None]]]) -> None:
    """Do all of some work, a few at once, whatever becomes of the others.

    Raises:
        ExceptionGroup: with all that failed.
    """
    limit = asyncio.Semaphore(_AT_ONCE)
    failed: list[Exception] = []

    async def one(do: Callable[[], Awaitable[None]]) -> None:
        async with limit:
            try:
                await do()
            except StowplanError as error:
                failed.append(error)

    async with asyncio.TaskGroup() as tasks:
        for each in work:
            tasks.create_task(one(each))
    if failed:
        raise ExceptionGroup("some work failed", failed)
