"""The files of this checkout as git would hand them to somebody else."""

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def files() -> frozenset[str]:
    """Return every file that is tracked, or new and not ignored, relative to the root."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return frozenset(f for f in listed.stdout.split("\0") if f and (ROOT / f).is_file())


def copy(source: str, target: Path) -> None:
    """Copy one file, or what is tracked of one folder (``"."`` for all), to ``target``."""
    if (ROOT / source).is_file():
        _copy_file(ROOT / source, target)
    else:
        prefix = "" if source == "." else f"{source}/"
        for file in files():
            if file.startswith(prefix):
                _copy_file(ROOT / file, target / file.removeprefix(prefix))


def _copy_file(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target)
