import os
import subprocess
import sys
from pathlib import Path

import pytest

from stowplan.cli import config, gangs, place, tree
from stowplan.cli.main import COMMANDS, main
from stowplan.cli.settings import KEYS, flag_of, variable_of

REPOSITORY = Path(__file__).parents[3]


def stowplan(*arguments: str, stdout: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "stowplan", *arguments],
        cwd=REPOSITORY,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )


@pytest.mark.process
def test_help_lists_every_command() -> None:
    helped = stowplan("--help")
    assert (helped.returncode, helped.stderr) == (0, "")
    for name, command in COMMANDS.items():
        assert name in helped.stdout
        assert command.summary in helped.stdout


@pytest.mark.process
def test_the_version_is_printed() -> None:
    printed = stowplan("--version")
    assert printed.returncode == 0
    assert printed.stdout.split()[0] == "stowplan"


@pytest.mark.process
def test_everything_wrong_with_serve_is_said_before_anything_is_loaded() -> None:
    refused = stowplan("serve", "--levels", "rack,rack", "--lisen=x", "--drain-seconds", "-1")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.splitlines() == [
        "the configuration is refused:",
        "  --lisen: must be a known flag; did you mean --listen?",
        "  --drain-seconds: must be greater than or equal to 0 (got '-1'); "
        "write a value such as 5.0",
        "  --levels[1]: must be listed once; first listed at --levels[0] (got 'rack'); "
        "remove this entry",
        "  --from-file: must name a cluster: files of Kubernetes objects, or use --kubeconfig; "
        "run: kubectl get nodes,pods,jobs,replicasets,statefulsets -A -o json > cluster.json, "
        "then add --from-file cluster.json",
    ]


@pytest.mark.process
def test_a_reader_that_has_enough_is_no_error() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        printed = stowplan("config", stdout=write_end)
    finally:
        os.close(write_end)
    assert (printed.returncode, printed.stderr) == (0, "")


@pytest.mark.process
def test_help_needs_none_of_the_heavy_libraries() -> None:
    script = (
        "import sys\n"
        "from stowplan.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'aiohttp', 'numba', 'numpy', 'orjson', 'pydantic', 'yaml'} & set(sys.modules)\n"
        "sys.exit(', '.join(sorted(heavy)) or 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


OF_COMMAND = {
    "serve": KEYS,
    "config": KEYS,
    "place": place.KEYS,
    "tree": tree.KEYS,
    "gangs": gangs.KEYS,
}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_shows_each_of_its_settings_with_flag_and_variable(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main([command, "--help"])
    assert left.value.code == 0
    helped = " ".join(capsys.readouterr().out.split())
    for key in KEYS:
        assert (f"{flag_of(key)} " in helped) == (key in OF_COMMAND[command])
        assert (f"[{variable_of(key)}" in helped) == (key in OF_COMMAND[command])
    assert "Undefined" not in helped


@pytest.mark.parametrize("command", ["place", "tree"])
def test_settings_of_other_commands_may_stand_where_all_commands_look(
    command: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("STOWPLAN_DRAIN_SECONDS", "7")
    config = tmp_path / "stowplan.yaml"
    config.write_text("listen: 127.0.0.1:9999\nlevels: topology.example.com/rack")
    job = ("--job", "examples/jobs/fits.yaml") if command == "place" else ()
    monkeypatch.chdir(REPOSITORY)
    assert main([command, "--config", str(config), "--from-file", "examples/one-rack", *job]) == 0
    assert "topology.example.com/rack" in capsys.readouterr().out


def test_a_setting_of_another_command_that_is_broken_is_told_all_the_same(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STOWPLAN_DRAIN_SECONDS", "soon")
    assert main(["tree", "--from-file", "nowhere"]) == 2
    assert "STOWPLAN_DRAIN_SECONDS: must be a valid number" in capsys.readouterr().err


def test_without_a_command_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "usage: stowplan" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("word", "want"),
    [
        pytest.param("serv", "did you mean serve?", id="a misspelling"),
        pytest.param("xyzzy", "see stowplan --help", id="nothing like it"),
    ],
)
def test_an_unknown_command_is_refused_with_what_to_type(
    word: str, want: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([word]) == 2
    assert capsys.readouterr().err == f"stowplan: there is no command {word!r}; {want}\n"


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        pytest.param(["config", "--levels"], "expected one argument", id="a flag without value"),
        pytest.param(["config", "-o", "xml"], "invalid choice: 'xml'", id="an unknown form"),
        pytest.param(["--verbose"], "unrecognized arguments: --verbose", id="before the command"),
    ],
)
def test_a_command_line_that_cannot_be_read_is_one_line_and_status_2(
    arguments: list[str], want: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert want in line
    assert line.endswith("--help")


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        pytest.param(["--level", "rack"], ["--level: must be a known flag"], id="with its value"),
        pytest.param(["--xyzzy=1"], ["--xyzzy: must be a known flag; see stow"], id="nothing like"),
        pytest.param(["cluster.json"], ["cluster.json: must follow a flag"], id="a stray word"),
        pytest.param(
            ["--outptu=json"], ["--outptu: must be a known flag; did you mean --output?"], id="own"
        ),
        pytest.param(
            ["--confg=a", "b"], ["--confg: must be", "b: must follow a flag"], id="both of them"
        ),
    ],
)
def test_flags_that_do_not_exist_are_all_named(
    arguments: list[str], want: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["config", *arguments]) == 2
    lines = capsys.readouterr().err.splitlines()[1:]
    assert len(lines) == len(want)
    for line, start in zip(lines, want, strict=True):
        assert line.startswith(f"  {start}")


def test_a_bug_is_called_one_and_shows_where_it_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "KEYS", ("no such setting",))
    assert main(["config"]) == 2
    written = capsys.readouterr().err
    assert "Traceback" in written
    assert written.endswith("stowplan stopped over a bug of its own; please report the above\n")
