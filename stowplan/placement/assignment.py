"""Assignment: how many pods of one podset go to each domain, in the form that Kueue writes."""

from dataclasses import dataclass

from stowplan.topology.tree import Path


@dataclass(frozen=True, slots=True)
class Assignment:
    """Where the pods of one podset go.

    Attributes:
        levels: label keys that ``domains`` are written in; the host alone where there is a host
            level.
        domains: values, one for each of ``levels``, and how many pods go there; in the order of the
            tree's full paths.
    """

    levels: tuple[str, ...]
    domains: tuple[tuple[Path, int], ...]

    @property
    def count(self) -> int:
        """How many pods are placed."""
        return sum(count for _, count in self.domains)

    def shrink(self, count: int) -> "Assignment":
        """Return the first ``count`` pods: the end is cut off, in the order given (section 10)."""
        left = count
        domains = []
        for values, pods in self.domains:
            kept = min(pods, left)
            if kept > 0:
                domains.append((values, kept))
            left -= kept
        return Assignment(self.levels, tuple(domains))
