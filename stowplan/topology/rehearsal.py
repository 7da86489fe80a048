"""A tiny placement of each kind, so that every kernel is compiled before the first real one."""

import numpy as np

from stowplan.topology.assign import Workspace, place, place_warm
from stowplan.topology.balanced import even_shares
from stowplan.topology.choose import Search, Style
from stowplan.topology.fit import Ask, Leaves, Slicing, catch_up, counts_of, pods_per_domain
from stowplan.topology.levels import Levels
from stowplan.topology.tree import DomainTree


def run() -> None:
    """Place two pods on two hosts of one rack, once warm and once with every feature."""
    tree = DomainTree.of(Levels.over_hosts(["rack"]), [(("r", "a"), "a"), (("r", "b"), "b")])
    leaves = Leaves(
        free=np.array([[8.0, 8.0], [0.0, 0.0]]),
        usable=np.ones(2, dtype=np.uint8),
        class_of=np.zeros(2, dtype=np.int32),
    )
    ask = Ask(
        rows=np.zeros(1, dtype=np.int32),
        amounts=np.ones(1),
        class_allowed=np.ones(1, dtype=np.uint8),
        leaf_allowed=np.empty(0, dtype=np.uint8),
    )
    work = Workspace.of(tree)
    pods = np.zeros(tree.domain_count, dtype=np.int64)
    pods_per_domain(tree, leaves, ask, pods)
    low, high = tree.range_of(0)
    changed = np.zeros(2, dtype=np.int32)
    search = Search(level=0, low=low, high=high, stop=0, required=True, need=2, leaders=0)
    style = Style(fill_from=2, use_affinity=False, roomy_below=True)
    none = Slicing.none(2)
    fixed = (*tree.arrays, *leaves, changed, none.unit_at, *work, *ask, pods)
    excluded = np.zeros(1, dtype=np.int32)
    place_warm(*fixed, 0, 1, excluded, 0, low, high, 0, True, 2, 2)
    catch_up(tree.arrays, leaves, ask, changed, 0, 1, pods)  # also called by itself
    counts = counts_of(tree, leaves, ask, ask, None, none)
    place(tree.arrays, search, none, style, counts, False, work)
    even_shares(tree.arrays, search, none, False, counts)
