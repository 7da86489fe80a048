"""Which build of stowplan runs."""

import functools
import importlib.metadata

UNKNOWN = "unknown"


@functools.cache
def version() -> str:
    """Return the installed version, or ``unknown`` in a source tree that nobody installed."""
    try:
        return importlib.metadata.version("stowplan")
    except importlib.metadata.PackageNotFoundError:
        return UNKNOWN
