"""The only place that configures numba: one switch, one cache, one warm-up.

``STOWPLAN_JIT=0`` (or numba's own ``NUMBA_DISABLE_JIT=1``) leaves every kernel plain Python, and
numba is then not even imported: one decision is cheaper uncompiled than the import. There is no
second implementation of any kernel.

Compiled kernels are cached in ``$STOWPLAN_KERNEL_CACHE`` (default: ``stowplan/kernels`` in the
user's cache folder), under a name made from the kernels' own source: numba notices a change of the
file that a kernel stands in, but not of another file whose kernels it calls.
"""

import atexit
import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

ENABLED = os.environ.get("STOWPLAN_JIT", "1") != "0" and os.environ.get("NUMBA_DISABLE_JIT") != "1"


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Return ``function`` compiled (no fast-math, one thread), or as it is without JIT."""
    if not ENABLED:
        return function
    compiled: Callable[P, R] = _njit(cache=True, nogil=True)(function)
    return compiled


def warm_up() -> float:
    """Compile every kernel, or load it from the cache; return the seconds this took."""
    began = time.perf_counter()
    from stowplan.topology import (
        rehearsal,
    )  # late: it imports the kernels, which import this module

    rehearsal.run()
    return time.perf_counter() - began


def _cache_base() -> Path:
    named = os.environ.get("STOWPLAN_KERNEL_CACHE")
    if named:
        return Path(named)
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(home) / "stowplan" / "kernels"


def _source_digest() -> str:
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _writable_cache() -> Path:
    """Return a folder that numba may write to, warm if an earlier process left one.

    A read-only image carries a warm cache that numba would refuse, because it tests for write
    access; so it is copied to a temporary folder (about 2 MB).
    """
    cache = _cache_base() / _source_digest()
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=cache):
            return cache
    except OSError:
        copy = Path(tempfile.mkdtemp(prefix="stowplan-kernels-"))
        atexit.register(shutil.rmtree, copy, ignore_errors=True)
        for file in (f for f in cache.rglob("*") if f.is_file()):
            target = copy / file.relative_to(cache)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)  # content only: the copy must not be read-only too
        return copy


if ENABLED:
    # Numba reads its environment once, at import; an explicit NUMBA_CACHE_DIR is the user's will.
    if "NUMBA_CACHE_DIR" not in os.environ:
        os.environ["NUMBA_CACHE_DIR"] = str(_writable_cache())
    from numba import njit as _njit


if __name__ == "__main__":
    from stowplan.topology.jit import (
        warm_up as _warm_up,
    )  # this module's imported self, not __main__

    print(f"kernels ready in {_warm_up():.1f} s", file=sys.stderr)
