"""The wording of every refusal, and of every answer that could not be given.

kube-scheduler counts equal texts and tries a pod again whenever its text changes (facts E17, E18).
So the set is closed, and a text names levels and resources but never a node, and no count that
flickers.
"""

from dataclasses import dataclass, field, replace
from typing import Literal

from stowplan.api.errors import Violation
from stowplan.placement import keys

Word = Literal[
    "Contradiction",
    "Incomplete",
    "LevelUnknown",
    "NoDomainFits",
    "NodesExcluded",
    "NotTheLeader",
    "RequestInvalid",
    "SeatLost",
    "StateStale",
    "TooLarge",
]

# Room that is freed or added mends these; by any other word the request itself is at fault.
ABOUT_ROOM: frozenset[Word] = frozenset(("NoDomainFits", "NodesExcluded", "SeatLost"))

_LONGEST = 63  # characters of a user's text that are repeated; a label value has no more


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a pod gets no node now.

    Attributes:
        word: stable name, the reason of a condition and the label of a metric.
        text: for people.
        facts: numbers for the log, where they may flicker; they are no part of the reason.
    """

    word: Word
    text: str
    facts: tuple[tuple[str, int], ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        """Return what kube-scheduler shows; it shows no other hint of who refused."""
        return f"stowplan {self.word}: {self.text}"


SEAT_LOST = Reason("SeatLost", "the pod's seat is on a node that was not offered; trying again")
STARTING = Reason("StateStale", "still starting; the kernels are not compiled yet")
STALE = Reason("StateStale", "kube-apiserver has told nothing for a while; trying again")
NOT_WRITTEN = Reason("StateStale", "the decision could not be written down; trying again")
NOT_THE_LEADER = Reason("NotTheLeader", "another replica decides; trying again")
TERMINATING = Reason("Incomplete", "the pod is being deleted")
OLDER_POD = Reason("Incomplete", "an older pod of the same name is still there")
NATIVE_GROUP = Reason(
    "Contradiction", "spec.schedulingGroup beside a topology request needs the scheduling gate"
)
ROLE_ASKS_NOTHING = Reason(
    "Contradiction",
    "a role of the gang asks for no topology; give its pods stowplan.dev/unconstrained-topology",
)
GROUP_DIFFERS = Reason("Contradiction", "pods of one podset group ask for different levels")
SIZES_DIFFER = Reason("Contradiction", "pods of one gang state different sizes")
MORE_THAN_SIZE = Reason("Contradiction", "the gang has more pods than the size it states")


NO_POD = Reason("Incomplete", "no pod of the gang is there")
SIBLINGS_MISSING = Reason("Incomplete", "waiting for the other pods of the gang")

# What a gang is short of when no resource is to blame.
NO_NODE_USABLE = "no node is ready, not cordoned and labelled with every level"
KEPT_APART = f"{keys.MAX_PER_DOMAIN} keeps pods apart"
NO_NODE_PASSES = "no node passes the pod's selector, affinity and tolerations"


def beyond_every_node(resource: str, offered: bool) -> str:
    """No usable node, however empty, has what one pod asks for of the resource; or any of it."""
    if offered:
        return f"no usable node has enough {resource} for one pod"
    return f"no usable node offers {resource}"


def requests_differ(annotation: str) -> Reason:
    """Pods of one template, or at least of one role, do not carry the same request."""
    return Reason("Contradiction", f"pods of one gang ask for different topology: {annotation}")


def owner_unknown(kind: str) -> Reason:
    """The object that says how many pods the gang has was not read."""
    return Reason("Incomplete", f"the gang's {kind} is not known, so its size is not either")


def owner_without_size(kind: str) -> Reason:
    """The pods' controller is of a kind that states no size that we read."""
    return Reason("Incomplete", f"a {kind} states no size; name the gang with a group label")


