"""The documented call: where would this gang go, asked of a cluster that stays as it is."""

from dataclasses import replace
from typing import Any

import pytest

from stowplan.placement import keys, reasons
from stowplan.placement.answers.answer import (
    DoesNotFit,
    FewerPods,
    Fits,
    MoreRoom,
    Place,
    WorkloadEnds,
)
from stowplan.placement.answers.ask import ask
from stowplan.placement.cluster import Cluster
from stowplan.placement.gangs import GangId, assemble
from tests.build import Json, NodeObject, PodObject, cluster, gang, level, node, owner, pod
from tests.unit.placement.answers.misfits import picture

TRAIN = GangId("default", "pod-group", "train")

#   block  b1
#   rack   r1       r2
#   node   a  b     c  d      4 GPUs each


def nodes() -> list[NodeObject]:
    racks = {"a": "r1", "b": "r1", "c": "r2", "d": "r2"}
    return [node(name).at(block="b1", rack=rack).gpus(4) for name, rack in racks.items()]


def fits(there: Cluster, *objects: Json, **options: Any) -> Fits:
    answer = ask(
        there, [made.record() for made in objects if isinstance(made, PodObject)], **options
    )
    assert isinstance(answer, Fits), answer
    return answer


def misfit(there: Cluster, asked: GangId = TRAIN, **options: Any) -> DoesNotFit:
    answer = ask(there, asked, **options)
    assert isinstance(answer, DoesNotFit), answer
    return answer


def test_a_gang_that_fits_gets_a_node_for_each_pod_in_rank_order() -> None:
    there = cluster(*nodes(), pod("x").gpus(1).on("a"), *gang("train", 2, gpus=4))
    answer = ask(there, TRAIN)
    assert answer == Fits(
        gang=TRAIN,
        size=2,
        level=level("rack"),
        domain=("b1", "r2"),
        places=(
            Place("train-0", "podset-0", 0, "c", ("b1", "r2", "c")),
            Place("train-1", "podset-0", 1, "d", ("b1", "r2", "d")),
        ),
    )


def test_a_gang_that_does_not_fit_gets_the_reason_and_what_would_help() -> None:
    there = cluster(*nodes(), *gang("train", 3, gpus=4))
    answer = misfit(there)
    assert answer.reason == reasons.no_domain_fits(level("rack"), 3, "nvidia.com/gpu")
    assert (answer.size, len(answer.levels), len(answer.domains)) == (3, 3, 2)
    assert FewerPods("podset-0", 3, 2) in answer.changes


def test_the_search_for_changes_can_be_left_out() -> None:
    there = cluster(*nodes(), *gang("train", 3, gpus=4))
    assert replace(misfit(there), changes=()) == misfit(there, advice=False)


def test_the_pods_need_not_exist() -> None:
    there = cluster(*nodes())
    answer = fits(there, *gang("train", 2, gpus=4))
    assert [place.node for place in answer.places] == ["a", "b"]


def test_pods_that_exist_complete_those_that_are_given() -> None:
    first, second = gang("train", 2, gpus=4)
    answer = fits(cluster(*nodes(), first.on("d")), second)
    assert [(place.pod, place.node, place.new) for place in answer.places] == [
        ("train-0", "d", False),
        ("train-1", "c", True),
    ]


def test_a_gang_that_somebody_put_together_is_taken_as_it_is() -> None:
    there = cluster(*nodes())
    whole = assemble(TRAIN, [made.record() for made in gang("train", 2, gpus=4)], there.owners)
    assert not isinstance(whole, reasons.Reason)
    assert ask(there, whole) == fits(there, *gang("train", 2, gpus=4))


