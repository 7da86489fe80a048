"""Which gated pods are released, and what pins each to its place (domain-fit, section 15).

A place is room for one pod: a domain with a count of 3 is three places. Where every pod of a podset
says its rank and all ranks are sound, rank k gets the k-th place, so that neighbours in rank are
neighbours in the topology. Any doubt, and the whole podset fills its places in order instead.

Nothing is changed here: the answer names the gate to remove and what to add to the node selector,
so that one code serves Kueue's gate and ours.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from stowplan.api.errors import Violation
from stowplan.api.models import core
from stowplan.placement import keys
from stowplan.placement.kueue.assignment import Assignment
from stowplan.placement.request import TopologyRequest
from stowplan.topology.levels import HOSTNAME
from stowplan.topology.tree import Path

_INDEX = re.compile(r"[0-9]{1,10}", re.ASCII)
_OFFSET = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Member:
    """One pod, as far as its release goes.

    Attributes:
        key: namespace and name.
        workload: the workload it names, or the chain of workload slices when it is in one.
        podset: the podset it names.
        ended: it will never run again, so it holds no place.
        gates: names of its scheduling gates.
        selector: its node selector, which says where it was released to.
        labels: all of them; a podset may name any for the index.
        offset: what shifts the indices of its podset, as written.
    """

    key: str
    workload: str | None
    podset: str | None
    ended: bool = False
    gates: tuple[str, ...] = ()
    selector: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    offset: str | None = None

    @classmethod
    def of(cls, pod: core.Pod) -> "Member":
        """Read a pod by Kueue's marks."""
        meta, spec = pod.metadata, pod.spec or core.PodSpec()
        labels, annotations = meta.labels or {}, meta.annotations or {}
        return cls(
            key=f"{meta.namespace or 'default'}/{meta.name}",
            workload=annotations.get(keys.WORKLOAD_SLICE) or annotations.get(keys.HELD_ANNOTATION),
            podset=labels.get(keys.PODSET),
            ended=pod.status is not None and pod.status.phase in ("Succeeded", "Failed"),
            gates=tuple(gate.name for gate in spec.scheduling_gates or ()),
            selector=spec.node_selector or {},
            labels=labels,
            offset=annotations.get(keys.INDEX_OFFSET),
        )


@dataclass(frozen=True, slots=True)
class GatedPodSet:
    """A podset whose pods wait behind a gate.

    Attributes:
        name: by which pods name it.
        count: how many pods were admitted.
        request: names the labels of the index, and the group.
        assignment: None when it was admitted without topology.
    """

    name: str
    count: int
    request: TopologyRequest
    assignment: Assignment | None


