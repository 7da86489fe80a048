"""Cases on reading and judging annotations."""

from typing import Any

import pytest

from stowplan.api.errors import InvalidObjectError
from stowplan.placement.request import Layer, TopologyRequest, group_violations, parse, violations

Json = dict[str, Any]

# Kueue's field names for ours.
FIELDS = {
    "required": "required",
    "preferred": "preferred",
    "unconstrained": "unconstrained",
    "podSetSliceRequiredTopology": "slice_level",
    "podSetSliceSize": "slice_size",
    "podSetGroupName": "group",
    "podIndexLabel": "index_label",
    "subGroupIndexLabel": "subgroup_index_label",
    "subGroupCount": "subgroup_count",
}
LAYERS = "podsetSliceRequiredTopologyConstraints"

ERRORS = {
    "not-a-number-or-boolean": ("must be a whole number", "must be true or false"),
    "bad-json": ("must be a JSON list",),
    "layer-count": ("must list 1 to 3 layers",),
}


def check(case: Json) -> None:
    """Run the case's op."""
    match case["op"]:
        case "parse":
            _parse(case)
        case "validate":
            found = violations(case["annotations"], layers_allowed=case["multi_layer"])
            assert len(found) == case["expect"]["errors"], found
        case "validate-size":
            found = violations(case["annotations"], pods=case["podset_count"])
            assert len(found) == case["expect"]["errors"], found
        case "validate-groups":
            podsets = [(p["name"], p["count"], _request(p["request"])) for p in case["podsets"]]
            found = group_violations(podsets)
            assert len(found) == case["expect"]["errors"], found
        case other:
            raise AssertionError(f"unknown op {other!r}")


def _parse(case: Json) -> None:
    labels = ("pod_index_label", "subgroup_index_label", "subgroup_count")
    given = [case.get(label) for label in labels]
    if "error" in case["expect"]:
        with pytest.raises(InvalidObjectError) as refused:
            parse(case["annotations"], *given)
        assert refused.value.violations[0].problem in ERRORS[case["expect"]["error"]]
        return
    want = case["expect"]["request"]
    assert parse(case["annotations"], *given) == (None if want is None else _request(want))


def _request(fields: Json) -> TopologyRequest:
    plain = {FIELDS[name]: value for name, value in fields.items() if name != LAYERS}
    layers = tuple(Layer(e["topology"], e["size"]) for e in fields.get(LAYERS, ()))
    return TopologyRequest(**plain, layers=layers)
