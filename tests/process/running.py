"""A real ``stowplan serve``, started here and ended here, by its own process id."""

import contextlib
import http.client
import json
import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from stowplan.serving.address import Address
from tests.contract import go

REPOSITORY = Path(__file__).resolve().parents[2]
LEVELS = "topology.example.com/block,topology.example.com/rack"
DEADLINE_SECONDS = 120.0  # even if every kernel must be compiled, on busy cores
NAMES = ("b1-r1-x1", "b1-r1-x2", "b1-r2-x1", "b1-r2-x2", "b2-r1-x1", "b2-r1-x2")


def poll(what: Callable[[], bool], process: subprocess.Popen[str] | None = None) -> None:
    """Return when ``what`` holds; fail at the deadline, or when ``process`` ends before."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not what():
        assert time.monotonic() < deadline, "gave up waiting"
        assert process is None or process.poll() is None, "the process has ended"
        time.sleep(0.02)


@dataclass(slots=True)
class Running:
    """A process that listens.

    Attributes:
        process: the process itself.
        addresses: one per listener, the extender's first.
        log: where its log goes, as JSON.
    """

    process: subprocess.Popen[str]
    addresses: list[Address]
    log: Path

    def get(self, path: str, listener: int = 0) -> tuple[int, str]:
        """Return status and text of one GET over plain HTTP."""
        port = self.addresses[listener].port
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as peer:
            peer.request("GET", path)
            response = peer.getresponse()
            return response.status, response.read().decode()

    def post(self, verb: str, body: bytes, tls: ssl.SSLContext | None = None) -> bytes:
        """Return the answer to one call."""
        port = self.addresses[0].port
        peer: http.client.HTTPConnection = (
            http.client.HTTPSConnection("localhost", port, timeout=30, context=tls)
            if tls
            else http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        )
        with contextlib.closing(peer):
            peer.request("POST", f"/{verb}", body)
            response = peer.getresponse()
            assert response.status == 200
            return response.read()

    def filter(self, pod: Any, names: tuple[str, ...] = NAMES) -> go.FilterResult:
        """Ask where ``pod`` may go."""
        body = orjson.dumps({"Pod": pod, "Nodes": None, "NodeNames": names})
        return go.filter_result(self.post("filter", body))

    def metric(self, series: str) -> float:
        """Return the value of a series, written as in the exposition."""
        _, text = self.get("/metrics", listener=len(self.addresses) - 1)
        values = [line.rpartition(" ")[2] for line in text.splitlines() if _names(line, series)]
        assert len(values) == 1, f"no series {series}"
        return float(values[0])

    def logged(self, event: str) -> list[dict[str, Any]]:
        """Return the entries of one event."""
        lines = self.log.read_text(encoding="utf-8").splitlines()
        return [entry for line in lines if (entry := json.loads(line))["event"] == event]

    def ready(self) -> bool:
        """Whether it wants requests."""
        return self.get("/readyz", listener=len(self.addresses) - 1)[0] == 200

    def end(self, name: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and return the exit status."""
        self.process.send_signal(name)
        return self.process.wait(DEADLINE_SECONDS)


def _names(line: str, series: str) -> bool:
    return line.startswith(f"{series} ")


def command(*flags: str) -> list[str]:
    """Return how ``stowplan serve`` is started with these flags."""
    return [sys.executable, "-m", "stowplan", "serve", *flags]


def environment(**more: str) -> dict[str, str]:
    """Return our environment without settings of stowplan's own, except the kernel cache."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("STOWPLAN_") or name in ("STOWPLAN_KERNEL_CACHE", "STOWPLAN_JIT")
    }
    return {**kept, **more}


@contextlib.contextmanager
def running(folder: Path, *flags: str, uncompiled: bool = False) -> Iterator[Running]:
    """Start it, wait until it is ready, and kill it in the end if it still runs.

    ``uncompiled`` starts in a fraction of the time, for tests to which kernels do not matter.
    """
    folder.mkdir(exist_ok=True)
    address_file, log = folder / "addresses", folder / "log"
    address_file.unlink(missing_ok=True)
    common = ("--listen", "127.0.0.1:0", "--address-file", str(address_file))
    with log.open("w", encoding="utf-8") as stderr:
        process = subprocess.Popen(
            command(*common, *flags),
            cwd=REPOSITORY,
            env=environment(**({"STOWPLAN_JIT": "0"} if uncompiled else {})),
            stderr=stderr,
            text=True,
        )
    try:
        poll(address_file.exists, process)
        lines = address_file.read_text(encoding="utf-8").splitlines()
        it = Running(process, [Address.parse(line) for line in lines], log)
        poll(it.ready, process)
        yield it
    finally:
        process.kill()
        process.wait(DEADLINE_SECONDS)
