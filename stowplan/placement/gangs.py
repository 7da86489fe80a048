"""Pods -> gangs: who belongs together, how many they are, what they ask, and who comes first.

A gang is found by the first row of the table in ``gang_of`` that matches a pod. Owners say how
large it is where labels do not.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from stowplan.api.errors import InvalidObjectError
from stowplan.api.models import core
from stowplan.placement import keys, owners, reasons
from stowplan.placement.filters import Filters, Weights, weighted_terms
from stowplan.placement.owners import Owners
from stowplan.placement.podsets.podset import PodSet
from stowplan.placement.reasons import Reason
from stowplan.placement.records import Amounts, PodRecord, effective_requests
from stowplan.placement.request import Profile, TopologyRequest, parse, profile_of, violations

# What makes two requests differ, ours first.
_ASKING = sorted(
    {*keys.REQUEST_KEYS, *keys.PODSET_GROUP, keys.LAST_SLICE, keys.PACKING},
    key=lambda key: (not key.startswith(keys.OURS), key),
)

MOST_PODS = 10_000  # one Placement object could not name more seats


@dataclass(frozen=True, slots=True)
class GangId:
    """Which gang: what names it, and the name.

    Attributes:
        uid: of the owner, where one names the gang; made again, it is another gang.
    """

    namespace: str
    kind: str
    name: str
    uid: str = ""

    def __str__(self) -> str:
        """Return it as people type it."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Kind:
    """What the pods of one podset are like.

    Attributes:
        role: the template of their owner that makes them.
        amounts: what each asks for.
        filters: on which nodes each may run.
        preferred: on which nodes each would rather run.
    """

    role: str
    amounts: Amounts
    filters: Filters
    preferred: Weights = ()

    @classmethod
    def of(cls, role: str, pod: PodRecord) -> "Kind":
        """Return the kind of a pod of that role."""
        return cls(role, pod.requests, pod.filters, pod.preferred)

    def fits(self, role: str, pod: PodRecord) -> bool:
        """Whether a pod of that role is of this kind."""
        return (
            role == self.role
            and pod.requests == self.amounts
            and pod.filters == self.filters
            and pod.preferred == self.preferred
        )


@dataclass(frozen=True, slots=True)
class Gang:
    """Pods that start all or none.

    Attributes:
        id: which one.
        size: how many pods it has.
        pods: those that are there, podset by podset, first rank first.
        podsets: equal pods; their counts add up to ``size`` less the pods that succeeded.
        podset_of: for each of ``pods`` the position of its podset.
        kinds: what the pods of each podset are like.
        bound: those of ``pods`` that run, each with the position of its podset.
        is_part: others of it are done, so its pods need not be whole slices.
        ahead: its pods are made one after another.
    """

    id: GangId
    size: int
    pods: tuple[PodRecord, ...]
    podsets: tuple[PodSet, ...]
    podset_of: tuple[int, ...]
    kinds: tuple[Kind, ...]
    bound: tuple[tuple[int, PodRecord], ...]
    is_part: bool
    ahead: bool

    @property
    def request(self) -> TopologyRequest:
        """What its first podset asks of the topology, and mostly all of them."""
        return self.podsets[0].request

    @property
    def is_one_group(self) -> bool:
        """Whether all its podsets share one domain."""
        first = self.podsets[0].request.together
        return all(podset.request.together == first for podset in self.podsets)

    def podset_like(self, kind: Kind) -> PodSet:
        """Return the podset of that kind; else one of the same role, else the first."""
        if kind in self.kinds:
            return self.podsets[self.kinds.index(kind)]
        roles = [mine.role for mine in self.kinds]
        return self.podsets[roles.index(kind.role) if kind.role in roles else 0]


