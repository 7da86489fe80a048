"""The wording of every refusal, and of every answer that could not be given.

kube-scheduler counts equal texts and tries a pod again whenever its text changes (facts E17, E18).
So the set is closed, and a text names levels and resources but never a node, and no count that
flickers.
"""

from dataclasses import dataclass
from typing import Literal

from stowplan.api.errors import Violation

Word = Literal[
    "Contradiction",
    "Incomplete",
    "LevelUnknown",
    "NoDomainFits",
    "NodesExcluded",
    "RequestInvalid",
    "SeatLost",
    "StateStale",
    "TooLarge",
]

_LONGEST = 63  # characters of a user's text that are repeated; a label value has no more


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a pod gets no node now.

    Attributes:
        word: stable name, the reason of a condition and the label of a metric.
        text: for people.
    """

    word: Word
    text: str

    def __str__(self) -> str:
        """Return what kube-scheduler shows; it shows no other hint of who refused."""
        return f"stowplan {self.word}: {self.text}"


SEAT_LOST = Reason("SeatLost", "the pod's seat is on a node that was not offered; trying again")
STARTING = Reason("StateStale", "still starting; the cluster is not loaded yet")
TERMINATING = Reason("Incomplete", "the pod is being deleted")
OLDER_POD = Reason("Incomplete", "an older pod of the same name is still there")
NATIVE_GROUP = Reason(
    "Contradiction", "spec.schedulingGroup beside a topology request needs the scheduling gate"
)
REQUESTS_DIFFER = Reason("Contradiction", "pods of one gang ask for different topology")
SIZES_DIFFER = Reason("Contradiction", "pods of one gang state different sizes")
MORE_THAN_SIZE = Reason("Contradiction", "the gang has more pods than the size it states")


def incomplete(missing: str) -> Reason:
    """Pods of the gang, or the object that says how many there are, are not there yet."""
    return Reason("Incomplete", missing)


def no_domain_fits(level: str | None, pods: int, short_of: str | None) -> Reason:
    """No domain of ``level``, or not the whole cluster, has room for the gang.

    ``short_of`` is the resource that runs out first; None when filters leave no node at all.
    """
    where = f"no {level} domain fits" if level else "the cluster does not fit"
    what = short_of or "no node passes the pod's selector, affinity and tolerations"
    return Reason("NoDomainFits", f"{where} all {pods} pods: {what}")


def rest_does_not_fit(level: str, short_of: str | None) -> Reason:
    """Some pods of the gang run, and their domain has no room for the others."""
    what = short_of or "no node passes the pod's selector, affinity and tolerations"
    return Reason("NoDomainFits", f"the gang's {level} domain has no room for the rest: {what}")


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


def too_large(pods: int, most: int) -> Reason:
    """The gang is larger than one decision may be."""
    return Reason("TooLarge", f"a gang of {pods} pods; at most {most} are placed together")


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
