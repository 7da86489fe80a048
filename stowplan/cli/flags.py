"""Flags: made from the settings, and read back into them."""

import argparse
import os
from collections.abc import Callable, Iterable, Sequence
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
    "context": "NAME",
    "lease_name": "NAME",
    "lease_namespace": "NAME",
    "pod_name": "NAME",
    "from_file": "PATH",
    "levels": "KEY,KEY,...",
}
_EPILOG = """\
A flag with a variable beside it is also that variable, and a key of the configuration file:
{flag} is {variable} and {key}. A flag is stronger than a
variable, a variable than the file. stowplan config prints what is in force and why.
"""
_EXAMPLES = ("drain_seconds", "from_file", "kubeconfig")  # of the epilog: the first one read


def read(
    command: str,
    summary: str,
    argv: Sequence[str],
    rules: Sequence[Rule] = RULES,
    add_others: Callable[[argparse.ArgumentParser], object] | None = None,
    judge_others: Callable[[argparse.Namespace], Iterable[Violation]] | None = None,
    keys: Sequence[str] = KEYS,
    usage: str = "[flags]",
) -> tuple[InForce, argparse.Namespace]:
    """Return the settings in force for ``command``, and the flags that are no settings.

    Args:
        command: as it is typed: ``stowplan serve``.
        summary: opens its help.
        argv: what follows the command.
        rules: what the settings must obey.
        add_others: adds the command's own flags.
        judge_others: yields what is wrong with their values.
        keys: the settings that the command reads: those have a flag. Others may still stand in the
            configuration file and the environment, which commands share.
        usage: what follows the command in the first line of its help.

    Raises:
        InvalidObjectError: with all that is wrong with flags, environment and file.
    """
    parser = _parser(command, summary, usage, next(key for key in _EXAMPLES if key in keys))
    if add_others is not None:
        add_others(parser)
    for key in keys:
        _add(parser, key)
    namespace, unknown = parser.parse_known_args(argv)
    given = {key: value for key, value in vars(namespace).items() if key in KEYS}
    own = [flag_of(name) for name in vars(namespace) if name not in KEYS]
    wrong = _mistyped(unknown, ["--help", *own, *map(flag_of, keys)], command)
    if judge_others is not None:
        wrong += judge_others(namespace)
    return resolve(given, os.environ, namespace.config, rules, wrong), namespace


def _parser(command: str, summary: str, usage: str, example: str) -> Parser:
    parser = Parser(
        prog=command,
        usage=f"{command} {usage}",
        description=summary,
        epilog=_EPILOG.format(flag=flag_of(example), variable=variable_of(example), key=example),
    )
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help=f"Configuration file, YAML or JSON. [{CONFIG_VARIABLE}]",
    )
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
    elsewhere = {flag_of(key): variable_of(key) for key in KEYS}
    violations: list[Violation] = []
    after_flag = False  # then a word is probably the value of a flag that does not exist
    for word in unknown:
        if word.startswith("-"):
            flag, equals, _ = word.partition("=")
            after_flag = not equals
            problem, remedy = "must be a known flag", did_you_mean(flag, known, help_text)
            if flag in elsewhere:
                problem = f"must not be given to {command}, which has no use for it"
                remedy = f"remove it; {elsewhere[flag]} and the file are shared by all commands"
            violations.append(Violation(flag, "invalid", None, problem, remedy))
        elif not after_flag:
            problem = "must follow a flag"
            violations.append(Violation(word, "invalid", None, problem, help_text))
    return violations
