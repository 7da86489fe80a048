"""Cases on the release of gated pods."""

from collections import Counter
from typing import Any

from stowplan.api.errors import Violation
from stowplan.api.models import core
from stowplan.api.models.wire import read
from stowplan.placement import keys
from stowplan.placement.kueue.assignment import Assignment
from stowplan.placement.kueue.release import (
    GatedPodSet,
    GatedWorkload,
    Member,
    Release,
    Released,
    Unseen,
    releases,
)
from stowplan.placement.request import TopologyRequest

Json = dict[str, Any]

KNOWN = {
    "case": {"name", "kind", "about", "workload", "pods", "pending_ungates", "expect"},
    "workload": {"name", "admitted", "quota_reserved", "podsets", "unhealthy_nodes"},
    "podset": {
        "name", "count", "admitted_count", "assignment", "index_label", "subgroup_index_label",
        "subgroup_count", "group",
    },
    "pod": {
        "name", "workload", "podset", "gates", "node_selector", "phase", "index_labels",
        "index_offset",
    },
    "expect": {"compare", "error", "pods", "counts"},
}  # fmt: skip


def check(case: Json) -> None:
    """Release what can be released, and compare the pods after that."""
    _require_known("case", case)
    _require_known("expect", case["expect"])
    workload = _workload(case["workload"])
    members = [_member(pod) for pod in case["pods"]]
    found = releases(workload, members, keys.KUEUE_GATE, case.get("pending_ungates", 0))
    assert _error(found) == case["expect"].get("error")
    let_go = {each.pod: each for each in found.releases} if isinstance(found, Released) else {}
    pods = [_after(pod, let_go.get(f"default/{pod['name']}")) for pod in case["pods"]]
    match case["expect"]["compare"]:
        case "exact":
            _compare(pods, case["expect"]["pods"], ("gates", "node_selector"))
        case "counts":
            _compare(pods, case["expect"]["pods"], ("gates",))
            assert _live_per_selector(pods) == {
                _frozen(entry["node_selector"]): entry["count"]
                for entry in case["expect"]["counts"]
            }
        case other:
            raise AssertionError(f"unknown comparison {other!r}")


def _error(found: Released | Unseen | Violation) -> str | None:
    match found:
        case Unseen():
            return "pending-ungates"
        case Violation():
            return "bad-offset"
        case Released():
            return None


def _after(pod: Json, released: Release | None) -> Json:
    if released is None:
        return pod
    return pod | {
        "gates": [gate for gate in pod["gates"] if gate != released.gate],
        "node_selector": pod["node_selector"] | dict(released.selector),
    }


def _compare(pods: list[Json], want: list[Json], parts: tuple[str, ...]) -> None:
    got = {pod["name"]: tuple(pod[part] for part in parts) for pod in pods}
    assert got == {pod["name"]: tuple(pod[part] for part in parts) for pod in want}


def _live_per_selector(pods: list[Json]) -> dict[Any, int]:
    live = (pod for pod in pods if pod["phase"] not in ("Succeeded", "Failed"))
    return Counter(_frozen(pod["node_selector"]) for pod in live if pod["node_selector"])


def _frozen(selector: Json) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(selector.items()))


def _workload(workload: Json) -> GatedWorkload:
    _require_known("workload", workload)
    return GatedWorkload(
        name=workload["name"],
        admitted=workload["admitted"],
        podsets=tuple(map(_podset, workload["podsets"])),
        unhealthy=frozenset(workload.get("unhealthy_nodes", ())),
    )


def _podset(podset: Json) -> GatedPodSet:
    _require_known("podset", podset)
    found = podset.get("assignment")
    domains = ((tuple(d["values"]), d["count"]) for d in found["domains"]) if found else ()
    return GatedPodSet(
        name=podset["name"],
        count=podset["admitted_count"],
        request=TopologyRequest(
            group=podset.get("group"),
            index_label=podset.get("index_label"),
            subgroup_index_label=podset.get("subgroup_index_label"),
            subgroup_count=podset.get("subgroup_count"),
        ),
        assignment=Assignment(tuple(found["levels"]), tuple(domains)) if found else None,
    )


def _member(pod: Json) -> Member:
    _require_known("pod", pod)
    labels = dict(pod.get("index_labels", {}))
    if pod["podset"] is not None:
        labels[keys.PODSET] = pod["podset"]
    marks = {keys.HELD_ANNOTATION: pod["workload"], keys.INDEX_OFFSET: pod.get("index_offset")}
    obj = {
        "metadata": {
            "name": pod["name"],
            "labels": labels,
            "annotations": {name: text for name, text in marks.items() if text is not None},
        },
        "spec": {
            "schedulingGates": [{"name": gate} for gate in pod["gates"]],
            "nodeSelector": pod["node_selector"],
        },
        "status": {"phase": pod["phase"]},
    }
    return Member.of(read(core.Pod, obj, pod["name"]))


def _require_known(what: str, fields: Json) -> None:
    assert fields.keys() <= KNOWN[what], f"unknown in a {what}: {fields.keys() - KNOWN[what]}"
