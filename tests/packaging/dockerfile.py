"""Reads a Dockerfile and plays it in a folder: enough for ours, and loud about anything else.

No base image can be pulled where these tests run. A fresh virtual environment stands for the base
image's Python, a folder for its root; ``/opt`` and ``/tmp`` of the image become folders under it.
"""

import ctypes
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.packaging import checkout

# How this machine reaches its package index, and keeps what it downloaded, is its own affair.
_NETWORK = re.compile(r"PIP_.*|SSL_CERT_.*|REQUESTS_CA_BUNDLE|(https?|no|all)_proxy", re.IGNORECASE)
_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE = 24, 1


@dataclass(frozen=True, slots=True)
class Copy:
    """One COPY instruction."""

    stage: str | None  # None: from the checkout
    sources: tuple[str, ...]
    target: str


@dataclass(slots=True)
class Stage:
    """One FROM and what follows it."""

    base: str
    name: str | None
    steps: list[tuple[str, str]] = field(default_factory=list)

    def last(self, instruction: str) -> str:
        """Return the argument of the last ``instruction``, the one that counts."""
        return [argument for name, argument in self.steps if name == instruction][-1]

    def copies(self) -> Iterator[Copy]:
        """Yield every COPY."""
        for name, argument in self.steps:
            if name == "COPY":
                yield _copy(argument)


def read(text: str) -> list[Stage]:
    """Return the stages of a Dockerfile."""
    stages: list[Stage] = []
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        name, _, argument = line.strip().partition(" ")
        if name == "FROM":
            base, _, stage = argument.partition(" AS ")
            stages.append(Stage(base, stage or None))
        elif name and stages:
            stages[-1].steps.append((name, argument.strip()))
    return stages


def _copy(argument: str) -> Copy:
    *words, target = argument.split()
    stage = None
    if words[0].startswith("--from="):
        stage = words.pop(0).removeprefix("--from=")
    return Copy(stage, tuple(words), target)


class Image:
    """What a stage leaves behind: a root folder, an environment and a working folder."""

    def __init__(self, root: Path, base: Path) -> None:
        """Start from an empty ``root`` and the Python in ``base``."""
        self.root = root
        self.base = base
        self.folder = "/"
        self.volumes: list[str] = []
        self.entrypoint: list[str] = []
        self.env = {
            "HOME": str(root / "nobody"),
            "XDG_CACHE_HOME": str(root / "nobody" / "cache"),
            "LANG": "C.UTF-8",
            "PATH": f"{base / 'bin'}:/usr/bin:/bin",
            "TMPDIR": str(root / "tmp"),
        }
        (root / "tmp").mkdir(parents=True)

    def at(self, path: str) -> Path:
        """Return where ``path`` of the image stands on this machine."""
        return self.root / os.path.normpath(os.path.join(self.folder, path)).lstrip("/")

    def build(self, stage: Stage, earlier: dict[str, "Image"]) -> None:
        """Carry out the instructions of ``stage``."""
        for name, argument in stage.steps:
            match name:
                case "COPY":
                    self._copy(_copy(argument), earlier)
                case "ENV":
                    pairs = (word.partition("=") for word in shlex.split(argument))
                    self.env |= {key: self._rooted(value) for key, _, value in pairs}
                case "WORKDIR":
                    self.folder = os.path.join(self.folder, argument)
                    self.at(".").mkdir(parents=True, exist_ok=True)
                case "RUN":
                    network = {k: v for k, v in os.environ.items() if _NETWORK.fullmatch(k)}
                    shell = ["/bin/sh", "-ec", argument]
                    done = self._start(shell, network | self.env)
                    assert done.returncode == 0, f"RUN {argument}\n{done.stdout}{done.stderr}"
                case "VOLUME":
                    self.volumes.append(argument)
                case "ENTRYPOINT":
                    self.entrypoint = json.loads(argument)
                case "CMD" | "EXPOSE" | "USER":
                    pass
                case _:
                    raise NotImplementedError(f"this reader does not know {name}")

    def seal(self) -> None:
        """Take away every right to write, but on volumes."""
        open_to_all = [self.at(volume) for volume in self.volumes]
        for folder, _, names in os.walk(self.root, topdown=False):
            if any(Path(folder).is_relative_to(volume) for volume in open_to_all):
                continue
            for path in [*(Path(folder, name) for name in names), Path(folder)]:
                if not path.is_symlink():
                    path.chmod(path.stat().st_mode & ~0o222)

    def run(self, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run ``command`` as in a container with a read-only root, after ``seal``."""
        return self._start(command, self.env | env, may_override=False)

    def _start(
        self, command: list[str] | tuple[str, ...], env: dict[str, str], may_override: bool = True
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.at("."),
            env=env,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
            preexec_fn=None if may_override else _obey_file_modes,
        )

    def _copy(self, copy: Copy, earlier: dict[str, "Image"]) -> None:
        for source in copy.sources:
            target = self.at(copy.target)
            if copy.stage is not None:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.move(earlier[copy.stage].at(source), target)
                _forget_fractions_of_seconds(target)
            elif copy.target.endswith("/"):
                checkout.copy(source, target / Path(source).name)
            else:
                checkout.copy(source, target)

    def _rooted(self, value: str) -> str:
        moved = re.sub(r"(?<![^:])/opt/", f"{self.root}/opt/", value)
        return moved.replace("/usr/local/bin", f"{self.base}/bin")


def _forget_fractions_of_seconds(tree: Path) -> None:
    """Do to times of change what packing a layer does."""
    for folder, _, names in os.walk(tree):
        for name in names:
            path = Path(folder, name)
            if not path.is_symlink():
                os.utime(path, (int(path.stat().st_mtime),) * 2)


def _obey_file_modes() -> None:
    # Root ignores file modes by a capability; a process gives it up for what it executes next.
    if sys.platform == "linux" and os.geteuid() == 0:
        ctypes.CDLL(None).prctl(_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE)
