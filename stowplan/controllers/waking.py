"""Refused pods are woken when they would no longer be refused, or for another reason.

kube-scheduler tries a refused pod again on events that it knows, often before we saw the same event
(fact V5), and else after five minutes. A change of the pod itself wakes it at once (fact V1).
"""

import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import structlog

from stowplan.api.errors import UnavailableError
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
        pods: their keys, each with what it was told; None where somebody else told it.
        seen: what it was judged by; it need not be again until that changes.
        pause: how long it is let alone after it was woken, twice as long each time: what we would
            place kube-scheduler may refuse for reasons of its own.
        not_before: when it may be woken again.
    """

    pods: dict[str, Reason | None] = field(default_factory=dict)
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

    def refused(self, gang: GangId, pod: str, reason: Reason | None = None) -> None:
        """Remember a pod that was told no, and why."""
        self._waiting.setdefault(gang, _Waiting()).pods[pod] = reason

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
            seen = self._what_counts(gang, waiting, now)
            if not waiting.pods or waiting.seen == seen or now < waiting.not_before:
                continue
            judged += 1
            if judged > _MOST_AT_ONCE:
                return
            waiting.seen = seen
            reason = self._reason_now(gang, now)
            woken = [key for key, told in waiting.pods.items() if _is_news(told, reason)]
            if not woken:
                continue
            waiting.not_before = now + waiting.pause
            waiting.pause = min(waiting.pause * 2, _LAST_PAUSE_SECONDS)
            log.info("gang woken", gang=str(gang), pods=len(woken))
            yield from (partial(self._touch, waiting, key) for key in woken)

    def _what_counts(self, gang: GangId, waiting: _Waiting, now: float) -> tuple[object, ...]:
        """Return what changes when a verdict on the gang may, or what its pods were told."""
        cluster = self.cluster
        told = frozenset(waiting.pods.values())
        known = cluster.refusals.get(gang)
        over = known is not None and now >= known.until
        held = gang in cluster.ledger.reservations
        return cluster.state.room_made, cluster.gangs.version(gang), known is None, over, held, told

    def _still_waits(self, key: str) -> bool:
        pod = self.cluster.state.pods.get(key)
        return pod is None or not (pod.node or pod.ended or pod.terminating)

    def _reason_now(self, gang: GangId, now: float) -> Reason | None:
        """Return why the gang would be refused now; None where it would get seats."""
        cluster = self.cluster
        if gang in cluster.ledger.reservations:
            return None
        whole = assemble(gang, cluster.gangs.members(gang, now).values(), cluster.owners)
        found = whole if isinstance(whole, Reason) else place_gang(cluster, whole, now)
        if isinstance(found, Reservation):
            return None
        cluster.refusals[gang] = Refusal.of(cluster, gang, found, None, now)
        return found

    async def _touch(self, waiting: _Waiting, key: str) -> None:
        """Change the pod in a way that means nothing but makes kube-scheduler try it again."""
        namespace, _, name = key.partition("/")
        mark = {"metadata": {"annotations": {keys.RETRY: f"{time.time():.3f}"}}}
        try:
            await self.kube.patch(PODS, namespace, name, mark)
        except UnavailableError:
            waiting.seen = ()  # nobody knows whether it was woken: it is judged again
            raise


def _is_news(told: Reason | None, reason: Reason | None) -> bool:
    """Whether a pod would be told something else; what another leader told it nobody knows."""
    return reason is None or (told is not None and told != reason)
