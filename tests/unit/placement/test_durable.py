"""What is written down of a gang is what the next leader reserves."""

from datetime import UTC, datetime, timedelta

import pytest

from stowplan.api.models.placement import Placement
from stowplan.api.models.wire import read
from stowplan.placement import durable, reasons
from stowplan.placement.cluster import Cluster
from stowplan.placement.decide import Placed, filter_nodes
from stowplan.placement.gangs import GangId, gang_of
from stowplan.placement.ledger import Reservation
from tests.build import Json, PodObject, cluster, node, owner, pod

NODES = tuple(f"{rack}{x}" for rack in ("r1", "r2") for x in "abcd")
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
CLOCK = durable.Clock(now=100.0, at=AT)


def live(*objects: Json) -> Cluster:
    nodes = (node(name).at(block="b", rack=name[:2]).gpus(8) for name in NODES)
    return cluster(*nodes, *objects)


def gang(size: int, name: str = "train") -> list[PodObject]:
    return [
        pod(f"{name}-{i}")
        .made_again(f"uid-{name}-{i}")
        .in_gang(name, size)
        .ranked(i)
        .requires("rack")
        .gpus(8)
        for i in range(size)
    ]


def placed(on: Cluster, member: PodObject) -> str:
    verdict = filter_nodes(on, member.record(), NODES, 1.0)
    assert isinstance(verdict, Placed), verdict
    return verdict.node


def stored(on: Cluster, gang_id: GangId) -> Placement:
    """Return what the server would have."""
    status = durable.status_of(on, gang_id, 7, "7-1", CLOCK)
    made = durable.new_placement(gang_id, durable.size_of(on, gang_id, 0.0), None)
    return read(Placement, {**made, "status": status}, "Placement")


def taken_over(found: Placement, *objects: Json, now: float = 500.0) -> tuple[Cluster, Reservation]:
    """Return a new leader's cluster and what it reserves."""
    on = live(*objects)
    made = durable.restored(on, found, now)
    assert made is not None
    on.ledger.commit(made)
    return on, made


def nodes_of(reservation: Reservation) -> dict[str | None, str]:
    return {seat.pod: seat.node for seat in reservation.seats}


TRAIN = GangId("default", "pod-group", "train")


def test_every_pod_finds_its_seat_after_a_take_over() -> None:
    members = gang(3)
    on = live(*members)
    nodes = [placed(on, each) for each in members]
    after, made = taken_over(stored(on, TRAIN), *members)
    assert made.touched == 500.0
    assert [placed(after, each) for each in members] == nodes
    assert (made.domain, made.level) == (("b", "r1"), "topology.example.com/rack")
    before = on.ledger.reservations[TRAIN]
    assert made.kinds == before.kinds
    assert nodes_of(made) == nodes_of(before)
    assert after.state.used_on(nodes[0]) == on.state.used_on(nodes[0])


def test_bound_pods_count_themselves_after_a_take_over() -> None:
    members = gang(3)
    on = live(*members)
    nodes = [placed(on, each) for each in members]
    members[0].on(nodes[0])
    after, made = taken_over(stored(on, TRAIN), *members)
    assert [seat.bound for seat in made.seats] == [True, False, False]
    assert after.state.used_on(nodes[0])["nvidia.com/gpu"] == 8
    assert after.ledger.seat_count == 2


def test_a_pod_that_was_made_again_takes_the_seat_that_waits_for_it() -> None:
    members = gang(3)
    on = live(*members)
    nodes = [placed(on, each) for each in members]
    again = [members[0], members[1].made_again("another"), members[2]]
    after, made = taken_over(stored(on, TRAIN), *again)
    assert nodes_of(made)[None] == nodes[1]
    assert placed(after, again[1]) == nodes[1]


def test_pods_that_are_to_come_keep_their_seats() -> None:
    made_one_by_one = owner("StatefulSet", "db", replicas=3)

    def member(i: int) -> PodObject:
        made = pod(f"db-{i}").owned_by("StatefulSet", "db").requires("rack").gpus(8)
        return made.labelled(**{"apps.kubernetes.io/pod-index": str(i)})

    on = live(made_one_by_one, member(0))
    first = placed(on, member(0))
    id_of = gang_of(member(0).record())
    after, made = taken_over(stored(on, id_of), made_one_by_one, member(0).on(first))
    assert made.ahead
    assert len(made.seats) == 3
    on.set_pod(member(1).record())
    after.set_pod(member(1).record())
    assert placed(after, member(1)) == placed(on, member(1))


