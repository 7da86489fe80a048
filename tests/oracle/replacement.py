"""Growth, shrinking and lost nodes as Kueue treats them: sections 10 and 11, for the shared cases.

Our own rule for the same questions is in ``completing``.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tests.oracle import fit
from tests.oracle.cluster import (
    Cluster,
    Json,
    assignment_words,
    failure_words,
    one_pod,
    request_of,
    units,
)
from tests.oracle.laws import check_completion

Places = dict[fit.Path, int]  # pods per leaf, in the order of an assignment


def merged(one: Mapping[fit.Path, int], other: Mapping[fit.Path, int]) -> Places:
    """Return the sum per domain, in the order of full values (10)."""
    return {path: one.get(path, 0) + other.get(path, 0) for path in sorted({*one, *other})}


def cut(places: Mapping[fit.Path, int], count: int) -> Places:
    """Return the first ``count`` pods: what is too many is given back from the end (10)."""
    left: Places = {}
    for path, pods in places.items():
        if (here := min(pods, count)) > 0:
            left[path] = here
        count -= here
    return left


def read(cluster: Cluster, assignment: Json) -> Places | None:
    """Return an assignment by leaf, or None when it names a domain that is gone."""
    paths = {tuple(cluster.written(path)): path for path in map(cluster.path, cluster.nodes())}
    written = [(tuple(domain["values"]), domain["count"]) for domain in assignment["domains"]]
    if any(values not in paths for values, _ in written):
        return None
    return {paths[values]: count for values, count in written}


# --- Growing and shrinking (10) ------------------------------------------------------------------


def replay_elastic(case: Json) -> Iterator[Json]:
    """Yield the answer for each podset, in the words of ``expect.podsets``."""
    cluster = Cluster(case)
    for workers, leader in units(case["podsets"]):
        if workers["topology"]["mode"] != "unconstrained":
            raise ValueError("only unconstrained podsets are elastic (10)")
        members = [workers] if leader is None else [workers, leader]
        known = [read(cluster, m["previous"]) if "previous" in m else {} for m in members]
        if None in known:  # one names a domain that is gone: place all of them afresh
            known = [{} for _ in members]
        previous = [places or {} for places in known]
        for member, places in zip(members, previous, strict=True):
            _assume(cluster, member, cut(places, member["count"]))
        answer = _grown(cluster, workers, leader, previous)
        if isinstance(answer, fit.Failed):
            words = failure_words(cluster, workers, answer)
            yield from ({"name": member["name"], "failure": words} for member in members)
            return
        for member, kept, new in zip(members, previous, answer, strict=True):
            _assume(cluster, member, new)
            places = merged(cut(kept, member["count"]), new)
            yield {"name": member["name"], "assignment": assignment_words(cluster, places)}


def _assume(cluster: Cluster, podset: Json, places: Mapping[fit.Path, int]) -> None:
    for path, count in places.items():
        cluster.assume(path, one_pod(podset["per_pod"]), count)


def _grown(
    cluster: Cluster, workers: Json, leader: Json | None, previous: Sequence[Places]
) -> list[Places] | fit.Failed:
    """Place what is missing of the workers, and the leader when it has no place yet."""
    missing = workers["count"] - sum(previous[0].values())
    homeless = leader if leader is not None and not previous[1] else None
    if missing <= 0 and homeless is not None:  # nothing but the leader is placed
        answer = _placed(cluster, homeless, None, homeless["count"])
        return answer if isinstance(answer, fit.Failed) else [{}, answer.workers]
    if missing <= 0:
        return [{} for _ in previous]
    answer = _placed(cluster, workers, homeless, missing)
    if isinstance(answer, fit.Failed):
        return answer
    new = [answer.workers, {} if answer.leader is None else {answer.leader: 1}]
    return new[: len(previous)]


def _placed(
    cluster: Cluster, workers: Json, leader: Json | None, count: int
) -> fit.Placed | fit.Failed:
    request = replace(request_of(cluster.case, workers, leader), count=count)
    return fit.place(cluster.leaves(workers), len(cluster.levels), request)


# --- A lost node (11) ----------------------------------------------------------------------------


@dataclass
class _Confined(Cluster):
    """A cluster in which everything outside one domain is closed."""

    region: fit.Path = ()

    def exclusion(self, node: Json, podset: Json) -> Json | None:
        """Return the first filter that the node fails; the region is the last of them (1)."""
        found = super().exclusion(node, podset)
        if found is None and self.path(node)[: len(self.region)] != self.region:
            return {"by": "outside-domain"}
        return found


def replay_replacement(case: Json) -> Iterator[Json]:
    """Yield the answer for each podset, in the words of ``expect.podsets``."""
    cluster, workload = Cluster(case), case["workload"]
    node = workload["unhealthy_nodes"][0]  # the first of them only
    for podset in case["podsets"]:
        assignment = workload["assignments"][podset["name"]]
        used = [domain["values"][-1] for domain in assignment["domains"]]
        if node not in used or _stays(case):
            yield {"name": podset["name"], "assignment": assignment}
            continue
        yield {"name": podset["name"], **_replaced(cluster, podset, assignment, node)}


def _stays(case: Json) -> bool:
    """1. A workload of one lone Pod: its next pod will be a new workload."""
    workload = case["workload"]
    lone = [owner["kind"] for owner in workload["owners"]] == ["Pod"]
    keeps = case["settings"].get("keep_single_pod_owner", True)
    return lone and keeps and not workload.get("pod_group", False)


def _replaced(cluster: Cluster, podset: Json, assignment: Json, node: str) -> Json:
    domains = assignment["domains"]
    lost = sum(domain["count"] for domain in domains if domain["values"][-1] == node)
    rest = {**assignment, "domains": [d for d in domains if d["values"][-1] != node]}
    kept = read(cluster, rest)
    if kept is None:
        return {"failure": {"kind": "stale"}}
    request = request_of(cluster.case, podset, None)
    region, slices = region_of(kept, lost, request)
    confined = _Confined(cluster.case, cluster.assumed, region)
    leaves = confined.leaves(podset)
    asked = replace(request, count=lost, slices=slices)
    answer = fit.place(leaves, len(cluster.levels), asked)
    if isinstance(answer, fit.Failed):
        return {"failure": failure_words(confined, podset, answer)}
    if broken := check_completion(leaves, request, kept, answer.workers):
        raise AssertionError(f"{cluster.case['name']}: {broken}")
    return {"assignment": assignment_words(cluster, merged(kept, answer.workers))}


def region_of(
    kept: Mapping[fit.Path, int], lost: int, request: fit.Request
) -> tuple[fit.Path, tuple[tuple[int, int], ...]]:
    """Return where the lost pods may go (3.), () for anywhere, and the slices to ask for (4.)."""
    if not kept:
        return (), request.slices
    if request.slices and lost % request.slices[0][1]:
        # The innermost layer that was broken, and what is whole of it.
        level, size = next((lv, sz) for lv, sz in reversed(request.slices) if lost % sz)
        held: Places = {}
        for path, pods in kept.items():
            held[path[: level + 1]] = held.get(path[: level + 1], 0) + pods
        for domain, pods in held.items():  # the first such in the assignment
            if (pods + lost) % size == 0:
                whole = [layer for layer in reversed(request.slices) if lost % layer[1] == 0]
                return domain, tuple(whole[:1])
        return (), request.slices
    if request.mode == "required" and request.level is not None:
        return next(iter(kept))[: request.level + 1], request.slices
    return (), request.slices
