"""A whole gang -> seats for all its pods, or why there are none. Nothing is committed here."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from stowplan.api.errors import Violation
from stowplan.placement import reasons
from stowplan.placement.cluster import Cluster
from stowplan.placement.gangs import Gang, GangId, place_of
from stowplan.placement.ledger import Kind, Reservation, Seat
from stowplan.placement.podset import Assigned, NoFit, PodSet, Profile, Region, fit, scarcest
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
    bound = [(i, pod) for i, pod in zip(gang.podset_of, gang.pods, strict=True) if pod.node]
    todo = [
        replace(podset, count=max(podset.count - sum(i == at for i, _ in bound), 0))
        for at, podset in enumerate(gang.podsets)
    ]
    if any(map(_leaves_a_rest, todo)):
        if not bound and not gang.grows:
            return reasons.request_invalid(_SLICES_LEAVE_A_REST)
        # A part of a gang has slices of others, which are placed already, to complete.
        todo = [replace(podset, request=podset.request.without_slices()) for podset in todo]
    regions = regions_of(view, gang.request, [pod.node for _, pod in bound])
    if isinstance(regions, Reason):
        return regions
    excluded = excluded_leaves(cluster, view, gang.id, now)
    answers = first_fit(cluster, view, todo, regions, excluded, profile)
    if isinstance(answers, NoFit):
        if excluded.size and not isinstance(
            first_fit(cluster, view, todo, regions, _NO_LEAVES, profile), NoFit
        ):
            return reasons.nodes_excluded(gang.request.required)
        return refusal(view, gang, todo, answers, bool(bound))
    seats = [Seat(p.node, p.requests, i, place_of(p) or 0, p.key, bound=True) for i, p in bound]
    for at, answer in enumerate(answers):
        pods = [p for i, p in zip(gang.podset_of, gang.pods, strict=True) if i == at and not p.node]
        seats += _seats(view, at, gang.podsets[at], answer, pods)
    kinds = tuple(
        Kind(role, podset.amounts, podset.filters)
        for role, podset in zip(gang.roles, gang.podsets, strict=True)
    )
    level, domain = domain_of(view, gang.request, [seat.node for seat in seats])
    return Reservation(gang.id, domain, level, seats, kinds, now, gang.ahead)


_SLICES_LEAVE_A_REST = Violation(
    "the pod's slices",
    "invalid",
    None,
    "must divide the number of pods",
    "change the slice size or the number of pods",
)
_NO_LEAVES: Index = np.empty(0, dtype=np.int32)


def _leaves_a_rest(podset: PodSet) -> bool:
    """Whether whole slices would leave pods without a seat (Kueue drops them, a quirk)."""
    slices = podset.request.slices
    return bool(slices) and podset.count % max(slices[0].size, 1) != 0


def excluded_leaves(cluster: Cluster, view: View, gang: GangId, now: float) -> Index:
    """Return the leaves that kube-scheduler refused for ``gang`` a short while ago."""
    nodes = cluster.ledger.excluded(gang, now)
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
    for level in range(finest, -1, -1):
        domains = {tree.ancestor(tree.first_leaf + leaf, level) for leaf in leaves}
        if len(domains) == 1:
            return domains.pop()
    return None


def domain_of(
    view: View, request: TopologyRequest, nodes: Iterable[str]
) -> tuple[str | None, tuple[str, ...]]:
    """Return level and path of the domain that holds ``nodes``: as required, else the finest."""
    keys = view.tree.levels.keys
    leaves = [view.leaf_of[node] for node in nodes if node in view.leaf_of]
    finest = keys.index(request.required) if request.required in keys else len(keys) - 1
    domain = common_domain(view, leaves, finest) if leaves else None
    if domain is None:
        return None, ()
    return keys[view.tree.level_of(domain)], view.tree.paths[domain]


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


def _seats(
    view: View, at: int, podset: PodSet, answer: Assigned, pods: Sequence[PodRecord]
) -> list[Seat]:
    """Write the places out in tree order and hand them to pods: by rank where ranks are sound.

    Rank k has the k-th place (domain-fit, section 15). Any doubt, and the whole podset goes in
    order.
    """
    nodes = [view.tree.nodes[leaf] for leaf, count in answer.leaves for _ in range(count)]
    seats = [Seat(node, podset.amounts, at, rank) for rank, node in enumerate(nodes)]
    ranks = [place_of(pod) for pod in pods]
    sound = len(set(ranks)) == len(ranks) and all(r is not None and r < len(seats) for r in ranks)
    for i, pod in enumerate(pods[: len(seats)]):
        rank = ranks[i] if sound else i
        seat = seats[rank if rank is not None else i]
        seat.pod, seat.slow = pod.key, pod.binds_slowly
    return seats


def refusal(
    view: View, gang: Gang, podsets: Sequence[PodSet], answer: NoFit, partly_placed: bool
) -> Reason:
    """Word why the gang was not placed."""
    keys = view.tree.levels.keys
    if answer.kind in ("level-unknown", "slice-level-unknown"):
        return reasons.level_unknown(answer.level, keys)
    if answer.kind in ("slice-level-above", "slice-size-missing", "slice-size-indivisible"):
        return reasons.request_invalid(
            Violation(
                "the pod's slices",
                "invalid",
                None,
                "must go from coarse to fine below the requested level",
                f"order their levels as in {', '.join(keys)}",
            )
        )
    required = gang.request.required
    low, high = 0, view.tree.leaf_count
    if required is not None and answer.top >= 0:
        low, high = view.tree.leaves_under(answer.top)
    largest = max(podsets, key=lambda podset: podset.count)
    short_of = scarcest(view, largest, low, high) if high else None
    if partly_placed and required is not None:
        return reasons.rest_does_not_fit(required, short_of)
    return reasons.no_domain_fits(required, gang.size, short_of)
