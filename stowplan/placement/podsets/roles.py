"""Podsets of one gang, each perhaps with a level of its own -> places near each other, or none.

The rules are those of ``docs/placement.md``, "Roles of one gang": podsets of one group share a
domain, groups get domains of their own levels inside the finest region that holds all of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from stowplan.placement.podsets.plan import NoFit
from stowplan.placement.podsets.podset import ANYWHERE, Assigned, PodSet, Region, fit
from stowplan.placement.request import Profile
from stowplan.placement.rules import STOWPLAN, Rules
from stowplan.placement.shapes import Shapes, ask_of
from stowplan.placement.state import ClusterState, Trial, View
from stowplan.topology.fit import allowed_leaves, quotients
from stowplan.topology.tree import Quantity

MOST_TRIES = 1000  # podsets placed in vain before a gang counts as not fitting


@dataclass(frozen=True, slots=True)
class Group:
    """Podsets that share one domain.

    Attributes:
        members: their positions, first the pod of which an empty cluster would hold fewest.
        podsets: what is placed, in this order; a leader stands in its workers' podset.
        counted: the same with the leader as a podset of its own.
        leader: position of the leader that the first podset has.
        level: the finest level that they ask for; None for none.
        top: the coarsest one that will do; None where several domains will do in the end.
    """

    members: tuple[int, ...]
    podsets: tuple[PodSet, ...]
    counted: tuple[PodSet, ...]
    leader: int | None
    level: int | None
    top: int | None

    @property
    def positions(self) -> tuple[int, ...]:
        """All of its podsets, the leader last."""
        return self.members if self.leader is None else (*self.members, self.leader)

    @property
    def pods(self) -> int:
        """How many pods are to be placed."""
        return sum(podset.count for podset in self.podsets)


def place_roles(
    state: ClusterState,
    shapes: Shapes,
    podsets: Sequence[PodSet],
    profile: Profile,
    rules: Rules = STOWPLAN,
    region: Region = ANYWHERE,
) -> list[Assigned] | NoFit:
    """Place all podsets, or none, and return one answer for each; the state is as before.

    Podsets without pods are answered without a place.
    """
    view = state.view()
    if len(podsets) == 1:
        answer = fit(view, shapes, podsets[0], podsets[0].packing or profile, region, rules)
        return answer if isinstance(answer, NoFit) else [answer]
    asked = [at for at, podset in enumerate(podsets) if podset.count > 0]
    groups = groups_of(podsets, asked, view)
    if len(groups) == 1 and len(groups[0].podsets) == 1:
        found: list[Assigned] | NoFit = _alone(view, shapes, groups[0], profile, rules, region)
    else:
        found = _together(state, view, shapes, groups, profile, rules, region)
    if isinstance(found, NoFit):
        return found
    answers = [Assigned((), 0)] * len(podsets)
    for group, places in zip(groups, _per_group(groups, found), strict=True):
        for at, answer in zip(group.positions, places, strict=True):
            answers[at] = answer
    return answers


def groups_of(podsets: Sequence[PodSet], asked: Sequence[int], view: View) -> list[Group]:
    """Return which of the podsets at positions ``asked`` share a domain, the first one first."""
    together: dict[object, list[int]] = {}
    for at in asked:
        together.setdefault(podsets[at].request.together, []).append(at)
    return [_group([(at, podsets[at]) for at in members], view) for members in together.values()]


def _group(members: list[tuple[int, PodSet]], view: View) -> Group:
    keys = view.tree.levels.keys
    request = members[0][1].request
    levels = [keys.index(k) for k in (request.preferred, request.required) if k in keys]
    counted = tuple(podset for _, podset in members)
    leader = leader_of(counted)
    if leader is not None:
        at, head = members[leader]
        workers_at, workers = members[1 - leader]
        workers = replace(workers, leader=(head.amounts, head.filters))
        members, leader_at = [(workers_at, workers)], at
    else:
        if len(members) > 1:
            members = sorted(members, key=lambda member: _held_when_empty(member[1], view))
        leader_at = None
    return Group(
        members=tuple(at for at, _ in members),
        podsets=tuple(podset for _, podset in members),
        counted=counted,
        leader=leader_at,
        level=levels[0] if levels else None,
        top=keys.index(request.required) if request.required in keys else None,
    )


def leader_of(podsets: Sequence[PodSet]) -> int | None:
    """Return which of the podsets of a named group leads the other: one of a single pod.

    Of two single pods it is the second (section 7).
    """
    if len(podsets) != 2 or podsets[0].request.group is None:
        return None
    if podsets[1].count == 1:
        return 1
    return 0 if podsets[0].count == 1 else None


def _held_when_empty(podset: PodSet, view: View) -> int:
    """Return how many of the podset's pods the cluster would hold if nothing ran there."""
    ask = ask_of(podset.amounts, podset.filters, view)
    empty = view.leaves._replace(free=view.total)
    held = quotients(empty, ask).min(axis=0)[allowed_leaves(empty, ask)]
    return int(held.sum())


