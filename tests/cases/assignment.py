"""Cases on what is asked of one assignment, or done with it."""

from typing import Any

from stowplan.placement.kueue.assignment import Assignment, inside, knows_levels
from stowplan.placement.kueue.encoding import decode_listed, encode_listed
from stowplan.placement.records import Amounts
from stowplan.placement.request import Layer, TopologyRequest
from stowplan.topology import capacity
from stowplan.topology.levels import Levels

Json = dict[str, Any]

INPUTS = {
    "merge": {"a", "b"},
    "shrink": {"a", "count"},
    "count": {"a"},
    "usage": {"a", "per_pod", "before"},
    "stale": {"a", "levels", "leaf_domains"},
    "knows-level": {"levels", "topology"},
    "inside": {"domain", "within"},
    "on-node": {"a", "node"},
}
NOT_INPUTS = {"name", "kind", "op", "about", "expect"}


def check(case: Json) -> None:
    """Run the case's op and compare all that it states."""
    assert case["op"] in INPUTS, f"unknown op {case['op']!r}"
    assert case.keys() - NOT_INPUTS <= INPUTS[case["op"]], f"unknown inputs: {sorted(case)}"
    assert _answer(case) == _expected(case)


def _answer(case: Json) -> Json:
    a = decode_listed(case["a"]) if "a" in case else Assignment((), ())
    match case["op"]:
        case "merge":
            return {"assignment": encode_listed(a.merge(decode_listed(case["b"])))}
        case "shrink":
            return {"assignment": encode_listed(a.shrink(case["count"]))}
        case "count":
            return {"count": a.count}
        case "usage":
            assert not case.get("before"), "usage is only added to nothing"
            used = a.usage(_amounts(case["per_pod"]))
            return {"usage": [{"values": list(at), "total": dict(total)} for at, total in used]}
        case "stale":
            leaves = [tuple(path) for path in case["leaf_domains"]]
            gone = a.stale(Levels(tuple(case["levels"])), leaves)
            return {"stale": gone is not None, **({"first_value": gone[0]} if gone else {})}
        case "knows-level":
            levels = Levels(tuple(case["levels"]))
            return {"known": knows_levels(levels, _request(case["topology"]))}
        case "inside":
            return {"inside": inside(tuple(case["domain"]), tuple(case["within"]))}
        case op:
            assert op == "on-node"
            return {"on_node": a.on_node(case["node"])}


def _expected(case: Json) -> Json:
    """Return what the case states, quantities in base units."""
    expect: Json = case["expect"]
    if "usage" not in expect:
        return expect
    usage = [{**use, "total": dict(_amounts(use["total"]))} for use in expect["usage"]]
    return {**expect, "usage": usage}


def _amounts(quantities: dict[str, str]) -> Amounts:
    return tuple((name, capacity.requested(name, text)) for name, text in quantities.items())


def _request(topology: Json) -> TopologyRequest:
    mode = topology["mode"]
    return TopologyRequest(
        required=topology["level"] if mode == "required" else None,
        preferred=topology["level"] if mode == "preferred" else None,
        unconstrained=True if mode == "unconstrained" else None,
        layers=tuple(Layer(s["level"], s["size"] or 0) for s in topology.get("slices", ())),
    )
