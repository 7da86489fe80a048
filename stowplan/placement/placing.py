"""A whole gang -> seats for all its pods, or why there are none. Nothing is committed here."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from stowplan.placement import reasons
from stowplan.placement.cluster import Cluster
from stowplan.placement.gangs import Gang, GangId, place_of
from stowplan.placement.ledger import Reservation, Seat
from stowplan.placement.podset import (
    NO_LEAVES,
    Assigned,
    NoFit,
    PodSet,
    Profile,
    Region,
    fit,
    scarcest,
)
from stowplan.placement.reasons import Reason
from stowplan.placement.records import Amounts, PodRecord
from stowplan.placement.request import TopologyRequest
from stowplan.placement.state import ClusterState, View
from stowplan.topology.tree import Index


def place_gang(cluster: Cluster, gang: Gang, now: float) -> Reservation | Reason:
    """Return seats for every pod of ``gang``, or why they cannot all have one.

    Pods that run already keep their nodes, and the others go to the domain that those are in.
    """
    view = cluster.state.view()
    profile = gang.packing or cluster.policy.packing
    bound, todo = gang.bound, gang.podsets
    if bound:
        todo = tuple(
            replace(podset, count=max(podset.count - sum(i == at for i, _ in bound), 0))
            for at, podset in enumerate(gang.podsets)
        )
    if gang.request.slices and any(map(_leaves_a_rest, todo)):
        if not bound and not gang.grows:
            return reasons.SLICES_LEAVE_A_REST
        # A part of a gang has slices of others, which are placed already, to complete.
        todo = tuple(replace(p, request=p.request.without_slices()) for p in todo)
    regions = regions_of(view, gang.request, [pod.node for _, pod in bound])
    if isinstance(regions, Reason):
        return regions
    excluded = excluded_leaves(cluster, view, gang.id, now)
    answers = first_fit(cluster, view, todo, regions, excluded, profile)
    if isinstance(answers, NoFit):
        if excluded.size and not isinstance(
            first_fit(cluster, view, todo, regions, NO_LEAVES, profile), NoFit
        ):
            return reasons.nodes_excluded(gang.request.required)
        return refusal(cluster, gang, todo, answers, bool(bound))
    seats = [Seat(p.node, p.requests, i, place_of(p) or 0, p.key, bound=True) for i, p in bound]
    used = [view.leaf_of[pod.node] for _, pod in bound if pod.node in view.leaf_of]
    for at, answer in enumerate(answers):
        if answer.leaves:
            seats += _seats(view, at, gang, answer)
            used += (answer.leaves[0][0], answer.leaves[-1][0])
    level, domain = _domain_of(view, gang.request, used)
    return Reservation(gang.id, domain, level, seats, gang.kinds, now, gang.ahead)


def _leaves_a_rest(podset: PodSet) -> bool:
    """Whether whole slices would leave pods without a seat (Kueue drops them, a quirk)."""
    slices = podset.request.slices
    return bool(slices) and podset.count % max(slices[0].size, 1) != 0


def excluded_leaves(cluster: Cluster, view: View, gang: GangId, now: float) -> Index:
    """Return the leaves that kube-scheduler refused for ``gang`` a short while ago."""
    nodes = cluster.ledger.excluded(gang, now)
    if not nodes:
        return NO_LEAVES
    return np.array([view.leaf_of[n] for n in nodes if n in view.leaf_of], dtype=np.int32)


def regions_of(
    view: View, request: TopologyRequest, nodes: Sequence[str]
) -> list[int | None] | Reason:
    """Return the domains to try for the rest of a gang whose other pods run on ``nodes``.

    With a required level it is the one domain that they are in; None stands for the whole cluster.
    """
    key = request.required
    if not nodes or key is None or key not in view.tree.levels.keys:
        return preferred_regions(view, request, nodes)
    leaves = [view.leaf_of[node] for node in nodes if node in view.leaf_of]
    if len(leaves) < len(nodes):
        return reasons.runs_outside(key)
    level = view.tree.levels.keys.index(key)
    shared = common_domain(view, leaves, level)
    if shared is None or view.tree.level_of(shared) < level:
        return reasons.runs_apart(key)
    return [shared]


def preferred_regions(
    view: View, request: TopologyRequest, nodes: Sequence[str]
) -> list[int | None]:
    """Return what ``nodes`` share at the preferred level, then coarser domains, then all."""
    leaves = [view.leaf_of[node] for node in nodes if node in view.leaf_of]
    key = request.preferred
    if not leaves or key is None or key not in view.tree.levels.keys:
        return [None]
    shared = common_domain(view, leaves, view.tree.levels.keys.index(key))
    tries: list[int | None] = []
    while shared is not None and shared >= 0:
        tries.append(shared)
        shared = int(view.tree.arrays.parent[shared])
    return [*tries, None]


def common_domain(view: View, leaves: Sequence[int], finest: int) -> int | None:
    """Return the finest domain above all ``leaves``, no finer than level ``finest``."""
    tree = view.tree
    # A domain's leaves are one range, so the two ends speak for all between them.
    one = tree.ancestor(tree.first_leaf + min(leaves), finest)
    other = tree.ancestor(tree.first_leaf + max(leaves), finest)
    while one != other:
        one, other = int(tree.arrays.parent[one]), int(tree.arrays.parent[other])
    return one if one >= 0 else None


def _domain_of(
    view: View, request: TopologyRequest, leaves: Sequence[int]
) -> tuple[str | None, tuple[str, ...]]:
    """Return level and path of the domain that holds ``leaves``: as required, else the finest."""
    keys = view.tree.levels.keys
    finest = keys.index(request.required) if request.required in keys else len(keys) - 1
    domain = common_domain(view, leaves, finest) if leaves else None
    if domain is None:
        return None, ()
    path = view.tree.paths[domain]
    return keys[len(path) - 1], path


def first_fit(
    cluster: Cluster,
    view: View,
    podsets: Sequence[PodSet],
    regions: Sequence[int | None],
    excluded: Index,
    profile: Profile,
) -> list[Assigned] | NoFit:
    """Place all podsets in the first of ``regions`` that holds them."""
    answer: list[Assigned] | NoFit = NoFit("none-fit")
    for domain in regions:
        answer = _fit_all(cluster, view, podsets, Region(domain, excluded), profile)
        if not isinstance(answer, NoFit):
            break
    return answer


def _fit_all(
    cluster: Cluster, view: View, podsets: Sequence[PodSet], region: Region, profile: Profile
) -> list[Assigned] | NoFit:
    if sum(podset.count > 0 for podset in podsets) > 1:
        return _fit_together(cluster, view, podsets, region, profile)
    answers = []
    for podset in podsets:
        answer = fit(view, cluster.shapes, podset, profile, region)
        if isinstance(answer, NoFit):
            return answer
        answers.append(answer)
    return answers


def _fit_together(
    cluster: Cluster, view: View, podsets: Sequence[PodSet], region: Region, profile: Profile
) -> list[Assigned] | NoFit:
    """Place unlike pods of one gang in one domain of the level that they ask for.

    A preferred level gives way to coarser ones, and in the end to several domains.
    """
    request = podsets[0].request
    if region.domain is not None or request.level is None:
        return _fit_in_turn(cluster, view, podsets, region, profile)
    for podset in podsets:
        answer = fit(view, cluster.shapes, podset, profile, region)
        if isinstance(answer, NoFit):
            return answer  # not even alone; an unknown level ends here, too
    level = view.tree.levels.keys.index(request.level)
    answers = _fit_in_one_domain(cluster, view, podsets, level, region, profile)
    if request.mode == "required":
        return answers
    while isinstance(answers, NoFit) and level > 0:
        level -= 1
        answers = _fit_in_one_domain(cluster, view, podsets, level, region, profile)
    if isinstance(answers, NoFit):
        return _fit_in_turn(cluster, view, podsets, region, profile)
    return answers


def _fit_in_one_domain(
    cluster: Cluster,
    view: View,
    podsets: Sequence[PodSet],
    level: int,
    region: Region,
    profile: Profile,
) -> list[Assigned] | NoFit:
    """Place all podsets in one domain of ``level``, the tightest first.

    The counts of each podset alone rule most domains out; the rest are tried one by one.
    """
    low, high = view.tree.range_of(level)
    room = np.zeros(high - low, dtype=np.int64)
    holds = np.ones(high - low, dtype=np.bool_)
    for podset in podsets:
        shape = cluster.shapes.get(podset.amounts, podset.filters, view)
        shape.catch_up(view)
        pods = shape.counts.pods[low:high]
        holds &= pods >= podset.count
        room += pods
    for at in np.argsort(room, kind="stable"):
        if holds[at]:
            inside = Region(low + int(at), region.excluded)
            answers = _fit_in_turn(cluster, view, podsets, inside, profile)
            if not isinstance(answers, NoFit):
                return answers
    roomiest = low + int(np.argmax(room)) if room.size else -1
    return NoFit("partial-fit", view.tree.levels.keys[level], top=roomiest)


def _fit_in_turn(
    cluster: Cluster, view: View, podsets: Sequence[PodSet], region: Region, profile: Profile
) -> list[Assigned] | NoFit:
    """Place podsets one after another; each sees the room that the earlier ones took."""
    answers = []
    with _trial(cluster.state) as taken:
        for podset in podsets:
            answer = fit(view, cluster.shapes, podset, profile, region)
            if isinstance(answer, NoFit):
                return answer
            for leaf, count in answer.leaves:
                amounts = tuple((name, n * count) for name, n in podset.amounts)
                taken.append((view.tree.nodes[leaf], amounts))
                cluster.state.take(*taken[-1])
            answers.append(answer)
    return answers


@contextmanager
def _trial(state: ClusterState) -> Iterator[list[tuple[str, Amounts]]]:
    """Give back in the end what was taken meanwhile: for any other reader nothing happened."""
    generation = state.generation
    taken: list[tuple[str, Amounts]] = []
    try:
        yield taken
    finally:
        for node, amounts in taken:
            state.give_back(node, amounts)
        state.generation = generation


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
    if answer.kind in ("level-unknown", "slice-level-unknown"):
        return reasons.level_unknown(answer.level, keys)
    if answer.kind in ("slice-level-above", "slice-size-missing", "slice-size-indivisible"):
        return reasons.slices_out_of_order(keys)
    required = gang.request.required
    low, high = 0, view.tree.leaf_count
    if required is not None and answer.top >= 0:
        low, high = view.tree.leaves_under(answer.top)
    largest = max(podsets, key=lambda podset: podset.count)
    short_of = scarcest(view, cluster.shapes, largest, low, high)
    reason = reasons.no_domain_fits(required, gang.size, short_of)
    if partly_placed and required is not None:
        reason = reasons.rest_does_not_fit(required, short_of)
    if not answer.needed:  # unlike podsets have no one number
        return reason
    return reasons.with_facts(reason, fits=answer.fits, needed=answer.needed)
