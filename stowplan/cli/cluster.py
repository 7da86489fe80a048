"""The cluster that a command reads from files, refused where nothing could be asked of it."""

from collections.abc import Collection, Iterator

from stowplan.api.errors import InvalidObjectError, Violation
from stowplan.api.objects import Object
from stowplan.cli.policy import policy_of
from stowplan.cli.rules import WRITE_CLUSTER
from stowplan.cli.settings import Settings
from stowplan.cli.sources import InForce
from stowplan.cli.spelling import did_you_mean
from stowplan.kube import reading
from stowplan.placement.cluster import Cluster, Objects
from stowplan.placement.records import NodeRecord
from stowplan.topology.levels import HOSTNAME


def read_cluster(in_force: InForce) -> tuple[Cluster, list[Object]]:
    """Return the cluster of ``--from-file``, or as a server tells of it, and its objects.

    A server goes on with whatever it is given, for its cluster changes. A command that answers once
    would only say that nothing fits.

    Raises:
        InvalidObjectError: something cannot be read, no node is there, or a level is no node's.
        UnavailableError: the server does not answer.
        RefusedError: it says no.
    """
    objects = _objects(in_force.settings)
    cluster = Cluster(policy_of(in_force.settings))
    cluster.replace(Objects.of(objects))
    if broken := [*_unusable(in_force, cluster.state.nodes.values())]:
        raise InvalidObjectError("the cluster", broken)
    return cluster, objects


def _objects(settings: Settings) -> list[Object]:
    if settings.from_file:
        return reading.load(settings.from_file)
    # Late: a command on files should not pay for them.
    import asyncio

    from stowplan.cli.access import access_of
    from stowplan.controllers.live import fetched

    return asyncio.run(fetched(access_of(settings)))


def carried_labels(nodes: Collection[NodeRecord]) -> frozenset[str]:
    """Return the keys of all labels that some node carries with a value."""
    return frozenset(key for node in nodes for key, value in node.labels.items() if value)


def offered_resources(nodes: Collection[NodeRecord]) -> frozenset[str]:
    """Return the names of all resources of which some node offers any."""
    return frozenset(name for node in nodes for name, amount in node.allocatable if amount)


def _unusable(in_force: InForce, nodes: Collection[NodeRecord]) -> Iterator[Violation]:
    carried = carried_labels(nodes)
    if not nodes:
        problem = "must hold at least one Node"
        yield Violation(in_force.spelled("from_file"), "required", None, problem, WRITE_CLUSTER)
        return
    for i, key in enumerate(in_force.settings.levels):
        if key not in carried and key != HOSTNAME:
            path = f"{in_force.spelled('levels')}[{i}]"
            remedy = did_you_mean(key, carried, "kubectl get nodes --show-labels lists what is")
            yield Violation(path, "invalid", key, "must be a label of at least one node", remedy)
