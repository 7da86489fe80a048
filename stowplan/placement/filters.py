"""Which nodes a pod may run on at all, however full they are (domain-fit, section 1).

Judged in this order, first hit wins: a taint that nobody tolerates, the node selector, required
node affinity. Pod affinity, spread, ports and volumes are judged by kube-scheduler after us.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from stowplan.api.models import core
from stowplan.topology.levels import HOSTNAME

NODE_NAME_FIELD = "metadata.name"
_WHOLE = re.compile(r"[+-]?[0-9]{1,64}", re.ASCII)
_REPELLING = ("NoSchedule", "NoExecute")  # PreferNoSchedule is advice


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint that can keep pods away."""

    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        """Return it as kubectl prints it."""
        return f"{self.key}={self.value}:{self.effect}"


@dataclass(frozen=True, slots=True)
class Toleration:
    """What a pod puts up with; an empty key or effect means any."""

    key: str
    operator: str
    value: str
    effect: str

    def tolerates(self, taint: Taint) -> bool:
        """Return whether this toleration covers ``taint``, by the API server's rules."""
        if self.effect and self.effect != taint.effect:
            return False
        match self.operator:
            case "Exists":
                return self.key in ("", taint.key)
            case "Equal":
                return self.key == taint.key and self.value == taint.value
            case _:
                return False


@dataclass(frozen=True, slots=True)
class Requirement:
    """One expression on a label, or on the node's name when it came from ``matchFields``."""

    key: str
    operator: str
    values: tuple[str, ...]

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Return whether ``labels`` meet it; an unknown operator is met by nothing."""
        found = labels.get(self.key)
        match self.operator:
            case "In":
                return found in self.values
            case "NotIn":
                return found not in self.values
            case "Exists":
                return found is not None
            case "DoesNotExist":
                return found is None
            case "Gt" | "Lt":
                return self._compares(found)
            case _:
                return False

    def _compares(self, found: str | None) -> bool:
        have, want = _number(found or ""), _number(self.values[0] if len(self.values) == 1 else "")
        if have is None or want is None:
            return False
        return have > want if self.operator == "Gt" else have < want


Term = tuple[Requirement, ...]
Weights = tuple[tuple[int, Term], ...]  # of preferred node affinity
Excluded = Literal["taint", "node-selector", "node-affinity"]


@dataclass(frozen=True, slots=True)
class Filters:
    """The node filters of one pod; equal filters of many pods are one object's worth of work.

    Attributes:
        selector: label key and value pairs, sorted.
        terms: alternatives of required node affinity; None when there is no such affinity.
        tolerations: which taints the pod puts up with.
    """

    selector: tuple[tuple[str, str], ...] = ()
    terms: tuple[Term, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()

    @classmethod
    def of(cls, spec: core.PodSpec) -> "Filters":
        """Read them from a pod's spec."""
        affinity = spec.affinity and spec.affinity.node_affinity
        required = affinity and affinity.required
        return cls(
            selector=tuple(sorted((spec.node_selector or {}).items())),
            terms=tuple(map(_term, required.node_selector_terms or ())) if required else None,
            tolerations=tuple(
                Toleration(t.key, t.operator or "Equal", t.value, t.effect)
                for t in spec.tolerations or ()
            ),
        )

    def names_nodes(self) -> bool:
        """Whether they tell apart nodes that are equal but for their names."""
        keys = {key for key, _ in self.selector}
        keys.update(r.key for term in self.terms or () for r in term)
        return not keys.isdisjoint((HOSTNAME, NODE_NAME_FIELD))

    def excluded_by(
        self, labels: Mapping[str, str], taints: Iterable[Taint]
    ) -> tuple[Excluded, Taint | None] | None:
        """Return what keeps the pod off such a node, with the taint if it is one; None if nothing.

        ``labels`` hold the node's name under ``metadata.name``.
        """
        for taint in taints:
            if not any(t.tolerates(taint) for t in self.tolerations):
                return "taint", taint
        if any(labels.get(key) != value for key, value in self.selector):
            return "node-selector", None
        if self.terms is not None and not any(
            term and all(r.holds(labels) for r in term) for term in self.terms
        ):
            return "node-affinity", None
        return None


def _number(text: str) -> int | None:
    """Return the number that Go's 64-bit parser reads, or None."""
    if not _WHOLE.fullmatch(text) or not -(2**63) <= (number := int(text)) < 2**63:
        return None
    return number


def weighted_terms(spec: core.PodSpec) -> Weights:
    """Return preferred node affinity: weights and what a node must meet for each."""
    affinity = spec.affinity and spec.affinity.node_affinity
    entries = (affinity and affinity.preferred) or ()
    found = ((e.weight, _term(e.preference)) for e in entries if e.preference and e.weight > 0)
    return tuple((weight, term) for weight, term in found if term)


def repelling_taints(taints: Iterable[core.Taint] | None) -> tuple[Taint, ...]:
    """Return the taints that can keep pods off a node."""
    return tuple(Taint(t.key, t.value, t.effect) for t in taints or () if t.effect in _REPELLING)


def _term(term: core.NodeSelectorTerm) -> Term:
    # A field selector knows one field, the name, so fields and labels can share one mapping.
    both = (*(term.match_expressions or ()), *(term.match_fields or ()))
    return tuple(Requirement(r.key, r.operator, tuple(r.values or ())) for r in both)