def test_pods_that_ended_have_no_seat() -> None:
    members = gang(2)
    on = live(*members)
    for each in members:
        placed(on, each)
    members[0].phase("Succeeded")
    _, made = taken_over(stored(on, TRAIN), *members)
    assert list(nodes_of(made)) == ["default/train-1"]


@pytest.mark.parametrize("change", ["no status", "no decision", "another format"])
def test_what_reserves_nothing_is_not_taken_over(change: str) -> None:
    members = gang(2)
    on = live(*members)
    placed(on, members[0])
    found = stored(on, TRAIN)
    assert found.status is not None
    assert found.status.decision is not None
    match change:
        case "no status":
            found = read(Placement, durable.new_placement(TRAIN, 2, None), "Placement")
        case "no decision":
            withdrawn = durable.withdrawn(TRAIN, 8, reasons.NO_POD, CLOCK)
            found = read(Placement, {**_object(found), "status": withdrawn}, "Placement")
        case _:
            status = durable.status_of(on, TRAIN, 7, "7-1", CLOCK)
            assert status is not None
            status["decision"]["format"] = 99
            found = read(Placement, {**_object(found), "status": status}, "Placement")
    assert durable.restored(live(*members), found, 0.0) is None


def _object(found: Placement) -> Json:
    gang_id = durable.gang_named(found)
    return durable.new_placement(gang_id, found.spec.size, None)


def test_a_gang_that_waits_says_why_and_since_when() -> None:
    members = gang(5)
    on = live(*members)
    filter_nodes(on, members[0].record(), NODES, 1.0)
    first = durable.status_of(on, TRAIN, 7, "7-1", CLOCK)
    assert first is not None
    assert first["phase"] == "Waiting"
    (condition,) = first["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "NoDomainFits")
    assert condition["lastTransitionTime"] == "2026-01-02T03:04:05Z"
    later = durable.Clock(200.0, AT + timedelta(seconds=100))
    second = durable.status_of(on, TRAIN, 7, "7-2", later)
    assert second is not None
    assert durable.same_but_for_times(first, second)
    assert durable.since(first, second)["conditions"] == first["conditions"]


def test_a_gang_that_lacks_pods_is_as_large_as_it_says() -> None:
    on = live(*gang(5)[:2])
    filter_nodes(on, gang(5)[0].record(), NODES, 1.0)
    assert durable.size_of(on, TRAIN, 1.0) == 5
    status = durable.status_of(on, TRAIN, 7, "7-1", CLOCK)
    assert status is not None
    assert status["phase"] == "Incomplete"


def test_refused_nodes_are_left_out_as_long_as_before() -> None:
    members = gang(2)
    on = live(*members)
    on.ledger.exclude(TRAIN, "r1a", 90.0)
    placed(on, members[0])
    found = stored(on, TRAIN)
    assert found.status is not None
    assert found.status.excluded is not None
    (each,) = found.status.excluded
    assert (each.node, each.until) == ("r1a", "2026-01-02T03:13:55Z")  # 600 s, 10 of them gone
    elsewhere = durable.Clock(now=7.0, at=AT + timedelta(seconds=60))
    assert elsewhere.read(each.until) == pytest.approx(7.0 + 530.0)
    assert elsewhere.read("some day") == 7.0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (GangId("a", "Job", "x", "uid-1"), GangId("a", "Job", "x", "uid-2")),
        (GangId("a", "pod-group", "x"), GangId("a", "Pod", "group-x")),
        (GangId("a", "pod-group", "X"), GangId("a", "pod-group", "x")),
        (GangId("a", "LeaderWorkerSet", "x/1"), GangId("a", "LeaderWorkerSet", "x-1")),
        (GangId("a", "Pod", "x" * 250 + "1"), GangId("a", "Pod", "x" * 250 + "2")),
    ],
)
def test_different_gangs_have_placements_of_different_names(one: GangId, other: GangId) -> None:
    names = [durable.name_of(each) for each in (one, other)]
    assert names[0] != names[1]
    assert all(len(name) <= 253 and name == name.lower() for name in names)


def test_a_plain_name_stays_readable() -> None:
    assert durable.name_of(TRAIN) == "pod-group.train"
