"""Kubernetes objects from files or folders, and from newer versions of them.

A version is taken whole or refused whole. What is read, and how, is said in ``reading``.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import structlog

from stowplan.api.errors import InvalidObjectError
from stowplan.api.objects import Object
from stowplan.kube.reading import Signature, parse, read, signature

log = structlog.get_logger()

OnChange = Callable[[list[Object]], Awaitable[None]]
OnRefused = Callable[[InvalidObjectError], None]


class FileSource:
    """The objects that a set of files holds, now and whenever they change."""

    def __init__(self, paths: Iterable[Path]) -> None:
        """Read from ``paths``, files or folders, in this order."""
        self._paths = tuple(paths)
        self._looked_at: Signature | None = None  # of the last version, good or not
        self._pending: Signature | None = None  # of a version that may still be in the writing
        self._good = b""  # the content hash of the last version that was taken
        self._refused = False  # whether the files now hold another version than that

    def load(self) -> list[Object]:
        """Return every object of every file; this blocks.

        Raises:
            InvalidObjectError: when anything cannot be used, with every violation.
        """
        self._looked_at = signature(self._paths)
        version = read(self._paths)
        objects = parse(version)
        self._good = version.digest()
        return objects

    async def watch(
        self,
        interval_seconds: float,
        on_change: OnChange,
        on_refused: OnRefused | None = None,
    ) -> None:
        """Look every ``interval_seconds``, for ever."""
        while True:
            await asyncio.sleep(interval_seconds)
            await self.look(on_change, on_refused)

    async def look(self, on_change: OnChange, on_refused: OnRefused | None = None) -> None:
        """Call ``on_change`` with the objects of a new version, if there is one.

        A version is taken once two looks have found it unchanged, so that no half-written file is
        read. One that cannot be used, or that ``on_change`` refuses with InvalidObjectError, is
        logged with every violation and given to ``on_refused``; the last good one stays.
        """
        found = await asyncio.to_thread(signature, self._paths)
        if found == self._looked_at:
            self._pending = None
        elif found != self._pending:
            self._pending = found
        else:
            self._looked_at = found
            await self._take(on_change, on_refused)

    async def _take(self, on_change: OnChange, on_refused: OnRefused | None) -> None:
        try:
            version = await asyncio.to_thread(read, self._paths)
            digest = await asyncio.to_thread(version.digest)
            if digest == self._good:
                if self._refused:
                    log.info("files are back at the last good version")
                self._refused = False
                return
            objects = await asyncio.to_thread(parse, version)
            await on_change(objects)
        except InvalidObjectError as refused:
            reasons = [str(violation) for violation in refused.violations]
            self._refused = True
            log.error("files refused, the last good version stays", violations=reasons)
            if on_refused is not None:
                on_refused(refused)
        else:
            self._good, self._refused = digest, False
            log.info("files loaded", objects=len(objects))
