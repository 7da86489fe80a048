"""What kube-scheduler's Go decoder makes of our answers, member by member.

It is stricter than Go where Go is silent: Go passes over a misspelt key (fact E9) and stops quietly
at a float as score (E10), so both are errors here.
"""

import json
from dataclasses import dataclass
from typing import Any, NoReturn

Json = dict[str, Any]

FILTER_MEMBERS = {"NodeNames", "Nodes", "FailedNodes", "FailedAndUnresolvableNodes", "Error"}
PRIORITY_MEMBERS = {"Host", "Score"}


class NotWhatGoReadsError(AssertionError):
    """The answer would be lost, or misread, by kube-scheduler."""


@dataclass(frozen=True, slots=True)
class FilterResult:
    """``ExtenderFilterResult``."""

    node_names: list[str] | None
    nodes: list[Json] | None  # the items of the list
    failed: dict[str, str] | None
    unresolvable: dict[str, str] | None
    error: str

    @property
    def only_node(self) -> str | None:
        """The one node that was kept, in whatever form, if it is one."""
        if self.node_names is not None:
            return self.node_names[0] if len(self.node_names) == 1 else None
        if self.nodes is not None and len(self.nodes) == 1:
            name: str = self.nodes[0]["metadata"]["name"]
            return name
        return None

    @property
    def reason(self) -> str:
        """The text of the one entry that explains a refusal."""
        (text,) = (self.unresolvable or {}).values()
        return text


def filter_result(answer: bytes) -> FilterResult:
    """Decode the answer of the filter verb."""
    found = _loads(answer)
    if not isinstance(found, dict) or found.keys() != FILTER_MEMBERS:
        raise NotWhatGoReadsError(f"an ExtenderFilterResult has {FILTER_MEMBERS}; got {found}")
    names, nodes, error = found["NodeNames"], found["Nodes"], found["Error"]
    if names is not None and not _is_list_of(names, str):
        raise NotWhatGoReadsError(f"NodeNames is null or a list of strings; got {names}")
    if nodes is not None and not _is_list_of(nodes.get("items"), dict):
        raise NotWhatGoReadsError(f"Nodes is null or a NodeList; got {nodes}")
    for member in ("FailedNodes", "FailedAndUnresolvableNodes"):
        if found[member] is not None and not _is_list_of(list(found[member].values()), str):
            raise NotWhatGoReadsError(f"{member} holds texts, never null; got {found[member]}")
    if not isinstance(error, str):
        raise NotWhatGoReadsError(f"Error is a string; got {error}")
    return FilterResult(
        node_names=names,
        nodes=None if nodes is None else nodes["items"],
        failed=found["FailedNodes"],
        unresolvable=found["FailedAndUnresolvableNodes"],
        error=error,
    )


def host_priorities(answer: bytes) -> dict[str, int]:
    """Decode the answer of the prioritize verb."""
    found = _loads(answer)
    if not _is_list_of(found, dict):
        raise NotWhatGoReadsError(f"a HostPriorityList is a list of objects; got {found}")
    scores = {}
    for entry in found:
        if entry.keys() != PRIORITY_MEMBERS:
            raise NotWhatGoReadsError(f"a HostPriority has {PRIORITY_MEMBERS}; got {entry}")
        host, score = entry["Host"], entry["Score"]
        if not isinstance(host, str) or not isinstance(score, int) or isinstance(score, bool):
            raise NotWhatGoReadsError(f"Host is a string and Score a whole number; got {entry}")
        if host in scores:
            raise NotWhatGoReadsError(f"a host is scored once; got {host} twice")
        scores[host] = score
    return scores


def _loads(answer: bytes) -> Any:
    return json.loads(
        answer.decode("utf-8"), object_pairs_hook=_each_key_once, parse_constant=_no_constant
    )


def _each_key_once(pairs: list[tuple[str, Any]]) -> Json:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise NotWhatGoReadsError(f"each key stands once; got {[key for key, _ in pairs]}")
    return found


def _no_constant(text: str) -> NoReturn:
    raise NotWhatGoReadsError(f"JSON has no {text}")


def _is_list_of(found: object, kind: type) -> bool:
    return isinstance(found, list) and all(isinstance(item, kind) for item in found)
