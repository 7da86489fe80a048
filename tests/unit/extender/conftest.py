"""Warm kernels, and every event that is logged as a dictionary."""

from collections.abc import Iterator, MutableMapping
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from stowplan.topology import jit


@pytest.fixture(autouse=True, scope="session")
def _kernels_are_warm() -> None:
    jit.warm_up()


@pytest.fixture(autouse=True)
def logged() -> Iterator[list[MutableMapping[str, Any]]]:
    """What is logged meanwhile, whatever an earlier test has configured."""
    structlog.reset_defaults()
    with capture_logs() as entries:
        yield entries
