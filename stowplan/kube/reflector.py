"""All objects of one kind, as they are now and as they change: list, then watch, for ever.

A stream that breaks goes on where it ended. Where that is no longer possible everything is listed
anew, and only what differs is told: an object at a time, so that nobody waits long (facts C1 to
C6).
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal, Protocol

import msgspec
import structlog

from stowplan.api.errors import StowplanError, UnavailableError, WireError
from stowplan.api.objects import Object
from stowplan.kube.client import Kube
from stowplan.kube.errors import BusyError, ExpiredError, NotFoundError, RefusedError, error_of
from stowplan.kube.listing import head_of, object_of, pages
from stowplan.kube.resources import Resource

log = structlog.get_logger()

IDLE_SECONDS = 90.0  # a bookmark comes each minute
_WATCH_SECONDS = (240, 480)  # how long one watch is asked to last
_FIRST_DELAY_SECONDS, _LAST_DELAY_SECONDS = 0.8, 10.0  # we are few, and a gang may be waiting
_SHORT_SECONDS = 1.0  # a watch that ends sooner does not begin again at once
_ABSENT_SECONDS = 30.0  # until a kind that the server does not serve is asked for again

_END_OF_LIST = "k8s.io/initial-events-end"

Cause = Literal["ended", "expired", "unavailable", "refused", "unreadable"]


class Store(Protocol):
    """Where the objects of one kind are kept, each by ``namespace/name`` or by ``name`` alone."""

    def set(self, name: str, found: Object) -> None:
        """Add or replace an object; the same again changes nothing."""

    def remove(self, name: str) -> None:
        """Forget an object, if it is there."""

    def names(self) -> Iterable[str]:
        """Return what is there."""


class _Event(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


class _Status(msgspec.Struct, gc=False):
    code: int = 0
    reason: str = ""
    message: str = ""


_EVENT = msgspec.json.Decoder(_Event)
_STATUS = msgspec.json.Decoder(_Status)


@dataclass(slots=True, eq=False)
class Reflector:
    """Keeps a store like the server's, as long as ``run`` runs.

    Attributes:
        kube: whom to ask.
        resource: which kind.
        store: where its objects go.
        optional: the server may not serve the kind; then there are none.
        selector: label selector; empty for all.
        streams: list by a watch (fact C5); a server that cannot is asked for pages instead.
        on_restart: called with the cause whenever a watch could not simply go on.
    """

    kube: Kube
    resource: Resource
    store: Store
    optional: bool = False
    selector: str = ""
    streams: bool = True
    on_restart: Callable[[Cause], None] | None = None
    synced: asyncio.Event = field(default_factory=asyncio.Event)
    _version: str = ""  # to go on from; empty when everything must be listed
    _behind_since: float | None = None
    _delay: float = _FIRST_DELAY_SECONDS

    def __post_init__(self) -> None:
        """Be behind until the first list is whole."""
        self._behind_since = time.monotonic()

    def behind_seconds(self) -> float:
        """Return for how long nobody has told us what changes; 0 while somebody does."""
        return 0.0 if self._behind_since is None else time.monotonic() - self._behind_since

    async def run(self) -> None:
        """Follow the server until cancelled; no answer of it ends this."""
        while True:
            delay, began = 0.0, time.monotonic()
            try:
                if not self._version:
                    await self._list()
                else:
                    await self._watch(self._version)
                cause: Cause = "ended"
                if time.monotonic() - began < _SHORT_SECONDS:  # something on the way ends them
                    delay = self._next_delay(0.0)
            except ExpiredError:
                cause, self._version = "expired", ""
                delay = self._next_delay(0.0)
            except RefusedError as error:
                if self.optional and isinstance(error, NotFoundError):
                    cause, delay = "ended", _ABSENT_SECONDS
                    self._empty()
                else:
                    cause, delay = "refused", self._next_delay(0.0)
                    log.error("watch refused", kind=self.resource.kind, error=str(error))
            except BusyError as error:
                cause, delay = "unavailable", self._next_delay(error.retry_after_seconds)
                log.warning("watch put off", kind=self.resource.kind, error=str(error))
            except UnavailableError as error:
                cause, delay = "unavailable", self._next_delay(0.0)
                log.warning("watch broken", kind=self.resource.kind, error=str(error))
            except (WireError, msgspec.DecodeError) as error:
                cause, self._version = "unreadable", ""
                delay = self._next_delay(0.0)
                log.error("watch unreadable", kind=self.resource.kind, error=str(error))
            if cause != "ended":
                self._fall_behind()
                if self.on_restart is not None:
                    self.on_restart(cause)
            await asyncio.sleep(delay)

    def _empty(self) -> None:
        """Become like a server that does not know the kind."""
        self._version = ""
        for key in list(self.store.names()):
            self.store.remove(key)
        self._caught_up()

    def _next_delay(self, at_least: float) -> float:
        """Return how long to wait, twice as long each time, and never all at the same moment."""
        delay = max(self._delay, at_least)
        self._delay = min(self._delay * 2, _LAST_DELAY_SECONDS)
        return delay * random.uniform(1.0, 1.5)

    def _caught_up(self) -> None:
        self._behind_since = None
        self._delay = _FIRST_DELAY_SECONDS
        self.synced.set()

    def _fall_behind(self) -> None:
        if self._behind_since is None:
            self._behind_since = time.monotonic()

    async def _list(self) -> None:
        """Become like the server: by a watch that begins with everything, or page by page."""
        if self.streams:
            try:
                await self._watch("")
                return
            except RefusedError as error:
                if error.status not in (400, 422):
                    raise
                self.streams = False
        await self._list_pages()

    async def _list_pages(self) -> None:
        seen: set[str] = set()
        async for found, version in pages(self.kube, self.resource, self._query()):
            seen.update(map(self._set, found))
            if version:  # it was the last page
                self._end_list(seen, version)

    def _end_list(self, seen: set[str], version: str) -> None:
        """Forget what was not listed; from now on changes are told."""
        for key in [key for key in self.store.names() if key not in seen]:
            self.store.remove(key)
        self._version = version
        self._caught_up()

    async def _watch(self, version: str) -> None:
        """Follow one watch to its end; without a version it begins with a list."""
        query = {
            **self._query(),
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(random.randint(*_WATCH_SECONDS)),
        }
        seen: set[str] | None = None
        if version:
            query["resourceVersion"] = version
        else:
            seen = set()
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        async with self.kube.stream(self.resource.path(), query, IDLE_SECONDS) as lines:
            if version:
                self._caught_up()
            await self._follow(lines, seen)
        if not self._version:
            raise UnavailableError("the watch ended before its list did")

    async def _follow(self, lines: AsyncIterator[bytes], seen: set[str] | None) -> None:
        """Tell the store of each event; ``seen`` collects keys until the list is whole."""
        async for line in lines:
            event = _EVENT.decode(line)
            if event.type == "ERROR":
                raise self._error(_STATUS.decode(event.object))
            meta = head_of(event.object)
            match event.type:
                case "ADDED" | "MODIFIED":
                    key = self._set(object_of(self.resource, meta, event.object))
                    if seen is not None:
                        seen.add(key)
                case "DELETED":
                    key = _key(meta.namespace, meta.name)
                    self.store.remove(key)
                    if seen is not None:
                        seen.discard(key)
                case "BOOKMARK":
                    if seen is not None and (meta.annotations or {}).get(_END_OF_LIST) == "true":
                        self._end_list(seen, meta.resource_version)
                        seen = None
                case other:
                    raise WireError(f"an event of type {other!r}")
            if seen is None:
                self._version = meta.resource_version or self._version

    def _error(self, status: _Status) -> StowplanError:
        what = f"watch {self.resource.plural}"
        return error_of(what, status.code, status.reason, status.message)

    def _query(self) -> dict[str, str]:
        return {"labelSelector": self.selector} if self.selector else {}

    def _set(self, found: Object) -> str:
        key = _key(found.namespace, found.name)
        self.store.set(key, found)
        return key


def _key(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name
