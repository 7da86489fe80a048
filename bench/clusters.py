"""Synthetic clusters and pods: 16 hosts a rack, 32 racks a block, 8 GPUs a host, half of them used.

Everything goes through the same models that real objects go through.
"""

import random
from typing import Any

import orjson

from stowplan.api.models import core
from stowplan.api.models.wire import read
from stowplan.placement import keys
from stowplan.placement.cluster import Cluster, Policy
from stowplan.placement.gangs import Gang, GangId, assemble
from stowplan.placement.records import Amounts, NodeRecord, PodRecord
from stowplan.topology.levels import HOSTNAME, Levels

BLOCK = "topology.example.com/block"
RACK = "topology.example.com/rack"
GPU = "nvidia.com/gpu"
NAME_LENGTH = 41  # characters, as on the cloud that the prototype imitated

Json = dict[str, Any]

_HOSTS_A_RACK = 16
_RACKS_A_BLOCK = 32
_GPUS = 8
_POD_BYTES = 4_300
ONE_POD: Amounts = (("cpu", 4_000), ("memory", 32 << 30), (GPU, 1), ("pods", 1))


def node_name(number: int) -> str:
    """Return the name of a node, ``NAME_LENGTH`` characters."""
    rack, host = divmod(number, _HOSTS_A_RACK)
    block, rack = divmod(rack, _RACKS_A_BLOCK)
    return f"gpu-node-b{block:03}-r{rack:02}-h{host:02}.cluster.example.com"


def node_object(number: int) -> Json:
    """Return a node: 64 cores, 512 Gi, 8 GPUs, 110 pods."""
    name = node_name(number)
    rack = number // _HOSTS_A_RACK
    labels = {
        BLOCK: f"b{rack // _RACKS_A_BLOCK:03}",
        RACK: f"r{rack % _RACKS_A_BLOCK:02}",
        HOSTNAME: name,
    }
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {
            "allocatable": {"cpu": "64", "memory": "512Gi", GPU: str(_GPUS), "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def cluster(nodes: int) -> Cluster:
    """Return a cluster in which each node has 0 to 8 GPUs in use, always the same ones."""
    made = Cluster(Policy(Levels.over_hosts([BLOCK, RACK])))
    draw = random.Random(nodes)
    for number in range(nodes):
        node = NodeRecord.of(read(core.Node, node_object(number), "a node"))
        made.state.set_node(node)
        used = draw.randint(0, _GPUS)
        made.state.take(node.name, tuple((name, amount * used) for name, amount in ONE_POD))
    made.state.view()
    return made


def pod_object(name: str, gang: str | None, size: int, level: str = RACK, gpus: int = 1) -> Json:
    """Return a pending pod as large as real ones are; without a gang it asks for nothing."""
    annotations = {"kubernetes.io/config.source": "api"}
    labels = {"app": "training"}
    if gang is not None:
        labels[keys.POD_GROUP_NAME] = gang
        annotations |= {keys.POD_GROUP_COUNT: str(size), keys.REQUIRED[0]: level}
    resources = {"cpu": str(4 * gpus), "memory": f"{32 * gpus}Gi", GPU: str(gpus)}
    pod: Json = {
        "metadata": {
            "name": name,
            "namespace": "training",
            "uid": f"00000000-0000-4000-8000-{name}",
            "resourceVersion": "123456",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": labels,
            "annotations": annotations,
            "managedFields": [],
        },
        "spec": {
            "volumes": [{"name": "token", "projected": {"sources": [], "defaultMode": 420}}],
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example.com/training:1",
                    "resources": {"limits": resources, "requests": resources},
                    "env": [],
                    "terminationMessagePolicy": "File",
                    "imagePullPolicy": "IfNotPresent",
                }
            ],
            "restartPolicy": "Never",
            "schedulerName": "default-scheduler",
            "tolerations": [
                {"key": f"node.kubernetes.io/{word}", "operator": "Exists", "effect": "NoExecute"}
                for word in ("not-ready", "unreachable")
            ],
            "priority": 0,
        },
        "status": {"phase": "Pending", "qosClass": "Guaranteed"},
    }
    return _as_large_as_real_ones(pod)


def _as_large_as_real_ones(pod: Json) -> Json:
    """Add what makes pods large and nobody reads here: environment and managed fields."""
    env = pod["spec"]["containers"][0]["env"]
    fields: Json = {f"f:field-{n}": {".": {}, "f:value": {}} for n in range(20)}
    pod["metadata"]["managedFields"].append({"manager": "kubelet", "fieldsV1": fields})
    entry = {"name": "NCCL_SETTING_00", "value": "a value of usual length"}
    env += [entry] * ((_POD_BYTES - len(encoded(pod))) // (len(encoded(entry)) + 1))
    return pod


def encoded(obj: Json) -> bytes:
    """Return an object as Go writes it: no spaces."""
    return orjson.dumps(obj)


def pods(gang: str, size: int, level: str = RACK, gpus: int = 1) -> list[PodRecord]:
    """Return the pods of a complete gang."""
    return [
        PodRecord.of(read(core.Pod, pod_object(f"{gang}-{i}", gang, size, level, gpus), gang))
        for i in range(size)
    ]


def whole_gang(
    cluster: Cluster, name: str, size: int, level: str = RACK, gpus: int = 1
) -> tuple[Gang, list[PodRecord]]:
    """Return a gang that is ready to be placed, and its pods."""
    members = pods(name, size, level, gpus)
    gang = assemble(GangId("training", "pod-group", name), members, cluster.owners)
    if not isinstance(gang, Gang):
        raise ValueError(f"must be a complete gang; got {gang}")
    return gang, members
