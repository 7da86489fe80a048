"""When a node is lost to a workload, and which pods are then made again (domain-fit, section 12).

Judged for one workload and one node, from nothing but what is seen now: a node is on the list of a
workload while it is lost to it. A lost node's pods get other places (``replace``); a pod that was
sent there and can never start is set to Failed, so that its owner makes it again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from stowplan.placement import keys
from stowplan.placement.filters import Taint, Toleration
from stowplan.placement.kueue.assignment import Assignment
from stowplan.placement.records import NodeRecord, PodRecord
from stowplan.topology.levels import HOSTNAME

MOST_LISTED = 8  # nodes that a workload's status has room for
NOT_READY_SECONDS = 30.0  # how long a node may be away where a fixed time counts

Trouble = Literal["gone", "not-ready", "repels", "repels-later"]


@dataclass(frozen=True, slots=True)
class HealthRules:
    """What makes a node lost, and where we differ from Kueue.

    Attributes:
        replace_on_pod_end: wait until none of the workload's pods on the node progresses; else a
            node that is not ready is lost after 30 seconds, and one that repels pods at once.
        replace_on_taints: taints count.
        replace_after_fixed_time: a node that is not ready is lost after 30 seconds, whatever runs.
        several_lost_nodes: all lost nodes are listed, up to eight; False, as Kueue: a second one
            evicts the workload.
        fixed_time_wins: after the fixed time the node is lost; False, as Kueue: where pods still
            progress it is listed and taken off again in one look, so only an eviction can follow.
        pinned_pods_wait: pods pinned to a node fail once it is lost, so that the new ones go
            elsewhere; False, as Kueue: at the first trouble, so that the new ones may come back to
            it while others run there.
    """

    replace_on_pod_end: bool = True
    replace_on_taints: bool = True
    replace_after_fixed_time: bool = False
    several_lost_nodes: bool = True
    fixed_time_wins: bool = True
    pinned_pods_wait: bool = True


STOWPLAN = HealthRules()
KUEUE = HealthRules(several_lost_nodes=False, fixed_time_wins=False, pinned_pods_wait=False)


@dataclass(frozen=True, slots=True)
class TimedToleration:
    """A toleration, and for how long: None is for good."""

    toleration: Toleration
    seconds: int | None = None

    def tolerates(self, taint: Taint) -> bool:
        """Whether it covers ``taint``, be it only for a time."""
        return self.toleration.tolerates(taint)


@dataclass(frozen=True, slots=True)
class PlacedPodSet:
    """A podset with its places and its pods.

    Attributes:
        assignment: where its pods go.
        pods: those that exist, ended ones too.
        tolerations: of the pod, its flavor and its admission checks together.
    """

    assignment: Assignment
    pods: tuple[PodRecord, ...] = ()
    tolerations: tuple[TimedToleration, ...] = ()

    def is_on(self, host: str) -> bool:
        """Whether one of its places is this host."""
        return self.assignment.on_node(host)


@dataclass(frozen=True, slots=True)
class PlacedWorkload:
    """A workload whose podsets have places.

    Attributes:
        podsets: those with an assignment.
        unhealthy: the hosts on its list, in the order in which they were lost.
        active: it is neither finished nor evicted.
    """

    podsets: tuple[PlacedPodSet, ...]
    unhealthy: tuple[str, ...] = ()
    active: bool = True


@dataclass(frozen=True, slots=True)
class Judged:
    """What one look at a node means for a workload.

    Attributes:
        unhealthy: its list from now on.
        failed_pods: pods to set to Failed, sorted by name.
        recheck_after_seconds: when time alone will change the answer.
    """

    unhealthy: tuple[str, ...]
    failed_pods: tuple[str, ...] = ()
    recheck_after_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Evicted:
    """The workload lost more nodes than are replaced: it must start again.

    Attributes:
        nodes: the hosts that it lost, the last one last.
    """

    nodes: tuple[str, ...]


def judge(
    workload: PlacedWorkload,
    host: str,
    node: NodeRecord | None,
    ready_changed: float,
    now: float,
    rules: HealthRules = STOWPLAN,
) -> Judged | Evicted:
    """Return what the state of one node means for one workload.

    Args:
        workload: with its list as it is.
        host: the node's name.
        node: None when it is gone.
        ready_changed: when its Ready condition last changed, in seconds; not read where it is True.
        now: the same clock.
        rules: ours, or Kueue's.
    """
    if not workload.active:
        return Judged(workload.unhealthy)
    podsets = [podset for podset in workload.podsets if podset.is_on(host)]
    trouble = _trouble(node, podsets, rules) if podsets else None
    if trouble is None:
        strays = () if podsets else _pinned(workload, host)
        return Judged(_without(workload.unhealthy, host), strays)
    left = ready_changed + NOT_READY_SECONDS - now if trouble == "not-ready" else 0.0
    if left > 0 and not rules.replace_on_pod_end:
        return Judged(workload.unhealthy, (), left)
    return _judge_trouble(workload, host, trouble, left, rules)


def _judge_trouble(
    workload: PlacedWorkload, host: str, trouble: Trouble, left: float, rules: HealthRules
) -> Judged | Evicted:
    """Return what trouble on one of its hosts means; ``left`` are seconds of the fixed time."""
    pinned = _pinned(workload, host)
    overdue = trouble == "not-ready" and rules.replace_after_fixed_time and left <= 0
    lost = _ends_waiting(workload, host, trouble, rules) or (overdue and rules.fixed_time_wins)
    if lost or overdue:
        listed = _listed(workload.unhealthy, host, rules)
        if isinstance(listed, Evicted):
            return listed
        if lost:
            return Judged(listed, pinned)
    comes_due = left > 0 and rules.replace_after_fixed_time and rules.fixed_time_wins
    failed = () if rules.pinned_pods_wait else pinned
    return Judged(_without(workload.unhealthy, host), failed, left if comes_due else None)


def _trouble(
    node: NodeRecord | None, podsets: Sequence[PlacedPodSet], rules: HealthRules
) -> Trouble | None:
    """Return what is wrong with a node for the podsets on it; the worst, when it is several."""
    ready = dict(node.conditions).get("Ready") if node is not None else None
    if node is None or ready is None:
        return "gone"
    if ready != "True":
        return "not-ready"
    found: Trouble | None = None
    for taint in node.taints if rules.replace_on_taints else ():
        for podset in podsets:
            covering = [t for t in podset.tolerations if t.tolerates(taint)]
            if not covering:
                return "repels"
            if all(t.seconds is not None for t in covering):
                found = "repels-later"
    return found


def _ends_waiting(
    workload: PlacedWorkload, host: str, trouble: Trouble, rules: HealthRules
) -> bool:
    """Whether there is nothing left to wait for."""
    if trouble == "gone":
        return True
    if trouble != "repels-later" and not rules.replace_on_pod_end:
        return True
    return not any(
        pod.node == host and not pod.terminating and not pod.ended
        for podset in workload.podsets
        for pod in podset.pods
    )


def _listed(unhealthy: tuple[str, ...], host: str, rules: HealthRules) -> tuple[str, ...] | Evicted:
    if host in unhealthy:
        return unhealthy
    most = MOST_LISTED if rules.several_lost_nodes else 1
    lost = (*unhealthy, host)
    return lost if len(lost) <= most else Evicted(lost)


def _without(unhealthy: tuple[str, ...], host: str) -> tuple[str, ...]:
    return tuple(name for name in unhealthy if name != host)


def _pinned(workload: PlacedWorkload, host: str) -> tuple[str, ...]:
    """Return the released pods that wait for this host and for no other; gated ones go elsewhere.

    Where places are no hosts, a pod that names one does so by the wish of its author.
    """
    return tuple(
        sorted(
            pod.key
            for podset in workload.podsets
            if podset.assignment.has_host
            for pod in podset.pods
            if pod.phase == "Pending"
            and not pod.node
            and (HOSTNAME, host) in pod.filters.selector
            and keys.KUEUE_GATE not in pod.gates
            and keys.OUR_GATE not in pod.gates
        )
    )