def gang_of(pod: PodRecord) -> GangId:
    """Return the gang of ``pod``; a pod that nothing ties to others is a gang of its own."""
    labels, owner = pod.labels, pod.owner
    if name := labels.get(keys.POD_GROUP_NAME):
        return GangId(pod.namespace, "pod-group", name)
    if name := labels.get(keys.COSCHEDULING_GROUP):
        return GangId(pod.namespace, "PodGroup", name)
    if name := labels.get(keys.LWS_NAME):
        return GangId(pod.namespace, "LeaderWorkerSet", f"{name}/{labels.get(keys.LWS_GROUP, '')}")
    if name := labels.get(keys.JOBSET_NAME):
        return GangId(pod.namespace, "JobSet", name, labels.get(keys.JOBSET_UID, ""))
    if owner is not None:
        return GangId(pod.namespace, owner.kind, owner.name, owner.uid)
    return GangId(pod.namespace, "Pod", pod.name)


def assemble(gang: GangId, members: Iterable[PodRecord], known: Owners) -> Gang | Reason:
    """Return the gang of these pods, or why it cannot be placed as it is.

    Failed and terminating pods do not count; succeeded ones do, except in a Job, whose owner leaves
    them out of its size.
    """
    present = [pod for pod in members if pod.phase != "Failed" and not pod.terminating]
    live = sorted((pod for pod in present if not pod.ended), key=_rank_key)
    if not live:
        return reasons.NO_POD
    size = owners.size_of(gang.kind, live, known)
    if isinstance(size, Reason):
        return size
    if size.pods > MOST_PODS:
        return reasons.too_large(size.pods, MOST_PODS)
    succeeded = 0 if size.without_succeeded else len(present) - len(live)
    open_seats = max(size.pods - succeeded, 0)
    if len(live) > open_seats and not size.grows:
        return reasons.with_facts(reasons.MORE_THAN_SIZE, there=len(live), needed=open_seats)
    if len(live) < open_seats and not size.ahead:
        return reasons.with_facts(reasons.SIBLINGS_MISSING, there=len(live), needed=open_seats)
    if len(live) > open_seats:  # at least one, for whoever asks
        live = _first(live, max(open_seats, 1))
    try:
        groups = _grouped(live, size, max(open_seats, len(live)))
        asked = _asked(groups, size)
        if isinstance(asked, Reason):
            return asked
    except InvalidObjectError as error:  # a template; the pods themselves were read long ago
        return reasons.request_invalid(error.violations[0].under(error.what))
    return Gang(
        id=gang,
        size=size.pods,
        pods=tuple(pod for group in groups for pod in group.pods),
        podsets=tuple(
            PodSet(
                name=_name(groups, i),
                count=group.count,
                amounts=group.kind.amounts,
                filters=group.kind.filters,
                request=request,
                preferred=group.kind.preferred,
                packing=packing,
            )
            for i, (group, (request, packing)) in enumerate(zip(groups, asked, strict=True))
        ),
        podset_of=tuple(i for i, group in enumerate(groups) for _ in group.pods),
        kinds=tuple(group.kind for group in groups),
        bound=tuple((i, p) for i, group in enumerate(groups) for p in group.pods if p.node),
        is_part=size.is_part or succeeded > 0 or not open_seats,
        ahead=size.ahead,
    )


def _first(live: list[PodRecord], seats: int) -> list[PodRecord]:
    """Return the pods that make up the gang; those beyond its size join them later, one by one."""
    bound = sum(bool(pod.node) for pod in live)
    waiting = [pod.key for pod in live if not pod.node][: max(seats - bound, 0)]
    chosen = frozenset(waiting)
    return [pod for pod in live if pod.node or pod.key in chosen]


@dataclass(slots=True)
class _Group:
    kind: Kind
    pods: list[PodRecord]
    count: int
    template: core.PodTemplate | None = None  # of pods that do not exist yet

    def annotations(self) -> Iterator[Mapping[str, str]]:
        """Yield each different set of annotations; where no pod is there, the template's."""
        if self.pods:
            yield from _distinct(self.pods)
        else:
            meta = self.template and self.template.metadata
            yield (meta and meta.annotations) or {}


