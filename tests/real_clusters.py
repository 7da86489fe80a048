"""Clusters that exist, or that Topograph models, as plain Kubernetes Node objects.

Each function returns what ``kubectl get nodes -o json`` would list under ``items``: the production
cluster whose three switch tiers Alibaba published (Lingjun), and Topograph's models of networks.

The data is not part of this repository: it lies in $STOWPLAN_SHARED, or else in the folder
``shared`` beside the repository. What it does not say (GPUs, cores, memory per node) is set here.
"""

import csv
import gzip
import os
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

Json = dict[str, Any]  # a Kubernetes object

REPOSITORY = Path(__file__).resolve().parents[1]

HOSTNAME = "kubernetes.io/hostname"
DSW = "network.example.com/dsw"
PSW = "network.example.com/psw"
ASW = "network.example.com/asw"
TIER = "fabric.topograph.run/tier-{}"  # tier 0 is nearest the node
ACCELERATOR_DOMAIN = "accelerator.topograph.run/domain"
ACCELERATOR_SUB_DOMAIN = "accelerator.topograph.run/sub-domain"

TOPOGRAPH_MODELS = (
    "dual-xclr-irregular",
    "dual-xclr-regular",
    "large",
    "medium",
    "nvl72",
    "small-tree",
)

# Level keys, coarse to fine, without the host. The accelerator domain is no tier: where it spans
# several leafs it lies above them, so that it is a dimension of its own.
LEVELS_OF = {
    "lingjun": (DSW, PSW, ASW),
    "small-tree": (TIER.format(1), TIER.format(0)),
} | {
    model: (TIER.format(2), TIER.format(1), TIER.format(0))
    for model in TOPOGRAPH_MODELS
    if model != "small-tree"
}

_REMEDY = "set STOWPLAN_SHARED to the folder that holds data/"
_NAME_DIGITS = 16  # of the 64 in a host's hash: enough to stay unique, short enough for a label
_ALLOCATABLE = {"cpu": "128", "memory": "1Ti", "nvidia.com/gpu": "8", "pods": "110"}
_MODEL_ANNOTATIONS = {
    "accelerator.topology.test/domain": ACCELERATOR_DOMAIN,
    "accelerator.topology.test/sub-domain": ACCELERATOR_SUB_DOMAIN,
}
_RANGE = re.compile(r"(?P<prefix>[^\[\]]*)\[(?P<parts>[0-9,-]+)\](?P<suffix>[^\[\]]*)")


def lingjun_nodes(*, qualified_racks: bool = False) -> list[Json]:
    """Return the 847 hosts of the Lingjun cluster, in the order of the file.

    Args:
        qualified_racks: write ``P10-S14`` as the access switch instead of ``S14``, which is unique
            only below its aggregation switch.

    Raises:
        FileNotFoundError: the trace is not here.
    """
    path = shared_folder() / "data" / "traces" / "lingjun2023" / "lingjun_topo.csv.gz"
    if not path.is_file():
        raise FileNotFoundError(f"no Lingjun topology at {path}; {_REMEDY}")
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        hosts = list(csv.DictReader(file))
    nodes = []
    for host in hosts:
        rack = f"{host['PSW']}-{host['ASW']}" if qualified_racks else host["ASW"]
        labels = {DSW: host["DSW"], PSW: host["PSW"], ASW: rack}
        nodes.append(_node(f"lingjun-{host['ip'][:_NAME_DIGITS]}", labels))
    if len({node["metadata"]["name"] for node in nodes}) != len(nodes):
        raise ValueError(f"{_NAME_DIGITS} digits of the host hashes no longer tell all hosts apart")
    return nodes


def topograph_nodes(model: str) -> list[Json]:
    """Return the nodes of a model, labelled as Topograph 1.x labels them, in the model's order.

    Raises:
        FileNotFoundError: the model is not here.
    """
    path = shared_folder() / "data" / "topograph" / f"{model}.yaml"
    if not path.is_file():
        raise FileNotFoundError(f"no Topograph model at {path}; {_REMEDY}")
    tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    switches: dict[str, Json] = tree["switches"]
    parent_of = {
        child: name for name, switch in switches.items() for child in switch.get("switches", [])
    }
    nodes = []
    for block in tree["blocks"]:
        above = list(_upwards(block["switch"], parent_of))
        labels = {TIER.format(tier): switch for tier, switch in enumerate(above)}
        for switch in reversed(above):  # the nearest switch has the last word
            labels |= switches.get(switch, {}).get("labels", {})
        labels |= block.get("labels", {})
        for annotation, value in block.get("annotations", {}).items():
            labels[_MODEL_ANNOTATIONS[annotation]] = value
        labels["kwok.x-k8s.io/node"] = "fake"
        for name in (name for text in block["nodes"] for name in _expanded(text)):
            annotations = {
                "topograph.run/instance": f"i-{name}",
                "topograph.run/region": labels.get("topology.kubernetes.io/region", "none"),
            }
            nodes.append(_node(name.lower(), labels, annotations))
    return nodes


def shared_folder() -> Path:
    """Return the folder of shared data; read at each call, so that a test can move it."""
    return Path(os.environ.get("STOWPLAN_SHARED", REPOSITORY.parent / "shared"))


def _upwards(switch: str, parent_of: dict[str, str]) -> Iterator[str]:
    """Yield the switch and all above it, nearest first."""
    at: str | None = switch
    while at is not None:
        yield at
        at = parent_of.get(at)


def _expanded(text: str) -> Iterator[str]:
    """Yield the names of a range: ``n[01-03,7]`` is n01, n02, n03, n7; a plain name is itself."""
    match = _RANGE.fullmatch(text)
    if match is None:
        yield text
        return
    for part in match["parts"].split(","):
        first, _, last = part.partition("-")
        for number in range(int(first), int(last or first) + 1):
            # The first number's width is kept: leading zeros are part of a name.
            yield f"{match['prefix']}{number:0{len(first)}}{match['suffix']}"


def _node(name: str, labels: dict[str, str], annotations: dict[str, str] | None = None) -> Json:
    """Return one ready Node; its uid follows from its name, so that equal input is equal output."""
    metadata: Json = {
        "name": name,
        "uid": str(uuid.uuid5(uuid.NAMESPACE_DNS, name)),
        "labels": {**labels, HOSTNAME: name},
    }
    if annotations:
        metadata["annotations"] = annotations
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": {},
        "status": {
            "allocatable": dict(_ALLOCATABLE),
            "capacity": dict(_ALLOCATABLE),
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }
