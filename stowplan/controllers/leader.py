"""The one decider: decides while it holds the Lease, writes decisions down, wakes refused pods."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

import structlog

from stowplan.api.errors import StowplanError, UnavailableError
from stowplan.controllers.live import Live
from stowplan.controllers.owners import owner_reference
from stowplan.controllers.placements import DeposedError, Stored, Writer, Written, all_of, clock
from stowplan.controllers.role import Role
from stowplan.controllers.waking import Waker
from stowplan.kube.client import Kube
from stowplan.kube.errors import NotFoundError, RefusedError
from stowplan.kube.lease import Elector
from stowplan.kube.resources import PLACEMENTS
from stowplan.placement import durable, reasons
from stowplan.placement.cluster import Cluster
from stowplan.placement.decide import Placed, Refused, Verdict, needs_decision
from stowplan.placement.gangs import GangId, gang_of
from stowplan.placement.reasons import Reason
from stowplan.placement.records import PodRecord

log = structlog.get_logger()

_TICK_SECONDS = 0.05  # events that come within it are looked at together
_CLEAN_SECONDS = 1.0

EXPIRED = Reason("SeatLost", "its pods were told their nodes and did not come; placed anew")


@dataclass(slots=True, eq=False)
class Leader:
    """Decides, or says who cannot; the authority of an extender over a live cluster.

    Attributes:
        kube: the server.
        cluster: the picture, and what was decided.
        live: what keeps the picture.
        written: what is written down.
        elector: tells whether this process leads.
        role: marks the pod that decides.
        stale_after_seconds: for how long the picture may be behind.
    """

    kube: Kube
    cluster: Cluster
    live: Live
    written: Written
    elector: Elector
    role: Role
    stale_after_seconds: float
    writer: Writer = field(init=False)
    waker: Waker = field(init=False)
    leading: bool = False
    _marked: bool = False
    _unwritten: set[GangId] = field(default_factory=set)
    _dirty: dict[GangId, None] = field(default_factory=dict)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        """Write as long as the Lease is ours."""
        owner_of = partial(owner_reference, self.cluster)
        self.writer = Writer(self.kube, self.cluster, self.written, self.elector.holds, owner_of)
        self.waker = Waker(self.kube, self.cluster)
        self.written.strange = self.changed

    # --- The authority of the extender -----------------------------------------------------------

    def unable(self) -> Reason | None:
        """Return why nothing may be decided here and now."""
        if self.live.behind_seconds() > self.stale_after_seconds:
            return reasons.STALE
        if not (self.leading and self.elector.holds()):
            return reasons.NOT_THE_LEADER
        return None

    def promised(self, pod: PodRecord) -> str | None:
        """Return the node that is written down for a pod, whoever decided it."""
        return self.written.node_of(pod)

    def decided(self, pod: PodRecord, verdict: Verdict) -> None:
        """Take note of a verdict; seats that it made must be written down before it is told."""
        match verdict:
            case Placed(gang=gang, committed=committed, left=left):
                self.waker.placed(gang, pod.key)
                if committed or left:
                    self._unwritten.add(gang)
            case Refused(gang=gang, reason=reason, judged=judged):
                self.waker.refused(gang, pod.key, reason)
                if judged:
                    self.changed(gang)
            case _:
                pass

    def unwritten(self, gang: GangId) -> bool:
        """Whether seats of the gang are not written down yet."""
        return gang in self._unwritten

    async def written_down(self, gang: GangId) -> Reason | None:
        """Return once they are; else why not."""
        try:
            await self.writer.write(gang)
        except DeposedError as error:
            self._deposed(error)
            return reasons.NOT_THE_LEADER
        except UnavailableError as error:
            log.warning("decision not written", gang=str(gang), error=str(error))
            return reasons.NOT_WRITTEN
        except StowplanError as error:
            # It never will be, so nothing of it may be told, and its room is for others.
            log.error("decision refused", gang=str(gang), error=str(error))
            self.cluster.ledger.free(gang)
            self._unwritten.discard(gang)
            return reasons.NOT_WRITTEN
        self._unwritten.discard(gang)
        return None if self.elector.holds() else reasons.NOT_THE_LEADER

    # --- The term --------------------------------------------------------------------------------

    def changed(self, gang: GangId | None = None) -> None:
        """Look at a gang again soon, or at all that were refused."""
        if gang is not None:
            self._dirty[gang] = None
        self._news.set()

    async def lead(self, epoch: int) -> None:
        """Take over what others decided, and decide until cancelled."""
        await self.live.synced()
        self.writer.epoch = epoch
        try:
            await self._take_over()
            self.leading, self._marked = True, False
            log.info("deciding", epoch=epoch, gangs=len(self.cluster.ledger.reservations))
            await self._keep()
        finally:
            self.leading = self.written.leading = False
            self._unwritten.clear()
            self._dirty.clear()
            self.waker.forget()
            self.cluster.forget_decisions()

    async def _take_over(self) -> None:
        """Make every open Placement ours, then reserve what they say; try until it is done."""
        while True:
            try:
                await self._stamp_all()
                break
            except* DeposedError as group:
                self._deposed(group.exceptions[0])
                await asyncio.Event().wait()  # the term is over and this is cancelled in a moment
            except* (UnavailableError, RefusedError) as group:
                log.warning("take-over put off", error=str(group.exceptions[0]))
            await asyncio.sleep(self.elector.terms.retry_seconds)
        moment = clock()
        self.cluster.forget_decisions()
        for gang, stored in self.written.by_gang.items():
            self._restore(gang, stored, moment)
        for pod in self.cluster.state.pods.values():
            if _waits(pod) and self.cluster.ledger.reservation_of(pod.key) is None:
                self.waker.refused(gang_of(pod), pod.key)

    async def _stamp_all(self) -> None:
        found = await self.kube.list(PLACEMENTS)
        self.written.leading = True  # from here on we know better than a watch that lags behind
        for name in list(self.written.names()):
            self.written.remove(name)
        for content in found:
            stored = Stored.of(content)
            self.written.keep(durable.gang_named(stored.placement), stored)
        open_ones = [
            gang
            for gang, stored in self.written.by_gang.items()
            if stored.placement.status is not None and stored.placement.status.phase != "Bound"
        ]
        await all_of([partial(self.writer.stamp, gang) for gang in open_ones])

    def _restore(self, gang: GangId, stored: Stored, moment: durable.Clock) -> None:
        status = stored.placement.status
        for each in (status and status.excluded) or ():
            until = moment.read(each.until)
            self.cluster.ledger.remember_exclusion(gang, each.node, until, each.times)
        if self._is_gone(gang):
            return
        made = durable.restored(self.cluster, stored.placement, moment.now)
        if made is not None:
            self.cluster.ledger.commit(made)

    async def _keep(self) -> None:
        """Write, clean up and wake, whenever something changed and once a second."""
        cleaned = 0.0
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CLEAN_SECONDS):
                    await self._news.wait()
            await asyncio.sleep(_TICK_SECONDS)
            self._news.clear()
            now = time.monotonic()
            if now - cleaned >= _CLEAN_SECONDS:
                cleaned = now
                await self._clean(now)
            await self._told(self.waker.wake(now))
            dirty, self._dirty = self._dirty, {}
            await self._told(partial(self._write, gang) for gang in dirty)

    async def _clean(self, now: float) -> None:
        """Withdraw what nobody came for, and delete what nobody is there for."""
        if not self._marked:
            await self._told([self._mark])
        ledger = self.cluster.ledger
        late = [gang for gang in ledger.abandoned(now) if gang not in self._unwritten]
        await self._told(partial(self._withdraw, gang) for gang in late)
        for gang in ledger.drop_unclaimed(now):
            self.changed(gang)
        self.cluster.forget_the_gone(now)
        gone = [gang for gang in self.written.by_gang if self._is_gone(gang)]
        await self._told(partial(self.writer.delete, gang) for gang in gone)

    async def _mark(self) -> None:
        await self.role.take()
        self._marked = True

    async def _withdraw(self, gang: GangId) -> None:
        await self.writer.withdraw(gang, EXPIRED)
        log.info("reservation expired", gang=str(gang))

    async def _write(self, gang: GangId) -> None:
        """Write what changed; where it cannot be done now it is done later."""
        try:
            await self.writer.write(gang)
        except UnavailableError:
            self._dirty[gang] = None
            raise

    async def _told(self, work: Iterable[Callable[[], Awaitable[None]]]) -> None:
        """Do some work of which nobody waits for the end; what fails is told and tried again."""
        try:
            await all_of(work)
        except* DeposedError as group:
            self._deposed(group.exceptions[0])
        except* NotFoundError:
            pass  # a pod that is gone need not be woken
        except* (UnavailableError, RefusedError) as group:
            log.warning("not done yet", error=str(group.exceptions[0]))

    def _deposed(self, error: BaseException) -> None:
        log.warning("deposed", error=str(error))
        self.leading = False
        self.elector.resign()

    def _is_gone(self, gang: GangId) -> bool:
        """Whether neither a pod of the gang is there, nor whoever would make one."""
        if self.cluster.gangs.members(gang, time.monotonic()):
            return False
        if gang in self.cluster.ledger.reservations:
            return False
        return owner_reference(self.cluster, gang) is None


def _waits(pod: PodRecord) -> bool:
    """Whether kube-scheduler may have been told no for this pod."""
    waiting = not (pod.node or pod.gates or pod.ended or pod.terminating)
    return waiting and needs_decision(pod) and not pod.native_group
