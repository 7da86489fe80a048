"""Folds Nodes and Pods into arrays in place; a generation number names each state.

What a node has left is its allocatable, less the pods bound to it, less the seats that the ledger
holds there. Usage is kept by node name in exact whole numbers, so a pod may be seen before its
node, and a node may go and come back.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stowplan.placement.filters import Taint
from stowplan.placement.records import Amounts, NodeRecord, PodRecord, node_changes
from stowplan.placement.rules import STOWPLAN, Rules
from stowplan.topology import capacity
from stowplan.topology.assign import Workspace
from stowplan.topology.fit import Leaves, Slicing
from stowplan.topology.levels import HOSTNAME, Levels
from stowplan.topology.tree import DomainTree, Index, Path, Room

# How many changes of leaves are remembered. A request shape that lags further is recounted, which
# is then the cheaper way; must be a power of two.
RING = 1 << 14

_LIMIT = capacity.LIMIT - 1  # a room stays a whole number that float64 holds
_MATTERS = {"allocatable", "labels", "taints"}


@dataclass(frozen=True, slots=True)
class NodeClass:
    """Nodes with equal labels (hostname aside) and taints: filters judge all of them at once."""

    labels: Mapping[str, str]
    taints: tuple[Taint, ...]


@dataclass(slots=True, eq=False)
class View:
    """The arrays of one structure of the cluster; live, so read them between two events.

    Attributes:
        epoch: changes when the structure does; then everything made from an older view is void.
        tree: N nodes in D domains.
        leaves: free room, usability and class of each leaf.
        total: (R, leaves) allocatable of usable nodes, the room of an empty leaf.
        resources: name of each row of ``free`` but the last.
        rows: row of each resource.
        nodes: the record of each node, live.
        leaf_of: leaf of each node in the tree, counted from the first leaf.
        classes: the node classes that ``leaves.class_of`` refers to.
        taint_sets: the different sets of taints among the classes.
        taints_of: (C,) which of them each class has.
        changed: ring of leaves that changed, see ``topology.fit.catch_up``.
        head: position of the next change.
        relabelled: changes whenever labels or taints of a node do; filters that name single nodes
            are judged again then.
        left_out: nodes that lack the coarsest level label, or by Kueue's rules any.
        work: scratch of the kernels.
        fixed: the arguments of ``place_warm`` that stay the same for this view.
    """

    epoch: int
    tree: DomainTree
    leaves: Leaves
    total: Room
    resources: tuple[str, ...]
    rows: Mapping[str, int]
    nodes: Mapping[str, NodeRecord]
    leaf_of: Mapping[str, int]
    classes: list[NodeClass]
    taint_sets: list[tuple[Taint, ...]]
    taints_of: Index
    changed: Index
    left_out: tuple[str, ...]
    work: Workspace
    fixed: tuple[Any, ...]
    head: int = 0
    relabelled: int = 0

    def log(self, leaf: int) -> None:
        """Note that a leaf changed."""
        self.changed[self.head & (RING - 1)] = leaf
        self.head += 1

    def row_of(self, resource: str) -> int:
        """Return the row of ``resource``; the last row, all zero, when no node offers it."""
        return self.rows.get(resource, len(self.resources))


def holds_room(pod: PodRecord) -> bool:
    """Whether the pod takes room on a node until it ends; terminating pods still do.

    It is bound, or preemption keeps room for it. A pod that asks for topology has a
    seat instead of the latter.
    """
    return bool(node_of(pod)) and not pod.ended


def node_of(pod: PodRecord) -> str:
    """Return the node on which the pod takes room; empty for none."""
    return pod.node or ("" if pod.asks else pod.nominated)


def room_changes(old: PodRecord | None, new: PodRecord | None) -> bool:
    """Whether usage must be looked at when ``old`` becomes ``new`` (None: not there).

    The end of a pod may have been missed, so the deletion of any bound pod counts.
    """
    if new is None:
        return old is not None and bool(node_of(old))
    if old is None:
        return holds_room(new)
    return _seat(old) != _seat(new)


@dataclass(slots=True, eq=False)
class Trial:
    """Room taken for a while, last in, first out."""

    state: "ClusterState"
    taken: list[tuple[str, Amounts]] = field(default_factory=list)

    def take(self, view: View, leaves: Iterable[tuple[int, int]], amounts: Amounts) -> None:
        """Take room for so many pods on each leaf."""
        for leaf, count in leaves:
            node = view.tree.nodes[view.tree.node_start[leaf]]
            self.taken.append((node, tuple((name, n * count) for name, n in amounts)))
            self.state.take(*self.taken[-1])

    def undo_to(self, mark: int) -> None:
        """Give back what was taken after the first ``mark`` times."""
        while len(self.taken) > mark:
            self.state.give_back(*self.taken.pop())


@dataclass(slots=True, eq=False)
class ClusterState:
    """The nodes and pods of one cluster, and how much room they leave.

    Attributes:
        levels: what forms the tree.
        count_topology_pods: whether bound pods that ask for topology count like others. Kueue
            counts them by workload instead; a picture of what Kueue sees sets this to False.
        rules: whether nodes that lack a fine label are in the tree.
        generation: rises with every change that could change an answer.
        room_made: rises with every change that could turn a refusal around.
    """

    levels: Levels
    count_topology_pods: bool = True
    rules: Rules = STOWPLAN
    generation: int = 0
    room_made: int = 0
    nodes: dict[str, NodeRecord] = field(default_factory=dict)
    pods: dict[str, PodRecord] = field(default_factory=dict)
    _used: dict[str, dict[str, int]] = field(default_factory=dict)
    _view: View | None = None
    _epoch: int = 0

    def set_node(self, node: NodeRecord) -> None:
        """Add or replace a node."""
        old = self.nodes.get(node.name)
        self.nodes[node.name] = node
        changes = set(node_changes(old, node)) if old is not None else set()
        if old is None:
            self._view = None
        elif changes:
            self._update_node(old, node, changes)
        was_usable = old is not None and old.usable
        if was_usable != node.usable or (node.usable and not _MATTERS.isdisjoint(changes)):
            self.generation += 1
            self.room_made += node.usable

    def remove_node(self, name: str) -> None:
        """Forget a node; its pods keep their usage until they are removed."""
        old = self.nodes.pop(name, None)
        if old is None:
            return
        self._view = None
        if old.usable:
            self.generation += 1

    def set_pod(self, pod: PodRecord) -> str | None:
        """Add or replace a pod; return the node on which this made room, if any."""
        old = self.pods.get(pod.key)
        self.pods[pod.key] = pod
        return self._move(old, pod)

    def remove_pod(self, key: str) -> str | None:
        """Forget a pod; return the node on which this made room, if any."""
        return self._move(self.pods.pop(key, None), None)

    def take(self, node: str, amounts: Amounts) -> None:
        """Take room on a node for a seat that is promised but not bound yet."""
        self._add_usage(node, amounts, 1)

    def give_back(self, node: str, amounts: Amounts) -> None:
        """Return the room of a seat."""
        self._add_usage(node, amounts, -1)
        self.room_made += 1

    @contextmanager
    def trial(self) -> Iterator["Trial"]:
        """Take room for a while; in the end it is all given back, and nothing has happened."""
        before = self.generation, self.room_made
        trial = Trial(self)
        try:
            yield trial
        finally:
            trial.undo_to(0)
            self.generation, self.room_made = before

    def used_on(self, node: str) -> Mapping[str, int]:
        """Return what pods and seats use on a node, zeros left out."""
        return {name: n for name, n in self._used.get(node, {}).items() if n}

    def usable_nodes(self) -> list[str]:
        """Return the nodes that may give room, by name."""
        return sorted(name for name, node in self.nodes.items() if node.usable)

    def counts(self, pod: PodRecord) -> bool:
        """Whether the pod's requests are taken off its node."""
        return holds_room(pod) and (self.count_topology_pods or not pod.asks)

    def view(self) -> View:
        """Return the arrays, rebuilt when nodes, levels or resources came or went."""
        if self._view is None:
            self._epoch += 1
            self._view = self._build()
        return self._view

    def _move(self, old: PodRecord | None, new: PodRecord | None) -> str | None:
        if not room_changes(old, new):
            return None
        before = old if old is not None and self.counts(old) else None
        after = new if new is not None and self.counts(new) else None
        if before is not None:
            self._add_usage(node_of(before), before.requests, -1)
        if after is not None:
            self._add_usage(node_of(after), after.requests, 1)
        if before is None or (after is not None and not _frees(before, after)):
            return None
        self.room_made += 1
        return node_of(before)

    def _add_usage(self, node: str, amounts: Amounts, sign: int) -> None:
        used = self._used.setdefault(node, {})
        for name, amount in amounts:
            used[name] = used.get(name, 0) + sign * amount
        known = self.nodes.get(node)
        if known is not None and known.usable:
            self.generation += 1
        view = self._view
        if view is None or (leaf := view.leaf_of.get(node)) is None:
            return
        if not self.levels.has_host:
            self._refresh(view, leaf)
        elif view.leaves.usable[leaf]:
            free, total = view.leaves.free, view.total
            for name, _ in amounts:
                if (row := view.rows.get(name)) is not None:
                    free[row, leaf] = max(total[row, leaf] - used[name], -_LIMIT)
            view.log(leaf)

    def _update_node(self, old: NodeRecord, node: NodeRecord, changes: set[str]) -> None:
        """Change the arrays in place where the structure allows it."""
        view = self._view
        if view is None:
            return
        if self._path(node) != self._path(old):
            self._view = None
            return
        leaf = view.leaf_of.get(node.name)
        if leaf is None:
            return
        if "allocatable" in changes and any(name not in view.rows for name, _ in node.allocatable):
            self._view = None
            return
        if not changes.isdisjoint(("labels", "taints")):
            number = _class_number(view.classes, node)
            if number is None:
                self._view = None
                return
            view.leaves.class_of[leaf] = number
            view.relabelled += 1
        self._refresh(view, leaf)

    def _refresh(self, view: View, leaf: int) -> None:
        """Write one leaf's room and usability and log it as changed.

        A leaf holds one node when there is a host level; else the rooms of its nodes add up.
        """
        starts = view.tree.node_start
        names = view.tree.nodes[starts[leaf] : starts[leaf + 1]]
        usable = [self.nodes[name] for name in names if self.nodes[name].usable]
        total = dict.fromkeys(view.resources, 0)
        free = dict.fromkeys(view.resources, 0)
        for node in usable:
            for resource, amount in node.allocatable:
                total[resource] += amount
                free[resource] += amount
            for resource, amount in self._used.get(node.name, {}).items():
                if resource in free:
                    free[resource] -= amount
        for row, resource in enumerate(view.resources):
            view.total[row, leaf] = min(total[resource], _LIMIT)
            view.leaves.free[row, leaf] = max(min(free[resource], _LIMIT), -_LIMIT)
        view.leaves.usable[leaf] = bool(usable)
        view.log(leaf)

    def _path(self, node: NodeRecord) -> Path | None:
        """Return the node's place in the tree; None when it has none."""
        if self.rules.all_labels_needed:
            return self.levels.path(node.name, node.labels)
        return self.levels.partial_path(node.name, node.labels)

    def _build(self) -> View:
        placed: list[tuple[Path, str]] = []
        left_out: list[str] = []
        for name, node in self.nodes.items():
            path = self._path(node)
            if path is None:
                left_out.append(name)
            else:
                placed.append((path, name))
        tree = DomainTree.of(self.levels, placed)
        resources = tuple(
            sorted({r for _, name in placed for r, _ in self.nodes[name].allocatable})
        )
        shape = (len(resources) + 1, tree.leaf_count)
        leaves = Leaves(
            free=np.zeros(shape, dtype=np.float64),
            usable=np.zeros(tree.leaf_count, dtype=np.uint8),
            class_of=np.zeros(tree.leaf_count, dtype=np.int32),
        )
        classes, class_of_node = _classes(self.nodes[name] for name in tree.nodes)
        if self.levels.has_host:  # node filters act only where a leaf is a node (section 1)
            leaves.class_of[:] = class_of_node
        taint_sets = {taints: i for i, taints in enumerate({c.taints: 0 for c in classes})}
        changed = np.zeros(RING, dtype=np.int32)
        unit_at = Slicing.none(self.levels.depth).unit_at
        work = Workspace.of(tree)
        leaf_of = np.repeat(np.arange(tree.leaf_count), np.diff(tree.node_start)).tolist()
        view = View(
            epoch=self._epoch,
            tree=tree,
            leaves=leaves,
            total=np.zeros(shape, dtype=np.float64),
            resources=resources,
            rows={name: row for row, name in enumerate(resources)},
            nodes=self.nodes,
            leaf_of=dict(zip(tree.nodes, leaf_of, strict=True)),
            classes=classes,
            taint_sets=list(taint_sets),
            taints_of=np.array([taint_sets[c.taints] for c in classes], dtype=np.int32),
            changed=changed,
            left_out=tuple(sorted(left_out)),
            work=work,
            fixed=(*tree.arrays, *leaves, changed, unit_at, *work),
        )
        self._fill(view)
        return view

    def _fill(self, view: View) -> None:
        """Write the room of all leaves: what ``_refresh`` does for one, much faster for all."""
        total = [[0] * view.tree.leaf_count for _ in view.resources]
        free = [[0] * view.tree.leaf_count for _ in view.resources]
        for name, leaf in view.leaf_of.items():
            node = self.nodes[name]
            if not node.usable:
                continue
            view.leaves.usable[leaf] = 1
            used = self._used.get(name, {})
            for resource, amount in node.allocatable:
                row = view.rows[resource]
                total[row][leaf] += amount
                free[row][leaf] += amount
            for resource, amount in used.items():
                if (found := view.rows.get(resource)) is not None:
                    free[found][leaf] -= amount
        if view.resources:
            view.total[:-1] = np.minimum(np.array(total, dtype=np.float64), _LIMIT)
            view.leaves.free[:-1] = np.clip(np.array(free, dtype=np.float64), -_LIMIT, _LIMIT)


