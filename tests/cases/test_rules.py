"""A quirk of Kueue's that is switched off changes the cases that its ADR names, and no others."""

import json
import re
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from stowplan.placement.rules import KUEUE, STOWPLAN, Rules
from tests.cases import placement
from tests.cases.test_domain_fit import FOLDER

Case = dict[str, Any]

ADRS = Path(__file__).parents[2] / "docs" / "adr"
QUIRKS = [quirk.name for quirk in fields(Rules)]


def cases() -> list[Case]:
    return [
        case
        for file in sorted(FOLDER.glob("placement-*.json"))
        for case in json.loads(file.read_text())["cases"]
    ]


def differing(rules: Rules) -> Iterator[str]:
    """Yield the cases whose answer is not what they state."""
    for case in cases():
        try:
            placement.compare(case, rules)
        except AssertionError:
            yield f"{case['kind']}/{case['name']}"


def named_by(quirk: str) -> set[str]:
    """Return the cases that the quirk's ADR names."""
    (text,) = (
        adr for adr in (f.read_text() for f in ADRS.glob("*.md")) if f"Switch: `{quirk}`" in adr
    )
    return set(re.findall(r"^- `([a-z-]+/[a-z0-9-]+)`$", text, re.MULTILINE))


needs_cases = pytest.mark.skipif(
    not FOLDER.is_dir(), reason=f"no cases: {FOLDER} is not there; set DOMAIN_FIT_CASES"
)


@pytest.mark.cases
@needs_cases
@pytest.mark.parametrize("quirk", QUIRKS)
def test_a_switched_quirk_changes_the_cases_that_its_adr_names(quirk: str) -> None:
    assert set(differing(replace(KUEUE, **{quirk: False}))) == named_by(quirk)


@pytest.mark.cases
@needs_cases
def test_our_rules_change_the_cases_that_some_adr_names() -> None:
    assert set(differing(STOWPLAN)) == set().union(*map(named_by, QUIRKS))


@pytest.mark.parametrize("quirk", QUIRKS)
def test_every_quirk_has_one_adr_and_a_row_in_the_rules(quirk: str) -> None:
    named_by(quirk)
    rules = (ADRS.parent / "placement.md").read_text()
    assert f"| `{quirk.replace('_', '-')}` |" in rules
