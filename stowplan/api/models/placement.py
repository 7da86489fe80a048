"""``placements.stowplan.dev``: the durable decision about one gang."""

from stowplan.api.models.wire import Quantity, Wire

GROUP = "stowplan.dev"
VERSION = "v1alpha1"
FORMAT = 1  # of ``status.decision``; another one is not understood


class PlacementMetadata(Wire, frozen=True):
    """What tells a Placement and its version from others."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class PlacedGang(Wire, frozen=True):
    """Which gang: what names it, the name, and the uid of the owner where one names it."""

    kind: str
    name: str
    uid: str = ""


class PlacementSpec(Wire, frozen=True):
    """Whom the decision is about."""

    gang: PlacedGang
    size: int = 0


class DecidedPodset(Wire, frozen=True):
    """Pods alike: their role, what each costs in base units, and the domain of their seats."""

    role: str = ""
    requests: dict[str, Quantity] | None = None
    domain: list[str] | None = None


class DecidedSeat(Wire, frozen=True):
    """A seat: which podset, rank and node; the pod that has it, and its uid, or nothing yet."""

    podset: int
    node: str
    rank: int = 0
    name: str = ""
    uid: str = ""


class Decision(Wire, frozen=True):
    """Where every pod goes.

    Attributes:
        id: differs from that of every other decision about the gang.
        level: key of the level of the domain that holds all seats; empty where none does.
        ahead: the gang's pods are made one after another.
    """

    id: str
    format: int = 0
    level: str = ""
    domain: list[str] | None = None
    ahead: bool = False
    podsets: list[DecidedPodset] | None = None
    seats: list[DecidedSeat] | None = None


class ExcludedNode(Wire, frozen=True):
    """A node that is left out for the gang until some moment, and how often it was before."""

    node: str
    until: str
    times: int = 0


class PlacementCondition(Wire, frozen=True):
    """The condition ``Placed``."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""


class PlacementStatus(Wire, frozen=True):
    """What was decided, and by the leader of which term."""

    phase: str = ""
    epoch: int = -1
    decision: Decision | None = None
    excluded: list[ExcludedNode] | None = None
    conditions: list[PlacementCondition] | None = None


class Placement(Wire, frozen=True):
    """The object; without a status nothing is decided."""

    metadata: PlacementMetadata
    spec: PlacementSpec
    status: PlacementStatus | None = None
