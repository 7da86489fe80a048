"""Kubernetes objects from files or folders, and from newer versions of them.

A folder is read recursively: ``*.json``, ``*.yaml`` and ``*.yml``, in the order of their names.
Names that start with a dot are left out: a mounted ConfigMap keeps its bookkeeping under them.
A version is taken whole or refused whole.
"""

import asyncio
import hashlib
import os
import stat
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import structlog

from stowplan.api.errors import InvalidObjectError, Violation
from stowplan.kube.documents import SUFFIXES, documents
from stowplan.kube.objects import Collected, Object

log = structlog.get_logger()

MOST_BYTES = 1 << 30  # of one file; far more than any cluster prints, far less than memory

_SUFFIXES = " or ".join(SUFFIXES)

OnChange = Callable[[list[Object]], Awaitable[None]]
OnRefused = Callable[[InvalidObjectError], None]
Signature = tuple[tuple[str, int, int, int], ...]


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
        self._looked_at = _signature(self._paths)
        version = _read(self._paths)
        objects = _parse(version)
        self._good = version.digest
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
        found = await asyncio.to_thread(_signature, self._paths)
        if found == self._looked_at:
            self._pending = None
        elif found != self._pending:
            self._pending = found
        else:
            self._looked_at = found
            await self._take(on_change, on_refused)

    async def _take(self, on_change: OnChange, on_refused: OnRefused | None) -> None:
        try:
            version = await asyncio.to_thread(_read, self._paths)
            if version.digest == self._good:
                if self._refused:
                    log.info("files are back at the last good version")
                self._refused = False
                return
            objects = await asyncio.to_thread(_parse, version)
            await on_change(objects)
        except InvalidObjectError as refused:
            reasons = [str(violation) for violation in refused.violations]
            self._refused = True
            log.error("files refused, the last good version stays", violations=reasons)
            if on_refused is not None:
                on_refused(refused)
        else:
            self._good, self._refused = version.digest, False
            log.info("files loaded", objects=len(objects))


@dataclass(frozen=True, slots=True)
class _Version:
    """What stood in the files at one time."""

    contents: list[tuple[str, bytes]]
    digest: bytes
    violations: list[Violation]


def _read(paths: Iterable[Path]) -> _Version:
    contents: list[tuple[str, bytes]] = []
    violations: list[Violation] = []
    digest = hashlib.blake2b()
    for found in _files(paths):
        content = found if isinstance(found, Violation) else _content(found)
        if isinstance(content, Violation):
            violations.append(content)
            continue
        contents.append((str(found), content))
        digest.update(hashlib.blake2b(str(found).encode()).digest())
        digest.update(hashlib.blake2b(content).digest())
    if violations:
        digest.update(b"not all could be read")
    return _Version(contents, digest.digest(), violations)


def _parse(version: _Version) -> list[Object]:
    collected = Collected()
    collected.violations += version.violations
    for file, content in version.contents:
        try:
            collected.add(file, documents(file, content))
        except InvalidObjectError as refused:
            collected.violations += refused.violations
    if collected.violations:
        raise InvalidObjectError("the cluster in the files", collected.violations)
    return collected.objects


def _signature(paths: Iterable[Path]) -> Signature:
    """Return what changes when a file does, without reading any."""
    return tuple(_stamp(found) for found in _files(paths))


def _stamp(found: Path | Violation) -> tuple[str, int, int, int]:
    if isinstance(found, Violation):
        return (str(found), 0, 0, 0)
    try:
        status = found.stat()
    except OSError as error:
        return (f"{found}: {error.strerror}", 0, 0, 0)
    return (str(found), status.st_mtime_ns, status.st_size, status.st_ino)


def _files(paths: Iterable[Path]) -> Iterator[Path | Violation]:
    """Yield every file once, however many of ``paths`` lead to it."""
    seen: set[str] = set()
    for path in paths:
        for found in _named(path):
            if isinstance(found, Violation):
                yield found
            elif (real := os.path.realpath(found)) not in seen:
                seen.add(real)
                yield found


def _named(path: Path) -> Iterator[Path | Violation]:
    if path.is_dir():
        found = list(_walk(path, set()))
        if not found:
            problem = f"must be a folder with a file of {_SUFFIXES} in it"
            yield Violation(str(path), "required", None, problem, "name the folder of your objects")
        yield from found
    elif path.suffix in SUFFIXES or not path.exists():
        yield path  # whoever reads it says what is wrong with it
    else:
        problem = f"must be a folder, or a file whose name ends in {_SUFFIXES}"
        yield Violation(str(path), "invalid", None, problem, "rename it")


def _walk(folder: Path, above: set[str]) -> Iterator[Path | Violation]:
    """Yield the files below ``folder``; a link that leads back to one of ``above`` is not taken."""
    real = os.path.realpath(folder)
    if real in above:
        return
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        yield _unreadable(folder, error)
        return
    for path in entries:
        if path.name.startswith("."):
            continue
        if path.is_dir():
            yield from _walk(path, above | {real})
        elif path.suffix in SUFFIXES:
            yield path


def _content(file: Path) -> bytes | Violation:
    try:
        status = file.stat()
        if not stat.S_ISREG(status.st_mode):
            return Violation(str(file), "invalid", None, "must be a regular file", "copy it to one")
        if status.st_size > MOST_BYTES:
            problem = f"must not be larger than {MOST_BYTES} bytes"
            return Violation(str(file), "invalid", status.st_size, problem, "split it")
        return file.read_bytes()
    except OSError as error:
        return _unreadable(file, error)


def _unreadable(path: Path, error: OSError) -> Violation:
    problem = f"must be a file or folder that we can read: {error.strerror}"
    return Violation(str(path), "required", None, problem, "check the path and its mode")
