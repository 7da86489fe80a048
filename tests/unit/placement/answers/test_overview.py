import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.placement.answers.answer import Fits, LeftOut
from stowplan.placement.answers.ask import ask
from stowplan.placement.answers.overview import DomainRoom, Overview, overview
from stowplan.placement.cluster import Cluster
from stowplan.placement.gangs import GangId
from stowplan.placement.records import Amounts
from stowplan.topology import capacity
from stowplan.topology.levels import Levels
from tests.build import GPU, Json, NodeObject, cluster, gang, level, levels, node, pod

#   block b1 ─┬─ rack r1 ── x1 (4 of 8 GPUs in use)  x2
#             └─ rack r2 ── x3 (full)
#   block b2 ─── rack r1 ── x4


def example() -> list[Json]:
    return [
        node("x1").at(block="b1", rack="r1").gpus(8),
        node("x2").at(block="b1", rack="r1").gpus(8),
        node("x3").at(block="b1", rack="r2").gpus(8),
        node("x4").at(block="b2", rack="r1").gpus(8),
        pod("half").gpus(4).asking(cpu="8").on("x1"),
        pod("full").gpus(8).on("x3"),
    ]


def ask_for(**amounts: int) -> Amounts:
    return capacity.per_pod(amounts)


def at(found: Overview, *domain: str) -> DomainRoom:
    if not domain:
        return found.cluster
    return next(each for each in found.domains[len(domain) - 1] if each.domain == domain)


def room(found: Overview, resource: str, *domain: str) -> tuple[int, int, int]:
    of = next(each for each in at(found, *domain).room if each.resource == resource)
    return of.total, of.free, of.reserved


def test_every_domain_shows_its_room_and_the_largest_gang_of_one_gpu_pods() -> None:
    found = overview(cluster(*example()))
    assert (found.main, found.pod) == (GPU, ((GPU, 1), ("pods", 1)))
    assert found.levels == levels("block", "rack").keys
    assert [[each.domain for each in domains] for domains in found.domains] == [
        [("b1",), ("b2",)],
        [("b1", "r1"), ("b1", "r2"), ("b2", "r1")],
        [("b1", "r1", "x1"), ("b1", "r1", "x2"), ("b1", "r2", "x3"), ("b2", "r1", "x4")],
    ]
    assert room(found, GPU) == (32, 20, 0)
    assert room(found, GPU, "b1") == (24, 12, 0)
    assert room(found, "cpu", "b1", "r1") == (256_000, 248_000, 0)
    assert [each.pods for each in found.domains[1]] == [12, 0, 8]
    assert [each.empty for each in found.domains[1]] == [1, 0, 1]
    assert (found.cluster.nodes, found.cluster.usable, found.cluster.pods) == (4, 4, 20)


@pytest.mark.parametrize(
    ("amounts", "want"),
    [
        pytest.param({GPU: 8}, [1, 0, 1], id="whole nodes"),
        pytest.param({GPU: 4}, [3, 0, 2], id="halves"),
        pytest.param({GPU: 1, "cpu": 100_000}, [2, 0, 1], id="cpu runs out first"),
        pytest.param({"cpu": 128_000}, [1, 1, 1], id="no device at all"),
        pytest.param({"example.com/fpga": 1}, [0, 0, 0], id="what no node offers"),
    ],
)
def test_the_largest_gang_is_counted_in_pods_of_the_request(
    amounts: dict[str, int], want: list[int]
) -> None:
    found = overview(cluster(*example()), ask_for(**amounts))
    assert [each.pods for each in found.domains[1]] == want


def test_only_so_many_levels_are_shown_as_were_asked_for() -> None:
    found = overview(cluster(*example()), depth=1)
    assert found.levels == (level("block"),)
    assert [len(domains) for domains in found.domains] == [2]


def test_the_device_that_most_nodes_offer_is_what_pods_ask_for() -> None:
    nodes = [
        node("a").at(block="b", rack="r").offering(**{"amd.com/gpu": "8", "x.com/nic": "1"}),
        node("b").at(block="b", rack="r").offering(**{"nvidia.com/gpu": "8", "x.com/nic": "0"}),
        node("c").at(block="b", rack="r").offering(**{"nvidia.com/gpu": "8"}),
        *(node(f"d{i}").cordoned().offering(**{"amd.com/gpu": "8"}) for i in range(9)),
    ]
    assert overview(cluster(*nodes)).main == "nvidia.com/gpu"


def test_without_any_device_pods_ask_for_a_core() -> None:
    found = overview(cluster(node("a").at(block="b", rack="r")))
    assert (found.main, found.pod, found.cluster.pods) == ("cpu", (("cpu", 1000), ("pods", 1)), 110)