def _grouped(live: list[PodRecord], size: "owners.Size", seats: int) -> list[_Group]:
    """Group equal pods of one role, and count the pods that are still to be made with them.

    Those are like the last pod of their role; a role without any pod is like its template.
    """
    groups: dict[Kind, _Group] = {}
    group: _Group | None = None
    for pod in live:
        made_as = owners.role_of(pod)
        if group is None or not group.kind.fits(made_as, pod):  # most pods are like the one before
            kind = Kind.of(made_as, pod)
            group = groups.setdefault(kind, _Group(kind, [], 0))
        group.pods.append(pod)
        group.count += 1
    if len(live) < seats:
        for role in size.roles or (owners.Role(owners.role_of(live[-1]), seats, None),):
            alike = [group for group in groups.values() if group.kind.role == role.name]
            missing = role.pods - sum(group.count for group in alike)
            if missing > 0 and alike:
                alike[-1].count += missing
            elif missing > 0:
                kind = _kind_of(role)
                groups[kind] = _Group(kind, [], missing, role.template)
    return list(groups.values())


def _name(groups: list[_Group], at: int) -> str:
    """Return a podset's name: its role, numbered where that alone does not tell it apart."""
    role = groups[at].kind.role
    alone = sum(group.kind.role == role for group in groups) == 1
    return role if role and alone else f"{role or 'podset'}-{at}"


def _kind_of(role: "owners.Role") -> Kind:
    spec = (role.template and role.template.spec) or core.PodSpec()
    what = f"the template of role {role.name!r}"
    return Kind(role.name, effective_requests(spec, what), Filters.of(spec), weighted_terms(spec))


Asked = tuple[TopologyRequest, Profile | None]


def _asked(groups: list[_Group], size: "owners.Size") -> list[Asked] | Reason:
    """Return what each group asks for, and the packing profile that its pods name.

    Pods of one role must agree; other roles may ask for other levels, but for something.
    """
    found: list[Asked] = []
    by_role: dict[str, Asked] = {}
    first: dict[str, Mapping[str, str]] = {}
    for group in groups:
        for annotations in group.annotations():
            one = _asked_by(annotations, None if size.is_part else size.pods)
            if isinstance(one, Reason):
                return one
            if by_role.setdefault(group.kind.role, one) != one:
                return reasons.requests_differ(_difference(first[group.kind.role], annotations))
            first.setdefault(group.kind.role, annotations)
        found.append(by_role[group.kind.role])
    # What admission adds to pods is not in their template: pods to come ask for what the others do.
    there = next(asked for asked, group in zip(found, groups, strict=True) if group.pods)
    for at, group in enumerate(groups):
        if not group.pods and found[at][0] == TopologyRequest():
            found[at] = there
    if any((request == TopologyRequest()) for request, _ in found):
        return reasons.ROLE_ASKS_NOTHING
    return _checked_groups(found)


def _difference(one: Mapping[str, str], other: Mapping[str, str]) -> str:
    """Return the first annotation that asks for topology and is not the same in both."""
    return next((key for key in _ASKING if one.get(key) != other.get(key)), "its annotations")


def _asked_by(annotations: Mapping[str, str], pods: int | None) -> Asked | Reason:
    broken = violations(annotations, pods=pods)
    if broken:
        return reasons.request_invalid(broken[0])
    return parse(annotations) or TopologyRequest(), profile_of(annotations)


def _checked_groups(asked: list[Asked]) -> list[Asked] | Reason:
    """Make sure that podsets which name one group ask for the same domain."""
    levels: dict[str, tuple[str | None, str | None]] = {}
    for request, _ in asked:
        if request.group is not None:
            pair = (request.required, request.preferred)
            if levels.setdefault(request.group, pair) != pair:
                return reasons.GROUP_DIFFERS
    return asked


def _distinct(pods: Iterable[PodRecord]) -> Iterator[Mapping[str, str]]:
    """Yield each different set of annotations once; pods of one template share theirs."""
    seen: set[tuple[tuple[str, str], ...]] = set()
    before: Mapping[str, str] | None = None
    for pod in pods:
        if pod.annotations == before:  # most pods are like the one before
            continue
        before = pod.annotations
        content = tuple(sorted(pod.annotations.items()))
        if content not in seen:
            seen.add(content)
            yield pod.annotations


def place_of(pod: PodRecord) -> int | None:
    """Return the pod's rank in its podset: the leader's place comes off a worker's."""
    rank = pod.rank
    if rank and keys.LWS_NAME in pod.labels:
        return rank - 1
    return rank


