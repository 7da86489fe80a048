import json
from pathlib import Path

import pytest

from bench import report
from bench.report import Line


@pytest.mark.parametrize(
    ("value", "budget", "want_missed", "want_verdict"),
    [
        pytest.param(39.0, 40.0, False, "yes", id="below the budget"),
        pytest.param(40.0, 40.0, False, "yes", id="exactly the budget"),
        pytest.param(46.0, 40.0, True, "MISSED by 6.00 µs", id="above the budget, with the gap"),
        pytest.param(float("nan"), 40.0, True, "MISSED by nan µs", id="nothing was measured"),
        pytest.param(46.0, None, False, "", id="no budget"),
    ],
)
def test_a_line_is_judged_by_its_budget(
    value: float, budget: float | None, want_missed: bool, want_verdict: str
) -> None:
    line = Line("a decision", "46 µs", value, budget)
    assert (line.missed, line.verdict) == (want_missed, want_verdict)


def test_the_ratio_is_measured_by_budget() -> None:
    assert Line("a recount", "5 x a copy", 5.0, 10.0, "x").ratio == 0.5


def test_the_table_lines_up_and_counts_the_missed() -> None:
    text = report.table(
        [
            Line("recount", "5 x a copy", 5.0, 10.0, "x"),
            Line("decision", "60 µs", 60.0, 40.0),
            Line("null handler", "1,000 µs", 1000.0),
        ]
    )
    assert text.splitlines() == [
        "what         | measured   | budget   | ratio | ok",
        "------------ | ---------- | -------- | ----- | ------------------",
        "recount      | 5 x a copy | <= 10 x  | 0.50  | yes",
        "decision     | 60 µs      | <= 40 µs | 1.50  | MISSED by 20.00 µs",
        "null handler | 1,000 µs   |          |       |",
        "",
        "2 budgets, 1 missed; ratio is measured by budget",
    ]


def test_the_record_holds_every_line_and_the_machine_but_no_path(tmp_path: Path) -> None:
    file = tmp_path / "results" / "latest.json"
    lines = [Line("decision", "60 µs", 60.0, 40.0, facts={"p50_us": 30.0})]
    report.write(lines, report.machine(), 12.34, file)
    text = file.read_text(encoding="utf-8")
    found = json.loads(text)
    assert found["lines"] == [
        {
            "what": "decision",
            "value": 60.0,
            "unit": "µs",
            "budget": 40.0,
            "ratio": 1.5,
            "ok": False,
            "facts": {"p50_us": 30.0},
        }
    ]
    assert {"python", "numpy", "numba", "cores"} <= found["machine"].keys()
    assert "/" not in text
