"""The topology with the room in it: what each domain has, what is free, how large a gang fits."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from stowplan.placement.answers.answer import LeftOut
from stowplan.placement.answers.domains import ALL, Mask, bounds, path_of, sums
from stowplan.placement.answers.headroom import Headroom
from stowplan.placement.answers.left_out import LeftOutNodes, without_level
from stowplan.placement.cluster import Cluster
from stowplan.placement.filters import Filters, Toleration
from stowplan.placement.gangs import Gang, GangId, Kind
from stowplan.placement.podsets.podset import PodSet
from stowplan.placement.records import Amounts
from stowplan.placement.request import TopologyRequest
from stowplan.placement.state import ClusterState, View, node_of
from stowplan.topology import capacity
from stowplan.topology.tree import Path, Quantity


@dataclass(frozen=True, slots=True)
class Room:
    """How much of one resource there is; base units.

    Attributes:
        resource: its name.
        total: what the usable nodes offer.
        free: what is left of it, node by node; an overcommitted node has nothing left.
        reserved: promised to pods that are not bound yet, and so no longer free.
    """

    resource: str
    total: int
    free: int
    reserved: int


@dataclass(frozen=True, slots=True)
class DomainRoom:
    """One domain.

    Attributes:
        domain: its path; empty for the whole cluster.
        nodes: how many it has.
        usable: how many of them are ready and not cordoned.
        empty: how many of those have nothing of the main resource in use.
        pods: of the request, as many as fit there together.
        room: of each resource, sorted by name.
    """

    domain: Path
    nodes: int
    usable: int
    empty: int
    pods: int
    room: tuple[Room, ...]


@dataclass(frozen=True, slots=True)
class Overview:
    """The whole topology.

    Attributes:
        levels: the label keys, coarse to fine, down to the one that was asked for.
        pod: what each pod asks for that is counted in ``DomainRoom.pods``.
        main: the resource that the request is about.
        cluster: all domains together.
        domains: level by level, and within one by path.
        left_out: nodes that take no such pod at all, or that are in no domain.
    """

    levels: tuple[str, ...]
    pod: Amounts
    main: str
    cluster: DomainRoom
    domains: tuple[tuple[DomainRoom, ...], ...]
    left_out: tuple[LeftOut, ...]


def overview(cluster: Cluster, pod: Amounts | None = None, depth: int | None = None) -> Overview:
    """Return the room in every domain of the first ``depth`` levels.

    Args:
        cluster: what to look at; it stays as it is.
        pod: what a pod asks for; without it one of the extended resource that most nodes offer,
            or one core where none offers any. It tolerates taints that are named like a resource
            that it asks for, as admission arranges it, and no others.
        depth: how many levels; all of them without.
    """
    view = cluster.state.view()
    pod = pod or capacity.per_pod(_one_device(view))
    main = _main(pod)
    counts, left_out = _counted(cluster, pod)
    usable, empty = _nodes(cluster.state, view, main)
    measured = _Measured(
        view=view,
        total=view.total[:-1].astype(np.int64),
        free=np.maximum(view.leaves.free[:-1], 0).astype(np.int64),
        reserved=_reserved(cluster, view),
        pods=counts,
        usable=usable,
        empty=empty,
    )
    levels = view.tree.levels.keys[:depth]
    (whole,) = measured.rooms(ALL)
    by_level = tuple(tuple(measured.rooms(level)) for level in range(len(levels)))
    return Overview(levels, pod, main, whole, by_level, left_out)


def _one_device(view: View) -> dict[str, int]:
    """Return one of the extended resource that most usable nodes offer, of equals the first."""
    offers = {
        name: int(np.count_nonzero(view.total[row]))
        for name, row in view.rows.items()
        if capacity.is_extended(name)
    }
    if not any(offers.values()):
        return {capacity.CPU: 1000}
    return {min(offers, key=lambda name: (-offers[name], name)): 1}


def _main(pod: Amounts) -> str:
    """Return which resource a request is about: the first device, else the first but the pod."""
    names = [name for name, _ in pod if name != capacity.PODS] or [capacity.PODS]
    return next(filter(capacity.is_extended, names), names[0])


def _counted(cluster: Cluster, pod: Amounts) -> tuple[Quantity, tuple[LeftOut, ...]]:
    """Return (leaves,) how many such pods fit, and which nodes take none, however empty."""
    missing = without_level(cluster)
    tolerations = tuple(Toleration(name, "Exists", "", "") for name, _ in pod)
    filters = Filters(tolerations=tolerations)
    podset = PodSet("", 1, pod, filters, TopologyRequest(unconstrained=True))
    gang = Gang(
        id=GangId("", "Pod", ""),
        size=1,
        pods=(),
        podsets=(podset,),
        podset_of=(),
        kinds=(Kind("", pod, filters),),
        bound=(),
        is_part=False,
        ahead=False,
    )
    room = Headroom.of(cluster, gang, now=0.0)
    if room is None:  # there is no node in any domain
        return np.zeros(0, dtype=np.int64), missing
    view = room.view
    nodes = LeftOutNodes.of(room, [""]).within(0, view.tree.leaf_count)
    pods = room.demands[0].pods_on(view.leaves.free)
    return pods, (*missing, *(each for each in nodes if each.by != "resource"))


def _reserved(cluster: Cluster, view: View) -> Quantity:
    """Return (R, leaves) what is promised to pods that are not bound yet: seats, nominations."""
    found = np.zeros((len(view.resources), view.tree.leaf_count), dtype=np.int64)
    state = cluster.state
    promised = [
        (seat.node, seat.amounts)
        for reservation in cluster.ledger.reservations.values()
        for seat in reservation.seats
        if not seat.bound
    ]
    promised += [
        (node_of(pod), pod.requests)
        for pod in state.pods.values()
        if not pod.node and state.counts(pod)
    ]
    for node, amounts in promised:
        leaf = view.leaf_of.get(node)
        if leaf is None or not view.nodes[node].usable:
            continue
        for name, amount in amounts:
            if name in view.rows:
                found[view.rows[name], leaf] += amount
    return found


def _nodes(state: ClusterState, view: View, main: str) -> tuple[Mask, Mask]:
    """Return (N,) which nodes are usable, and which of them have nothing of ``main`` in use."""
    if view.tree.levels.has_host:  # a leaf is a node, so the arrays know
        total, free = view.total[view.row_of(main)], view.leaves.free[view.row_of(main)]
        return view.leaves.usable > 0, (total > 0) & (free == total)
    nodes = [state.nodes[name] for name in view.tree.nodes]
    empty = [
        node.usable
        and dict(node.allocatable).get(main, 0) > 0
        and main not in state.used_on(node.name)
        for node in nodes
    ]
    usable = [node.usable for node in nodes]
    return np.array(usable, dtype=np.bool_), np.array(empty, dtype=np.bool_)


@dataclass(frozen=True, slots=True, eq=False)
class _Measured:
    """What was measured of each leaf, (leaves,) or (R, leaves), and of each node, (N,)."""

    view: View
    total: Quantity
    free: Quantity
    reserved: Quantity
    pods: Quantity
    usable: Mask
    empty: Mask

    def rooms(self, level: int) -> Iterator[DomainRoom]:
        """Yield every domain of one level."""
        tree = self.view.tree
        at = bounds(tree, level)
        nodes_at = tree.node_start[at].astype(np.int64)
        counts = (np.diff(nodes_at), sums(self.usable, nodes_at), sums(self.empty, nodes_at))
        of_nodes = np.stack([*counts, sums(self.pods, at)], axis=1).tolist()
        amounts = [
            np.stack([sums(row, at) for row in rows], axis=1).tolist()
            for rows in zip(self.total, self.free, self.reserved, strict=True)
        ]
        for d, (nodes, usable, empty, pods) in enumerate(of_nodes):
            room = tuple(
                Room(resource, *amounts[row][d]) for row, resource in enumerate(self.view.resources)
            )
            yield DomainRoom(path_of(tree, level, d), nodes, usable, empty, pods, room)