def no_domain_fits(level: str | None, pods: int, short_of: str) -> Reason:
    """No domain of ``level``, or not the whole cluster, has room for the gang.

    ``short_of`` is the resource that runs out first, or why no node may be used at all.
    """
    where = f"no {level} domain fits" if level else "the cluster does not fit"
    return Reason("NoDomainFits", f"{where} {_pods(pods)}: {short_of}")


def rest_does_not_fit(level: str, short_of: str) -> Reason:
    """Some pods of the gang run, and their domain has no room for the others."""
    text = f"the gang's {level} domain has no room for the rest: {short_of}"
    return Reason("NoDomainFits", text)


def runs_outside(level: str) -> Reason:
    """Pods of the gang were bound to nodes that are not in the tree: nobody knows their domain."""
    return Reason("NoDomainFits", f"the gang runs on nodes that are in no {level} domain")


def runs_apart(level: str) -> Reason:
    """Pods of the gang were bound in several domains, so no one domain can hold the gang."""
    return Reason("NoDomainFits", f"the gang runs in more than one {level} domain already")


def nodes_excluded(level: str | None) -> Reason:
    """Nodes that kube-scheduler refused for this gang are left out for a while."""
    where = f"the gang's {level} domain" if level else "the cluster"
    return Reason("NodesExcluded", f"{where} has no other node for the pod's lost seat")


def level_unknown(level: str, known: tuple[str, ...]) -> Reason:
    """The request names a level that the topology does not have."""
    return Reason("LevelUnknown", f"no level {_short(level)!r}; levels are {', '.join(known)}")


def request_invalid(violation: Violation) -> Reason:
    """An annotation or label of the request cannot be read or breaks a rule."""
    found = "" if violation.value is None else f" (got {_short(str(violation.value))!r})"
    text = f"{violation.path} {violation.problem}{found}; {violation.remedy}"
    return Reason("RequestInvalid", text)


def slices_leave_a_rest(pods: int, rest: int, may_be_smaller: bool) -> Reason:
    """Pods that fill no whole slice are left, and may make no smaller one, or not of inner ones."""
    if may_be_smaller:
        text = f"a last slice of {rest} of {_pods(pods)} is no multiple of the inner slices"
        return Reason("RequestInvalid", f"{text}; change their sizes or the number of pods")
    text = f"{rest} of {_pods(pods)} would fill no whole slice"
    text += "; change the slice size or the number of pods"
    return Reason("RequestInvalid", f"{text}, or allow it with {keys.LAST_SLICE}: smaller")


def slices_out_of_order(levels: tuple[str, ...]) -> Reason:
    """The levels of nested slices do not go from coarse to fine, or begin above the asked level."""
    text = "the pod's slices must go from coarse to fine below the requested level"
    return Reason("RequestInvalid", f"{text}; order their levels as in {', '.join(levels)}")


def must_be_finer(annotation: str, level: str, than: str, levels: tuple[str, ...]) -> Reason:
    """A preferred level, or one with a share, stands at or above the required level."""
    text = f"{annotation} must name a level finer than the required {_short(than)!r}"
    text += f" (got {_short(level)!r})"
    return Reason("RequestInvalid", f"{text}; levels are {', '.join(levels)}")


def leader_does_not_fit(level: str | None, short_of: str) -> Reason:
    """The pod that leads a group of two podsets fits on no node, however its workers are placed."""
    where = f"no {level} domain fits" if level else "the cluster does not fit"
    return Reason("NoDomainFits", f"{where} the gang's leader: {short_of}")


def too_large(pods: int, most: int) -> Reason:
    """The gang is larger than one decision may be."""
    return Reason("TooLarge", f"a gang of {pods} pods; at most {most} are placed together")


def with_facts(reason: Reason, **facts: int) -> Reason:
    """Return the same reason with numbers for the log."""
    return replace(reason, facts=tuple(facts.items()))


def _pods(count: int) -> str:
    return "the pod" if count == 1 else f"all {count} pods"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
