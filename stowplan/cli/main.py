"""``stowplan COMMAND``: finds the command and reports what went wrong.

Exit status: 0 yes, 1 no, 2 bad input or no connection. Each command is imported only when it is
asked for, so that no command pays for the libraries of another.
"""

import argparse
import atexit
import contextlib
import gc
import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from stowplan.api.errors import StowplanError
from stowplan.cli.parser import Parser
from stowplan.cli.spelling import did_you_mean

OK = 0
BAD_INPUT = 2
INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Command:
    """One command.

    Attributes:
        module: has ``run(arguments) -> exit status``.
        summary: for the list of commands.
        answers_once: it reads, prints one answer and ends; see ``_answer_once``.
    """

    module: str
    summary: str
    answers_once: bool = False


COMMANDS = {
    "serve": Command("stowplan.cli.serve", "answer kube-scheduler's extender calls"),
    "place": Command("stowplan.cli.place", "tell where a job would go, or why nowhere", True),
    "tree": Command("stowplan.cli.tree", "show the topology and the room in it", True),
    "gangs": Command(
        "stowplan.cli.gangs", "list the gangs of a live cluster, and why some wait", True
    ),
    "config": Command("stowplan.cli.config", "print the settings in force, and where from"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that ``argv`` names and return the exit status.

    Without ``argv`` this is the process, with its arguments. Then a command that answers once ends
    it, and nothing is returned.
    """
    arguments = sys.argv[1:] if argv is None else argv
    command = COMMANDS.get(arguments[0]) if arguments else None
    if argv is None and command is not None and command.answers_once:
        _answer_once(arguments)
    return _reported(arguments)


def _answer_once(arguments: Sequence[str]) -> NoReturn:
    """Run a command and end the process, without what does not pay for a single answer.

    Every liberty is taken here. Kernels stay plain Python and numba is not imported: that alone
    takes longer than many decisions (hot-paths, section 3). Garbage is not looked for, since what
    was read is needed to the end, nor are plugins of pydantic. The interpreter is not torn down:
    such a command waits for no thread or process, and what it wrote has been flushed.
    """
    os.environ.setdefault("STOWPLAN_JIT", "0")  # read when the kernels are imported
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy starts a pool of them, for nothing
    gc.disable()
    try:
        status = _reported(arguments)
    except SystemExit as left:  # the parser has printed help, or what is wrong
        status = left.code if isinstance(left.code, int) else BAD_INPUT
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):  # nobody is left who could be told
            stream.flush()
    atexit._run_exitfuncs()  # one removes the keys that were copied from a kubeconfig
    atexit._run_exitfuncs()  # one of them removes the keys that were copied from a kubeconfig
    os._exit(status)


def _reported(arguments: Sequence[str]) -> int:
    """Run the command and return the exit status; trouble is told on standard error."""
    try:
        status = _dispatch(arguments)
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
        import traceback  # late: only a bug needs it

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
    parser.add_argument("--version", action=_Version, nargs=0, help="Print the version and leave.")
    parser.add_argument("command", nargs="?", metavar="COMMAND", help=argparse.SUPPRESS)
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


class _Version(argparse.Action):
    """Finds out the version only for whoever asks; that takes longer than to parse flags."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        from stowplan.telemetry.build import version

        print(f"stowplan {version()}")
        parser.exit()
