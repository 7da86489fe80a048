"""The questions of the README's second section: each command prints what stands below it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.process.running import REPOSITORY

pytestmark = pytest.mark.process

README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
SECTION = README.split("\n## Answers before you submit\n")[1].split("\n## ")[0]
# A command, what it prints, and the exit status where it is not 0.
ASKED = re.findall(
    r"```sh\n([^`]+)```\n```text\n(.*?)```\n(?:\(exit status (\d)\))?", SECTION, re.DOTALL
)

EXPORTED = {
    **dict(re.findall(r"^export (STOWPLAN_\w+)=(\S+)$", SECTION, re.MULTILINE)),
    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
}


def test_the_section_asks_at_least_three_questions() -> None:
    assert len(ASKED) >= 3
    assert {status or "0" for _, _, status in ASKED} >= {"0", "1"}


@pytest.mark.parametrize(
    ("command", "printed", "status"), ASKED, ids=[f"question {i + 1}" for i in range(len(ASKED))]
)
def test_a_question_is_answered_as_the_readme_says(command: str, printed: str, status: str) -> None:
    found = subprocess.run(
        ["bash", "-c", command],
        cwd=REPOSITORY,
        env={**os.environ, **EXPORTED},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (found.stdout, found.stderr) == (printed, "")
    assert found.returncode == int(status or 0)
