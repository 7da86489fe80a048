"""Cases on nodes that are lost to a workload."""

from dataclasses import replace
from typing import Any

from stowplan.api.models import core
from stowplan.api.models.wire import read
from stowplan.placement.filters import Toleration
from stowplan.placement.kueue.assignment import Assignment
from stowplan.placement.kueue.health import (
    KUEUE,
    Evicted,
    HealthRules,
    Judged,
    PlacedPodSet,
    PlacedWorkload,
    TimedToleration,
    judge,
)
from stowplan.placement.records import NodeRecord, PodRecord

Json = dict[str, Any]

NOW = 1_000_000.0
SETTINGS = ("replace_on_pod_end", "replace_on_taints", "replace_after_fixed_time")
EXPECTED = ("unhealthy_nodes", "recheck_after_s", "evicted", "failed_pods")
STATES = ("active", "finished", "evicted")


def check(case: Json) -> None:
    """Look at the case's nodes in order, and compare what the workload then has."""
    assert case["expect"].keys() <= set(EXPECTED), f"unknown in {case['expect']}"
    rules = _rules(case["settings"])
    nodes = {node["name"]: node for node in case["nodes"]}
    [given] = case["workloads"]
    workload = _workload(given, [pod for pod in case["pods"] if pod["workload"] == given["name"]])
    failed: set[str] = set()
    recheck = evicted = None
    for host in case["reconcile_nodes"]:
        seen = nodes.get(host)
        changed = NOW - (seen or {}).get("ready_changed_s_ago", 0)
        found = judge(workload, host, _node(seen) if seen else None, changed, NOW, rules)
        match found:
            case Evicted():
                workload, evicted = replace(workload, active=False), "node-failures"
            case Judged():
                workload = replace(workload, unhealthy=found.unhealthy)
                recheck = found.recheck_after_seconds
                failed |= {pod.removeprefix("default/") for pod in found.failed_pods}
    want = case["expect"]
    assert evicted == want.get("evicted")
    assert recheck == want.get("recheck_after_s")
    if "unhealthy_nodes" in want:
        assert list(workload.unhealthy) == want["unhealthy_nodes"]
    if "failed_pods" in want:  # where it is absent, the case does not judge it
        assert sorted(failed) == want["failed_pods"]


def _rules(settings: Json) -> HealthRules:
    assert settings.keys() <= set(SETTINGS), f"unknown settings: {settings}"
    return replace(KUEUE, **settings)


def _workload(workload: Json, pods: list[Json]) -> PlacedWorkload:
    assert workload["state"] in STATES, f"unknown state {workload['state']!r}"
    [podset] = workload["podsets"]
    found = workload["admission"][podset["name"]]["assignment"]
    domains = tuple((tuple(d["values"]), d["count"]) for d in found["domains"])
    placed = PlacedPodSet(
        assignment=Assignment(tuple(found["levels"]), domains),
        pods=tuple(map(_pod, pods)),
        tolerations=tuple(map(_toleration, podset.get("tolerations", ()))),
    )
    return PlacedWorkload(
        podsets=(placed,) if workload["admitted"] else (),
        unhealthy=tuple(workload["unhealthy_nodes"]),
        active=workload["state"] == "active",
    )


def _toleration(given: Json) -> TimedToleration:
    toleration = Toleration(
        key=given["key"],
        operator=given["operator"],
        value=given.get("value", ""),
        effect=given["effect"],
    )
    return TimedToleration(toleration, given.get("seconds"))


def _node(node: Json) -> NodeRecord:
    ready = node["ready"]
    obj = {
        "metadata": {"name": node["name"], "labels": {"kubernetes.io/hostname": node["name"]}},
        "spec": {"taints": node["taints"]},
        "status": {"conditions": [{"type": "Ready", "status": ready}] if ready else []},
    }
    return NodeRecord.of(read(core.Node, obj, node["name"]))


def _pod(pod: Json) -> PodRecord:
    obj = {
        "metadata": {
            "name": pod["name"],
            "deletionTimestamp": "2026-01-01T00:00:00Z" if pod["terminating"] else None,
        },
        "spec": {
            "nodeName": pod["node"],
            "nodeSelector": pod["node_selector"],
            "schedulingGates": [{"name": gate} for gate in pod["gates"]],
        },
        "status": {"phase": pod["phase"]},
    }
    return PodRecord.of(read(core.Pod, obj, pod["name"]))