def test_pods_of_two_gangs_are_no_question() -> None:
    members = [made.record() for name in "xy" for made in gang(name, 1)]
    with pytest.raises(
        ValueError, match=r"must be pods of one gang; got \['default/x', 'default/y'"
    ):
        ask(cluster(*nodes()), members)
    with pytest.raises(ValueError, match="must be pods of one gang"):
        ask(cluster(*nodes()), [])


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        pytest.param([], reasons.NO_POD, id="no pod of it is there"),
        pytest.param(gang("train", 3)[:2], reasons.SIBLINGS_MISSING, id="pods are missing"),
        pytest.param(
            [*gang("train", 2), pod("train-2").in_gang("train", 3).requires("rack")],
            reasons.SIZES_DIFFER,
            id="its pods contradict each other",
        ),
    ],
)
def test_a_gang_that_cannot_be_judged_gets_its_reason_and_no_size(
    members: list[PodObject], reason: reasons.Reason
) -> None:
    assert misfit(cluster(*nodes(), *members)) == DoesNotFit(TRAIN, 0, reason)


@pytest.mark.parametrize("size", [2, 3])
def test_asking_changes_nothing(size: int) -> None:
    there = cluster(*nodes(), *gang("train", size, gpus=4))
    before = picture(there)
    ask(there, TRAIN)
    assert picture(there) == before


def test_gangs_asked_for_one_after_another_see_the_seats_that_were_taken() -> None:
    there = cluster(*nodes())
    names = ("one", "two", "three")
    answers = [ask(there, [m.record() for m in gang(name, 2, gpus=4)], take=True) for name in names]
    assert [type(answer) for answer in answers] == [Fits, Fits, DoesNotFit]
    assert isinstance(answers[0], Fits)
    assert isinstance(answers[1], Fits)
    assert {answers[0].domain, answers[1].domain} == {("b1", "r1"), ("b1", "r2")}


def test_a_gang_that_has_its_seats_is_answered_with_them() -> None:
    there = cluster(*nodes(), *gang("train", 2, gpus=4))
    first = ask(there, TRAIN, take=True)
    there.set_pod(pod("x").gpus(4).on("c").record())
    assert ask(there, TRAIN, take=True) == first


def test_pods_that_run_count_and_are_not_new() -> None:
    members = gang("train", 2, gpus=4)
    members[1].on("c")
    answer = ask(cluster(*nodes(), *members), TRAIN)
    assert isinstance(answer, Fits)
    assert [(place.rank, place.node, place.new) for place in answer.places] == [
        (0, "d", True),
        (1, "c", False),
    ]


def test_a_pod_that_runs_outside_the_tree_has_no_domain() -> None:
    members = [pod(f"train-{i}").in_gang("train", 2).anywhere().gpus(1) for i in range(2)]
    answer = ask(
        cluster(*nodes(), node("stray").gpus(4), members[0].on("stray"), members[1]), TRAIN
    )
    assert isinstance(answer, Fits)
    assert {place.node: place.domain for place in answer.places}["stray"] == ()


def test_nodes_refused_for_the_gang_are_left_out_until_their_time_is_over() -> None:
    there = cluster(*nodes(), *gang("train", 2, gpus=4), exclude_seconds=60.0)
    for name in "ac":
        there.ledger.exclude(TRAIN, name, now=0.0)
    assert misfit(there).reason.word == "NodesExcluded"
    assert isinstance(ask(there, TRAIN, now=61.0), Fits)


# --- pods that do not exist yet ------------------------------------------------------------------


def test_pods_of_a_stateful_set_are_called_as_their_controller_will() -> None:
    ordered = owner("StatefulSet", "db", replicas=3)
    first = pod("db-0").owned_by("StatefulSet", "db").requires("rack").gpus(1)
    first.labelled(**{keys.STATEFULSET_INDEX: "0"})
    answer = ask(cluster(*nodes(), ordered, first), GangId("default", "StatefulSet", "db", UID))
    assert isinstance(answer, Fits)
    assert [place.pod for place in answer.places] == ["db-0", "db-1", "db-2"]


UID = "uid-of-StatefulSet-db"


