from typing import Any

import pytest

from stowplan.api.errors import InvalidObjectError
from stowplan.placement import keys
from stowplan.placement.answers.answer import Fits
from stowplan.placement.answers.ask import ask
from stowplan.placement.gangs import Gang
from stowplan.placement.jobs.already_there import whole_gang
from stowplan.placement.jobs.expand import Wanted, expand
from stowplan.placement.jobs.model_deployments import group_name
from stowplan.placement.jobs.templates import shown
from tests.build import GPU, Json, cluster, level, node

RACK = level("rack")
GROUP = "nvidia-a10g"


def instance_type(name: str = "a10g", cards: bool = True, **status: Any) -> Json:
    accelerator = {"acceleratable": True, "acceleratorGroup": GROUP} if cards else {}
    return {
        "apiVersion": "worker.gpustack.ai/v1alpha1",
        "kind": "InstanceType",
        "metadata": {"name": name},
        "spec": {
            "os": "linux",
            "arch": "amd64",
            "unitResources": {"cpu": "4", "ram": "16Gi"},
            **accelerator,
        },
        "status": {"entrance": "gpustack-fnv64-queue", **status},
    }


def role(name: str = "server", **fields: Any) -> Json:
    return {"name": name, "instanceType": "a10g", **fields}


def deployment(*roles: Json, version: str = "v1alpha1") -> Json:
    return {
        "apiVersion": f"worker.gpustack.ai/{version}",
        "kind": "ModelDeployment",
        "metadata": {"name": "qwen-chat", "namespace": "team-a"},
        "spec": {"roles": list(roles)},
    }


def gangs(*roles: Json, of: Json | None = None) -> tuple[Wanted, ...]:
    return expand([deployment(*roles)], [of or instance_type()]).gangs


def refused(*objects: Json) -> list[str]:
    with pytest.raises(InvalidObjectError) as error:
        expand(objects)
    return [str(violation) for violation in error.value.violations]


@pytest.mark.parametrize(
    ("identity", "want"),
    [
        ("team-a/qwen-chat/server/0", "gpustack-fnv64-dc611a87ddf1aa0e"),
        ("team-a/qwen-chat/server/1", "gpustack-fnv64-dc611b87ddf1abc1"),
        ("team-a/qwen-chat/decode/0", "gpustack-fnv64-1073270e551a6ac7"),
        ("team-b/qwen-chat/server/0", "gpustack-fnv64-b8e12ecb436dbb19"),
    ],
)
def test_a_group_has_the_name_that_the_operator_gives_it(identity: str, want: str) -> None:
    assert group_name(identity) == want


def test_each_replica_of_a_role_is_a_gang_of_its_size() -> None:
    topology = {"requiredLevel": RACK}
    first, second = gangs(role(replicas=2, size=2, topology=topology))
    assert first.title == "ModelDeployment team-a/qwen-chat, role server, replica 0"
    assert second.gang.name == group_name("team-a/qwen-chat/server/1")
    assert [pod.name for pod in second.pods] == [
        "qwen-chat-server-r1-m0",
        "qwen-chat-server-r1-m1",
    ]
    assert second.queue == "gpustack-fnv64-queue"
    assert second.pods[0].annotations == {
        keys.POD_GROUP_COUNT: "2",
        keys.ROLE_HASH: "server",
        keys.REQUIRED[1]: RACK,
    }
    assert all(pod.held_by_kueue for pod in second.pods)


def test_a_replica_of_one_pod_has_a_name_that_nobody_can_know() -> None:
    assert [shown(wanted.pods[0].name) for wanted in gangs(role(replicas=2))] == [
        "qwen-chat-server-*",
        "qwen-chat-server-*",
    ]


def test_a_role_without_a_level_asks_for_nothing() -> None:
    (wanted,) = gangs(role(topology={"requiredLevel": ""}))
    assert not wanted.asks


