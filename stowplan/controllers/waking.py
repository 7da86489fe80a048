"""Refused pods are woken when they would no longer be refused, or for another reason.

kube-scheduler tries a refused pod again on events that it knows, often before we saw the same event
(fact V5), and else after five minutes. A change of the pod itself wakes it at once (fact V1).
"""

import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import structlog

from stowplan.kube.client import Kube
from stowplan.kube.resources import PODS
from stowplan.placement import keys
from stowplan.placement.cluster import Cluster, Refusal
from stowplan.placement.gangs import GangId, assemble
from stowplan.placement.ledger import Reservation
from stowplan.placement.placing import place_gang
from stowplan.placement.reasons import Reason

log = structlog.get_logger()

_MOST_AT_ONCE = 64  # gangs that are judged again in one go; the others come next
_FIRST_PAUSE_SECONDS, _LAST_PAUSE_SECONDS = 1.0, 60.0


@dataclass(slots=True)
class _Waiting:
    """A gang of which pods were refused.

    Attributes:
        pods: their keys.
        seen: what it was judged by; it need not be again until that changes.
        pause: how long it is let alone after it was woken, twice as long each time: what we would
            place kube-scheduler may refuse for reasons of its own.
        not_before: when it may be woken again.
    """

    pods: dict[str, None] = field(default_factory=dict)
    seen: tuple[object, ...] = ()
    pause: float = _FIRST_PAUSE_SECONDS
    not_before: float = 0.0


@dataclass(slots=True, eq=False)
class Waker:
    """Remembers who was refused, and judges them again when something changed.

    Attributes:
        kube: whom to tell.
        cluster: by what they are judged.
    """

    kube: Kube
    cluster: Cluster
    _waiting: dict[GangId, _Waiting] = field(default_factory=dict)

    def refused(self, gang: GangId, pod: str) -> None:
        """Remember a pod that was told no."""
        self._waiting.setdefault(gang, _Waiting()).pods[pod] = None

    def placed(self, gang: GangId, pod: str) -> None:
        """Forget a pod that was told its node."""
        waiting = self._waiting.get(gang)
        if waiting is not None:
            waiting.pods.pop(pod, None)
            if not waiting.pods:
                del self._waiting[gang]

    def forget(self) -> None:
        """Forget all of them."""
        self._waiting.clear()

    def wake(self, now: float) -> Iterator[Callable[[], Awaitable[None]]]:
        """Yield what wakes the pods that would be told something else now."""
        judged = 0
        for gang, waiting in list(self._waiting.items()):
            for key in [key for key in waiting.pods if not self._still_waits(key)]:
                self.placed(gang, key)
            seen = self._what_counts(gang, now)
            if not waiting.pods or waiting.seen == seen or now < waiting.not_before:
                continue
            judged += 1
            if judged > _MOST_AT_ONCE:
                return
            waiting.seen = seen
            if not self._would_differ(gang, now):
                continue
            waiting.not_before = now + waiting.pause
            waiting.pause = min(waiting.pause * 2, _LAST_PAUSE_SECONDS)
            log.info("gang woken", gang=str(gang), pods=len(waiting.pods))
            yield from (partial(self._touch, key) for key in waiting.pods)

    def _what_counts(self, gang: GangId, now: float) -> tuple[object, ...]:
        """Return what changes when a verdict on the gang may."""
        cluster = self.cluster
        known = cluster.refusals.get(gang)
        over = known is not None and now >= known.until
        held = gang in cluster.ledger.reservations
        return cluster.state.room_made, cluster.gangs.version(gang), known is None, over, held

    def _still_waits(self, key: str) -> bool:
        pod = self.cluster.state.pods.get(key)
        return pod is None or not (pod.node or pod.ended or pod.terminating)

    def _would_differ(self, gang: GangId, now: float) -> bool:
        """Whether the gang would get seats now, or another reason than it was told."""
        cluster = self.cluster
        if gang in cluster.ledger.reservations:
            return True
        whole = assemble(gang, cluster.gangs.members(gang, now).values(), cluster.owners)
        found = whole if isinstance(whole, Reason) else place_gang(cluster, whole, now)
        if isinstance(found, Reservation):
            return True
        known = cluster.refusals.get(gang)
        cluster.refusals[gang] = Refusal.of(cluster, gang, found, None, now)
        return known is None or known.reason != found

    async def _touch(self, key: str) -> None:
        """Change the pod in a way that means nothing but makes kube-scheduler try it again."""
        namespace, _, name = key.partition("/")
        mark = {"metadata": {"annotations": {keys.RETRY: f"{time.time():.3f}"}}}
        await self.kube.patch(PODS, namespace, name, mark)
