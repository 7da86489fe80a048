"""Who decides, and where decisions last: what lies between a decision and its answer."""

from typing import Protocol

from stowplan.placement.decide import Verdict
from stowplan.placement.gangs import GangId
from stowplan.placement.reasons import Reason
from stowplan.placement.records import PodRecord


class Authority(Protocol):
    """Allows decisions, and writes them down."""

    def unable(self) -> Reason | None:
        """Return why nothing may be decided now; None where something may."""

    def promised(self, pod: PodRecord) -> str | None:
        """Return the node that was promised to the pod, in what is written down; None for none."""

    def decided(self, pod: PodRecord, verdict: Verdict) -> None:
        """Take note of a verdict before it is told."""

    def unwritten(self, gang: GangId) -> bool:
        """Whether something that was decided of the gang must be written down before it is told."""

    async def written_down(self, gang: GangId) -> Reason | None:
        """Return once that is written down; else why it is not."""


class Alone:
    """The authority over a cluster from files: nobody else decides, and nothing is written down."""

    def unable(self) -> Reason | None:
        """Always decide."""
        return None

    def promised(self, pod: PodRecord) -> str | None:
        """Promise nothing apart from deciding."""
        return None

    def decided(self, pod: PodRecord, verdict: Verdict) -> None:
        """Keep nothing."""

    def unwritten(self, gang: GangId) -> bool:
        """Hold up nobody."""
        return False

    async def written_down(self, gang: GangId) -> Reason | None:
        """Hold up nobody."""
        return None
