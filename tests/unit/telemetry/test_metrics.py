import inspect
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import prometheus_client
import pytest
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.parser import text_string_to_metric_families

from stowplan.placement import decide, reasons
from stowplan.telemetry import metrics, page

_NAME = re.compile(r"stowplan(_[a-z]+)+")
_UNITS = {
    "seconds",
    "bytes",
    "total",
    "info",
    "seats",
    "gangs",
    "generation",
    "draining",
    "leading",
    "refused",
}
_REPOSITORY = Path(__file__).parents[3]


def scraped() -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    families = text_string_to_metric_families(metrics.exposition().decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def names(found: prometheus_client.CollectorRegistry) -> set[str]:
    return {family.name for family in found.collect()}


@pytest.mark.parametrize("declared", metrics.DECLARED, ids=lambda declared: declared.name)
def test_a_name_is_stowplan_noun_unit(declared: metrics.Declared) -> None:
    assert _NAME.fullmatch(declared.name)
    assert declared.name.rsplit("_", 1)[1] in _UNITS
    assert declared.name.endswith("_total") == (declared.kind == "counter")
    assert declared.meaning.endswith(".") or ":" in declared.meaning


@pytest.mark.parametrize("declared", metrics.DECLARED, ids=lambda declared: declared.name)
def test_every_label_has_a_closed_set_of_values(declared: metrics.Declared) -> None:
    for label in declared.labels:
        assert metrics.LABEL_VALUES[label]
        assert len(set(metrics.LABEL_VALUES[label])) == len(metrics.LABEL_VALUES[label])


def test_reasons_and_outcomes_are_those_of_the_placement() -> None:
    assert set(metrics.LABEL_VALUES["reason"]) == set(get_args(reasons.Word))
    assert set(metrics.LABEL_VALUES["outcome"]) == {*get_args(decide.Outcome), "failed"}


def test_every_metric_of_the_module_is_in_the_list() -> None:
    constants = inspect.getmembers(metrics, lambda member: isinstance(member, MetricWrapperBase))
    assert {id(m) for _, m in constants} == {id(each.metric) for each in metrics.DECLARED}
    assert len(names(metrics.REGISTRY)) == len(metrics.DECLARED)


def test_nothing_is_put_into_the_registry_of_the_whole_process() -> None:
    assert not [name for name in names(prometheus_client.REGISTRY) if name.startswith("stowplan")]


def test_every_scraped_label_value_is_from_its_closed_set() -> None:
    for _, labels in scraped():
        for label, value in labels:
            if label != "le":
                assert value in metrics.LABEL_VALUES[label]


def test_counters_start_at_zero_so_that_the_first_event_is_a_rise() -> None:
    found = scraped()
    for reason in metrics.LABEL_VALUES["reason"]:
        assert ("stowplan_refusals_total", (("reason", reason),)) in found
    assert not [name for name, _ in found if name.endswith("_created")]


def test_the_buckets_of_decisions_bracket_the_latency_budget() -> None:
    series = metrics.child(metrics.DECISION_DURATION_SECONDS, "filter", "ranked")
    series.observe(0.00003)
    bounds = [
        float(dict(labels)["le"])
        for name, labels in scraped()
        if name == "stowplan_decision_duration_seconds_bucket"
        and dict(labels)["outcome"] == "ranked"
    ]
    assert (bounds[0], bounds[-2], bounds[-1]) == (0.00005, 1.0, math.inf)


def test_a_child_is_looked_up_once() -> None:
    first = metrics.child(metrics.DECISIONS_TOTAL, "filter", "placed")
    assert metrics.child(metrics.DECISIONS_TOTAL, "filter", "placed") is first
    assert metrics.child(metrics.LEDGER_SEATS) is metrics.LEDGER_SEATS


def test_a_child_counts_in_its_own_series() -> None:
    key = ("stowplan_decisions_total", (("outcome", "refused"), ("verb", "filter")))
    before = scraped()[key]
    metrics.child(metrics.DECISIONS_TOTAL, "filter", "refused").inc()
    assert scraped()[key] == before + 1


@pytest.mark.parametrize(
    ("values", "want"),
    [
        pytest.param(("bind", "placed"), "label verb must be one of filter, prior", id="open set"),
        pytest.param(("filter", "team-a/pod-0"), "label outcome must be one of", id="a pod's name"),
        pytest.param(("filter",), "shorter", id="a label is missing"),
    ],
)
def test_a_value_outside_the_closed_set_is_a_bug_of_the_caller(
    values: tuple[str, ...], want: str
) -> None:
    with pytest.raises(ValueError, match=want):
        metrics.child(metrics.DECISIONS_TOTAL, *values)


def test_the_age_of_the_state_is_computed_at_the_scrape() -> None:
    metrics.mark_state_loaded()
    first = scraped()["stowplan_state_age_seconds", ()]
    second = scraped()["stowplan_state_age_seconds", ()]
    assert 0 <= first < second < 60


def run_page(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "stowplan.telemetry.metrics", *arguments]
    return subprocess.run(command, cwd=_REPOSITORY, capture_output=True, text=True, check=False)


def test_the_page_lists_every_metric_with_its_labels() -> None:
    printed = run_page().stdout
    assert printed == page.page()
    for declared in metrics.DECLARED:
        assert f"| `{declared.name}` | {declared.kind} |" in printed
    assert "`result`: `ok`, `refused`" in printed


def test_the_committed_page_is_fresh() -> None:
    checked = run_page("--check", "docs/metrics.md")
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize("content", [pytest.param("old\n", id="stale"), None])
def test_a_stale_or_absent_page_is_named_with_what_differs_and_what_to_run(
    content: str | None, tmp_path: Path
) -> None:
    file = tmp_path / "metrics.md"
    if content is not None:
        file.write_text(content)
    checked = run_page("--check", str(file))
    assert checked.returncode == 1
    assert "+| `stowplan_build_info` | gauge |" in checked.stderr
    assert f"{file} is stale; run: python -m stowplan.telemetry.metrics > {file}" in checked.stderr