def test_a_request_for_nothing_is_about_pods() -> None:
    found = overview(cluster(*example()), ask_for())
    assert (found.main, found.cluster.pods) == ("pods", 438)


def test_nodes_that_cannot_be_used_count_as_nodes_and_give_no_room() -> None:
    nodes: list[NodeObject] = [
        node("x1").at(block="b", rack="r").gpus(8).cordoned(),
        node("x2").at(block="b", rack="r").gpus(8).not_ready(),
        node("x3").at(block="b", rack="r").gpus(8).tainted("team", "a"),
        node("x4").at(block="b", rack="r").gpus(8).tainted(GPU, "present"),
        node("x5").gpus(8),
    ]
    found = overview(cluster(*nodes))
    assert (found.cluster.nodes, found.cluster.usable) == (4, 2)
    assert room(found, GPU) == (16, 16, 0)
    assert found.cluster.pods == 8  # a taint named like the device keeps its pods off nowhere
    assert found.left_out == (
        LeftOut("", "no-level-label", level("block"), 1, "x5"),
        LeftOut("", "not-ready", "", 1, "x2"),
        LeftOut("", "cordoned", "", 1, "x1"),
        LeftOut("", "taint", "team=a:NoSchedule", 1, "x3"),
    )


def test_nodes_without_a_fine_label_are_in_a_domain_without_a_name() -> None:
    found = overview(cluster(*example(), node("x0").at(block="b1").gpus(8)))
    assert at(found, "b1", "").pods == 8
    assert at(found, "b1").nodes == 4


def test_room_that_is_promised_is_reserved_and_not_free() -> None:
    there = cluster(*example(), *gang("train", 2, gpus=4))
    assert isinstance(ask(there, GangId("default", "pod-group", "train"), take=True), Fits)
    there.set_pod(pod("next").gpus(2).nominated_to("x2").record())
    found = overview(there)
    assert room(found, GPU) == (32, 10, 10)
    assert room(found, GPU, "b2") == (8, 0, 8)


def test_an_overcommitted_node_takes_nothing_from_its_neighbours() -> None:
    found = overview(cluster(*example(), pod("more").gpus(6).on("x1")))
    assert room(found, GPU, "b1", "r1") == (16, 8, 0)


def test_an_empty_cluster_has_no_domain() -> None:
    found = overview(cluster())
    assert (found.cluster.nodes, found.cluster.pods, found.cluster.room) == (0, 0, ())
    assert found.domains == ((), (), ())


def test_without_a_host_level_a_domain_of_several_nodes_is_the_finest() -> None:
    there = cluster(*example(), at=Levels((level("block"), level("rack"))))
    found = overview(there)
    assert [each.nodes for each in found.domains[-1]] == [2, 1, 1]
    assert [each.empty for each in found.domains[-1]] == [1, 0, 1]


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    made: list[Json] = []
    for i in range(draw(st.integers(1, 12))):
        here = node(f"n{i}").at(block=f"b{draw(st.integers(0, 2))}").gpus(draw(st.integers(0, 8)))
        if draw(st.booleans()):
            here.at(rack=f"r{draw(st.integers(0, 2))}")
        made.append(here.cordoned() if draw(st.integers(0, 5)) == 0 else here)
        if used := draw(st.integers(0, 10)):
            made.append(pod(f"p{i}").gpus(used).on(f"n{i}"))
    return cluster(*made)


@given(clusters(), st.integers(1, 8))
def test_every_level_adds_up_to_the_cluster(there: Cluster, gpus: int) -> None:
    found = overview(there, ask_for(**{GPU: gpus}))
    for domains in found.domains:
        for field in ("nodes", "usable", "empty", "pods"):
            assert sum(getattr(each, field) for each in domains) == getattr(found.cluster, field)
        for row, whole in enumerate(found.cluster.room):
            assert sum(each.room[row].total for each in domains) == whole.total
            assert sum(each.room[row].free for each in domains) == whole.free
    assert all(each.room[0].free <= each.room[0].total for each in found.domains[-1])


@given(clusters(), st.integers(1, 8))
def test_the_largest_gang_fits_and_one_pod_more_does_not(there: Cluster, gpus: int) -> None:
    found = overview(there, ask_for(**{GPU: gpus}))
    named = [each for each in found.domains[1] if each.domain[-1]]
    most = max((each.pods for each in named), default=0)
    for pods in {most, most + 1} - {0}:
        members = gang("asked", pods, gpus=gpus)
        fits = isinstance(ask(there, [each.record() for each in members]), Fits)
        assert fits == (pods <= most and bool(named))


def test_what_is_looked_at_stays_as_it_is() -> None:
    there = cluster(*example())
    before = there.state.view().leaves.free.copy(), there.state.generation
    overview(there)
    assert np.array_equal(there.state.view().leaves.free, before[0])
    assert there.state.generation == before[1]
