import json
from pathlib import Path

import pytest

from stowplan.cli.main import main
from stowplan.cli.settings import KEYS


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["config", *arguments]) == 0
    return capsys.readouterr().out


def test_a_table_shows_every_key_its_value_and_its_source(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = tmp_path / "stowplan.yaml"
    config.write_text("packing: best-fit")
    monkeypatch.setenv("STOWPLAN_DRAIN_SECONDS", "20")
    table = printed(capsys, "--levels", "zone,rack", "--config", str(config))
    rows = [line.split(maxsplit=2) for line in table.splitlines()]
    assert rows[0] == ["KEY", "VALUE", "SOURCE"]
    assert [row[0] for row in rows[1:]] == list(KEYS)
    found = {key: (value, source) for key, value, source in rows[1:]}
    assert found["levels"] == ("zone,rack", "flag --levels")
    assert found["drain_seconds"] == ("20.0", "environment STOWPLAN_DRAIN_SECONDS")
    assert found["packing"] == ("best-fit", f"file {config}")
    assert found["from_file"] == ("-", "default")
    assert found["listen"] == ("127.0.0.1:8888", "default")


def test_json_shows_values_as_a_configuration_file_would_have_them(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    given = ("--from-file", "a.json", "b", "--from-file", "c", "--levels", "zone", "-o", "json")
    found = json.loads(printed(capsys, *given))
    assert found["from_file"] == {"value": ["a.json", "b", "c"], "source": "flag --from-file"}
    assert found["listen"] == {"value": "127.0.0.1:8888", "source": "default"}
    assert found["probe_listen"] == {"value": None, "source": "default"}
    # What is printed can be put into a file, and means the same there.
    config = tmp_path / "printed.json"
    config.write_text(json.dumps({key: each["value"] for key, each in found.items()}))
    again = json.loads(printed(capsys, "--config", str(config), "-o", "json"))
    assert {k: v["value"] for k, v in again.items()} == {k: v["value"] for k, v in found.items()}


def test_settings_that_are_refused_are_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "--levels", "rack,rack"]) == 2
    written = capsys.readouterr()
    assert written.out == ""
    assert "--levels[1]: must be listed once" in written.err
