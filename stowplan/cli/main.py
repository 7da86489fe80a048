"""``stowplan COMMAND``: finds the command and reports what went wrong.

Exit status: 0 yes, 1 no, 2 bad input or no connection. Each command is imported only when it is
asked for, so that no command pays for the libraries of another.
"""

import argparse
import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass

from stowplan.api.errors import StowplanError
from stowplan.cli.parser import Parser
from stowplan.cli.spelling import did_you_mean
from stowplan.telemetry.build import version

OK = 0
BAD_INPUT = 2
INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Command:
    """One command: its module has ``run(arguments) -> exit status``."""

    module: str
    summary: str


COMMANDS = {
    "serve": Command("stowplan.cli.serve", "answer kube-scheduler's extender calls"),
    "config": Command("stowplan.cli.config", "print the settings in force, and where from"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that ``argv`` names and return the exit status."""
    try:
        status = _dispatch(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
    except StowplanError as error:
        print(error, file=sys.stderr)
        return BAD_INPUT
    except BrokenPipeError:
        # Whoever read us has enough; without this the interpreter complains when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception:
        traceback.print_exc()
        print("stowplan stopped over a bug of its own; please report the above", file=sys.stderr)
        return BAD_INPUT
    return status


def _dispatch(argv: Sequence[str]) -> int:
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.command is None:
        parser.print_help(sys.stderr)
        return BAD_INPUT
    command = COMMANDS.get(arguments.command)
    if command is None:
        advice = did_you_mean(arguments.command, COMMANDS, "see stowplan --help")
        print(f"stowplan: there is no command {arguments.command!r}; {advice}", file=sys.stderr)
        return BAD_INPUT
    status: int = importlib.import_module(command.module).run(arguments.arguments)
    return status


def _parser() -> Parser:
    width = max(map(len, COMMANDS))
    listed = "\n".join(f"  {name:{width}}  {each.summary}" for name, each in COMMANDS.items())
    parser = Parser(
        prog="stowplan",
        usage="stowplan [-h] [--version] COMMAND ...",
        description="Place gangs of GPU pods whole into one topology domain.",
        epilog=f"commands:\n{listed}\n\nstowplan COMMAND --help tells more of one.",
    )
    parser.add_argument("--version", action="version", version=f"stowplan {version()}")
    parser.add_argument("command", nargs="?", metavar="COMMAND", help=argparse.SUPPRESS)
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser
