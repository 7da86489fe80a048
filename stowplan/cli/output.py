"""What commands print for people: colour, width, tables, quantities, runs of names.

A terminal gets colour, unless ``NO_COLOR`` is set or it calls itself dumb, and long lists are
wrapped to its width. A pipe or a file gets plain text, whose lines are as long as they are.
"""

import os
import re
import shutil
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TextIO

from stowplan.api.errors import UnavailableError
from stowplan.topology.capacity import CPU

Path = Sequence[str]

_MEMORY = ("memory", "ephemeral-storage")
_HUGE_PAGES = "hugepages-"
_NUMBERED = re.compile(r"(.*?)(\d+)(-\*)?$")  # a name up to its last number, that, and what follows
_LEAST_WIDTH = 40


@dataclass(frozen=True, slots=True)
class Screen:
    """What text is made for.

    Attributes:
        colour: whether escape sequences are understood.
        width: columns; None where lines are not wrapped.
    """

    colour: bool = False
    width: int | None = None

    @classmethod
    def of(cls, stream: TextIO, environment: Mapping[str, str]) -> "Screen":
        """Return what ``stream`` leads to."""
        if not stream.isatty():
            return cls()
        plain = bool(environment.get("NO_COLOR")) or environment.get("TERM") == "dumb"
        width = shutil.get_terminal_size().columns
        return cls(not plain, max(width, _LEAST_WIDTH))

    def bold(self, text: str) -> str:
        """Return a heading."""
        return self._painted("1", text)

    def good(self, text: str) -> str:
        """Return what is as it was wanted."""
        return self._painted("32", text)

    def bad(self, text: str) -> str:
        """Return what is not."""
        return self._painted("31", text)

    def faint(self, text: str) -> str:
        """Return what explains the rest."""
        return self._painted("2", text)

    def _painted(self, code: str, text: str) -> str:
        return f"\033[{code}m{text}\033[0m" if self.colour and text else text

    def table(
        self,
        headings: Sequence[str],
        rows: Iterable[Sequence[str]],
        right: Collection[int] = (),
        indent: str = "",
    ) -> list[str]:
        """Return aligned lines, the headings first; columns of ``right`` end on one line."""
        cells = [tuple(headings), *(tuple(row) for row in rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [
            indent
            + "  ".join(
                cell.rjust(width) if at in right else cell.ljust(width)
                for at, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in cells
        ]
        return [self.faint(lines[0]), *lines[1:]]

    def listed(self, start: str, words: Sequence[str]) -> list[str]:
        """Return ``start`` and ``words`` with commas between them, wrapped below the first one."""
        if self.width is None or not words:
            return [start + ", ".join(words)]
        lines = [start]
        for at, word in enumerate(words):
            piece = word if at + 1 == len(words) else f"{word},"
            if len(lines[-1]) == len(start):
                lines[-1] += piece
            elif len(lines[-1]) + 1 + len(piece) > self.width:
                lines.append(" " * len(start) + piece)
            else:
                lines[-1] += f" {piece}"
        return lines


def show(text: str) -> None:
    """Print ``text``; a reader that has had enough is no trouble.

    Raises:
        UnavailableError: it cannot be written.
    """
    try:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
    except BrokenPipeError:  # without this the interpreter complains when it flushes once more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        raise UnavailableError(
            f"stowplan: the answer cannot be written: {error.strerror}"
        ) from None


def amount(resource: str, units: int, up: bool = False) -> str:
    """Return base units for people: cores, Gi, or whole devices.

    What is not even is cut, so that nobody counts on room that is not there; with ``up`` it is
    rounded up, so that nobody provides too little.
    """
    if resource == CPU:
        return f"{units / 1000:,.3f}".rstrip("0").rstrip(".")
    if resource in _MEMORY or resource.startswith(_HUGE_PAGES):
        return _bytes(units, up)
    return f"{units:,}"


def _bytes(units: int, up: bool) -> str:
    for shift, name in ((30, "Gi"), (20, "Mi"), (10, "Ki")):
        if abs(units) >= 1 << shift:
            tenths = -(-units * 10 >> shift) if up else units * 10 >> shift
            return f"{tenths / 10:,.1f}".removesuffix(".0") + name
    return f"{units:,}"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 pod``, ``8 pods``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def domain(path: Path) -> str:
    """Return a domain for people; ``-`` where its nodes lack the label of a level."""
    return "/".join(value or "-" for value in path)


def runs(names: Iterable[str]) -> list[str]:
    """Return names with those that count up written as one: ``train-[0-7]``, ``train-[0-7]-*``.

    Equal names, which nobody can tell apart yet, are counted: ``4 x web-*``.
    """
    found: list[str] = []
    for name, same in groupby(names):
        count = len(list(same))
        found.append(name if count == 1 else f"{count} x {name}")
    written: list[str] = []
    run: list[tuple[str, str, str]] = []
    for name in [*found, ""]:
        parts = _NUMBERED.match(name)
        here = (parts[1], parts[2], parts[3] or "") if parts else None
        if run and here is not None and _follows(run[-1], here):
            run.append(here)
            continue
        if run:
            written.append(_written(run))
        run = [here] if here is not None else []
        if name and here is None:
            written.append(name)
    return written


def _follows(before: tuple[str, str, str], after: tuple[str, str, str]) -> bool:
    if (before[0], before[2]) != (after[0], after[2]) or int(after[1]) != int(before[1]) + 1:
        return False
    return len(before[1]) == len(after[1]) or not (before[1].startswith("0") and before[1] != "0")


def _written(run: list[tuple[str, str, str]]) -> str:
    stem, first, tail = run[0]
    numbers = first if len(run) == 1 else f"[{first}-{run[-1][1]}]"
    return f"{stem}{numbers}{tail}"
