"""``stowplan config``: the settings in force, and where each came from."""

import json
from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Any

from stowplan.cli import flags
from stowplan.cli.settings import KEYS
from stowplan.cli.sources import InForce

SUMMARY = "Print the settings in force, and where each came from."


def run(argv: Sequence[str]) -> int:
    """Print a table, or with ``-o json`` an object; return 0."""
    in_force, given = flags.read("stowplan config", SUMMARY, argv, add_others=_add_output)
    print(_json(in_force) if given.output == "json" else _table(in_force))
    return 0


def _add_output(parser: ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--output", choices=("table", "json"), default="table", help="How to print them."
    )


def _table(in_force: InForce) -> str:
    rows = [("KEY", "VALUE", "SOURCE")]
    for key in KEYS:
        value = _plain(getattr(in_force.settings, key))
        shown = ",".join(value) if isinstance(value, list) else value
        empty = shown is None or shown == ""
        rows.append((key, "-" if empty else str(shown), str(in_force.provenance[key])))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "\n".join(lines)


def _json(in_force: InForce) -> str:
    found = {
        key: {
            "value": _plain(getattr(in_force.settings, key)),
            "source": str(in_force.provenance[key]),
        }
        for key in KEYS
    }
    return json.dumps(found, indent=2)


def _plain(value: Any) -> Any:
    """Return ``value`` as it would stand in a configuration file."""
    if value is None or isinstance(value, int | float | str):
        return value
    return [str(part) for part in value] if isinstance(value, tuple) else str(value)
