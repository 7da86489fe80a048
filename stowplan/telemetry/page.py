"""``docs/metrics.md``, printed from the list of metrics so that the two cannot differ."""

import argparse
import difflib
import sys
from collections.abc import Sequence
from pathlib import Path

from stowplan.telemetry.metrics import DECLARED, LABEL_VALUES, Declared

COMMAND = "python -m stowplan.telemetry.metrics"
_OF_THE_BUILD = ("version", "python")  # one value each, and another one in every build

_HEAD = f"""\
# Metrics

Printed by `{COMMAND}`; do not edit. Label values come from the sets shown here and
from nowhere else. A counter shows every series from the start, at 0; the series of a histogram
appear with their first observation.

| name | type | labels | meaning |
| --- | --- | --- | --- |
"""


def page() -> str:
    """Return the whole page."""
    return _HEAD + "".join(map(_row, sorted(DECLARED, key=lambda declared: declared.name)))


def main(argv: Sequence[str] | None = None) -> int:
    """Print the page, or with ``--check FILE`` return 1 when that file is stale."""
    parser = argparse.ArgumentParser(prog=COMMAND, description="Print docs/metrics.md.")
    parser.add_argument("--check", metavar="FILE", type=Path, help="exit 1 when FILE is stale")
    stale: Path | None = parser.parse_args(argv).check
    if stale is None:
        sys.stdout.write(page())
        return 0
    return _check(stale)


def _check(file: Path) -> int:
    try:
        found = file.read_text(encoding="utf-8")
    except OSError as error:
        found = ""
        print(f"{file}: cannot be read: {error.strerror}", file=sys.stderr)
    if found == page():
        return 0
    difference = difflib.unified_diff(
        found.splitlines(), page().splitlines(), str(file), "as printed now", lineterm="", n=0
    )
    print("\n".join(difference), file=sys.stderr)
    print(f"{file} is stale; run: {COMMAND} > {file}", file=sys.stderr)
    return 1


def _row(declared: Declared) -> str:
    labels = "<br>".join(f"`{label}`: {_values(label)}" for label in declared.labels) or "-"
    return f"| `{declared.name}` | {declared.kind} | {labels} | {declared.meaning} |\n"


def _values(label: str) -> str:
    if label in _OF_THE_BUILD:
        return "the one that runs"
    return ", ".join(f"`{value}`" for value in LABEL_VALUES[label])
