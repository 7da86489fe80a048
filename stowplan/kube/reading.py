"""Files or folders -> the Kubernetes objects in them, read once.

A folder is read recursively: ``*.json``, ``*.yaml`` and ``*.yml``, in the order of their names.
Names that start with a dot are left out: a mounted ConfigMap keeps its bookkeeping under them.
"""

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from stowplan.api.errors import InvalidObjectError, Violation
from stowplan.api.objects import Object
from stowplan.kube.documents import SUFFIXES, documents, listed
from stowplan.kube.objects import Collected

MOST_BYTES = 1 << 30  # of one file; far more than any cluster prints, far less than memory

_SUFFIXES = " or ".join(SUFFIXES)

Signature = tuple[tuple[str, int, int, int], ...]


def load(paths: Iterable[Path]) -> list[Object]:
    """Return every object of every file; this blocks.

    Raises:
        InvalidObjectError: when anything cannot be used, with every violation.
    """
    return parse(read(paths))


@dataclass(frozen=True, slots=True)
class Version:
    """What stood in the files at one time."""

    contents: list[tuple[str, bytes]]
    violations: list[Violation]

    def digest(self) -> bytes:
        """Return what differs between two versions with different content."""
        digest = hashlib.blake2b()
        for file, content in self.contents:
            digest.update(hashlib.blake2b(file.encode()).digest())
            digest.update(hashlib.blake2b(content).digest())
        if self.violations:
            digest.update(b"not all could be read")
        return digest.digest()


def read(paths: Iterable[Path]) -> Version:
    """Return what stands in the files now, readable or not."""
    contents: list[tuple[str, bytes]] = []
    violations: list[Violation] = []
    for found in _files(paths):
        content = found if isinstance(found, Violation) else _content(found)
        if isinstance(content, Violation):
            violations.append(content)
        else:
            contents.append((str(found), content))
    return Version(contents, violations)


def parse(version: Version) -> list[Object]:
    """Return the objects of a version.

    Raises:
        InvalidObjectError: when anything cannot be used, with every violation.
    """
    collected = Collected()
    collected.violations += version.violations
    for file, content in version.contents:
        try:
            if (items := listed(file, content)) is not None:
                collected.take(file, items)
            else:
                collected.add(file, documents(file, content))
        except InvalidObjectError as refused:
            collected.violations += refused.violations
    if collected.violations:
        raise InvalidObjectError("the cluster in the files", collected.violations)
    return collected.objects


def signature(paths: Iterable[Path]) -> Signature:
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
