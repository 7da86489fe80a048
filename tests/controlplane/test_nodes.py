"""Nodes that kube-scheduler refuses, that go, and that may not be used."""

import asyncio
from collections.abc import Callable

import pytest

from stowplan.kube.resources import NODES, PODS
from tests.build import NodeObject, PodObject, node, pod
from tests.controlplane.bed import ControlPlane
from tests.controlplane.waiting import until
from tests.controlplane.world import RACK, gang, world

pytestmark = [pytest.mark.controlplane, pytest.mark.slow]

GATE = "example.com/later"


CHANGES: dict[str, Callable[[NodeObject], NodeObject]] = {
    "plain": lambda n: n.labelled(gen="new"),
    "tainted": lambda n: n.labelled(gen="new").tainted("team", "a"),
    "cordoned": lambda n: n.labelled(gen="new").cordoned(),
    "unready": lambda n: n.labelled(gen="new").not_ready().tainted("node.kubernetes.io/not-ready"),
    "old": lambda n: n.labelled(gen="old"),
}


def on_port(pods: list[PodObject], port: int) -> list[PodObject]:
    """Let pods listen on a port of their host: kube-scheduler alone judges that."""
    for each in pods:
        each["spec"]["containers"][0]["ports"] = [{"containerPort": port, "hostPort": port}]
    return pods


async def test_a_node_that_the_scheduler_refuses_is_left_out_and_another_is_taken(
    plane: ControlPlane,
) -> None:
    async with world(plane) as it:
        await it.nodes({"b1/r1": 6})
        taken = on_port(
            [
                pod(f"web-{i}").selecting(**{"kubernetes.io/hostname": f"b1-r1-x{i}"})
                for i in range(3)
            ],
            80,
        )
        await it.make(taken)
        await until(lambda: len(it.bound("web")) == 3)
        await it.make(on_port(gang("train", 3), 80))
        await it.whole("train", 3)
        assert set(it.bound("train").values()) == {"b1-r1-x3", "b1-r1-x4", "b1-r1-x5"}
        status = await it.phase("pod-group.train", "Bound")
        assert {each["node"] for each in status["excluded"]} <= {"b1-r1-x0", "b1-r1-x1", "b1-r1-x2"}


async def test_a_gang_of_which_every_node_is_refused_stops_trying(plane: ControlPlane) -> None:
    async with world(plane) as it:
        await it.nodes({"b1/r1": 4})
        names = [f"b1-r1-x{i}" for i in range(4)]
        await it.make(
            on_port(
                [
                    pod(f"web-{i}").selecting(**{"kubernetes.io/hostname": name})
                    for i, name in enumerate(names)
                ],
                80,
            )
        )
        await until(lambda: len(it.bound("web")) == 4)
        # Nodes without the port in use, or kube-scheduler would have none to ask us about.
        await it.nodes({"b1/r2": 3}, per_node=4)
        await it.make(on_port(gang("train", 4, gpus=4), 80))
        await it.refused("train-3", "No")
        calls = it.counted("stowplan_decisions_total")
        await asyncio.sleep(3.0)
        assert it.counted("stowplan_decisions_total") - calls <= 4
        assert it.bound("train") == {}


async def test_pods_that_are_made_again_stay_in_the_domain_when_a_node_goes(
    plane: ControlPlane,
) -> None:
    async with world(plane) as it:
        await it.nodes({"b1/r1": 5, "b1/r2": 6})
        members = gang("train", 4)
        await it.make(members)
        await it.whole("train", 4)
        (rack,) = it.racks("train")
        lost = it.bound("train")["train-2"]
        await it.kube.delete(NODES, "", lost)
        await it.kube.delete(PODS, "default", "train-2", grace_seconds=0)
        await until(lambda: "train-2" not in it.pods)
        await it.make([gang("train", 4)[2]])
        await it.whole("train", 4)
        assert it.racks("train") == {rack: 4}
        assert it.bound("train")["train-2"] != lost


async def test_where_the_domain_has_no_other_node_the_refusal_says_why(plane: ControlPlane) -> None:
    async with world(plane) as it:
        await it.nodes({"b1/r1": 4, "b1/r2": 3})
        await it.make(gang("train", 4))
        await it.whole("train", 4)
        cordoned = it.bound("train")["train-2"]
        await it.kube.patch(NODES, "", cordoned, {"spec": {"unschedulable": True}})
        await it.kube.delete(PODS, "default", "train-2", grace_seconds=0)
        await until(lambda: "train-2" not in it.pods)
        await it.make([gang("train", 4)[2]])
        message = await it.refused("train-2", "NoDomainFits")
        assert f"the gang's {RACK} domain has no room for the rest: nvidia.com/gpu" in message
        await it.kube.patch(NODES, "", cordoned, {"spec": {"unschedulable": False}})
        await it.whole("train", 4)


async def test_filters_of_kube_scheduler_and_ours_agree(plane: ControlPlane) -> None:
    async with world(plane) as it:
        for rack, change in CHANGES.items():
            for x in range(2):
                made = node(f"b1-{rack}-x{x}").at(block="b1", rack=rack).gpus(8)
                await it.make_node(change(made))
        tolerant = gang("tolerant", 2)
        for each in tolerant:
            each["spec"]["tolerations"] = [{"key": "team", "operator": "Exists"}]
            each.selecting(gen="new", **{RACK: "tainted"})
        await it.make(tolerant)
        await it.whole("tolerant", 2)
        picky = [each.selecting(gen="old") for each in gang("picky", 2)]
        await it.make(picky)
        await it.whole("picky", 2)
        await it.make(gang("any", 2))
        await it.whole("any", 2)
        assert set(it.racks("any")) == {"b1-plain"}
        await it.make(gang("none", 2))
        await until(lambda: it.message("none-0").startswith("0/10 nodes are available"))
        assert it.bound("none") == {}
        assert it.overcommitted() == {}
