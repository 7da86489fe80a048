import asyncio
import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from stowplan.serving.address import Address
from stowplan.serving.listener import Listener
from stowplan.serving.probes import probe_application
from stowplan.serving.readiness import Readiness
from stowplan.serving.run import run, serve

DEADLINE_SECONDS = 20.0
SERVER = Path(__file__).with_name("server.py")
REPOSITORY = Path(__file__).parents[3]
FOREVER = "3600"


def poll(what: Callable[[], bool]) -> None:
    """Return once ``what`` is true; fail when that takes too long."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not what():
        assert time.monotonic() < deadline, "gave up waiting"
        time.sleep(0.01)


@dataclass
class Server:
    """A running process of ``server.py``."""

    process: subprocess.Popen[str]
    address_file: Path
    _events: list[str] = field(default_factory=list)

    @property
    def addresses(self) -> list[Address]:
        return [Address.parse(line) for line in self.address_file.read_text().splitlines()]

    def connect(self, listener: int = 0) -> http.client.HTTPConnection:
        address = self.addresses[listener]
        connection = http.client.HTTPConnection(address.host, address.port, timeout=10)
        connection.connect()
        return connection

    def get(self, path: str, listener: int = 0) -> tuple[int, str, str | None]:
        with contextlib.closing(self.connect(listener)) as connection:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode(), response.getheader("Connection")

    def is_listening(self) -> bool:
        try:
            self.connect().close()
        except ConnectionRefusedError:
            return False
        return True

    def request_slowly(self) -> http.client.HTTPConnection:
        """Return a connection whose request is being handled right now."""
        connection = self.connect()
        connection.request("GET", "/slow")
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "running\n"
        return connection

    def let_it_finish(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("finished\n")
        self.process.stdin.flush()

    def logged(self) -> list[str]:
        """Wait for the end of the process, and return its events."""
        self.process.wait(DEADLINE_SECONDS)
        assert self.process.stderr is not None
        return [json.loads(line)["event"] for line in self.process.stderr]


@contextlib.contextmanager
def started(tmp_path: Path, *arguments: str) -> Iterator[Server]:
    drain_seconds, *others = arguments
    address_file = tmp_path / "address"
    process = subprocess.Popen(
        [sys.executable, str(SERVER), drain_seconds, str(address_file), *others],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield Server(process, address_file)
        finally:
            process.kill()


@contextlib.contextmanager
def serving(tmp_path: Path, drain_seconds: str) -> Iterator[Server]:
    with started(tmp_path, drain_seconds) as server:
        poll(lambda: server.address_file.exists() or server.process.poll() is not None)
        yield server


@pytest.mark.process
def test_after_sigterm_it_serves_and_asks_peers_to_leave(tmp_path: Path) -> None:
    with serving(tmp_path, FOREVER) as server:
        assert server.get("/readyz") == (200, "ok\n", None)
        running = server.request_slowly()
        server.process.send_signal(signal.SIGTERM)
        poll(lambda: server.get("/readyz")[0] == 503)
        assert server.get("/readyz") == (503, "draining\n", "close")
        assert server.get("/healthz", listener=1) == (200, "ok\n", "close")
        assert "stowplan_server_draining 1.0" in server.get("/metrics")[1]
        server.let_it_finish()
        response = running.getresponse()
        assert (response.status, response.read()) == (200, b"finished\n")
        assert response.getheader("Connection") == "close"
        running.close()
        assert server.process.poll() is None  # draining takes its time whatever goes on


@pytest.mark.process
def test_it_stops_by_itself_when_draining_is_over(tmp_path: Path) -> None:
    with serving(tmp_path, "0.1") as server:
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(DEADLINE_SECONDS) == 0
        want = ["listening", "listening", "stop requested", "draining", "stopped"]
        assert server.logged() == want


@pytest.mark.process
@pytest.mark.parametrize(
    "signals",
    [
        pytest.param([signal.SIGINT], id="control-C at a terminal"),
        pytest.param([signal.SIGTERM, signal.SIGTERM], id="SIGTERM for the second time"),
        pytest.param([signal.SIGTERM, signal.SIGINT], id="control-C while it drains"),
    ],
)
def test_a_hurry_ends_the_waiting(signals: list[signal.Signals], tmp_path: Path) -> None:
    with serving(tmp_path, FOREVER) as server:
        for number, name in enumerate(signals):
            if number > 0:
                poll(lambda: server.get("/readyz")[0] == 503)
            server.process.send_signal(name)
        assert server.process.wait(DEADLINE_SECONDS) == 0
        assert server.logged()[-1] == "stopped"


@pytest.mark.process
def test_a_request_that_is_running_when_draining_ends_is_finished(tmp_path: Path) -> None:
    with serving(tmp_path, "0") as server:
        running = server.request_slowly()
        server.process.send_signal(signal.SIGTERM)
        poll(lambda: not server.is_listening())
        server.let_it_finish()
        response = running.getresponse()
        assert (response.status, response.read()) == (200, b"finished\n")
        running.close()
        assert server.process.wait(DEADLINE_SECONDS) == 0


@pytest.mark.process
def test_a_signal_while_it_starts_ends_it_without_draining(tmp_path: Path) -> None:
    with started(tmp_path, FOREVER, "slow-start") as server:
        assert server.process.stdout is not None
        assert server.process.stdout.readline() == "starting\n"
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(DEADLINE_SECONDS) == 0
        assert server.logged() == ["listening", "stop requested"]
        assert not server.address_file.exists()


def probes(readiness: Readiness) -> list[Listener]:
    return [Listener("probes", probe_application(readiness), Address("127.0.0.1", 0))]


async def test_an_error_beside_the_servers_ends_them_and_is_raised() -> None:
    async def broken() -> None:
        raise LookupError("a bug in the watch")

    readiness = Readiness()
    with pytest.raises(LookupError, match="a bug in the watch"):
        await serve(probes(readiness), readiness, 0, background=[broken])
    assert not readiness.draining


async def test_what_runs_beside_the_servers_ends_with_them() -> None:
    ended = asyncio.Event()

    async def watch() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def brief() -> None:
        """Ends long before; that is no reason to stop serving."""

    readiness = Readiness()
    async with asyncio.timeout(DEADLINE_SECONDS):
        await serve(probes(readiness), readiness, 0, background=[brief, watch])
    assert ended.is_set()


async def test_a_cancellation_from_outside_is_not_taken_for_a_signal() -> None:
    readiness = Readiness()
    task = asyncio.create_task(serve(probes(readiness), readiness, 0))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_run_returns_what_its_coroutine_returns_on_uvloop() -> None:
    async def loop() -> str:
        return type(asyncio.get_running_loop()).__module__

    assert run(loop()) == "uvloop"