def _hardest_first(group: Group) -> tuple[int, int]:
    """Return a key that puts the finest level first and no level last, then most pods."""
    return (1 if group.level is None else -group.level), -group.pods


def _per_group(groups: Sequence[Group], found: list[Assigned]) -> Iterator[list[Assigned]]:
    """Cut the answers into those of each group, a leader's own after its workers'."""
    at = 0
    for group in groups:
        places = found[at : at + len(group.podsets)]
        at += len(group.podsets)
        if group.leader is not None and places[0].leader is not None:
            places.append(Assigned(((places[0].leader, 1),), places[0].level))
        yield places


def _alone(
    view: View, shapes: Shapes, group: Group, profile: Profile, rules: Rules, region: Region
) -> list[Assigned] | NoFit:
    podset = group.podsets[0]
    answer = fit(view, shapes, podset, podset.packing or profile, region, rules)
    return answer if isinstance(answer, NoFit) else [answer]


def _together(
    state: ClusterState,
    view: View,
    shapes: Shapes,
    groups: list[Group],
    profile: Profile,
    rules: Rules,
    region: Region,
) -> list[Assigned] | NoFit:
    """Place several groups, or several podsets of one, and return their answers in order."""
    for group in groups:
        for podset in group.podsets:
            alone = fit(view, shapes, podset, podset.packing or profile, region, rules)
            if isinstance(alone, NoFit):
                return alone  # not even alone; an unknown level ends here, too
    order = sorted(range(len(groups)), key=lambda at: _hardest_first(groups[at]))
    with state.trial() as trial:
        search = _Search(view, shapes, profile, rules, region, trial, [groups[i] for i in order])
        found = search.run()
        if found is None:
            return search.no_fit()
    answers: list[Assigned] = []
    for at in range(len(groups)):
        answers += found[order.index(at)]
    return answers


