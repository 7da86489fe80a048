"""Node filters judge as kube-scheduler does: taints, then the selector, then required affinity."""

from typing import Any

import pytest

from stowplan.api.models import core
from stowplan.api.models.wire import read
from stowplan.placement.filters import Filters, Requirement, Taint, Toleration, repelling_taints

BATCH = Taint("dedicated", "batch", "NoSchedule")


def filters(**spec: Any) -> Filters:
    return Filters.of(read(core.PodSpec, spec, "Pod p"))


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    required = {"nodeSelectorTerms": list(terms)}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def verdict(found: Filters, labels: dict[str, str], *taints: Taint) -> str | None:
    excluded = found.excluded_by(labels, taints)
    return None if excluded is None else excluded[0]


@pytest.mark.parametrize(
    ("toleration", "want"),
    [
        pytest.param({"key": "dedicated", "operator": "Exists"}, True, id="exists"),
        pytest.param({"key": "dedicated", "value": "batch"}, True, id="equal is the default"),
        pytest.param({"key": "dedicated", "operator": "Equal", "value": "x"}, False, id="other"),
        pytest.param({"operator": "Exists"}, True, id="no key and Exists is every taint"),
        pytest.param({"key": "other", "operator": "Exists"}, False, id="another key"),
        pytest.param({"operator": "Exists", "effect": "NoExecute"}, False, id="another effect"),
        pytest.param({"operator": "Exists", "effect": "NoSchedule"}, True, id="this effect"),
        pytest.param({"key": "dedicated"}, False, id="equal to an empty value"),
        pytest.param({"key": "dedicated", "operator": "", "value": "batch"}, True, id="empty op"),
        pytest.param(
            {"key": "dedicated", "operator": "Exists", "tolerationSeconds": 5},
            True,
            id="for a time",
        ),
    ],
)
def test_a_toleration_covers_what_the_api_server_says(
    toleration: dict[str, Any], want: bool
) -> None:
    found = verdict(filters(tolerations=[toleration]), {}, BATCH)
    assert found == (None if want else "taint")


def test_an_operator_that_we_do_not_know_tolerates_nothing() -> None:
    """Kube-scheduler: Gt and Lt compare numbers behind a gate, any other operator is false."""
    for operator in ("Gt", "Near"):
        assert not Toleration("dedicated", operator, "batch", "").tolerates(BATCH)


def test_every_repelling_taint_must_be_tolerated_and_the_first_that_is_not_is_named() -> None:
    other = Taint("gpu", "", "NoExecute")
    tolerant = filters(tolerations=[{"key": "dedicated", "operator": "Exists"}])
    assert tolerant.excluded_by({}, [BATCH, other]) == ("taint", other)
    assert filters().excluded_by({}, [BATCH, other]) == ("taint", BATCH)


def test_advice_repels_nobody() -> None:
    taints = [
        core.Taint(key="a", effect="PreferNoSchedule"),
        core.Taint(key="b", effect="NoExecute"),
        core.Taint(key="c", value="1", effect="NoSchedule"),
    ]
    assert repelling_taints(taints) == (Taint("b", "", "NoExecute"), Taint("c", "1", "NoSchedule"))
    assert repelling_taints(None) == ()


def test_taint_comes_before_selector_and_selector_before_affinity() -> None:
    all_wrong = filters(
        nodeSelector={"a": "1"},
        affinity=affinity({"matchExpressions": [expression("b", "Exists")]}),
    )
    assert verdict(all_wrong, {}, BATCH) == "taint"
    assert verdict(all_wrong, {}) == "node-selector"
    assert verdict(all_wrong, {"a": "1"}) == "node-affinity"
    assert verdict(all_wrong, {"a": "1", "b": ""}) is None


