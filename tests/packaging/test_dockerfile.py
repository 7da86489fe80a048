"""The image: what the Dockerfile copies, installs and starts, without a container runtime."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packaging import checkout, dockerfile

pytestmark = pytest.mark.process

STAGES = dockerfile.read((checkout.ROOT / "Dockerfile").read_text())
BUILD, FINAL = STAGES


def test_every_copied_file_is_in_the_checkout_and_in_the_build_context() -> None:
    files = checkout.files()
    ignored = (checkout.ROOT / ".dockerignore").read_text().split()
    for copy in BUILD.copies():
        assert copy.stage is None
        for source in copy.sources:
            assert any(file == source or file.startswith(f"{source}/") for file in files), source
            assert f"!{Path(source).parts[0]}" in ignored, source


def test_the_final_image_takes_everything_from_the_build() -> None:
    assert [copy.stage for copy in FINAL.copies()] == [BUILD.name] * 2
    assert all(name not in {"RUN", "ADD"} for name, _ in FINAL.steps)
    assert FINAL.base == BUILD.base  # its Python is at the same path, in the same version


def test_the_user_is_a_number_and_not_root() -> None:
    user, group = FINAL.last("USER").split(":")
    assert int(user) > 0
    assert int(group) > 0


def test_commands_name_no_absolute_path_so_that_they_can_be_played_elsewhere() -> None:
    commands = [argument for name, argument in BUILD.steps if name == "RUN"]
    assert not [c for c in commands if re.search(r"(^|\s)/", c)]


@pytest.fixture(scope="module")
def image() -> Iterator[dockerfile.Image]:
    with tempfile.TemporaryDirectory(prefix="stowplan-image-") as folder:
        base = Path(folder, "base")
        subprocess.run([sys.executable, "-m", "venv", base], check=True)
        # Both stages are played at one path, because scripts know where they stand.
        root, aside = Path(folder, "root"), Path(folder, "build")
        build = dockerfile.Image(root, base)
        build.build(BUILD, {})
        root.rename(aside)
        build.root = aside
        final = dockerfile.Image(root, base)
        assert BUILD.name is not None
        final.build(FINAL, {BUILD.name: build})
        final.seal()
        yield final


@pytest.mark.slow
def test_the_image_holds_the_environment_and_the_kernels_and_nothing_else(
    image: dockerfile.Image,
) -> None:
    assert sorted(os.listdir(image.root / "opt/stowplan")) == ["env", "kernels"]
    (packages,) = image.root.glob("opt/stowplan/env/lib/python3*/site-packages")
    for absent in ("hatchling", "pip", "pytest", "tests"):
        assert not (packages / absent).exists(), absent


@pytest.mark.slow
def test_the_command_starts_from_a_read_only_root(image: dockerfile.Image) -> None:
    target = image.root / "opt/stowplan/env/written"
    assert image.run("python", "-c", f"open({str(target)!r}, 'w')").returncode != 0

    done = image.run(*image.entrypoint, "--help")

    assert done.returncode == 0, done.stderr
    assert "serve" in done.stdout


@pytest.mark.slow
def test_kernels_come_from_the_cache_of_the_image(image: dockerfile.Image) -> None:
    done = image.run("python", "-m", "stowplan.topology.jit", NUMBA_DEBUG_CACHE="1")

    assert done.returncode == 0, done.stderr
    assert "data loaded from" in done.stdout
    assert "data saved to" not in done.stdout  # which would mean: compiled anew