@dataclass(slots=True)
class _Search:
    """Tries regions, and inside each of them domains for one group after another."""

    view: View
    shapes: Shapes
    profile: Profile
    rules: Rules
    region: Region
    trial: Trial
    groups: list[Group]
    tries: int = 0

    def run(self) -> list[list[Assigned]] | None:
        """Return the answers of each group, in the order of ``groups``."""
        for domain in self._regions():
            found = self._place(0, domain)
            if found is not None or self.tries >= MOST_TRIES:
                return found
        return None

    def no_fit(self) -> NoFit:
        """Say at which level it failed, and where most room is."""
        levels = [g.top for g in self.groups if g.top is not None]
        if not levels:
            return NoFit("partial-fit")
        level = min(levels)
        low, high = self._inside(self.region.domain, level)
        room = self._room([p for g in self.groups for p in g.podsets], low, high)[0]
        top = low + int(np.argmax(room)) if room.size else -1
        return NoFit("partial-fit", self.view.tree.levels.keys[level], top=top)

    def _regions(self) -> Iterator[int | None]:
        """Yield where all groups could be together: the finest domains first, then everything."""
        podsets = [podset for group in self.groups for podset in group.counted]
        levels = [group.level for group in self.groups if group.level is not None]
        for level in range(max(levels, default=-1), self._coarsest() - 1, -1):
            yield from self._holding(podsets, level, self.region.domain)
        # One group that must have one domain was tried in all of them.
        if not (len(self.groups) == 1 and self.groups[0].top is not None):
            yield self.region.domain

    def _coarsest(self) -> int:
        """Return the coarsest level at which a region can be found."""
        tops = [group.top for group in self.groups if group.top is not None]
        alone = len(self.groups) == 1 and bool(tops)
        within = self.region.domain
        floor = 0 if within is None else self.view.tree.level_of(within)
        return max(tops[0] if alone else 0, floor)

    def _place(self, at: int, within: int | None) -> list[list[Assigned]] | None:
        """Place the groups from ``at`` on below ``within``; try the next domain when one fails."""
        if at == len(self.groups):
            return []
        group = self.groups[at]
        for domain in self._candidates(group, within):
            mark = len(self.trial.taken)
            answers = self._fill(group, domain)
            if answers is not None:
                others = self._place(at + 1, within)
                if others is not None:
                    return [answers, *others]
            self.trial.undo_to(mark)
            if self.tries >= MOST_TRIES:
                return None
        return None

    def _candidates(self, group: Group, within: int | None) -> Iterator[int | None]:
        """Yield where a group may go: domains as fine as it asks first, then the region."""
        tree = self.view.tree
        floor = -1 if within is None else tree.level_of(within)
        if group.level is not None:
            top = max(floor, 0 if group.top is None else group.top)
            for level in range(max(group.level, floor), top - 1, -1):
                yield from self._holding(group.counted, level, within)
        if group.top is None:
            yield within

    def _holding(
        self, podsets: Sequence[PodSet], level: int, within: int | None
    ) -> Iterator[int | None]:
        """Yield domains of ``level`` that hold each podset alone, least room first."""
        low, high = self._inside(within, level)
        room, holds = self._room(podsets, low, high)
        holds &= self.view.tree.arrays.named[low:high] > 0
        for at in np.argsort(room, kind="stable").tolist():
            if holds[at]:
                yield low + at

    def _inside(self, within: int | None, level: int) -> tuple[int, int]:
        tree = self.view.tree
        return tree.range_of(level) if within is None else tree.below(within, level)

    def _room(
        self, podsets: Sequence[PodSet], low: int, high: int
    ) -> tuple[Quantity, "np.ndarray[tuple[int], np.dtype[np.bool_]]"]:
        """Return per domain how many pods fit, summed over podsets, and whether each one does."""
        room = np.zeros(high - low, dtype=np.int64)
        holds = np.ones(high - low, dtype=np.bool_)
        for podset in podsets:
            shape = self.shapes.get(podset.amounts, podset.filters, self.view)
            shape.catch_up(self.view)
            pods = shape.counts.pods[low:high]
            holds &= pods >= podset.count
            room += pods
        return room, holds

    def _fill(self, group: Group, domain: int | None) -> list[Assigned] | None:
        """Place a group's podsets one after another below ``domain``."""
        answers = []
        inside = replace(self.region, domain=domain)
        for podset in group.podsets:
            self.tries += 1
            profile = podset.packing or self.profile
            answer = fit(self.view, self.shapes, podset, profile, inside, self.rules)
            if isinstance(answer, NoFit):
                return None
            self.trial.take(self.view, answer.leaves, podset.amounts)
            if podset.leader is not None and answer.leader is not None:
                self.trial.take(self.view, [(answer.leader, 1)], podset.leader[0])
            answers.append(answer)
        return answers
