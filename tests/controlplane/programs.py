"""The programs of a real control plane: found, or built once from Go modules into a cache folder.

``python -m tests.controlplane.programs`` builds those that are missing, which takes five minutes on
two cores, and says where each one is. A folder named by ``KUBEBUILDER_ASSETS`` is looked at first.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

MODULES = Path(__file__).parent / "modules"


class NoGoError(RuntimeError):
    """Nothing can be built here."""


@dataclass(frozen=True, slots=True)
class Program:
    """One program.

    Attributes:
        name: of its file.
        module: the folder in ``modules`` that pins its version.
        package: what is built.
    """

    name: str
    module: str
    package: str


PROGRAMS = (
    Program("etcd", "etcd", "go.etcd.io/etcd/server/v3"),
    *(
        Program(name, "kube", f"k8s.io/kubernetes/cmd/{name}")
        for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
    ),
)
_VERSIONS = "k1.36.3-e3.6.16"  # as in the modules; a test holds it to them

# Always the same, or Go's own cache is of no use. Stripped, they start faster from a cold disk.
_FLAGS = ("-mod=readonly", "-trimpath", "-ldflags=-s -w")


def cache() -> Path:
    """Return the folder that keeps what was built."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "stowplan" / "controlplane" / _VERSIONS


def find(name: str) -> Path | None:
    """Return where a program is; None when it must be built."""
    folders = [Path(assets)] if (assets := os.environ.get("KUBEBUILDER_ASSETS")) else []
    for folder in (*folders, cache()):
        if os.access(file := folder / name, os.X_OK):
            return file
    return None


def missing() -> list[Program]:
    """Return the programs that are nowhere."""
    return [program for program in PROGRAMS if find(program.name) is None]


def build(programs: Iterable[Program]) -> None:
    """Build programs into the cache, one at a time; whoever else builds is waited for.

    Raises:
        NoGoError: Go is not there.
        RuntimeError: it refused.
    """
    if shutil.which("go") is None:
        raise NoGoError("go is not on PATH; install Go 1.26 or name a KUBEBUILDER_ASSETS folder")
    cache().mkdir(parents=True, exist_ok=True)
    with (cache().parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for program in programs:
            if find(program.name) is None:
                _build(program)


def _build(program: Program) -> None:
    began = time.monotonic()
    print(f"building {program.name} ...", flush=True)
    with tempfile.TemporaryDirectory(dir=cache()) as folder:
        file = Path(folder) / program.name
        done = subprocess.run(
            ["go", "build", *_FLAGS, "-o", str(file), program.package],
            cwd=MODULES / program.module,
            env={**os.environ, "CGO_ENABLED": "0"},
            stderr=subprocess.PIPE,
            text=True,
        )
        if done.returncode:
            last = "\n".join(done.stderr.splitlines()[-20:])
            raise RuntimeError(f"go could not build {program.name}:\n{last}")
        file.replace(cache() / program.name)
    print(f"built {program.name} in {time.monotonic() - began:.0f} s", flush=True)


def main() -> int:
    """Build what is missing; without Go say which tests will be skipped, which is no failure."""
    try:
        if programs := missing():
            build(programs)
    except NoGoError as error:
        print(f"no control plane, so its tests are skipped: {error}", file=sys.stderr)
        return 0
    for program in PROGRAMS:
        print(f"{program.name}: {find(program.name)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
