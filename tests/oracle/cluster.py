"""A cluster as the shared cases describe it: nodes, pods and usage in, leaves out.

This is section 1 of the specification (which nodes, what room, which filters), and the part of
section 10 that places the podsets of a workload one after another. Inputs and answers are the JSON
of the cases, whose keys their README explains.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.oracle import fit
from tests.oracle.quantity import exact

Json = dict[str, Any]  # an object of the cases

HOST_LEVEL = "kubernetes.io/hostname"
NO_SUCH_LEVEL = -1


def amounts(quantities: dict[str, str]) -> dict[str, int]:
    """Return base units: cpu in millicores, all else as it is; parts round up as in Kubernetes."""
    return {
        name: math.ceil(exact(text) * (1000 if name == "cpu" else 1))
        for name, text in quantities.items()
    }


def one_pod(quantities: dict[str, str]) -> dict[str, int]:
    """Return what one pod takes; every pod also asks for one of ``pods`` (1)."""
    return {**amounts(quantities), "pods": 1}


@dataclass
class Cluster:
    """The nodes of one flavor's tree, and what is used on them."""

    case: Json
    assumed: dict[fit.Path, dict[str, int]] = field(default_factory=dict)  # by earlier podsets (10)

    @property
    def levels(self) -> list[str]:
        """Label keys, coarse to fine."""
        levels: list[str] = self.case["levels"]
        return levels

    @property
    def has_host_level(self) -> bool:
        return self.levels[-1] == HOST_LEVEL

    def path(self, node: Json) -> fit.Path:
        return tuple(node["labels"][key] for key in self.levels)

    def nodes(self) -> list[Json]:
        """Return the nodes in the tree: of the flavor, fully labelled, ready, not cordoned."""
        return [
            node
            for node in self.case["nodes"]
            if node["labels"].items() >= self.case["flavor"]["node_labels"].items()
            and all(key in node["labels"] for key in self.levels)
            and node["ready"] is True
            and not node.get("unschedulable", False)
        ]

    def leaves(self, podset: Json) -> list[fit.Leaf]:
        """Return one leaf per domain of the finest level, as ``podset`` sees it."""
        by_path: dict[fit.Path, list[Json]] = {}
        for node in self.nodes():
            by_path.setdefault(self.path(node), []).append(node)
        return [
            fit.Leaf(
                values=path,
                room=self.room(path, nodes),
                allowed=all(self.exclusion(node, podset) is None for node in nodes),
                affinity=sum(affinity(node, podset) for node in nodes),
            )
            for path, nodes in by_path.items()
        ]

    def room(self, path: fit.Path, nodes: Sequence[Json]) -> dict[str, int]:
        """Allocatable, less other pods, placed usage and what earlier podsets took."""
        room: dict[str, int] = {}

        def add(of: dict[str, int], times: int) -> None:
            for name, amount in of.items():
                room[name] = room.get(name, 0) + times * amount

        for node in nodes:
            add(amounts(node["allocatable"]), 1)
        names = {node["name"] for node in nodes}
        for pod in self.case.get("pods", []):
            if pod["node"] in names and pod["phase"] not in ("Succeeded", "Failed"):
                add(one_pod(pod["requests"]), -1)
        for usage in self.case.get("usage", []):
            # Flavors share usage only on hosts (1).
            counts = usage["from"] == "same-flavor" or self.has_host_level
            if counts and self.written(path) == usage["values"]:
                add(one_pod(usage["per_pod"]), -usage["count"])
        add(self.assumed.get(path, {}), -1)
        return room

    def written(self, path: fit.Path) -> list[str]:
        """Return a leaf's values as an assignment writes them: the host alone if there is one."""
        return [path[-1]] if self.has_host_level else list(path)

    def exclusion(self, node: Json, podset: Json) -> Json | None:
        """Return the first filter that the node fails, as a report words it (1, 13)."""
        if not self.has_host_level:
            return None  # a quirk: filters act on hosts only
        tolerations = [*podset.get("tolerations", []), *self.case["flavor"]["tolerations"]]
        for taint in node.get("taints", []):
            if taint["effect"] == "PreferNoSchedule":
                continue
            if not any(tolerates(toleration, taint) for toleration in tolerations):
                return {"by": "taint", **{key: taint[key] for key in ("key", "value", "effect")}}
        if not node["labels"].items() >= podset.get("node_selector", {}).items():
            return {"by": "node-selector"}
        terms = podset.get("node_affinity", {}).get("required")
        if terms and not any(all(matches(node, e) for e in term) for term in terms):
            return {"by": "node-affinity"}
        return None

    def assume(self, path: fit.Path, per_pod: dict[str, int], count: int) -> None:
        """Take room off for a podset that has just been placed."""
        taken = self.assumed.setdefault(path, {})
        for name, amount in per_pod.items():
            taken[name] = taken.get(name, 0) + amount * count


def tolerates(toleration: Json, taint: Json) -> bool:
    """Whether the toleration covers the taint; an absent key or effect covers any."""
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("key") not in (None, "", taint["key"]):
        return False
    if toleration.get("operator") == "Exists":
        return True
    same: bool = toleration.get("value", "") == taint.get("value", "")
    return same


def matches(node: Json, expression: Json) -> bool:
    """Whether one expression of a node affinity term holds."""
    found = node["labels"].get(expression["key"])
    values = expression.get("values", [])
    match expression["op"]:
        case "In":
            return found in values
        case "NotIn":
            return found not in values  # true when absent
        case "Exists":
            return found is not None
        case "DoesNotExist":
            return found is None
        case "Gt":
            return found is not None and int(found) > int(values[0])
        case "Lt":
            return found is not None and int(found) < int(values[0])
        case other:
            raise ValueError(f"no such operator: {other}")


