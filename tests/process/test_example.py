"""``make run``: the example answers what its own text and the README say."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.running import LEVELS, REPOSITORY, Running, running

pytestmark = pytest.mark.process

CALLS = REPOSITORY / "examples" / "calls"
TRY = (REPOSITORY / "examples" / "one-rack" / "try.txt").read_text(encoding="utf-8")
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
CURL = re.compile(r"curl -s http://127\.0\.0\.1:8888/(\w+) -d @(\S+)")


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    flags = ("--from-file", "examples/one-rack", "--levels", LEVELS)
    with running(tmp_path_factory.mktemp("example"), *flags) as it:
        yield it


def unbroken(text: str) -> str:
    """Return the text without the line breaks and indents inside a quoted answer."""
    return re.sub(r"\n\s+", "", text)


def answer(example: Running, call: str) -> str:
    return example.post("filter", (CALLS / f"{call}.json").read_bytes()).decode()


@pytest.mark.parametrize("call", ["train-0", "wide-0"])
def test_the_example_answers_what_its_text_and_the_readme_quote(
    example: Running, call: str
) -> None:
    found = answer(example, call)
    assert found in unbroken(TRY)
    assert found in README


def test_a_typo_is_told_which_levels_there_are(example: Running) -> None:
    found = answer(example, "typo-0")
    assert "LevelUnknown" in found
    assert all(level in found for level in LEVELS.split(","))


def test_all_four_pods_of_the_example_get_a_seat_in_one_rack(example: Running) -> None:
    call = json.loads((CALLS / "train-0.json").read_bytes())
    nodes = []
    for i in range(4):
        call["Pod"]["metadata"]["name"] = call["Pod"]["metadata"]["uid"] = f"train-{i}"
        found = example.post("filter", json.dumps(call).encode())
        nodes += json.loads(found)["NodeNames"]
    assert sorted(nodes) == ["b1-r2-x1", "b1-r2-x1", "b1-r2-x2", "b1-r2-x2"]


def test_the_files_that_the_texts_name_are_there() -> None:
    for text in (TRY, README):
        calls = CURL.findall(text)
        assert calls
        assert all(verb in ("filter", "prioritize") for verb, _ in calls)
        assert all((REPOSITORY / file).is_file() for _, file in calls)


def test_what_make_run_starts_is_what_is_tested_here() -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    assert "EXAMPLE := examples/one-rack\n" in makefile
    assert f"LEVELS := {LEVELS}\n" in makefile
    assert "LISTEN ?= 127.0.0.1:8888\n" in makefile
    assert "serve --from-file $(EXAMPLE) --levels $(LEVELS) --listen $(LISTEN)" in makefile
    assert "sed 's/127\\.0\\.0\\.1:8888/$(LISTEN)/' $(EXAMPLE)/try.txt" in makefile


def test_the_other_lines_to_try_answer_too(example: Running) -> None:
    assert example.get("/readyz") == (200, "ok\n")
    assert example.get("/healthz") == (200, "ok\n")
    assert "stowplan_decisions_total" in example.get("/metrics")[1]
    assert Path(REPOSITORY / "examples" / "one-rack" / "nodes.yaml").is_file()