@pytest.mark.parametrize(
    ("operator", "values", "label", "want"),
    [
        ("In", ("1", "2"), "2", True),
        ("In", ("1", "2"), "3", False),
        ("In", ("1",), None, False),
        ("In", ("",), None, False),
        ("NotIn", ("1",), "2", True),
        ("NotIn", ("1",), "1", False),
        ("NotIn", ("1",), None, True),
        ("Exists", (), "", True),
        ("Exists", (), None, False),
        ("DoesNotExist", (), None, True),
        ("DoesNotExist", (), "x", False),
        ("Gt", ("5",), "6", True),
        ("Gt", ("5",), "5", False),
        ("Gt", ("5",), "40", True),
        ("Gt", ("-5",), "-4", True),
        ("Gt", ("5",), None, False),
        ("Gt", ("5",), "many", False),
        ("Gt", ("many",), "5", False),
        ("Gt", (), "5", False),
        ("Gt", ("1", "2"), "5", False),
        ("Lt", ("5",), "4", True),
        ("Lt", ("5",), "5", False),
        ("Lt", ("5",), None, False),
        ("Near", ("5",), "5", False),
    ],
)
def test_an_expression_holds_as_in_kube_scheduler(
    operator: str, values: tuple[str, ...], label: str | None, want: bool
) -> None:
    labels = {} if label is None else {"key": label}
    assert Requirement("key", operator, values).holds(labels) is want


@pytest.mark.parametrize("label", ["1_0", "1__0", "9" * 30, "٩"])
def test_a_number_is_read_as_go_reads_it(label: str) -> None:
    """strconv.ParseInt(label, 10, 64): no underscores, no other digits, 64 bits; else no match."""
    assert not Requirement("key", "Gt", ("5",)).holds({"key": label})


def test_terms_are_alternatives_and_expressions_within_one_all_hold() -> None:
    both = {"matchExpressions": [expression("a", "Exists"), expression("b", "Exists")]}
    one = {"matchExpressions": [expression("c", "Exists")]}
    found = filters(affinity=affinity(both, one))
    assert verdict(found, {"a": "", "b": ""}) is None
    assert verdict(found, {"c": ""}) is None
    assert verdict(found, {"a": ""}) == "node-affinity"


def test_fields_name_the_node_and_hold_together_with_expressions() -> None:
    term = {
        "matchExpressions": [expression("a", "Exists")],
        "matchFields": [expression("metadata.name", "In", "n1")],
    }
    found = filters(affinity=affinity(term))
    assert verdict(found, {"a": "", "metadata.name": "n1"}) is None
    assert verdict(found, {"a": "", "metadata.name": "n2"}) == "node-affinity"
    assert verdict(found, {"metadata.name": "n1"}) == "node-affinity"
    assert found.names_nodes()


@pytest.mark.parametrize(
    "terms",
    [
        pytest.param((), id="no terms"),
        pytest.param(({},), id="an empty term"),
        pytest.param(({"matchExpressions": None, "matchFields": []},), id="empty lists"),
    ],
)
def test_required_affinity_that_says_nothing_matches_no_node(terms: tuple[Any, ...]) -> None:
    assert verdict(filters(affinity=affinity(*terms)), {"a": ""}) == "node-affinity"


def test_an_empty_term_beside_one_that_holds_does_no_harm() -> None:
    found = filters(affinity=affinity({}, {"matchExpressions": [expression("a", "Exists")]}))
    assert verdict(found, {"a": ""}) is None


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"nodeSelector": None, "tolerations": None, "affinity": None},
        {"affinity": {"nodeAffinity": None}},
        {"affinity": {"podAntiAffinity": {}}},
        {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}},
    ],
)
def test_a_pod_that_asks_for_no_nodes_may_run_anywhere(spec: dict[str, Any]) -> None:
    assert filters(**spec) == Filters()
    assert verdict(filters(**spec), {}) is None


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({"nodeSelector": {"kubernetes.io/hostname": "n1"}}, True),
        ({"nodeSelector": {"pool": "a"}}, False),
        ({"affinity": affinity({"matchExpressions": [expression("pool", "Exists")]})}, False),
        (
            {
                "affinity": affinity(
                    {"matchExpressions": [expression("kubernetes.io/hostname", "NotIn", "n1")]}
                )
            },
            True,
        ),
    ],
)
def test_filters_know_whether_they_tell_equal_nodes_apart(spec: dict[str, Any], want: bool) -> None:
    assert filters(**spec).names_nodes() is want


def test_the_order_of_a_selector_makes_no_other_filter() -> None:
    one = filters(nodeSelector={"a": "1", "b": "2"})
    assert one == filters(nodeSelector={"b": "2", "a": "1"})
