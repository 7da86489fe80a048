"""How the cluster that the settings name is reached."""

from stowplan.cli.settings import Settings
from stowplan.kube.access import Access, InCluster, Kubeconfig


def access_of(settings: Settings) -> Access:
    """Return the kubeconfig that is named, else the service account of this pod."""
    if not settings.kubeconfig:
        return InCluster()
    return Kubeconfig(tuple(file.expanduser() for file in settings.kubeconfig), settings.context)
