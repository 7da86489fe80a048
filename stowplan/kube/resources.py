"""Kinds of objects by the names that kube-apiserver's paths have for them."""

from dataclasses import dataclass
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of object.

    Attributes:
        group: API group; empty for the core group.
        version: of that group.
        plural: the kind in paths, ``pods``.
        kind: the kind in objects, ``Pod``.
        namespaced: its objects live in namespaces.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """What an object says: ``v1``, ``batch/v1``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the path of an object, of a part of it, or without a name of all of them."""
        parts = ["/apis" if self.group else "/api", self.api_version]
        if namespace and self.namespaced:
            parts += ["namespaces", quote(namespace, safe="")]
        parts += [self.plural, *(quote(part, safe="") for part in (name, subresource) if part)]
        return "/".join(parts)


NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
PODS = Resource("", "v1", "pods", "Pod")
PLACEMENTS = Resource("stowplan.dev", "v1alpha1", "placements", "Placement")
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
