"""A whole gang -> seats for all its pods, or why there are none. Nothing is committed here."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from stowplan.placement import reasons
from stowplan.placement.cluster import Cluster
from stowplan.placement.gangs import Gang, GangId, place_of
from stowplan.placement.keys import MAX_PER_DOMAIN, PREFERRED
from stowplan.placement.ledger import Reservation, Seat
from stowplan.placement.podsets.complete import common_domain, complete, part_of, upwards
from stowplan.placement.podsets.plan import NoFit
from stowplan.placement.podsets.podset import ANYWHERE, NO_LEAVES, Assigned, PodSet, Region
from stowplan.placement.podsets.roles import groups_of, place_roles
from stowplan.placement.podsets.shortage import lacks_room, scarcest
from stowplan.placement.reasons import Reason
from stowplan.placement.records import PodRecord
from stowplan.placement.state import View
from stowplan.topology.tree import Index


def place_gang(cluster: Cluster, gang: Gang, now: float) -> Reservation | Reason:
    """Return seats for every pod of ``gang``, or why they cannot all have one.

    Pods that run already keep their nodes, and the others go to the domain that those are in.
    """
    view = cluster.state.view()
    if (outside := _runs_outside(view, gang)) is not None:
        return outside
    excluded = excluded_leaves(cluster, view, gang.id, now)
    answers = _answers(cluster, view, gang, excluded)
    if isinstance(answers, NoFit):
        if excluded.size and not isinstance(_answers(cluster, view, gang, NO_LEAVES), NoFit):
            return reasons.nodes_excluded(gang.request.required)
        return refusal(cluster, gang, gang.podsets, answers, bool(gang.bound))
    bound = gang.bound
    seats = [Seat(p.node, p.requests, i, place_of(p) or 0, p.key, bound=True) for i, p in bound]
    used = [view.leaf_of[pod.node] for _, pod in bound if pod.node in view.leaf_of]
    for at, answer in enumerate(answers):
        if answer.leaves:
            seats += _seats(view, at, gang, answer)
            used += (answer.leaves[0][0], answer.leaves[-1][0])
    level, domain = _domain_of(view, gang, used)
    return Reservation(gang.id, domain, level, seats, gang.kinds, now, gang.ahead)


def _answers(cluster: Cluster, view: View, gang: Gang, excluded: Index) -> list[Assigned] | NoFit:
    """Return where the pods go that have no node yet, one answer for each podset."""
    podsets: Sequence[PodSet] = gang.podsets
    if not cluster.policy.weigh_affinity and any(podset.preferred for podset in podsets):
        podsets = [replace(podset, preferred=()) for podset in podsets]
    if gang.is_part:
        podsets = [replace(p, request=part_of(p.request, p.count)) for p in podsets]
    if gang.bound:
        return _completed(cluster, view, gang, podsets, excluded)
    policy = cluster.policy
    region = Region(None, excluded) if excluded.size else ANYWHERE
    return place_roles(cluster.state, cluster.shapes, podsets, policy.packing, policy.rules, region)


def _completed(
    cluster: Cluster, view: View, gang: Gang, podsets: Sequence[PodSet], excluded: Index
) -> list[Assigned] | NoFit:
    """Place what is missing of each group beside what runs of it, or else near the gang."""
    bound: list[list[int]] = [[] for _ in podsets]
    for at, pod in gang.bound:
        if pod.node in view.leaf_of:
            bound[at].append(view.leaf_of[pod.node])
    runs = [sum(i == at for i, _ in gang.bound) for at in range(len(podsets))]
    missing = [max(p.count - n, 0) for p, n in zip(podsets, runs, strict=True)]
    answers = [Assigned((), 0)] * len(podsets)
    policy, finest = cluster.policy, view.tree.levels.depth - 1
    with cluster.state.trial() as trial:
        for group in groups_of(podsets, range(len(podsets)), view):
            regions = None
            if not any(bound[at] for at in group.positions):  # a group of its own: near the others
                leaves = [leaf for leaves in bound for leaf in leaves]
                regions = upwards(view, common_domain(view, leaves, finest)) if leaves else None
            for at in group.positions:
                if not missing[at]:
                    continue
                answer = complete(
                    cluster.state,
                    cluster.shapes,
                    podsets[at],
                    [(leaf, 1) for leaf in bound[at]],
                    missing[at],
                    policy.packing,
                    policy.rules,
                    excluded,
                    beside=[leaf for other in group.positions for leaf in bound[other]],
                    regions=regions,
                )
                if isinstance(answer, NoFit):
                    return answer
                trial.take(view, answer.leaves, podsets[at].amounts)
                bound[at] += [leaf for leaf, _ in answer.leaves]
                answers[at] = answer
    return answers


def _runs_outside(view: View, gang: Gang) -> Reason | None:
    """Return a reason when nobody can tell in which required domain the gang runs."""
    for at, pod in gang.bound:
        level = gang.podsets[at].request.required
        if level in view.tree.levels.keys and pod.node not in view.leaf_of:
            return reasons.runs_outside(level)
    return None


def excluded_leaves(cluster: Cluster, view: View, gang: GangId, now: float) -> Index:
    """Return the leaves that kube-scheduler refused for ``gang`` a short while ago."""
    nodes = cluster.ledger.excluded(gang, now)
    if not nodes:
        return NO_LEAVES
    return np.array([view.leaf_of[n] for n in nodes if n in view.leaf_of], dtype=np.int32)


def _domain_of(view: View, gang: Gang, leaves: Sequence[int]) -> tuple[str | None, tuple[str, ...]]:
    """Return level and path of the domain that holds ``leaves``: as required, else the finest."""
    keys = view.tree.levels.keys
    required = {podset.request.required for podset in gang.podsets}
    asked = [keys.index(key) for key in required if key in keys]
    domain = common_domain(view, leaves, min(asked, default=len(keys) - 1)) if leaves else None
    if domain is None:
        return None, ()
    path = view.tree.paths[domain]
    return keys[len(path) - 1], path


def _seats(view: View, at: int, gang: Gang, answer: Assigned) -> list[Seat]:
    """Write a podset's places out in tree order and hand them to its pods that wait.

    Rank k has the k-th place where ranks are sound (domain-fit, section 15). Any doubt, and all
    pods of the podset go in order.
    """
    amounts, names = gang.kinds[at].amounts, view.tree.nodes
    nodes = [names[leaf] for leaf, count in answer.leaves for _ in range(count)]
    pods: Sequence[PodRecord] = gang.pods
    if len(gang.podsets) > 1 or gang.bound:
        of = zip(gang.podset_of, gang.pods, strict=True)
        pods = [pod for i, pod in of if i == at and not pod.node]
    ranks = [place_of(pod) for pod in pods]
    sound = len(set(ranks)) == len(ranks) and all(r is not None and r < len(nodes) for r in ranks)
    holders: list[PodRecord | None] = [*pods[: len(nodes)], *[None] * (len(nodes) - len(pods))]
    if sound:
        by_rank = dict(zip(ranks, pods, strict=True))
        holders = [by_rank.get(rank) for rank in range(len(nodes))]
    return [
        Seat(node, amounts, at, rank, pod.key, slow=pod.binds_slowly)
        if pod is not None
        else Seat(node, amounts, at, rank)
        for rank, (node, pod) in enumerate(zip(nodes, holders, strict=True))
    ]


def refusal(
    cluster: Cluster, gang: Gang, podsets: Sequence[PodSet], answer: NoFit, partly_placed: bool
) -> Reason:
    """Word why the gang was not placed."""
    view = cluster.state.view()
    keys = view.tree.levels.keys
    match answer.kind:
        case "level-unknown" | "slice-level-unknown":
            return reasons.level_unknown(answer.level, keys)
        case "slice-level-above" | "slice-size-missing" | "slice-size-indivisible":
            return reasons.slices_out_of_order(keys)
        case "preferred-not-finer":
            name = PREFERRED[0]  # Kueue's key means nothing beside a required level
            return reasons.must_be_finer(name, answer.level, answer.slice_level, keys)
        case "share-not-finer":
            return reasons.must_be_finer(MAX_PER_DOMAIN, answer.level, answer.slice_level, keys)
        case "slices-leave-a-rest":
            smaller = any(podset.request.last_slice == "smaller" for podset in podsets)
            return reasons.slices_leave_a_rest(answer.needed, answer.needed - answer.fits, smaller)
        case "kept-apart":
            return reasons.runs_apart(answer.level)
        case _:
            return _does_not_fit(cluster, view, gang, podsets, answer, partly_placed)


def _does_not_fit(
    cluster: Cluster,
    view: View,
    gang: Gang,
    podsets: Sequence[PodSet],
    answer: NoFit,
    partly_placed: bool,
) -> Reason:
    required = next((p.request.required for p in podsets if p.request.required), None)
    if any(podset.request.required == answer.level for podset in podsets):
        required = answer.level
    low, high = 0, view.tree.leaf_count
    if required is not None and answer.top >= 0:
        low, high = view.tree.leaves_under(answer.top)
    if answer.kind == "leader-no-fit":
        ones = [podset for podset in podsets if podset.count == 1]
        leader = next((p for p in ones if lacks_room(view, cluster.shapes, p)), ones[0])
        short_of = scarcest(view, cluster.shapes, leader, 0, view.tree.leaf_count)
        return reasons.leader_does_not_fit(required, short_of)
    # The one that needs most of those that would not fit there even alone, else of all.
    short = max(podsets, key=lambda p: (lacks_room(view, cluster.shapes, p, low, high), p.count))
    short_of = scarcest(view, cluster.shapes, short, low, high)
    reason = reasons.no_domain_fits(required, gang.size, short_of)
    if partly_placed and required is not None:
        reason = reasons.rest_does_not_fit(required, short_of)
    if not answer.needed:  # unlike podsets have no one number
        return reason
    return reasons.with_facts(reason, fits=answer.fits, needed=answer.needed)
