"""The oracle gives the right answer to every shared case of the kinds that it covers.

The cases are not part of this repository: their folder is $DOMAIN_FIT_CASES, or else
``cases/domain-fit`` of the folder ``shared`` beside the repository. Without it there is one skip
that says so.
"""

import json
import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.oracle import fit
from tests.oracle.cluster import Json, replay
from tests.oracle.replacement import replay_elastic, replay_replacement

REPOSITORY = Path(__file__).resolve().parents[2]
CASES = Path(
    os.environ.get("DOMAIN_FIT_CASES", REPOSITORY.parent / "shared" / "cases" / "domain-fit")
)
PLACEMENT_KINDS = (
    "basic",
    "nodes",
    "ties",
    "slices",
    "layers",
    "groups",
    "affinity",
    "podsets",
    "shared-nodes",
)

pytestmark = pytest.mark.cases

if not CASES.is_dir():
    pytest.skip(
        "the shared cases are not here; set DOMAIN_FIT_CASES to their folder",
        allow_module_level=True,
    )


def cases(*files: str) -> list[object]:
    """Return one parameter per case."""
    return [
        pytest.param(case, id=f"{file}/{case['name']}")
        for file in files
        for case in json.loads((CASES / f"{file}.json").read_text(encoding="utf-8"))["cases"]
    ]


def comparable(answer: Json) -> Json:
    """Return the answer with excluded nodes in a fixed order: the cases leave that order free."""
    nodes = answer.get("failure", {}).get("nodes")
    if nodes is None:
        return answer
    ordered = {**nodes, "excluded": sorted(map(json.dumps, map(_sorted, nodes["excluded"])))}
    return {**answer, "failure": {**answer["failure"], "nodes": ordered}}


def _sorted(entry: Json) -> Json:
    return dict(sorted(entry.items()))


def assert_expected(case: Json, answers: Iterable[Json]) -> None:
    got = {answer["name"]: comparable(answer) for answer in answers}
    judged = [want for want in case["expect"]["podsets"] if len(want) > 1]  # more than a name
    assert judged
    assert [got.get(want["name"]) for want in judged] == [comparable(want) for want in judged]


@pytest.mark.parametrize("case", cases(*(f"placement-{kind}" for kind in PLACEMENT_KINDS)))
def test_the_oracle_places_the_podsets_of_a_case_as_expected(case: Json) -> None:
    assert_expected(case, replay(case))


@pytest.mark.parametrize("case", cases("placement-elastic"))
def test_the_oracle_grows_and_shrinks_the_podsets_of_a_case_as_expected(case: Json) -> None:
    assert_expected(case, replay_elastic(case))


@pytest.mark.parametrize("case", cases("placement-replacement"))
def test_the_oracle_replaces_the_lost_node_of_a_case_as_expected(case: Json) -> None:
    assert_expected(case, replay_replacement(case))


@pytest.mark.parametrize("case", cases("domain-order"))
def test_the_oracle_orders_the_domains_of_a_case_as_expected(case: Json) -> None:
    domains = [
        fit.Domain(
            values=tuple(d["values"]),
            affinity=d["affinity"],
            leader=d["leader"],
            pods=d["pods"],
            pods_wl=d["pods_with_leader"],
            slices=d["slices"],
            slices_wl=d["slices_with_leader"],
        )
        for d in case["domains"]
    ]
    got = fit.ordered(
        domains,
        with_leader=case["with_leader"],
        packing=case["filling"] == "largest-first",
        use_affinity=case["preferred_affinity"],
    )
    assert [list(domain.values) for domain in got] == case["expect"]["order"]
