"""Where our rules differ from Kueue's: every quirk of Kueue's that is switched off has a name here.

There is one code for both; each field says what Kueue does when it is True. ``docs/placement.md``
tells what we do instead, and an ADR each tells why and which shared cases then differ.
"""

from dataclasses import dataclass, fields
from typing import Literal

RulesName = Literal["stowplan", "kueue"]


@dataclass(frozen=True, slots=True)
class Rules:
    """Quirks of Kueue's, on or off.

    Attributes:
        rest_is_dropped: pods that fill no whole slice get no place, silently (kueue#15640).
        small_hosts_first: below the slice level small domains are filled first, even when packing.
        unconstrained_scatters: without a level, the hosts with least room wherever they are
            (kueue#10406).
        all_labels_needed: a node that lacks one level label is left out (kueue#6996), and the host
            is a level only where it is named.
        one_lost_node: only the first lost node of a workload is replaced (kueue#6957).
        leader_unnamed: a leader that fits nowhere is reported as if its workers were short.
    """

    rest_is_dropped: bool = False
    small_hosts_first: bool = False
    unconstrained_scatters: bool = False
    all_labels_needed: bool = False
    one_lost_node: bool = False
    leader_unnamed: bool = False

    @classmethod
    def named(cls, name: RulesName) -> "Rules":
        """Return the rules that an operator names."""
        return KUEUE if name == "kueue" else STOWPLAN


STOWPLAN = Rules()
KUEUE = Rules(**{quirk.name: True for quirk in fields(Rules)})
