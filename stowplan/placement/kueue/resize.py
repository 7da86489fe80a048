"""A podset that grows or shrinks keeps the places that it has (domain-fit, section 10)."""

from collections import Counter
from dataclasses import dataclass, replace

from stowplan.placement.kueue.assignment import Assignment
from stowplan.placement.kueue.places import assignment_of, leaf_of
from stowplan.placement.podsets.complete import Places, complete
from stowplan.placement.podsets.plan import NoFit
from stowplan.placement.podsets.podset import Assigned, PodSet, fit
from stowplan.placement.request import Profile
from stowplan.placement.rules import STOWPLAN, Rules
from stowplan.placement.shapes import Shapes
from stowplan.placement.state import ClusterState, Trial, View


@dataclass(frozen=True, slots=True)
class Resized:
    """Where the pods of a podset are now, and its leader where it has one."""

    workers: Assignment
    leader: Assignment | None = None


def resize(
    state: ClusterState,
    shapes: Shapes,
    podset: PodSet,
    previous: Resized,
    profile: Profile,
    rules: Rules = STOWPLAN,
) -> Resized | NoFit:
    """Return the places of ``podset.count`` pods that had ``previous``; the state is as before.

    The same number stays as it is; fewer are cut from the end; of more only the difference is
    placed. Where a domain of the previous places is gone, all is placed afresh.

    Args:
        state: the cluster, without what the previous places use.
        shapes: warm counts.
        podset: as it is to be, its leader included.
        previous: where its pods are.
        profile: for a podset that names none.
        rules: ours, or Kueue's, which only lets unconstrained podsets grow (kueue#13640).
    """
    view = state.view()
    profile = podset.packing or profile
    before = _places(view, previous.workers)
    led = _places(view, previous.leader) if previous.leader is not None else ()
    if before is None or led is None:
        found = fit(view, shapes, podset, profile, rules=rules)
        return found if isinstance(found, NoFit) else _whole(view, (), (), found)
    needs_leader = podset.leader is not None and not led
    more = podset.count - sum(count for _, count in before)
    if more <= 0 and not needs_leader:
        return Resized(previous.workers.shrink(podset.count), previous.leader)
    with state.trial() as trial:
        _assume(view, trial, podset, before, led)
        grown = replace(podset, count=max(more, 0), leader=podset.leader if needs_leader else None)
        if needs_leader:
            found = fit(view, shapes, grown, profile, rules=rules)
        else:
            found = complete(state, shapes, podset, before, more, profile, rules)
    return found if isinstance(found, NoFit) else _whole(view, before, led, found)


def _places(view: View, assigned: Assignment) -> Places | None:
    """Return the leaves of an assignment; None when one of them is gone."""
    leaves = [(leaf_of(view, path), count) for path, count in assigned.domains]
    known = [(leaf, count) for leaf, count in leaves if leaf is not None]
    return known if len(known) == len(leaves) else None


def _assume(view: View, trial: Trial, podset: PodSet, before: Places, led: Places) -> None:
    trial.take(view, before, podset.amounts)
    if podset.leader is not None:
        trial.take(view, led, podset.leader[0])


def _whole(view: View, before: Places, led: Places, new: Assigned) -> Resized:
    """Merge previous and new places."""
    workers = assignment_of(view, (Counter(dict(before)) + Counter(dict(new.leaves))).items())
    leader = [*led, *(() if new.leader is None else ((new.leader, 1),))]
    return Resized(workers, assignment_of(view, leader) if leader else None)
