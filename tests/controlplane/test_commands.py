"""The commands that ask a live cluster, as an operator runs them."""

import asyncio
import json
import os
import subprocess
import sys

import pytest

from tests.controlplane.bed import ControlPlane
from tests.controlplane.world import CRDS, LEVELS, ROOT, World, gang, install, world

pytestmark = [pytest.mark.controlplane, pytest.mark.slow]


async def stowplan(it: World, *arguments: str) -> tuple[int, str]:
    """Run a command; return its exit status and what it printed."""
    command = [sys.executable, "-m", "stowplan", *arguments]
    whole = [*command, "--kubeconfig", str(it.plane.admin)]
    done = await asyncio.to_thread(
        subprocess.run, whole, cwd=ROOT, env={**os.environ}, capture_output=True, text=True
    )
    assert done.stderr == "", done.stderr
    return done.returncode, done.stdout


async def test_an_operator_sees_which_gangs_wait_and_why(plane: ControlPlane) -> None:
    async with world(plane) as it:
        assert await stowplan(it, "gangs") == (0, "No gang asks for topology.\n")
        await it.nodes({"b1/r1": 4})
        await it.make(gang("train", 3))
        await it.whole("train", 3)
        await it.phase("pod-group.train", "Bound")
        assert (await stowplan(it, "gangs"))[0] == 0
        await it.make([*gang("wide", 5), *gang("half", 2)[:1]])
        await it.phase("pod-group.wide", "Waiting")
        await it.phase("pod-group.half", "Incomplete")
        status, text = await stowplan(it, "gangs")
        assert status == 1
        rows = [" ".join(line.split()) for line in text.splitlines()]
        assert rows == [
            "GANG KIND SIZE PHASE DOMAIN WHY IT WAITS",
            "default/half pod-group 2 Incomplete - "
            "Incomplete: waiting for the other pods of the gang",
            "default/train pod-group 3 Bound b1/r1",
            "default/wide pod-group 5 Waiting - NoDomainFits: "
            "no topology.example.com/rack domain fits all 5 pods: nvidia.com/gpu",
        ]
        status, text = await stowplan(it, "gangs", "--phase", "Bound", "-o", "json")
        (found,) = json.loads(text)["gangs"]
        assert (found["name"], found["phase"], found["domain"]) == ("train", "Bound", ["b1", "r1"])
        assert {seat["pod"]: seat["node"] for seat in found["seats"]} == it.bound("train")


async def test_place_and_tree_ask_the_live_cluster(plane: ControlPlane) -> None:
    async with world(plane) as it:
        await it.nodes({"b1/r1": 2, "b1/r2": 2})
        await it.make(gang("train", 2, gpus=4))
        await it.whole("train", 2)
        levels = ("--levels", LEVELS)
        status, text = await stowplan(it, "tree", *levels, "-o", "json")
        assert status == 0
        (gpus,) = [
            each for name, each in json.loads(text)["cluster"]["room"].items() if "gpu" in name
        ]
        assert (gpus["total"], gpus["free"]) == (32, 24)
        job = str(ROOT / "examples/jobs/fits.yaml")
        status, text = await stowplan(it, "place", *levels, "--job", job)
        assert status == 0
        assert text.startswith("Job default/train fits: 4 pods in topology.example.com/rack b1/r")


async def test_a_cluster_without_our_kinds_is_told_what_to_do(plane: ControlPlane) -> None:
    async with world(plane) as it:
        await it.kube.delete(CRDS, "", "placements.stowplan.dev")
        command = [sys.executable, "-m", "stowplan", "gangs", "--kubeconfig", str(plane.admin)]
        done = await asyncio.to_thread(
            subprocess.run, command, cwd=ROOT, capture_output=True, text=True
        )
        assert done.returncode == 2
        assert "kubectl apply -f manifests/crds/" in done.stderr
        await install(it.kube)