@dataclass(frozen=True, slots=True)
class GatedWorkload:
    """Podsets that were admitted together.

    Attributes:
        name: by which pods name it; of a workload slice, the chain.
        admitted: False while only quota is reserved; then nothing is released.
        podsets: in their order; two of one group are a leader and its workers.
        unhealthy: hosts that no pod is released to.
    """

    name: str
    admitted: bool
    podsets: tuple[GatedPodSet, ...]
    unhealthy: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Release:
    """One pod to let go.

    Attributes:
        pod: namespace and name.
        gate: the one gate to remove; others stay.
        selector: label keys and values to add to its node selector.
    """

    pod: str
    gate: str
    selector: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why the ranks of a podset were not followed: what is wrong with one of its pods."""

    podset: str
    pod: str
    problem: str


@dataclass(frozen=True, slots=True)
class Released:
    """What to let go now, each podset in the order of its places; and which ranks were doubtful."""

    releases: tuple[Release, ...] = ()
    doubts: tuple[Doubt, ...] = ()


@dataclass(frozen=True, slots=True)
class Unseen:
    """Earlier releases are not seen yet: come back, or two pods would get one place."""

    releases: int


def releases(
    workload: GatedWorkload, members: Iterable[Member], gate: str, unseen: int = 0
) -> Released | Unseen | Violation:
    """Return the pods to release now, for the whole workload or for none of it.

    Args:
        workload: as it was admitted.
        members: pods of its namespace, in any order; those of other workloads are passed over.
        gate: the name of the gate that a pod waits behind.
        unseen: how many earlier releases of the workload ``members`` do not show yet.

    Returns:
        ``Violation`` when the offset of a podset's first pod, by name, is no number.
    """
    if not workload.admitted or all(podset.assignment is None for podset in workload.podsets):
        return Released()
    if unseen:
        return Unseen(unseen)
    live = (m for m in members if m.workload == workload.name and not m.ended)
    own = sorted(live, key=lambda member: member.key)
    released: list[Release] = []
    doubts: list[Doubt] = []
    for podset in workload.podsets:
        if podset.assignment is None:
            continue
        pods = [member for member in own if member.podset == podset.name]
        offset = _written_offset(pods)
        if isinstance(offset, Violation):
            return offset
        work = _Work(podset, podset.assignment, pods, gate, workload.unhealthy)
        ranks = work.ranks(_leaders_before(workload, podset) + offset)
        released += work.by_rank(ranks) if isinstance(ranks, dict) else work.greedily()
        doubts += [ranks] if isinstance(ranks, Doubt) else []
    return Released(tuple(released), tuple(doubts))


def _written_offset(pods: Sequence[Member]) -> int | Violation:
    text = pods[0].offset if pods else None
    if text is None:
        return 0
    if not _OFFSET.fullmatch(text):
        problem, remedy = "must be a whole number", "correct it, or remove it"
        return Violation(keys.INDEX_OFFSET, "invalid", text, problem, remedy).under(
            f"Pod {pods[0].key}"
        )
    return int(text)


def _leaders_before(workload: GatedWorkload, podset: GatedPodSet) -> int:
    """Return how many indices the leader takes before the workers of its group start."""
    group = podset.request.group
    pair = [other for other in workload.podsets if group and other.request.group == group]
    if len(pair) != 2:
        return 0
    # The smaller one leads; equal ones have one pod and one place each, so either may.
    leader = min(pair, key=lambda other: other.count)
    return 0 if leader is podset else leader.count


@dataclass(frozen=True, slots=True)
class _Work:
    """One podset with its pods in order of name."""

    podset: GatedPodSet
    assignment: Assignment
    pods: Sequence[Member]
    gate: str
    unhealthy: frozenset[str]

    @property
    def places(self) -> list[Path]:
        """The domain of each place: rank k is meant for the k-th."""
        return [path for path, count in self.assignment.domains for _ in range(count)]

    def ranks(self, offset: int) -> dict[int, Member] | Doubt | None:
        """Return each pod by its rank; None when the podset names no index label."""
        label = self.podset.request.index_label
        if label is None:
            return None
        places = self.places
        most = min(self.podset.count, len(places))
        found: dict[int, Member] = {}
        for pod in self.pods:
            index = self._index(pod, label)
            if isinstance(index, str):
                return self._doubt(pod, index)
            rank = index - offset
            if not 0 <= rank < most:
                return self._doubt(pod, f"has rank {rank}, which is none of the {most} places")
            if rank in found:
                return self._doubt(pod, f"has rank {rank}, as {found[rank].key} has")
            if self.gate not in pod.gates and self._released_to(pod) != places[rank]:
                return self._doubt(pod, f"is not in the place of its rank {rank}")
            found[rank] = pod
        return found

    def _index(self, pod: Member, label: str) -> int | str:
        """Return the index of a pod over all jobs of its podset, or what is wrong with it."""
        index = _number(pod.labels, label)
        request = self.podset.request
        if index is None:
            return f"has no number in label {label}"
        if request.subgroup_index_label is None:
            return index
        jobs = request.subgroup_count or 0
        if jobs < 1:
            return "has a label for its job, but the podset does not say how many jobs there are"
        size = self.podset.count // jobs
        job = _number(pod.labels, request.subgroup_index_label)
        if job is None or job >= jobs:
            return f"has no number below {jobs} in label {request.subgroup_index_label}"
        if index >= size:
            return f"has index {index} in a job of {size}"
        return index + job * size

    def by_rank(self, ranks: Mapping[int, Member]) -> list[Release]:
        """Release each gated pod to the place of its rank."""
        places = self.places
        return [
            self._release(pod, places[rank])
            for rank, pod in sorted(ranks.items())
            if self.gate in pod.gates and not self._is_lost(places[rank])
        ]

    def greedily(self) -> list[Release]:
        """Fill domain after domain, each up to its count with the pods that are there already."""
        waiting = [pod for pod in self.pods if self.gate in pod.gates]
        there = Counter(self._released_to(p) for p in self.pods if self.gate not in p.gates)
        open_places: list[Path] = []
        for path, count in self.assignment.domains:
            if not self._is_lost(path):
                open_places += [path] * (count - there[path])
        return [self._release(p, path) for p, path in zip(waiting, open_places, strict=False)]

    def _released_to(self, pod: Member) -> tuple[str | None, ...]:
        return tuple(pod.selector.get(key) for key in self.assignment.levels)

    def _is_lost(self, path: Path) -> bool:
        return self.assignment.levels[-1:] == (HOSTNAME,) and path[-1] in self.unhealthy

    def _release(self, pod: Member, path: Path) -> Release:
        selector = tuple(zip(self.assignment.levels, path, strict=True))
        return Release(pod.key, self.gate, selector)

    def _doubt(self, pod: Member, problem: str) -> Doubt:
        return Doubt(self.podset.name, pod.key, problem)


def _number(labels: Mapping[str, str], label: str) -> int | None:
    text = labels.get(label)
    return int(text) if text is not None and _INDEX.fullmatch(text) else None
