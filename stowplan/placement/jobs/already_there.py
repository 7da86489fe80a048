"""A gang that a job file asks for, in a cluster where part of it may run already.

What runs keeps its nodes and counts: the file adds only what is missing. What merely waits is
replaced by the file: it holds no room, and the question may be what a change of it would do.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from stowplan.placement.cluster import Cluster
from stowplan.placement.gangs import Gang, GangId, assemble
from stowplan.placement.jobs.expand import Jobs, Wanted
from stowplan.placement.keys import JOBSET_JOB_INDEX
from stowplan.placement.owners import Owners, role_of
from stowplan.placement.reasons import Reason
from stowplan.placement.records import PodRecord

_HASH = r"[bcdfghjklmnpqrstvwxz2456789]+"  # what a Deployment appends for a ReplicaSet


def whole_gang(cluster: Cluster, jobs: Jobs, wanted: Wanted, now: float) -> Gang | Reason:
    """Return the gang, those of its pods first that run; or why there is none."""
    gang = _there_as(cluster, wanted.gang, now)
    runs = _running(cluster, gang, now)
    owners = Owners(
        {(each.namespace, each.kind, each.name): each for each in jobs.assumed}
        | cluster.owners.known
        | {(each.namespace, each.kind, each.name): each for each in jobs.owners}
    )
    if gang.name != wanted.gang.name:  # a Deployment's ReplicaSet, which has its real name now
        owner = owners.get(wanted.gang.namespace, wanted.gang.kind, wanted.gang.name)
        if owner is not None:
            owners.set(replace(owner, name=gang.name))
    return assemble(gang, (*runs, *_missing(wanted.pods, runs)), owners)


def _there_as(cluster: Cluster, wanted: GangId, now: float) -> GangId:
    """Return the gang of the cluster that is the same and has most pods that run; else itself."""
    name = re.escape(wanted.name)
    if wanted.kind == "ReplicaSet" and wanted.name.endswith("-*"):
        name = re.escape(wanted.name.removesuffix("*")) + _HASH
    same = [
        gang
        for gang in cluster.gangs.ids()
        if (gang.namespace, gang.kind) == (wanted.namespace, wanted.kind)
        and re.fullmatch(name, gang.name)
    ]
    best = max(same, key=lambda gang: len(_running(cluster, gang, now)), default=wanted)
    return best if _running(cluster, best, now) else wanted


def _running(cluster: Cluster, gang: GangId, now: float) -> list[PodRecord]:
    members = cluster.gangs.members(gang, now).values()
    return [pod for pod in members if pod.node and not pod.ended and not pod.terminating]


_Slot = tuple[str, str | None, int | None]


def _missing(made: Sequence[PodRecord], runs: Sequence[PodRecord]) -> Iterator[PodRecord]:
    """Yield the pods for which none runs: of that name, or else of that role and rank."""
    keys = {pod.key for pod in runs}
    named = keys.intersection(pod.key for pod in made)
    slots = Counter(_slot(pod) for pod in runs if pod.key not in named)
    for pod in made:
        if pod.key in named:
            continue
        if slots[_slot(pod)] > 0:
            slots[_slot(pod)] -= 1
        else:
            yield pod


def _slot(pod: PodRecord) -> _Slot:
    return role_of(pod), pod.labels.get(JOBSET_JOB_INDEX), pod.rank