def _seat(pod: PodRecord) -> tuple[str, Amounts, bool] | None:
    return (node_of(pod), pod.requests, pod.asks) if holds_room(pod) else None


def _frees(before: PodRecord, after: PodRecord) -> bool:
    """Whether a change made room on the old node: the pod moved, or asks less of something."""
    if node_of(before) != node_of(after):
        return True
    left = dict(after.requests)
    return any(left.get(name, 0) < amount for name, amount in before.requests)


_ClassKey = tuple[frozenset[tuple[str, str]], tuple[Taint, ...]]


def _class_key(labels: Mapping[str, str], taints: tuple[Taint, ...]) -> _ClassKey:
    return frozenset(item for item in labels.items() if item[0] != HOSTNAME), taints


def _classes(nodes: Iterable[NodeRecord]) -> tuple[list[NodeClass], list[int]]:
    """Return the different classes, and the number of each node's."""
    classes: list[NodeClass] = []
    numbers: dict[_ClassKey, int] = {}
    of_node: list[int] = []
    for node in nodes:
        number = numbers.setdefault(_class_key(node.labels, node.taints), len(classes))
        if number == len(classes):
            classes.append(NodeClass(node.labels, node.taints))
        of_node.append(number)
    return classes, of_node


def _class_number(classes: list[NodeClass], node: NodeRecord) -> int | None:
    key = _class_key(node.labels, node.taints)
    for number, c in enumerate(classes):
        if _class_key(c.labels, c.taints) == key:
            return number
    return None
