"""Waiting for the world to be as it should."""

import asyncio
import time
from collections.abc import Awaitable, Callable

SECONDS = 30.0


async def until(
    what: Callable[[], bool] | Callable[[], Awaitable[bool]], seconds: float = SECONDS
) -> float:
    """Return after how many seconds ``what`` held; fail when it does not in time."""
    began = time.monotonic()
    while True:
        found = what()
        if found if isinstance(found, bool) else await found:
            return time.monotonic() - began
        assert time.monotonic() - began < seconds, "gave up waiting"
        await asyncio.sleep(0.02)
