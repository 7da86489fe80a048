"""Where would this gang go? The question that programs ask; nothing is decided by it.

cluster = Cluster(Policy(levels=Levels.over_hosts(["example.com/block", "example.com/rack"])))
cluster.replace(Objects.of(objects))
match ask(cluster, GangId("default", "pod-group", "train")):
case Fits(places=places):
...
case DoesNotFit(reason=reason, changes=changes):
...
"""

from collections.abc import Collection, Iterable
from dataclasses import replace

from stowplan.placement.answers.answer import Answer, DoesNotFit, Fits, Place
from stowplan.placement.cluster import Cluster
from stowplan.placement.gangs import Gang, GangId, assemble, gang_of, place_of
from stowplan.placement.ledger import Reservation, Seat
from stowplan.placement.owners import Owners
from stowplan.placement.placing import place_gang
from stowplan.placement.reasons import Reason
from stowplan.placement.records import PodRecord
from stowplan.placement.state import View


def ask(
    cluster: Cluster,
    gang: Gang | GangId | Iterable[PodRecord],
    *,
    now: float = 0.0,
    advice: bool = True,
    domains: int | None = None,
    take: bool = False,
    stay: Collection[GangId] = (),
) -> Answer:
    """Return a node for every pod of ``gang``, or why there is none and what would change that.

    A gang that holds seats already is answered with them.

    Args:
        cluster: the live picture; it stays as it is unless ``take`` says otherwise.
        gang: a gang of the cluster; or pods that need not exist yet, of one gang; or a gang that
            somebody put together.
        now: seconds on the clock of the cluster's ledger; nodes that were refused for the gang are
            left out up to some moment of it.
        advice: look for changes that would make it fit, which takes longer than the rest.
        domains: how many domains to tell of; None for all of the asked level.
        take: keep the seats for the gang, so that the next question sees their room taken.
        stay: gangs whose end is no answer, such as those that were asked about with this one.

    Raises:
        ValueError: the pods are of several gangs, or there is none.
    """
    whole = _assembled(cluster, gang, now)
    if isinstance(whole, DoesNotFit):
        return whole
    found: Reservation | Reason | None = cluster.ledger.reservations.get(whole.id)
    if found is None:
        found = place_gang(cluster, whole, now)
        if take and isinstance(found, Reservation):
            cluster.ledger.commit(found)
    if isinstance(found, Reservation):
        return _fits(cluster, whole, found)
    # Late: most questions are answered with yes, and a command should not pay for the rest then.
    from stowplan.placement.answers.advice import advise
    from stowplan.placement.answers.explain import why_not

    answer = why_not(cluster, whole, found, now, domains)
    return replace(answer, changes=advise(cluster, whole, found, now, stay)) if advice else answer


def _assembled(
    cluster: Cluster, gang: Gang | GangId | Iterable[PodRecord], now: float
) -> Gang | DoesNotFit:
    """Return the gang, with pods that are known and pods that are given; or why it is none."""
    if isinstance(gang, Gang):
        return gang
    given: dict[str, PodRecord] = {}
    if not isinstance(gang, GangId):
        given = {pod.key: pod for pod in gang}
        ids = {gang_of(pod) for pod in given.values()}
        if len(ids) != 1:
            raise ValueError(f"must be pods of one gang; got {sorted(map(str, ids))}")
        gang = ids.pop()
    members = {**cluster.gangs.members(gang, now), **given}
    whole = assemble(gang, members.values(), cluster.owners)
    return DoesNotFit(gang, 0, whole) if isinstance(whole, Reason) else whole


def _fits(cluster: Cluster, gang: Gang, found: Reservation) -> Fits:
    view = cluster.state.view()
    there = {pod.key: pod.name for pod in gang.pods}
    places = [
        Place(
            pod=there.get(seat.pod or "") or _name_to_come(cluster.owners, gang, seat),
            podset=gang.podsets[seat.podset].name,
            rank=seat.rank,
            node=seat.node,
            domain=_path_of(view, seat.node),
            new=not seat.bound,
        )
        for seat in sorted(found.seats, key=lambda seat: (seat.podset, seat.rank, seat.pod or ""))
    ]
    return Fits(gang.id, gang.size, found.level, found.domain, tuple(places))


def _path_of(view: View, node: str) -> tuple[str, ...]:
    leaf = view.leaf_of.get(node)
    return () if leaf is None else view.tree.paths[view.tree.first_leaf + leaf]


def _name_to_come(known: Owners, gang: Gang, seat: Seat) -> str:
    """Return how the controller will call the pod; empty where it draws part of the name."""
    pods = (pod for at, pod in zip(gang.podset_of, gang.pods, strict=True) if at == seat.podset)
    if any(place_of(pod) is None for pod in pods):  # then a rank is a place in a row, no index
        return ""
    match gang.id.kind:
        case "StatefulSet":
            owner = known.get(gang.id.namespace, gang.id.kind, gang.id.name)
            counts_from = owner and owner.spec.ordinals and owner.spec.ordinals.start
            return "" if counts_from else f"{gang.id.name}-{seat.rank}"
        case "LeaderWorkerSet":
            group = gang.id.name.replace("/", "-")
            leads = gang.kinds[seat.podset].role == "leader"
            return group if leads else f"{group}-{seat.rank + 1}"
        case _:
            return ""