def affinity(node: Json, podset: Json) -> int:
    """Return the summed weights of the preferred terms that match."""
    terms = podset.get("node_affinity", {}).get("preferred", [])
    return sum(t["weight"] for t in terms if all(matches(node, e) for e in t["match"]))


def replay(case: Json) -> Iterator[Json]:
    """Yield the answer for each podset in turn, in the words of ``expect.podsets``."""
    cluster = Cluster(case)
    for workers, leader in units(case["podsets"]):
        request = request_of(case, workers, leader)
        leaves = cluster.leaves(workers)
        answer = fit.place(leaves, len(cluster.levels), request)
        podsets: list[Json] = case["podsets"]
        members = [p for p in podsets if p is workers or p is leader]
        if isinstance(answer, fit.Failed):  # the first failure is the workload's (10)
            words = failure_words(cluster, workers, answer)
            yield from ({"name": member["name"], "failure": words} for member in members)
            return
        if broken := fit.check_laws(leaves, request, answer):
            raise AssertionError(f"{case['name']}: {broken}")
        for member in members:
            placed = answer.workers
            if member is leader and answer.leader is not None:
                placed = {answer.leader: 1}
            for path, count in placed.items():
                cluster.assume(path, one_pod(member["per_pod"]), count)
            yield {"name": member["name"], "assignment": assignment_words(cluster, placed)}


def units(podsets: Sequence[Json]) -> Iterator[tuple[Json, Json | None]]:
    """Yield (workers, leader), the leader None outside a group (7)."""
    by_group: dict[str, list[Json]] = {}
    for podset in podsets:  # a podset without a group is one of its own
        by_group.setdefault(podset.get("group", f"alone {podset['name']}"), []).append(podset)
    for members in by_group.values():
        if len(members) == 1:
            yield members[0], None
            continue
        first, second = members
        # The smaller count leads; of equals the second.
        yield (second, first) if first["count"] < second["count"] else (first, second)


def request_of(case: Json, workers: Json, leader: Json | None) -> fit.Request:
    """Return the request in level indexes; level, mode and slices are those of the workers (7)."""
    levels: list[str] = case["levels"]

    def index(level: str | None) -> int | None:
        return None if level is None else index_of(level)

    def index_of(level: str) -> int:
        return levels.index(level) if level in levels else NO_SUCH_LEVEL

    topology = workers["topology"]
    slices = topology.get("slices", [])
    if not case["settings"].get("multi_layer", True):
        slices = slices[:1]  # (8) with the feature off only the outer layer is seen
    return fit.Request(
        mode=topology["mode"],
        level=index(topology.get("level")),
        count=workers["count"],
        per_pod=one_pod(workers["per_pod"]),
        slices=tuple((index_of(s["level"]), s["size"] or 0) for s in slices),
        profile=case["settings"]["profile"],
        leader_per_pod=None if leader is None else one_pod(leader["per_pod"]),
        use_affinity=case["settings"].get("preferred_affinity", False),
    )


def assignment_words(cluster: Cluster, placed: dict[fit.Path, int]) -> Json:
    """Return an assignment: domains in the order of their full values (6)."""
    levels = [HOST_LEVEL] if cluster.has_host_level else cluster.levels
    domains = [{"values": cluster.written(p), "count": n} for p, n in sorted(placed.items())]
    return {"levels": levels, "domains": domains}


def failure_words(cluster: Cluster, podset: Json, failed: fit.Failed) -> Json:
    """Return a failure with the fields that its kind has (13)."""
    words: Json = {"kind": failed.kind}
    match failed.kind:
        case "none-fit" | "partial-fit":
            words |= {"fits": failed.fits, "needed": failed.needed, "unit": failed.unit}
        case "layers-no-fit":
            words["layers"] = [
                {"level": cluster.levels[level], "fits": fits, "needed": needed}
                for level, fits, needed in failed.layers
            ]
        case "no-domains":
            assert failed.level is not None
            return words | {"level": cluster.levels[failed.level]}
        case "level-unknown":
            return words | {"level": podset["topology"]["level"]}
        case "slice-level-unknown":
            asked = [s["level"] for s in podset["topology"]["slices"]]
            return words | {"level": next(k for k in asked if k not in cluster.levels)}
        case "slice-level-above":
            assert failed.level is not None
            assert failed.slice_level is not None
            pair = cluster.levels[failed.slice_level], cluster.levels[failed.level]
            return words | {"slice_level": pair[0], "level": pair[1]}
        case _:
            return words
    if excluded := exclusion_words(cluster, podset, failed):
        considered = len({cluster.path(node) for node in cluster.nodes()})
        words["nodes"] = {"nodes_considered": considered, "excluded": excluded}
    return words


def exclusion_words(cluster: Cluster, podset: Json, failed: fit.Failed) -> list[Json]:
    """Return how many nodes each filter and each resource excluded."""
    counted: list[Json] = [
        {"count": count, "by": "resource", "what": name} for name, count in failed.limited.items()
    ]
    for node in cluster.nodes():
        reason = cluster.exclusion(node, podset)
        if reason is None:
            continue
        for entry in counted:
            if entry == {**reason, "count": entry["count"]}:
                entry["count"] += 1
                break
        else:
            counted.append({**reason, "count": 1})
    return sorted(counted, key=str)