@pytest.mark.parametrize(
    ("fields", "of", "want"),
    [
        pytest.param({}, instance_type(), {GPU: 1, "cpu": 4_000, "memory": 16 << 30}, id="one"),
        pytest.param(
            {"resources": {"accelerator": "2"}},
            instance_type(),
            {GPU: 2, "cpu": 8_000, "memory": 32 << 30},
            id="two cards, twice the host",
        ),
        pytest.param(
            {"resources": {"accelerator": 0}},
            instance_type(),
            {"cpu": 4_000, "memory": 16 << 30},
            id="explicitly none",
        ),
        pytest.param(
            {}, instance_type(cards=False), {"cpu": 4_000, "memory": 16 << 30}, id="a CPU type"
        ),
        pytest.param(
            {},
            instance_type(detail={"manufacturer": "ascend"}),
            {"huawei.com/npu": 1, "cpu": 4_000, "memory": 16 << 30},
            id="the manufacturer that was seen",
        ),
    ],
)
def test_requests_come_from_the_instance_type(fields: Json, of: Json, want: dict[str, int]) -> None:
    (wanted,) = gangs(role(**fields), of=of)
    assert dict(wanted.pods[0].requests) == want | {"pods": 1}


def test_pods_go_to_nodes_of_their_type_alone() -> None:
    def machine(name: str, **labels: str) -> Json:
        labels |= {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
        return node(name).at(block="b", rack="r").gpus(8).labelled(**labels)

    card = {f"acceleratable.feature.gpustack.ai/{GROUP}": "true"}
    there = cluster(
        machine("other", **{"gpustack.ai/managed": "true"}),
        machine("wild", **card),
        machine("right", **card, **{"gpustack.ai/managed": "true"}),
    )
    jobs = expand([deployment(role(size=2, topology={"requiredLevel": RACK})), instance_type()])
    gang = whole_gang(there, jobs, jobs.gangs[0], 0.0)
    assert isinstance(gang, Gang)
    found = ask(there, gang)
    assert isinstance(found, Fits)
    assert {place.node for place in found.places} == {"right"}


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param(
            {"instanceType": "h100"},
            "spec.roles[0].instanceType: must be an InstanceType that is known: it says what each "
            "pod asks for (got 'h100'); add it to the job file, or to those of the cluster: "
            "kubectl get instancetypes.worker.gpustack.ai -o json",
            id="a type that nobody gave",
        ),
        pytest.param(
            {"topology": {"requiredLevel": "kubernetes.io/hostname"}},
            "spec.roles[0].topology.requiredLevel: must not be the host level",
            id="the host as a level",
        ),
        pytest.param(
            {"topology": {"requiredLevel": "not a label"}},
            "spec.roles[0].topology.requiredLevel: must be a label key",
            id="no label key",
        ),
        pytest.param(
            {"resources": {"acceleratorPartitionedProfile": "3g.40gb"}},
            "spec.roles[0].resources.acceleratorPartitionedProfile: must not be set",
            id="part of an accelerator",
        ),
        pytest.param(
            {"resources": {"accelerator": "1.5"}},
            "spec.roles[0].resources.accelerator: must be a whole number",
            id="one and a half",
        ),
        pytest.param({"size": 65}, "spec.roles[0].size: must be at most 64", id="too big"),
    ],
)
def test_what_cannot_be_known_is_said_with_its_field(fields: Json, want: str) -> None:
    lines = refused(deployment(role(**fields)), instance_type())
    assert any(f"ModelDeployment team-a/qwen-chat: {want}" in line for line in lines), lines


def test_an_accelerator_of_an_unknown_manufacturer_is_refused() -> None:
    lines = refused(deployment(role()), instance_type(detail={"manufacturer": "acme"}))
    assert "InstanceType a10g: status.detail.manufacturer: must name a manufacturer" in lines[0]


def test_a_broken_instance_type_is_told_with_its_name() -> None:
    wrong = instance_type()
    del wrong["spec"]["unitResources"]
    assert refused(deployment(role()), wrong) == [
        "InstanceType a10g: spec.unitResources: must be present; add it"
    ]


def test_instance_types_are_not_looked_at_where_nothing_needs_them() -> None:
    wrong = instance_type()
    del wrong["spec"]["unitResources"]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "solo", "namespace": "default"},
        "spec": {},
    }
    assert len(expand([pod], [wrong]).gangs) == 1
