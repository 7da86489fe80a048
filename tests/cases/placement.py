"""Cases that place podsets: nodes, pods and usage in, assignment or failure out."""

from collections.abc import Iterator
from typing import Any

from stowplan.api.models import core
from stowplan.api.models.wire import read
from stowplan.placement.filters import Filters, Requirement
from stowplan.placement.kueue.assignment import Assignment
from stowplan.placement.kueue.places import assignment_of, leaf_of
from stowplan.placement.kueue.replace import allowed_region, replace_lost, waits_for_its_owner
from stowplan.placement.kueue.resize import Resized, resize
from stowplan.placement.podsets.plan import NoFit
from stowplan.placement.podsets.podset import PodSet, fit
from stowplan.placement.podsets.shortage import exclusions
from stowplan.placement.records import Amounts, NodeRecord, PodRecord
from stowplan.placement.request import Layer, Profile, TopologyRequest
from stowplan.placement.rules import KUEUE, Rules
from stowplan.placement.shapes import Shapes
from stowplan.placement.state import ClusterState
from stowplan.topology import capacity
from stowplan.topology.levels import HOSTNAME, Levels

Json = dict[str, Any]


def check(case: Json) -> None:
    """Place the podsets one after another and compare each answer that the case states."""
    compare(case, KUEUE)


def compare(case: Json, rules: Rules) -> None:
    """Do so by rules that need not be those of the cases."""
    cluster = _cluster(case, rules)
    shapes = Shapes()
    want = {entry["name"]: entry for entry in case["expect"]["podsets"]}
    for podsets in _in_groups(case["podsets"]):
        got = _place(case, cluster, shapes, podsets, rules)
        for name, answer in got.items():
            expected = want.get(name, {})
            if "assignment" in expected:
                assert answer == {"assignment": expected["assignment"]}
            elif "failure" in expected:
                assert _reduced(answer, expected["failure"]) == expected["failure"]
        if any("failure" in answer for answer in got.values()):
            return  # the first failure is the workload's


def _cluster(case: Json, rules: Rules) -> ClusterState:
    levels = Levels(tuple(case["levels"]))
    cluster = ClusterState(levels, count_topology_pods=False, rules=rules)
    flavor = case.get("flavor", {}).get("node_labels", {})
    for node in case["nodes"]:
        if flavor.items() <= node["labels"].items():
            cluster.set_node(_node(node))
    for i, pod in enumerate(case.get("pods") or ()):
        cluster.set_pod(_pod(pod, f"{i}-{pod.get('name', '')}"))
    host = case["levels"][-1] == HOSTNAME
    for use in case.get("usage") or ():
        sibling = use.get("from") == "sibling-flavor"
        shared = case.get("settings", {}).get("shared_usage_across_flavors", True)
        if sibling and not (shared and host):
            continue
        cluster.take(_node_at(cluster, use["values"]), _amounts(use["per_pod"], use["count"]))
    return cluster


def _node_at(cluster: ClusterState, values: list[str]) -> str:
    """Return a node of the leaf with these values; a host stands for itself."""
    tree = cluster.view().tree
    for leaf in range(tree.leaf_count):
        path = tree.paths[tree.first_leaf + leaf]
        if list(path[-len(values) :]) == values:
            return str(tree.nodes[tree.node_start[leaf]])
    return f"gone:{'/'.join(values)}"


def _amounts(per_pod: Json, count: int = 1) -> Amounts:
    one = capacity.per_pod({name: capacity.requested(name, text) for name, text in per_pod.items()})
    return tuple((name, amount * count) for name, amount in one)


def _node(node: Json) -> NodeRecord:
    return NodeRecord.of(
        read(
            core.Node,
            {
                "metadata": {"name": node["name"], "labels": node["labels"]},
                "spec": {
                    "unschedulable": node.get("unschedulable", False),
                    "taints": node.get("taints"),
                },
                "status": {
                    "allocatable": node["allocatable"],
                    "conditions": [{"type": "Ready", "status": str(node["ready"])}],
                },
            },
            node["name"],
        )
    )


