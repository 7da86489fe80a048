"""Ordered label keys, coarse to fine, and the path of values that they give a node."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

HOSTNAME = "kubernetes.io/hostname"
MOST_LEVELS = 16  # Kueue's bound on a Topology's levels, the host level included

_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST_PREFIX = 253


@dataclass(frozen=True, slots=True)
class Levels:
    """The levels of one topology, coarse to fine.

    Attributes:
        keys: label keys, each once; ``kubernetes.io/hostname`` only as the last.
    """

    keys: tuple[str, ...]

    @classmethod
    def over_hosts(cls, keys: Sequence[str]) -> "Levels":
        """Return ``keys`` with the host level last; it is implied where it is not named."""
        named = tuple(keys)
        return cls(named if named[-1:] == (HOSTNAME,) else (*named, HOSTNAME))

    @property
    def depth(self) -> int:
        """How many levels there are."""
        return len(self.keys)

    @property
    def has_host(self) -> bool:
        """Whether the finest domain is a single node, so that node filters can act (section 1)."""
        return self.keys[-1:] == (HOSTNAME,)

    def path(self, node: str, labels: Mapping[str, str]) -> tuple[str, ...] | None:
        """Return one value per level, or None when a label is missing or empty.

        At the host level a node stands for itself by its name, since a hostname label may differ
        from it or be shared; the label must exist all the same (section 1, rule 2).
        """
        values = tuple(labels.get(key, "") for key in self.keys)
        if not all(values):
            return None
        return (*values[:-1], node) if self.has_host else values

    def partial_path(self, node: str, labels: Mapping[str, str]) -> tuple[str, ...] | None:
        """Return one value per level, empty from the first label on that is missing.

        The host is always known: it is the node's name. None when the coarsest label is missing,
        since such a node belongs to no domain at all.
        """
        if not self.has_host:
            return self.path(node, labels)
        values = []
        for key in self.keys[:-1]:
            value = labels.get(key, "")
            if not value:
                break
            values.append(value)
        if not values and self.depth > 1:
            return None
        return (*values, *[""] * (self.depth - 1 - len(values)), node)


def label_key_problem(key: str) -> str | None:
    """Return what is wrong with ``key`` as a Kubernetes label key, or None.

    The rule is that of the API server: an optional DNS prefix of up to 253 characters and ``/``,
    then a name of 1 to 63 characters.
    """
    prefix, slash, name = key.rpartition("/")
    if not _NAME.fullmatch(name):
        return "must be a label key: a name of 1 to 63 letters, digits, '-', '_' or '.'"
    if slash and (len(prefix) > _LONGEST_PREFIX or not _PREFIX.fullmatch(prefix)):
        return "must be a label key: the part before '/' is a DNS name in lower case"
    return None
