"""Every case of the shared domain-fit folder, one test each.

The folder is named by ``DOMAIN_FIT_CASES``; see its README for what the words in a case mean. A
kind that no function here answers fails.
"""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cases import (
    assignment,
    balanced,
    encoding,
    health,
    order,
    placement,
    reading,
    release,
    state,
)

FOLDER = Path(
    os.environ.get("DOMAIN_FIT_CASES")
    or Path(__file__).parents[3] / "shared" / "cases" / "domain-fit"
)

Case = dict[str, Any]

ANSWERS: dict[str, Callable[[Case], None]] = {
    "basic": placement.check,
    "nodes": placement.check,
    "ties": placement.check,
    "slices": placement.check,
    "layers": placement.check,
    "groups": placement.check,
    "affinity": placement.check,
    "podsets": placement.check,
    "shared-nodes": placement.check,
    "balanced": placement.check,
    "balanced-part": balanced.check,
    "elastic": placement.check,
    "replacement": placement.check,
    "domain-order": order.check,
    "cluster-state": state.check,
    "annotations": reading.check,
    "assignment": assignment.check,
    "encoding": encoding.check,
    "ungate": release.check,
    "node-health": health.check,
}


def cases() -> Iterator[Any]:
    """Return a parameter for each case; one that skips with the reason when there is no folder."""
    if not FOLDER.is_dir():
        reason = f"no cases: {FOLDER} is not there; set DOMAIN_FIT_CASES to the folder of cases"
        yield pytest.param(None, id="no-folder", marks=pytest.mark.skip(reason=reason))
        return
    for file in sorted(FOLDER.glob("*.json")):
        for case in json.loads(file.read_text())["cases"]:
            yield pytest.param(case, id=f"{file.stem}/{case['name']}")


@pytest.mark.cases
@pytest.mark.parametrize("case", list(cases()))
def test_the_answer_is_the_one_of_the_case(case: Case) -> None:
    assert case["kind"] in ANSWERS, f"unknown kind {case['kind']!r}"
    ANSWERS[case["kind"]](case)