def _pod(pod: Json, name: str) -> PodRecord:
    return PodRecord.of(
        read(
            core.Pod,
            {
                "metadata": {"name": name},
                "spec": {
                    "nodeName": pod.get("node", ""),
                    "containers": [{"resources": {"requests": pod.get("requests", {})}}],
                },
                "status": {"phase": pod.get("phase", "Running")},
            },
            name,
        )
    )


def _in_groups(podsets: list[Json]) -> Iterator[list[Json]]:
    """Yield podsets in order; two of one group come together, at the place of the first."""
    done: set[str] = set()
    for podset in podsets:
        group = podset.get("group")
        if group is None:
            yield [podset]
        elif group not in done:
            done.add(group)
            yield [other for other in podsets if other.get("group") == group]


def _place(
    case: Json, cluster: ClusterState, shapes: Shapes, podsets: list[Json], rules: Rules
) -> Json:
    """Place one podset, or a leader with its workers, and take the room."""
    settings = case.get("settings", {})
    workers = podsets[0]
    leader = None
    if len(podsets) == 2:
        # The smaller count leads; of equals the second (section 7).
        leader, workers = sorted(podsets, key=lambda p: (p["count"], -podsets.index(p)))
    view = cluster.view()
    podset = PodSet(
        name=workers["name"],
        count=workers["count"],
        amounts=_amounts(workers["per_pod"]),
        filters=_filters(case, workers),
        request=_request(workers.get("topology") or {"mode": "none"}),
        preferred=_preferred(case, workers),
        leader=(_amounts(leader["per_pod"]), _filters(case, leader)) if leader else None,
    )
    mode: Profile = settings.get("profile", "mixed")
    profile: Profile = "balanced" if settings.get("balanced") else mode
    if case["kind"] == "replacement":
        return {podset.name: _replaced(case, cluster, shapes, podset, profile, rules)}
    if "previous" in workers:
        return _resized(cluster, shapes, podset, workers, leader, profile, rules)
    answer = fit(view, shapes, podset, profile, rules=rules)
    if isinstance(answer, NoFit):
        failure = {"failure": _failure(case, cluster, podset, answer)}
        return {p["name"]: failure for p in podsets}
    for leaf, count in answer.leaves:
        node = view.tree.nodes[view.tree.node_start[leaf]]
        cluster.take(node, tuple((name, n * count) for name, n in podset.amounts))
    got = {workers["name"]: {"assignment": _written(assignment_of(view, answer.leaves))}}
    if leader is not None and podset.leader is not None:
        assert answer.leader is not None
        cluster.take(view.tree.nodes[view.tree.node_start[answer.leader]], podset.leader[0])
        got[leader["name"]] = {"assignment": _written(assignment_of(view, [(answer.leader, 1)]))}
    return got


def _replaced(
    case: Json,
    cluster: ClusterState,
    shapes: Shapes,
    podset: PodSet,
    profile: Profile,
    rules: Rules,
) -> Json:
    """Replace the pods that were on lost nodes."""
    workload = case["workload"]
    before = _read(workload["assignments"][podset.name])
    keep = case.get("settings", {}).get("keep_single_pod_owner", True)
    kinds = [owner["kind"] for owner in workload["owners"]]
    if keep and waits_for_its_owner(kinds, workload.get("pod_group", False)):
        return {"assignment": _written(before)}
    lost = workload["unhealthy_nodes"]
    answer = replace_lost(cluster, shapes, podset, before, lost, profile, rules)
    if isinstance(answer, Assignment):
        return {"assignment": _written(answer)}
    view = cluster.view()
    kept = [(path, n) for path, n in before.domains if path[-1] not in lost]
    places = [(at, n) for path, n in kept if (at := leaf_of(view, path)) is not None]
    missing = before.count - sum(n for _, n in kept)
    within, _ = allowed_region(view, podset.request, places, missing)
    return {"failure": _failure(case, cluster, podset, answer, within)}