def test_where_ranks_are_unknown_nobody_knows_the_names_to_come() -> None:
    ordered = owner("StatefulSet", "db", replicas=2)
    first = pod("db-0").owned_by("StatefulSet", "db").requires("rack").gpus(1)
    answer = ask(cluster(*nodes(), ordered, first), GangId("default", "StatefulSet", "db", UID))
    assert isinstance(answer, Fits)
    assert [place.pod for place in answer.places] == ["db-0", ""]


def test_where_a_set_does_not_count_from_zero_no_names_to_come_are_told() -> None:
    ordered = owner("StatefulSet", "db", replicas=3, ordinals={"start": 1})
    first = pod("db-1").owned_by("StatefulSet", "db").requires("rack").gpus(1)
    first.labelled(**{keys.STATEFULSET_INDEX: "1"})
    answer = ask(cluster(*nodes(), ordered, first), GangId("default", "StatefulSet", "db", UID))
    assert isinstance(answer, Fits)
    assert [place.pod for place in answer.places] == ["", "db-1", ""]


def test_pods_of_a_deployment_have_no_names_yet() -> None:
    copies = owner("ReplicaSet", "web-1", replicas=2)
    first = pod("web-1-x").owned_by("ReplicaSet", "web-1").requires("rack").gpus(1)
    asked = GangId("default", "ReplicaSet", "web-1", "uid-of-ReplicaSet-web-1")
    answer = ask(cluster(*nodes(), copies, first), asked)
    assert isinstance(answer, Fits)
    assert [place.pod for place in answer.places] == ["web-1-x", ""]


def test_workers_of_a_leader_that_starts_first_are_called_after_it() -> None:
    asks = {keys.REQUIRED[0]: level("rack"), keys.LWS_SIZE: "3"}
    template = {
        "metadata": {"annotations": asks},
        "spec": {"containers": [{"name": "main", "resources": {}}]},
    }
    workers = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "lws", "namespace": "default"},
        "spec": {
            "startupPolicy": "LeaderReady",
            "leaderWorkerTemplate": {"workerTemplate": template},
        },
    }
    leader = (
        pod("lws-0")
        .annotated(**asks)
        .labelled(**{keys.LWS_NAME: "lws", keys.LWS_GROUP: "0", keys.LWS_RANK: "0"})
    )
    asked = GangId("default", "LeaderWorkerSet", "lws/0")
    answer = ask(cluster(*nodes(), workers, leader), asked)
    assert isinstance(answer, Fits)
    assert [(place.pod, place.podset) for place in answer.places] == [
        ("lws-0", "leader"),
        ("lws-0-1", "worker"),
        ("lws-0-2", "worker"),
    ]


def test_a_gang_that_stays_is_not_told_to_end() -> None:
    there = cluster(*nodes(), *gang("first", 4, gpus=4, rack="block"), *gang("train", 2, gpus=4))
    first = GangId("default", "pod-group", "first")
    assert isinstance(ask(there, first, take=True), Fits)

    def told(**options: Any) -> list[GangId]:
        return [c.gang for c in misfit(there, **options).changes if isinstance(c, WorkloadEnds)]

    assert told() == [first]
    assert told(stay=[first]) == []


def test_room_that_no_end_of_anything_frees_must_be_added() -> None:
    def more(gpus: int, *running: PodObject) -> MoreRoom:
        there = cluster(*nodes(), *running, *gang("train", 2, gpus=gpus))
        [found] = [c for c in misfit(there).changes if isinstance(c, MoreRoom)]
        return found

    assert (more(5).amount, more(5).beyond) == (2, 2)
    busy = [pod(f"on-{name}").gpus(2).on(name) for name in "abcd"]
    assert (more(4, *busy).amount, more(4, *busy).beyond) == (4, 0)
    assert (more(5, *busy).amount, more(5, *busy).beyond) == (6, 2)


def test_pods_that_differ_are_told_by_which_annotation() -> None:
    one, other = gang("train", 2)
    other.annotated(**{keys.PACKING: "balanced"})
    found = misfit(cluster(*nodes(), one, other))
    assert str(found.reason).endswith(f"different topology: {keys.PACKING}")