_RankKey = tuple[int, int, tuple[tuple[int, str], ...]]


def _rank_key(pod: PodRecord) -> _RankKey:
    """Order by job, then rank, then natural order of names: pod-2 before pod-10."""
    job = pod.labels.get(keys.JOBSET_JOB_INDEX, "")
    first = int(job) if job.isascii() and job.isdigit() and len(job) < 10 else 0
    rank = pod.rank
    return first, -1 if rank is None else rank, _natural_order(pod.name)


@lru_cache(maxsize=16384)
def _natural_order(name: str) -> tuple[tuple[int, str], ...]:
    return tuple(map(_natural, re.split(r"(\d+)", name)))


def _natural(part: str) -> tuple[int, str]:
    """Return a key that orders runs of digits by their value, and before all other text."""
    if not (part.isascii() and part.isdigit()):
        return -1, part
    digits = part.lstrip("0")
    return len(digits), digits


class GangIndex:
    """Which pods belong to which gang, kept event by event.

    A pod that asked for a node may not be among the objects yet: the scheduler is often faster than
    our own source, and a file may never name it. Such a caller counts for a while.
    """

    def __init__(self, callers_count_for: float) -> None:
        """Begin empty; a caller that no object confirms counts for so many seconds."""
        self._members: dict[GangId, dict[str, PodRecord]] = {}
        self._callers: dict[GangId, dict[str, tuple[PodRecord, float]]] = {}
        self._versions: dict[GangId, int] = {}
        self._callers_count_for = callers_count_for
        self._clock = 0

    def set_pod(self, old: PodRecord | None, pod: PodRecord) -> None:
        """Add or replace a pod."""
        gang = gang_of(pod)
        if old is not None and gang_of(old) != gang:
            self.remove_pod(old)
        self._members.setdefault(gang, {})[pod.key] = pod
        self._callers.get(gang, {}).pop(pod.key, None)
        self._touch(gang)

    def remove_pod(self, pod: PodRecord) -> None:
        """Forget a pod."""
        gang = gang_of(pod)
        self._members.get(gang, {}).pop(pod.key, None)
        self._callers.get(gang, {}).pop(pod.key, None)
        self._touch(gang)

    def heard_from(self, gang: GangId, pod: PodRecord, now: float) -> None:
        """Note that ``pod`` asked for a node."""
        self._drop_old_callers(gang, now)
        if pod.key in self._members.get(gang, {}):
            return
        callers = self._callers.setdefault(gang, {})
        before = callers.get(pod.key)
        callers[pod.key] = (pod, now)
        if before is None or before[0] != pod:
            self._touch(gang)

    def drop_old_callers(self, now: float) -> None:
        """Forget the callers of every gang that no object confirmed in time."""
        for gang in list(self._callers):
            self._drop_old_callers(gang, now)

    def members(self, gang: GangId, now: float) -> Mapping[str, PodRecord]:
        """Return the pods of ``gang`` by key."""
        self._drop_old_callers(gang, now)
        callers = self._callers.get(gang)
        if not callers:
            return self._members.get(gang, {})
        return {**{key: pod for key, (pod, _) in callers.items()}, **self._members.get(gang, {})}

    def _drop_old_callers(self, gang: GangId, now: float) -> None:
        callers = self._callers.get(gang, {})
        old = [key for key, (_, heard) in callers.items() if now - heard > self._callers_count_for]
        for key in old:
            del callers[key]
        if old:
            self._touch(gang)

    def version(self, gang: GangId) -> int:
        """Return a number that changes whenever the gang's pods do."""
        return self._versions.get(gang, 0)

    def ids(self) -> list[GangId]:
        """Return every gang that has a pod, or that a pod called for."""
        known = (self._members, self._callers)
        return [gang for pods in known for gang, members in pods.items() if members]

    def _touch(self, gang: GangId) -> None:
        self._clock += 1
        if self._members.get(gang) or self._callers.get(gang):
            self._versions[gang] = self._clock
            return
        self._members.pop(gang, None)
        self._callers.pop(gang, None)
        self._versions.pop(gang, None)
