"""Flags: made from the settings, and read back into them."""

import argparse
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic_core import PydanticUndefined

from stowplan.api.errors import Violation
from stowplan.cli.parser import Parser
from stowplan.cli.rules import RULES, Rule
from stowplan.cli.settings import KEYS, Settings, flag_of, variable_of
from stowplan.cli.sources import CONFIG_VARIABLE, InForce, resolve
from stowplan.cli.spelling import did_you_mean

_METAVARS = {
    "listen": "HOST:PORT",
    "probe_listen": "HOST:PORT",
    "from_file": "PATH",
    "levels": "KEY,KEY,...",
}
_EPILOG = """\
Every flag is also an environment variable and a key of the configuration file:
--drain-seconds is STOWPLAN_DRAIN_SECONDS and drain_seconds. A flag is stronger than a
variable, a variable than the file. stowplan config prints what is in force and why.
"""


def read(
    command: str,
    summary: str,
    argv: Sequence[str],
    rules: Sequence[Rule] = RULES,
    add_others: Callable[[argparse.ArgumentParser], object] | None = None,
) -> tuple[InForce, argparse.Namespace]:
    """Return the settings in force for ``command``, and the flags that are no settings.

    Args:
        command: as it is typed: ``stowplan serve``.
        summary: opens its help.
        argv: what follows the command.
        rules: what the settings must obey.
        add_others: adds the command's own flags.

    Raises:
        InvalidObjectError: with all that is wrong with flags, environment and file.
    """
    parser = _parser(command, summary)
    if add_others is not None:
        add_others(parser)
    namespace, unknown = parser.parse_known_args(argv)
    given = {key: value for key, value in vars(namespace).items() if key in KEYS}
    mistyped = _mistyped(unknown, ["--config", "--help", *map(flag_of, KEYS)], command)
    return resolve(given, os.environ, namespace.config, rules, mistyped), namespace


def _parser(command: str, summary: str) -> Parser:
    parser = Parser(
        prog=command,
        usage=f"{command} [flags]",
        description=summary,
        epilog=_EPILOG,
    )
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help=f"Configuration file, YAML or JSON. [{CONFIG_VARIABLE}]",
    )
    for key in KEYS:
        _add(parser, key)
    return parser


def _add(parser: Parser, key: str) -> None:
    field = Settings.model_fields[key]
    several: dict[str, Any] = {"nargs": "+", "action": "extend"} if key == "from_file" else {}
    unset = (None, (), PydanticUndefined)
    shown = "" if field.default in unset else f", default {field.default}"
    parser.add_argument(
        flag_of(key),
        dest=key,
        metavar=_METAVARS.get(key) or _metavar(key, field.annotation),
        default=argparse.SUPPRESS,  # what was not given leaves no trace
        help=f"{field.description} [{variable_of(key)}{shown}]".replace("%", "%%"),
        **several,
    )


def _metavar(key: str, annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return "|".join(get_args(annotation))
    unit = key.rpartition("_")[2].upper()
    return unit if unit in ("SECONDS", "BYTES") else "FILE"


def _mistyped(unknown: Sequence[str], known: Sequence[str], command: str) -> list[Violation]:
    """Return a violation for each flag that does not exist, and for each stray word."""
    help_text = f"see {command} --help"
    violations: list[Violation] = []
    after_flag = False  # then a word is probably the value of a flag that does not exist
    for word in unknown:
        if word.startswith("-"):
            flag, equals, _ = word.partition("=")
            after_flag = not equals
            remedy = did_you_mean(flag, known, help_text)
            violations.append(Violation(flag, "invalid", None, "must be a known flag", remedy))
        elif not after_flag:
            problem = "must follow a flag"
            violations.append(Violation(word, "invalid", None, problem, help_text))
    return violations
