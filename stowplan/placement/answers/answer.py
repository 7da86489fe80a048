"""What is answered when somebody asks where a gang would go: its places, or why there are none.

Plain values for people and programs alike: ``stowplan place`` prints them, ``ask`` returns them.
"""

from dataclasses import dataclass
from typing import Literal

from stowplan.placement.gangs import GangId
from stowplan.placement.reasons import ABOUT_ROOM, Reason
from stowplan.topology.tree import Path


@dataclass(frozen=True, slots=True)
class Place:
    """One pod's node.

    Attributes:
        pod: its name; of a pod that does not exist yet the name that its controller will give it,
            or empty where nobody can know it.
        podset: which podset of the gang.
        rank: its place in the podset.
        node: the node's name.
        domain: the node's path, one value per level, the host last.
        new: it has no node yet; False for a pod that runs there already.
    """

    pod: str
    podset: str
    rank: int
    node: str
    domain: Path
    new: bool = True


@dataclass(frozen=True, slots=True)
class LevelVerdict:
    """What one level can hold of the gang.

    Attributes:
        level: its key.
        asked: it is the level that the gang requires or prefers.
        domains: how many domains the level has.
        holding: how many of them hold the whole gang, whatever level it asked for.
        best: the domain that holds most of it; empty where there is none.
        fits: how many pods fit there; of unlike pods no more than are to be placed.
        needed: how many there are to place.
    """

    level: str
    asked: bool
    domains: int
    holding: int
    best: Path
    fits: int
    needed: int


LeftOutBy = Literal[
    "no-level-label",
    "not-ready",
    "cordoned",
    "taint",
    "node-selector",
    "node-affinity",
    "excluded",
    "too-small",
    "resource",
]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Nodes on which not one pod of a podset can be.

    Attributes:
        podset: which podset; empty where it holds for all of them.
        by: the first thing that keeps it off.
        what: the taint, label or resource.
        nodes: how many nodes.
        example: the first of them by name.
    """

    podset: str
    by: LeftOutBy
    what: str
    nodes: int
    example: str


@dataclass(frozen=True, slots=True)
class Oversized:
    """No usable node, however empty, has as much of a resource as a pod asks for.

    Attributes:
        podset: of which podset; empty when the gang has only one.
        resource: its name; perhaps misspelt where ``most`` is 0.
        asked: base units.
        most: what the largest node has.
    """

    podset: str
    resource: str
    asked: int
    most: int


@dataclass(frozen=True, slots=True)
class DomainVerdict:
    """What one domain of the asked level can hold of the gang, and what it lacks.

    Attributes:
        domain: its path; empty for the whole cluster, where the gang asks for no level.
        fits: how many pods fit.
        needed: how many there are to place.
        short_of: the resource that runs out first, or why no node may be used.
        left_out: its nodes that take no pod, by reason.
        podset: which podset is short of it; empty when the gang has only one.
        leader: that podset is the pod that leads the others.
    """

    domain: Path
    fits: int
    needed: int
    short_of: str
    left_out: tuple[LeftOut, ...]
    podset: str = ""
    leader: bool = False


@dataclass(frozen=True, slots=True)
class FewerPods:
    """The gang would fit with ``to`` pods in a podset instead of ``was``, and with no more.

    No podset would do with fewer pods taken off. Pods that run already count in both.
    """

    podset: str
    was: int
    to: int


@dataclass(frozen=True, slots=True)
class CoarserLevel:
    """It would fit at a coarser level; ``to`` is the finest one, None for no level at all."""

    was: str
    to: str | None


@dataclass(frozen=True, slots=True)
class LargerShare:
    """It would fit if one domain of ``level`` could hold ``to`` pods of a podset, not ``was``.

    No podset would do with a share raised by less.

    Attributes:
        podset: which; empty when the gang has only one.
        level: of which domains.
        was: what the share allows now, in pods even where it is a percentage.
        to: what it would have to allow.
    """

    podset: str
    level: str
    was: int
    to: int


@dataclass(frozen=True, slots=True)
class WorkloadEnds:
    """It would fit once another workload ends; none with fewer pods would do.

    Attributes:
        gang: which workload.
        pods: how many pods of it run, or have a seat.
    """

    gang: GangId
    pods: int


@dataclass(frozen=True, slots=True)
class MoreRoom:
    """It would fit with so much more of one resource in one domain; no smaller amount would do.

    Attributes:
        resource: its name.
        amount: base units: millicores of cpu, else bytes or whole devices.
        domain: where; empty for anywhere, where the gang asks for no level.
        nodes: node names, each with how much of the amount goes there.
        beyond: how much of the amount these nodes would lack if nothing ran there.
    """

    resource: str
    amount: int
    domain: Path
    nodes: tuple[tuple[str, int], ...]
    beyond: int = 0


Change = FewerPods | CoarserLevel | LargerShare | WorkloadEnds | MoreRoom


@dataclass(frozen=True, slots=True)
class Fits:
    """All pods of the gang have a node.

    Attributes:
        gang: which one.
        size: how many pods it has.
        level: of the finest domain, no finer than asked, that holds them all; None for none.
        domain: its path.
        places: podset by podset, in rank order.
    """

    gang: GangId
    size: int
    level: str | None
    domain: Path
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class DoesNotFit:
    """No pod of the gang gets a node.

    Attributes:
        gang: which one.
        size: how many pods it has; 0 where that is not known.
        reason: the refusal that kube-scheduler would be told.
        levels: what each level could hold, coarse to fine.
        domains: what each domain of the asked level lacks, the one that lacks least first.
        left_out: nodes that take no pod.
        oversized: resources of which a pod asks for more than any node has.
        changes: the smallest change of each kind that makes it fit; more room once for each
            resource that alone would do, the scarcest first.
    """

    gang: GangId
    size: int
    reason: Reason
    levels: tuple[LevelVerdict, ...] = ()
    domains: tuple[DomainVerdict, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    oversized: tuple[Oversized, ...] = ()
    changes: tuple[Change, ...] = ()

    @property
    def refused(self) -> bool:
        """Whether the request itself must be mended: no room would make it fit."""
        return self.reason.word not in ABOUT_ROOM


Answer = Fits | DoesNotFit
