"""``stowplan place`` and ``stowplan tree`` as whole processes: from the shell's start to their end.

The cluster is a file of JSON: 5,000 nodes of 2.4 kB, as a kubelet reports them without images, and
once more with 4,000 running pods of 4.3 kB. Bytecode is cached, as it is once a program has run.
"""

import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.clusters import BLOCK, GPU, RACK, Json, encoded, node_name, node_object, pod_object
from bench.report import Line
from bench.timings import Timings

_NODES = 5_000
_PODS = 4_000
_NODE_BYTES = 2_400
_GPUS = 8
_ROUNDS = 12
_BUDGET_SECONDS = 1.0
_LEVELS = f"{BLOCK},{RACK}"


@dataclass(frozen=True, slots=True)
class _Command:
    """One command line.

    Attributes:
        what: for people.
        arguments: what follows ``stowplan``.
        status: the exit status that it must have.
        says: what its answer must hold; an answer that is wrong would be fast for nothing.
    """

    what: str
    arguments: tuple[str, ...]
    status: int
    says: bytes
    timings: Timings = field(default_factory=Timings)


def measure() -> list[Line]:
    """Return the wall time of each command, in seconds."""
    with tempfile.TemporaryDirectory(prefix="stowplan-bench-") as name:
        folder = Path(name)
        commands = _commands(folder)
        environment = _environment(folder)
        for command in commands:
            _run(command, environment)  # writes the bytecode, and brings the files into memory
        for _ in range(_ROUNDS):
            for command in commands:
                wall, cpu = _run(command, environment)
                command.timings.add_round([wall], cpu)
    return [_line(command) for command in commands]


def _commands(folder: Path) -> list[_Command]:
    nodes = [_lean(number) for number in range(_NODES)]
    alone, busy = folder / "nodes.json", folder / "nodes-and-pods.json"
    _write(alone, nodes)
    _write(busy, [*nodes, *_running()])
    fits, wide = folder / "fits.json", folder / "wide.json"
    _write(fits, [_job(8, 4)])
    _write(wide, [_job(64, 8)])
    found = []
    for cluster, beside in ((alone, ""), (busy, f", {_PODS:,} pods")):
        common = ("--from-file", str(cluster), "--levels", _LEVELS)
        what = f"{_NODES:,} nodes{beside}"
        for job, status, says in (
            (fits, 0, b"fits: 8 pods"),
            (wide, 1, b"64 pods: nvidia.com/gpu"),
        ):
            found.append(
                _Command(
                    f"place, {'fits' if job is fits else 'does not fit'}, {what}",
                    ("place", *common, "--job", str(job)),
                    status,
                    says,
                )
            )
        found.append(_Command(f"tree, {what}", ("tree", *common), 0, b"LARGEST GANG"))
    return found


def _write(file: Path, objects: Sequence[Json]) -> None:
    file.write_bytes(encoded({"apiVersion": "v1", "kind": "List", "items": objects}))


def _lean(number: int) -> Json:
    """Return a node as large as one is whose images are left out."""
    node = node_object(number)
    node["apiVersion"] = "v1"
    node["metadata"]["labels"] |= {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "gpu-8",
    }
    node["spec"] = {"providerID": f"cloud:///zone/{number}"}
    status = node["status"]
    status["capacity"] = dict(status["allocatable"])
    seen = {"lastHeartbeatTime": "2026-01-01T00:00:00Z", "reason": "KubeletHasSufficient"}
    pressures = ("MemoryPressure", "DiskPressure", "PIDPressure")
    status["conditions"] = [
        *({"type": pressure, "status": "False", **seen} for pressure in pressures),
        {"type": "Ready", "status": "True", **seen},
    ]
    image = {"names": ["registry.example.com/image@sha256:0123456789"], "sizeBytes": 123_456_789}
    status["images"] = [image] * ((_NODE_BYTES - len(encoded(node))) // len(encoded(image)))
    return node


def _running() -> list[Json]:
    """Return pods that use about half of all GPUs, always on the same nodes."""
    draw = random.Random(_PODS)
    used = [0] * _NODES
    pods = []
    for number in range(_PODS):
        gpus = draw.choice((1, 2, 4, 8))
        node = draw.randrange(_NODES)
        while used[node] + gpus > _GPUS:
            node = draw.randrange(_NODES)
        used[node] += gpus
        pod = pod_object(f"running-{number}", None, 0, gpus=gpus)
        pod |= {"apiVersion": "v1", "kind": "Pod", "status": {"phase": "Running"}}
        pod["spec"]["nodeName"] = node_name(node)
        pods.append(pod)
    return pods


def _job(pods: int, gpus: int) -> Json:
    """Return a Job whose pods must share a rack."""
    container = {"name": "main", "resources": {"limits": {GPU: str(gpus)}}}
    template = {
        "metadata": {"annotations": {"stowplan.dev/required-topology": RACK}},
        "spec": {"containers": [container]},
    }
    spec = {"completionMode": "Indexed", "completions": pods, "parallelism": pods}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {**spec, "template": template},
    }


def _environment(folder: Path) -> dict[str, str]:
    """Return ours, without what changes how Python or stowplan start, and bytecode kept aside."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "STOWPLAN_", "NUMBA_"))
    }
    return {**kept, "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}


def _run(command: _Command, environment: Mapping[str, str]) -> tuple[int, int]:
    """Return wall and CPU nanoseconds of one process.

    Raises:
        RuntimeError: it answered something else than it should.
    """
    arguments = [sys.executable, "-m", "stowplan", *command.arguments]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter_ns()
    ended = subprocess.run(arguments, env=environment, stdout=subprocess.PIPE, check=False)
    wall = time.perf_counter_ns() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if ended.returncode != command.status or command.says not in ended.stdout:
        raise RuntimeError(f"{command.what} answered {ended.returncode}: {ended.stdout[:200]!r}")
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, int(seconds * 1e9)


def _line(command: _Command) -> Line:
    timings = command.timings
    seconds, cpu = timings.p50 / 1e6, timings.cpu_us / 1e6
    return Line(
        command.what,
        f"{seconds:.2f} s (CPU {cpu:.2f})",
        seconds,
        _BUDGET_SECONDS,
        "s",
        timings.facts(),
    )
