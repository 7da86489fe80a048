"""A real control plane for each module that asks for one."""

import os
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from stowplan.kube.access import Kubeconfig
from stowplan.kube.client import Kube
from tests.controlplane import programs
from tests.controlplane.bed import ControlPlane, control_plane

REQUIRED = "CONTROLPLANE_TESTS"  # "required" makes a missing program a failure


@pytest.fixture(scope="session")
def built() -> None:
    """Skip what needs programs that nobody built."""
    if missing := [program.name for program in programs.missing()]:
        reason = f"{', '.join(missing)} not built; make controlplane builds them, which needs Go"
        if os.environ.get(REQUIRED) == "required":
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.fixture(scope="module")
def plane(built: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Etcd and kube-apiserver."""
    with control_plane(tmp_path_factory.mktemp("plane")) as running:
        yield running


@pytest_asyncio.fixture
async def kube(plane: ControlPlane) -> AsyncIterator[Kube]:
    """Somebody who may do everything."""
    async with Kube(Kubeconfig((plane.admin,))) as admin:
        yield admin
