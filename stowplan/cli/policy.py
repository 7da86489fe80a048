"""Settings -> what placement must know of them; for every command that decides."""

from stowplan.cli.settings import Settings
from stowplan.placement.cluster import Policy
from stowplan.placement.rules import Rules
from stowplan.topology.levels import Levels


def policy_of(settings: Settings) -> Policy:
    """Return the operator's policy. Importing this module imports the kernels."""
    return Policy(
        levels=Levels.over_hosts(settings.levels),
        packing=settings.packing,
        rules=Rules.named(settings.rules),
        weigh_affinity=settings.node_affinity == "weigh",
        keep_seconds=settings.reservation_seconds,
        keep_slow_seconds=settings.reservation_with_claims_seconds,
        exclude_seconds=settings.exclude_seconds,
    )
