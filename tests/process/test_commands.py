"""``stowplan place`` and ``stowplan tree`` as processes: what they import, print and return."""

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.process.running import DEADLINE_SECONDS, LEVELS, REPOSITORY, environment

pytestmark = pytest.mark.process

EXAMPLE = ("--from-file", "examples/one-rack", "--levels", LEVELS)
FITS = ("place", *EXAMPLE, "--job", "examples/jobs/fits.yaml")
TOO_WIDE = ("place", *EXAMPLE, "--job", "examples/jobs/too-wide.yaml")
TREE = ("tree", *EXAMPLE)
BOTH = pytest.mark.parametrize("command", [FITS, TREE], ids=["place", "tree"])


def surroundings(**more: str) -> dict[str, str]:
    """Return an environment in which nobody has said whether kernels are compiled."""
    found = environment(**more)
    found.pop("STOWPLAN_JIT", None)
    return found


def stowplan(
    *arguments: str, options: Sequence[str] = (), stdin: bytes = b"", stdout: int = subprocess.PIPE
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, *options, "-m", "stowplan", *arguments],
        cwd=REPOSITORY,
        env=surroundings(),
        input=stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
        timeout=DEADLINE_SECONDS,
        check=False,
    )


def in_a_terminal(*arguments: str, **variables: str) -> str:
    """Return what a terminal of 60 columns shows."""
    ours, theirs = pty.openpty()
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "stowplan", *arguments],
            cwd=REPOSITORY,
            env=surroundings(**{"COLUMNS": "60", "TERM": "xterm", **variables}),
            stdout=theirs,
        )
        os.close(theirs)
        shown = b""
        while piece := _read(ours):
            shown += piece
        process.wait(DEADLINE_SECONDS)
    finally:
        os.close(ours)
    return shown.decode().replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # how Linux says that the other side has left
        return b""


@pytest.mark.parametrize(
    ("command", "want"),
    [
        pytest.param(FITS, 0, id="it fits"),
        pytest.param(TOO_WIDE, 1, id="it does not"),
        pytest.param(("place", *EXAMPLE, "--job", "nowhere.yaml"), 2, id="no such file"),
        pytest.param(("place", "--xyzzy"), 2, id="an unknown flag"),
        pytest.param(("place", "-o", "xml"), 2, id="a form that does not exist"),
        pytest.param(("place", "--help"), 0, id="help"),
        pytest.param(TREE, 0, id="a tree"),
        pytest.param((*TREE, "--level", "rck"), 2, id="a level that does not exist"),
    ],
)
def test_the_exit_status_says_yes_no_or_bad_input(command: tuple[str, ...], want: int) -> None:
    ended = stowplan(*command)
    assert ended.returncode == want
    assert bool(ended.stdout) == (want < 2)
    assert bool(ended.stderr) == (want == 2)
    assert b"Traceback" not in ended.stderr


@BOTH
def test_nothing_is_imported_that_one_answer_does_not_need(command: tuple[str, ...]) -> None:
    ended = stowplan(*command, options=("-X", "importtime"))
    assert ended.returncode == 0
    imported = set(re.findall(r"\| +([\w.]+)$", ended.stderr.decode(), re.MULTILINE))
    assert {"numpy", "stowplan.topology.fit"} <= imported
    assert imported.isdisjoint(
        {"numba", "aiohttp", "asyncio", "structlog", "prometheus_client", "uvloop", "ssl"}
    )


@pytest.mark.parametrize(("command", "want"), [(FITS, 0), (TOO_WIDE, 1), (TREE, 0)])
def test_json_is_one_document(command: tuple[str, ...], want: int) -> None:
    ended = stowplan(*command, "-o", "json")
    assert ended.returncode == want
    assert isinstance(json.loads(ended.stdout), dict)


@pytest.mark.parametrize(("command", "want"), [(FITS, 0), (TOO_WIDE, 1), (TREE, 0)])
def test_a_reader_that_has_enough_changes_no_answer(command: tuple[str, ...], want: int) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        ended = stowplan(*command, stdout=write_end)
    finally:
        os.close(write_end)
    assert (ended.returncode, ended.stderr) == (want, b"")


@BOTH
def test_an_answer_that_cannot_be_written_is_bad_input(command: tuple[str, ...]) -> None:
    with Path("/dev/full").open("wb") as full:
        ended = stowplan(*command, stdout=full.fileno())
    assert ended.returncode == 2
    assert ended.stderr == b"stowplan: the answer cannot be written: No space left on device\n"


def test_the_job_is_read_from_standard_input() -> None:
    job = (REPOSITORY / "examples" / "jobs" / "fits.yaml").read_bytes()
    ended = stowplan(*FITS[:-1], "-", stdin=job)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert ended.stdout.startswith(b"Job default/train fits")


@BOTH
def test_a_terminal_is_shown_colour_and_a_pipe_is_not(command: tuple[str, ...]) -> None:
    assert "\033[" in in_a_terminal(*command)
    assert b"\033[" not in stowplan(*command).stdout


@BOTH
@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colour_can_be_refused(command: tuple[str, ...], variables: dict[str, str]) -> None:
    assert in_a_terminal(*command, **variables) == stowplan(*command).stdout.decode()


def test_an_example_of_each_outcome_is_there() -> None:
    typo = stowplan("place", *EXAMPLE, "--job", "examples/jobs/typo.yaml")
    assert typo.returncode == 2
    assert b"Did you mean topology.example.com/rack?" in typo.stdout
