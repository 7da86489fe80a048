"""The Python call that docs/placement.md prints runs as it stands there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
DOCS = (ROOT / "docs" / "placement.md").read_text(encoding="utf-8")
(CALL,) = re.findall(r"```python\n(.*?)```", DOCS, re.DOTALL)


def test_the_documented_call_answers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    exec(compile(CALL, "docs/placement.md", "exec"), {})
    printed = capsys.readouterr().out
    assert printed.startswith("stowplan NoDomainFits: no topology.example.com/rack domain fits")
    assert "FewerPods(" in printed
