"""Cases on what a change of a node or pod means for the state."""

from collections.abc import Callable
from typing import Any

from stowplan.api.models import core
from stowplan.api.models.wire import read
from stowplan.placement.records import NodeRecord, PodRecord, node_changes
from stowplan.placement.rules import KUEUE
from stowplan.placement.state import ClusterState, room_changes
from stowplan.topology import capacity
from stowplan.topology.levels import Levels

Json = dict[str, Any]


def check(case: Json) -> None:
    """Run the case's op."""
    OPS[case["op"]](case)


def _usable_nodes(case: Json) -> None:
    state = ClusterState(Levels.over_hosts([]))
    for event in case["events"]:
        _apply_node(state, event)
    assert state.usable_nodes() == case["expect"]["nodes"]


def _match_nodes(case: Json) -> None:
    state = ClusterState(Levels(tuple(case["levels"])), rules=KUEUE)
    for node in case["nodes"]:
        if case["node_labels"].items() <= node["labels"].items():
            state.set_node(_node(node))
    assert sorted(state.view().tree.nodes) == sorted(case["expect"]["nodes"])


def _tree_changes(case: Json) -> None:
    state = ClusterState(Levels.over_hosts([]))
    for node in case["before"]:
        state.set_node(_node(node))
    before = state.generation
    _apply_node(state, case["event"])
    assert (state.generation != before) == case["expect"]["rebuild"]


def _node_change(case: Json) -> None:
    changed = node_changes(_node({"name": "n", **case["old"]}), _node({"name": "n", **case["new"]}))
    assert list(changed) == case["expect"]["changed"]


def _counts(case: Json) -> None:
    state = ClusterState(Levels.over_hosts([]), count_topology_pods=False)
    assert state.counts(_pod(case["pod"])) == case["expect"]["counts"]


def _pod_change(case: Json) -> None:
    assert room_changes(_pod(case["old"]), _pod(case["new"])) == case["expect"]["matters"]


def _pod_created(case: Json) -> None:
    assert room_changes(None, _pod(case["pod"])) == case["expect"]["matters"]


def _pod_deleted(case: Json) -> None:
    assert room_changes(_pod(case["pod"]), None) == case["expect"]["matters"]


def _other_usage(case: Json) -> None:
    state = ClusterState(Levels.over_hosts([]), count_topology_pods=False)
    freed = None
    for event in case["events"]:
        if "set" in event:
            freed = state.set_pod(_pod(event["set"]))
        else:
            freed = state.remove_pod(f"default/{event['delete']}")
    nodes = ("nd01", "nd02")
    got = {node: dict(state.used_on(node)) for node in nodes if state.used_on(node)}
    want = {
        node: {name: capacity.requested(name, text) for name, text in used.items()}
        for node, used in case["expect"]["usage"].items()
    }
    assert (got, freed) == (want, case["expect"]["freed_node"])


OPS: dict[str, Callable[[Json], None]] = {
    "usable-nodes": _usable_nodes,
    "match-nodes": _match_nodes,
    "tree-changes": _tree_changes,
    "node-change": _node_change,
    "counts-as-other-usage": _counts,
    "pod-change-matters": _pod_change,
    "pod-created-matters": _pod_created,
    "pod-deleted-matters": _pod_deleted,
    "other-usage": _other_usage,
}


def _apply_node(state: ClusterState, event: Json) -> None:
    if "set" in event:
        state.set_node(_node(event["set"]))
    else:
        state.remove_node(event["delete"])


def _node(node: Json) -> NodeRecord:
    conditions = node.get("conditions") or {"Ready": str(node.get("ready", True))}
    obj = {
        "metadata": {
            "name": node["name"],
            "labels": {"kubernetes.io/hostname": node["name"], **node["labels"]},
            "annotations": node.get("annotations"),
        },
        "spec": {"unschedulable": node.get("unschedulable"), "taints": node.get("taints")},
        "status": {
            "allocatable": node.get("allocatable"),
            "conditions": [{"type": t, "status": s} for t, s in conditions.items()],
        },
    }
    return NodeRecord.of(read(core.Node, obj, node["name"]))


def _pod(pod: Json) -> PodRecord:
    asks = {"kueue.x-k8s.io/podset-required-topology": "rack"}
    obj = {
        "metadata": {
            "name": pod["name"],
            "annotations": asks if pod.get("topology_annotation") else None,
        },
        "spec": {
            "nodeName": pod["node"],
            "containers": [{"resources": {"requests": pod["requests"]}}],
        },
        "status": {"phase": pod["phase"]},
    }
    return PodRecord.of(read(core.Pod, obj, pod["name"]))
