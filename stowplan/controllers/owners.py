"""Whoever makes a gang's pods, as its Placement refers to them."""

from typing import Any

from stowplan.controllers.live import OWNERS
from stowplan.placement.cluster import Cluster
from stowplan.placement.gangs import GangId

Json = dict[str, Any]

_API_VERSIONS = {owners.resource.kind: owners.resource.api_version for owners in OWNERS}


def owner_reference(cluster: Cluster, gang: GangId) -> Json | None:
    """Return the reference to the controller that names a gang; None where none does, or is there.

    It does not block its owner's deletion: a Placement is no reason to keep a Job.
    """
    version = _API_VERSIONS.get(gang.kind)
    owner = cluster.owners.get(gang.namespace, gang.kind, gang.name) if version else None
    if owner is None or not gang.uid or owner.uid != gang.uid:
        return None
    return {"apiVersion": version, "kind": gang.kind, "name": gang.name, "uid": gang.uid}
