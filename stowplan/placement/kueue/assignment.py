"""Assignment: how many pods of one podset go to each domain, in the form that Kueue writes.

What is asked of one and done with one is here; how it is written is ``encoding``.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from stowplan.placement.records import Amounts
from stowplan.placement.request import TopologyRequest
from stowplan.topology import capacity
from stowplan.topology.levels import HOSTNAME, Levels
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

    @property
    def has_host(self) -> bool:
        """Whether each domain is a single node, named by its last value."""
        return self.levels[-1:] == (HOSTNAME,)

    def on_node(self, node: str) -> bool:
        """Whether pods go to ``node``; without a host level nobody can tell, which counts as no."""
        return self.has_host and any(values[-1] == node for values, _ in self.domains)

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

    def merge(
        self, other: "Assignment", full_path: Callable[[Path], Path] | None = None
    ) -> "Assignment":
        """Return both together: the sum per domain, ordered by full values (section 10).

        Args:
            other: in the same levels.
            full_path: the full path of a domain, which orders hosts that are named by their own
                value alone; without it the values that are written decide.
        """
        if self.levels != other.levels:
            raise ValueError(f"levels must be equal; got {self.levels} and {other.levels}")
        pods: Counter[Path] = Counter()
        for values, count in (*self.domains, *other.domains):
            pods[values] += count
        ordered = sorted(pods, key=full_path)
        return Assignment(self.levels, tuple((values, pods[values]) for values in ordered))

    def usage(self, per_pod: Amounts) -> tuple[tuple[Path, Amounts], ...]:
        """Return what the pods use in each domain, one pod slot each included (section 1)."""
        one = capacity.per_pod(dict(per_pod))
        return tuple(
            (values, tuple((name, amount * count) for name, amount in one))
            for values, count in self.domains
        )

    def stale(self, levels: Levels, leaves: Iterable[Path]) -> Path | None:
        """Return the first domain that is gone, None when all exist (sections 10, 11).

        A host is known by its own value, whatever is above it; any other leaf by all its values.
        Where the topology has other levels by now, every domain is gone.

        Args:
            levels: of the topology as it is.
            leaves: its leaf domains, as full paths.
        """
        known: set[Path] = set()
        if self.has_host and levels.has_host:
            known = {path[-1:] for path in leaves}
        elif self.levels == levels.keys:
            known = set(leaves)
        shown = slice(-1 if self.has_host else None, None)
        return next((values for values, _ in self.domains if values[shown] not in known), None)


def inside(domain: Path, within: Path) -> bool:
    """Whether ``domain`` is ``within`` or below it: value by value, never as text (section 1)."""
    return domain[: len(within)] == within


def knows_levels(levels: Levels, request: TopologyRequest) -> bool:
    """Whether a topology has every level that is asked for; of an empty request it knows none."""
    share = request.share
    asked = {
        *(level for level in (request.required, request.preferred) if level is not None),
        *(layer.level for layer in request.slices),
        *(() if share is None else (share.level,)),
    }
    return request.mode != "none" and asked <= set(levels.keys)
