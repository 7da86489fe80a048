"""What a podset that does not fit is short of, and which nodes it leaves out (section 13)."""

from collections import Counter

import numpy as np

from stowplan.placement import reasons
from stowplan.placement.podsets.podset import PodSet
from stowplan.placement.shapes import Shapes, ask_of, excluded_by
from stowplan.placement.state import View
from stowplan.topology.fit import allowed_leaves, part_of, quotients

Exclusion = tuple[str, str]  # by what, and which taint or resource


def scarcest(view: View, shapes: Shapes, podset: PodSet, low: int, high: int) -> str:
    """Return what the podset is short of in leaves ``low`` up to ``high``.

    It is the resource of which the fewest pods could be served if each were the only one asked for;
    of equals the first by name; and that no node of the cluster has so much of it, where none has.
    Where no node may be used at all, it is the reason for that; where resources would do, it is the
    share that is too small.
    """
    if not view.leaves.usable[low:high].any():
        return reasons.NO_NODE_USABLE
    ask = shapes.get(podset.amounts, podset.filters, view).ask
    part, ask = part_of(view.leaves, ask, low, high)
    allowed = allowed_leaves(part, ask)
    if not allowed.any():
        return reasons.NO_NODE_PASSES
    served = np.clip(quotients(part, ask)[:, allowed], 0, podset.count)
    request = podset.request
    if request.share and not request.slices and served.min(axis=0).sum() >= podset.count:
        return reasons.KEPT_APART
    at = int(np.argmin(served.sum(axis=1)))
    resource, asked = podset.amounts[at]
    most = view.total[ask.rows[at]].max()
    return resource if most >= asked else reasons.beyond_every_node(resource, most > 0)


def lacks_room(
    view: View, shapes: Shapes, podset: PodSet, low: int = 0, high: int | None = None
) -> bool:
    """Whether leaves ``low`` up to ``high`` hold fewer pods than the podset has, even alone."""
    high = view.tree.leaf_count if high is None else high
    part, ask = part_of(
        view.leaves, shapes.get(podset.amounts, podset.filters, view).ask, low, high
    )
    held = np.clip(quotients(part, ask).min(axis=0), 0, None)[allowed_leaves(part, ask)]
    return bool(held.sum() < podset.count)


def exclusions(
    view: View, podset: PodSet, within: int | None = None
) -> tuple[int, Counter[Exclusion]]:
    """Return how many nodes were considered, and for what reason how many of them were left out.

    Nodes that are not ready, cordoned or lack a level label are not considered (section 13). A leaf
    that could hold at least one pod is not left out, however many are needed. Nodes outside the
    domain ``within`` are left out for that, unless a filter does.
    """
    usable = view.leaves.usable.astype(np.bool_)
    found: Counter[Exclusion] = Counter()
    ask = ask_of(podset.amounts, podset.filters, view)
    allowed = allowed_leaves(view.leaves, ask)
    for leaf in np.flatnonzero(usable & ~allowed).tolist():
        reason = excluded_by(podset.filters, view, leaf)
        if reason is not None:
            by, taint = reason
            found[by, str(taint) if taint is not None else ""] += 1
    if within is not None:
        low, high = view.tree.leaves_under(within)
        inside = np.zeros_like(allowed)
        inside[low:high] = True
        if outside := int((allowed & ~inside).sum()):
            found["outside-domain", ""] = outside
        allowed &= inside
    pods = quotients(view.leaves, ask)
    for row in np.argmin(pods[:, allowed & (pods.min(axis=0) <= 0)], axis=0).tolist():
        found["resource", podset.amounts[row][0]] += 1
    return int(usable.sum()), found