def _resized(
    cluster: ClusterState,
    shapes: Shapes,
    podset: PodSet,
    workers: Json,
    leader: Json | None,
    profile: Profile,
    rules: Rules,
) -> Json:
    """Grow or shrink what was placed before."""
    led = _read(leader["previous"]) if leader and "previous" in leader else None
    previous = Resized(_read(workers["previous"]), led)
    answer = resize(cluster, shapes, podset, previous, profile, rules)
    assert isinstance(answer, Resized)
    got = {podset.name: {"assignment": _written(answer.workers)}}
    if leader is not None and answer.leader is not None:
        got[leader["name"]] = {"assignment": _written(answer.leader)}
    return got


def _filters(case: Json, podset: Json) -> Filters:
    spec = {
        "nodeSelector": podset.get("node_selector"),
        "tolerations": [
            *(podset.get("tolerations") or ()),
            *(case.get("flavor", {}).get("tolerations") or ()),
        ],
    }
    required = (podset.get("node_affinity") or {}).get("required")
    if required is not None:
        spec["affinity"] = {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                {"key": e["key"], "operator": e["op"], "values": e.get("values")}
                                for e in term
                            ]
                        }
                        for term in required
                    ]
                }
            }
        }
    return Filters.of(read(core.PodSpec, spec, podset["name"]))


def _preferred(case: Json, podset: Json) -> tuple[tuple[int, tuple[Requirement, ...]], ...]:
    if not case.get("settings", {}).get("preferred_affinity"):
        return ()
    return tuple(
        (
            entry["weight"],
            tuple(
                Requirement(e["key"], e["op"], tuple(e.get("values") or ())) for e in entry["match"]
            ),
        )
        for entry in (podset.get("node_affinity") or {}).get("preferred") or ()
    )


def _request(topology: Json) -> TopologyRequest:
    mode = topology["mode"]
    return TopologyRequest(
        required=topology["level"] if mode == "required" else None,
        preferred=topology["level"] if mode == "preferred" else None,
        unconstrained=True if mode == "unconstrained" else None,
        layers=tuple(Layer(s["level"], s.get("size") or 0) for s in topology.get("slices") or ()),
    )


def _read(assignment: Json) -> Assignment:
    domains = ((tuple(d["values"]), d["count"]) for d in assignment["domains"])
    return Assignment(tuple(assignment["levels"]), tuple(domains))


def _written(assignment: Assignment) -> Json:
    return {
        "levels": list(assignment.levels),
        "domains": [{"values": list(path), "count": n} for path, n in assignment.domains],
    }


def _failure(
    case: Json, cluster: ClusterState, podset: PodSet, answer: NoFit, within: int | None = None
) -> Json:
    considered, excluded = exclusions(cluster.view(), podset, within)
    entries = []
    for (by, what), count in excluded.items():
        entry: Json = {"count": count, "by": by}
        if by == "resource":
            entry["what"] = what
        elif by == "taint":
            key, _, rest = what.partition("=")
            entry["key"], (entry["value"], _, entry["effect"]) = key, rest.partition(":")
        entries.append(entry)
    return {
        "kind": answer.kind,
        "fits": answer.fits,
        "needed": answer.needed,
        "unit": answer.unit,
        "level": answer.level,
        "slice_level": answer.slice_level,
        "layers": [{"level": s.level, "fits": s.fits, "needed": s.needed} for s in answer.layers],
        "nodes": {"nodes_considered": considered, "excluded": entries},
    }


def _reduced(answer: Json, want: Json) -> Json:
    """Return the fields of the failure that the case states, exclusions in its order."""
    failure = answer.get("failure", answer)
    got = {key: failure.get(key) for key in want}
    if "nodes" in want and "nodes" in got:
        order = sorted(got["nodes"]["excluded"], key=lambda e: sorted(map(str, e.values())))
        by_want = sorted(want["nodes"]["excluded"], key=lambda e: sorted(map(str, e.values())))
        if order == by_want:
            got["nodes"] = {**got["nodes"], "excluded": want["nodes"]["excluded"]}
    return got
