"""The wheel: what is in it, and that it runs where there is no checkout."""

import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.packaging import checkout

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("source")
    target = tmp_path_factory.mktemp("dist")
    checkout.copy(".", source)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--wheel-dir", target, source], check=True)
    (built,) = target.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a fresh environment that holds the wheel and borrows only what it depends on."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(folder), "install", "--quiet", "--no-deps"]
    subprocess.run([*pip, wheel], check=True)
    (packages,) = folder.glob("lib/python3*/site-packages")
    # A path entry: editable installs of the borrowed folder, ours among them, are not followed.
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib"))
    return folder


def test_it_holds_our_packages_and_the_licence_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    ours = {f for f in checkout.files() if f.startswith(("extender/", "stowplan/"))}
    metadata = {name for name in names if ".dist-info/" in name}

    assert names - metadata == ours
    assert {name.partition(".dist-info/")[2] for name in metadata} == {
        "METADATA",
        "RECORD",
        "WHEEL",
        "entry_points.txt",
        "licenses/LICENSE",
    }


@pytest.mark.parametrize("command", [["--help"], ["config"]], ids=" ".join)
def test_it_runs_outside_the_checkout(
    environment: Path, tmp_path: Path, command: list[str]
) -> None:
    done = subprocess.run(
        [environment / "bin" / "stowplan", *command],
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_what_runs_is_the_wheel_and_not_the_checkout(environment: Path, tmp_path: Path) -> None:
    print_origin = "import extender, stowplan; print(extender.__file__, stowplan.__file__)"
    done = subprocess.run(
        [environment / "bin" / "python", "-c", print_origin],
        cwd=tmp_path,
        env={},
        capture_output=True,
        text=True,
        check=True,
    )

    assert all(Path(file).is_relative_to(environment) for file in done.stdout.split())
