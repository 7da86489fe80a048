"""What every test runs under: one hypothesis profile, and no blocking call on an event loop."""

import os
from collections.abc import Iterator

import pytest
from blockbuster import blockbuster_ctx
from hypothesis import settings

# No deadline: the first call of a kernel compiles it. In CI the same examples each time.
settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")


@pytest.fixture(autouse=True, scope="session")
def _no_blocking_call_in_a_coroutine() -> Iterator[None]:
    with blockbuster_ctx(scanned_modules=["extender", "stowplan"]) as found:
        for function in found.functions.values():
            # It runs in a thread that has nothing else to do, on a loop of its own.
            function.can_block_in("stowplan/kube/access.py", "load")
        yield
