"""Roles of one gang, each with its level: doc, "Roles of one gang".

Written from the document alone; where it leaves a choice, the choice is told in a comment.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tests.oracle.asking import Leaf, Path, Request, refusal_of, required_level
from tests.oracle.completing import inside, without
from tests.oracle.domains import MOST, NAMELESS, pods_per_domain, pods_that_fit
from tests.oracle.fit import Failed, Placed, place
from tests.oracle.laws import check_places

NEVER = -(10**6) * MOST  # added to the room of a domain that cannot be the one
Taken = list[tuple[dict[str, int], Path, int]]  # per pod, leaf, pods


@dataclass(frozen=True)
class Role:
    """One podset of a gang.

    ``asks`` is equal for podsets that ask the topology for exactly the same.
    """

    request: Request
    leaves: tuple[Leaf, ...]  # as its filters see the cluster
    asks: Hashable
    empty: Mapping[Path, dict[str, int]]  # leaf -> its room if nothing ran there
    group: str | None = None


@dataclass(frozen=True)
class Unit:
    """Podsets that are placed by one search: one of them, or a leader and its workers."""

    request: Request  # of the workers, with the leader
    leaves: tuple[Leaf, ...]
    empty: Mapping[Path, dict[str, int]]
    index: int  # in the gang
    leader_index: int | None = None

    @property
    def podsets(self) -> list[tuple[dict[str, int], int]]:
        """What one pod asks for and how many there are, of the workers and of the leader."""
        leader = self.request.leader_per_pod
        workers = (self.request.per_pod, self.request.count)
        return [workers] if leader is None else [workers, (leader, 1)]


@dataclass(frozen=True)
class Group:
    """Podsets that share one domain; first the one whose pods need most of an empty cluster."""

    units: tuple[Unit, ...]

    @property
    def request(self) -> Request:
        """What the group asks: that of any of its podsets, since they ask for the same."""
        return self.units[0].request

    @property
    def level(self) -> int | None:
        """The finest level that it asks for."""
        return self.request.level if self.request.asks_a_level else None

    @property
    def pods(self) -> int:
        return sum(unit.request.count + (unit.leader_index is not None) for unit in self.units)


def place_roles(roles: Sequence[Role], level_count: int) -> list[Placed] | None:
    """Return one answer for each podset, or None when the gang does not fit."""
    if any(role.request.count == 0 for role in roles):  # skipped, as if it were not there (6)
        others = place_roles([r for r in roles if r.request.count > 0], level_count)
        if others is None:
            return None
        rest = iter(others)
        return [next(rest) if role.request.count > 0 else Placed({}, None) for role in roles]
    groups = grouped(roles)
    if len(groups) == 1 and len(groups[0].units) == 1:
        # One podset, or a leader and its workers, is no gang of roles: it is placed as it asks.
        alone = _put(groups[0], (), False, level_count, [])
        return None if alone is None else [alone[0][i] for i in range(len(roles))]
    # Finest asked level first, none last; then most pods; then as given, since sorting keeps that.
    in_order = sorted(groups, key=lambda g: (0 if g.level is None else -1 - g.level, -g.pods))
    for region in _regions(groups, level_count):
        found = _search(in_order, region, level_count, [])
        if found is not None:
            return [found[i] for i in range(len(roles))]
    return None


def check_gang(roles: Sequence[Role], level_count: int, placed: Sequence[Placed]) -> list[str]:
    """Return the laws that the places of a gang break, as sentences."""
    taken: Taken = []
    broken: list[str] = []
    for role, answer in zip(roles, placed, strict=True):
        left = _left(role.leaves, taken)  # no leaf is over its room with all podsets together
        if role.request.count > 0:
            broken += check_places(left, role.request, answer)
        taken += [(role.request.per_pod, path, pods) for path, pods in answer.workers.items()]
    for group in grouped(roles):
        level = required_level(group.request)
        indexes = [i for u in group.units for i in (u.index, u.leader_index) if i is not None]
        used = {path[: (level or 0) + 1] for i in indexes for path in placed[i].workers}
        if level is not None and len(used) > 1:
            broken.append(f"a group shares one domain of level {level}, not {sorted(used)}")
    return broken


# --- Groups --------------------------------------------------------------------------------------


def grouped(roles: Sequence[Role]) -> list[Group]:
    """Return the groups in the order of their first podsets."""
    members: dict[Hashable, list[int]] = {}
    for i, role in enumerate(roles):
        key = ("named", role.group) if role.group is not None else ("asks", role.asks)
        members.setdefault(key, []).append(i)
    return [_group(roles, found) for found in members.values()]


def _group(roles: Sequence[Role], members: Sequence[int]) -> Group:
    named = roles[members[0]].group is not None
    if named and len(members) == 2 and 1 in [roles[i].request.count for i in members]:
        first, second = members
        # The smaller count leads; of equals the second (7).
        if roles[first].request.count < roles[second].request.count:
            first, second = second, first
        workers, leader = roles[first], roles[second]
        request = replace(workers.request, leader_per_pod=leader.request.per_pod)
        return Group((Unit(request, workers.leaves, workers.empty, first, second),))
    units = [Unit(roles[i].request, roles[i].leaves, roles[i].empty, i) for i in members]
    return Group(tuple(sorted(units, key=_fewest_first)))


def _fewest_first(unit: Unit) -> int:
    """How many of its pods the cluster would hold if it were empty, on leaves that let it in."""
    rooms = [unit.empty[leaf.values] for leaf in unit.leaves if leaf.allowed]
    return sum(pods_that_fit(room, unit.request.per_pod) for room in rooms)


# --- Regions -------------------------------------------------------------------------------------


def _regions(groups: Sequence[Group], level_count: int) -> Iterator[Path]:
    """Yield the regions in the order in which they are tried; () is the whole cluster."""
    finest = max((group.level for group in groups if group.level is not None), default=-1)
    units = [unit for group in groups for unit in group.units]
    for level in range(finest, -1, -1):
        yield from _holding(units, level, (), level_count, [])
    yield ()


def _holding(
    units: Sequence[Unit], level: int, region: Path, level_count: int, taken: Taken
) -> list[Path]:
    """Return the domains of a level in a region with room for each podset alone, least first.

    Whole pods are counted, slices are not. A nameless domain is never one that is asked for, nor
    does anything inside it lie in a required one.
    """
    room: dict[Path, int] = {}
    for unit in units:
        leaves = inside(_left(unit.leaves, taken), region)
        required = required_level(unit.request)
        asked = {level} if required is None else {level, min(level, required)}
        for per_pod, count in unit.podsets:
            counts = pods_per_domain(leaves, level_count, per_pod)
            for path, pods in counts.items():
                if len(path) == level + 1 and path[: len(region)] == region:
                    enough = pods >= count and all(path[at] != NAMELESS for at in asked)
                    room[path] = room.get(path, 0) + (pods if enough else NEVER)
    return sorted((p for p in room if room[p] >= 0), key=lambda path: (room[path], path))


def _left(leaves: Sequence[Leaf], taken: Taken) -> list[Leaf]:
    """Return the leaves without what was placed before."""
    found = list(leaves)
    for per_pod, path, pods in taken:
        found = [without(leaf, per_pod, pods) if leaf.values == path else leaf for leaf in found]
    return found


# --- The search ----------------------------------------------------------------------------------


def _search(
    groups: Sequence[Group], region: Path, level_count: int, taken: Taken
) -> dict[int, Placed] | None:
    """Place the groups in order; when a later one finds no domain, try the next of this one."""
    if not groups:
        return {}
    for domain, whole in _choices(groups[0], region, level_count, taken):
        placed = _put(groups[0], domain, whole, level_count, taken)
        if placed is None:
            continue
        answers, more = placed
        later = _search(groups[1:], region, level_count, [*taken, *more])
        if later is not None:
            return answers | later
    return None


def _choices(
    group: Group, region: Path, level_count: int, taken: Taken
) -> Iterator[tuple[Path, bool]]:
    """Yield the domains to try, and whether the domain is to be used as a whole.

    As a whole: as if it were the domain that each podset requires. Else each podset asks inside it
    for what it asks at all.
    """
    if group.level is None:  # without a level the region as a whole
        yield region, False
        return
    required = required_level(group.request)
    # A level coarser than the region's has one domain there, the region.
    coarsest = max(len(region) - 1, 0 if required is None else required)
    for level in range(max(group.level, coarsest), coarsest - 1, -1):
        for domain in _holding(group.units, level, region, level_count, taken):
            yield domain, True
    if required is None:
        yield region, False  # then several


def _put(
    group: Group, domain: Path, whole: bool, level_count: int, taken: Taken
) -> tuple[dict[int, Placed], Taken] | None:
    """Place a group's podsets one after another in one domain."""
    answers: dict[int, Placed] = {}
    more: Taken = []
    for unit in group.units:
        request = unit.request
        inner = _without_coarser_slices(request, domain, level_count)
        if inner is None:
            return None
        request = inner
        # Everything outside is closed, so the coarsest level asks for this domain; a finer level
        # that is preferred stays so inside.
        if whole and (request.mode != "preferred" or (request.level or 0) < len(domain)):
            request = replace(request, mode="preferred", level=0, within=None)
        leaves = inside(_left(unit.leaves, [*taken, *more]), domain)
        answer = place(leaves, level_count, request)
        if isinstance(answer, Failed):
            return None
        answers[unit.index] = Placed(answer.workers, None)
        more += [(request.per_pod, path, pods) for path, pods in answer.workers.items()]
        if unit.leader_index is not None:
            assert answer.leader is not None
            assert request.leader_per_pod is not None
            answers[unit.leader_index] = Placed({answer.leader: 1}, None)
            more.append((request.leader_per_pod, answer.leader, 1))
    return answers, more


def _without_coarser_slices(request: Request, domain: Path, level_count: int) -> Request | None:
    """Take off the slices that are whole inside the domain; None when they are refused."""
    finer = tuple((level, size) for level, size in request.slices if level >= len(domain) - 1)
    if finer == request.slices:
        return request
    if refusal_of(request, level_count) is not None:
        return None
    if any(domain[level] == NAMELESS for level, _ in request.slices if level < len(domain)):
        return None  # which holds no slice, whatever is asked for inside it
    dropped = request.count % request.slices[0][1] if request.rest_is_dropped else 0
    mode = "none" if request.mode == "slices-only" and not finer else request.mode
    return replace(request, mode=mode, slices=finer, count=request.count - dropped)
