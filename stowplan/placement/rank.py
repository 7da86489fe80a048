"""The order of nodes for a pod that belongs to no gang: pack, so that whole domains stay free.

A node is better the fewer whole domains the pod would break there, then the less room it leaves on
the node, then the less room the domain above has, then by tree order. A domain is whole when
nothing in it uses what this pod asks for: it holds as many such pods as if it were empty. The best
node gets 10 and no other does, because kube-scheduler breaks ties at random (fact E30); the others
share 9 to 0 by place. A node on which the pod does not fit, or that we do not know, gets nothing.
"""

from collections.abc import Sequence

import numpy as np

from stowplan.placement.cluster import Cluster
from stowplan.placement.filters import Filters
from stowplan.placement.records import PodRecord
from stowplan.topology.fit import pods_per_domain

BEST = 10  # extender scores are 0 to 10 (fact E28)

Ranking = list[tuple[str, int]]


def rank_nodes(cluster: Cluster, pod: PodRecord, offered: Sequence[str]) -> Ranking:
    """Return the nodes that score above 0, best first; all others count as 0 (fact E28)."""
    reservation = cluster.ledger.reservation_of(pod.key)
    seat = reservation.seat_of(pod.key) if reservation else None
    if seat is not None:
        return [(seat.node, BEST)] if seat.node in offered else []
    if pod.held_by_kueue:
        return []
    view = cluster.state.view()
    leaves = np.array([view.leaf_of[n] for n in offered if n in view.leaf_of], dtype=np.int64)
    # kube-scheduler has applied the pod's filters already, so one shape serves pods of any filters.
    shape = cluster.shapes.get(pod.requests, Filters(), view)
    shape.catch_up(view)
    tree, now = view.tree, shape.counts.pods
    leaves = leaves[now[leaves + tree.first_leaf] > 0]
    if not leaves.size:
        return []
    empty = np.zeros_like(now)
    pods_per_domain(tree, view.leaves._replace(free=view.total), shape.ask, empty)
    broken = np.zeros(leaves.size, dtype=np.int64)
    domains = leaves + tree.first_leaf
    above = tree.arrays.parent[domains] if tree.levels.depth > 1 else domains
    at = domains
    for _ in range(tree.levels.depth):
        broken += now[at] == empty[at]
        at = tree.arrays.parent[at].astype(np.int64)
    order = np.lexsort((leaves, now[above], now[domains], broken))
    places = np.arange(order.size)
    scores = (BEST - 1) - (places - 1) * (BEST - 1) // max(order.size - 1, 1)
    scores[0] = BEST
    names = [view.tree.nodes[leaf] for leaf in leaves[order].tolist()]
    return list(zip(names, scores.tolist(), strict=True))
