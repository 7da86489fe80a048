"""A blocking HTTP client of one connection, and the server process that it talks to."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

_START_SECONDS = 60.0
_ANSWER_SECONDS = 10.0
_STOP_SECONDS = 15.0


class Connection:
    """One kept-alive connection; small, so that little but the server is measured."""

    def __init__(self, port: int) -> None:
        """Connect to the loopback."""
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=_ANSWER_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(4 << 20)

    def close(self) -> None:
        """Close it."""
        self._socket.close()

    def exchange(self, request: bytes) -> int:
        """Send a request, read its whole answer and return where its body starts in the buffer.

        The answer stays in the buffer until the next exchange: see ``answer``.
        """
        self._socket.sendall(request)
        view = memoryview(self._buffer)
        filled = start = 0
        end = -1
        while end < 0 or filled < end:
            got = self._socket.recv_into(view[filled:])
            if not got:
                raise ConnectionError("the server closed the connection")
            filled += got
            if end < 0 and (at := self._buffer.find(b"\r\n\r\n", 0, filled)) >= 0:
                start = at + 4
                end = start + _length(bytes(self._buffer[:at]))
        self._end = end
        return start

    def answer(self, start: int) -> Any:
        """Return the JSON of the last answer."""
        return orjson.loads(self._buffer[start : self._end])

    def ask(self, method: str, path: str, body: bytes = b"") -> Any:
        """Send a request and return the JSON of its answer."""
        return self.answer(self.exchange(request(method, path, body)))


def request(method: str, path: str, body: bytes) -> bytes:
    """Return an HTTP request as kube-scheduler sends it."""
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: Go-http-client/1.1\r\n"
        f"Content-Length: {len(body)}\r\nContent-Type: application/json\r\n"
        "Accept-Encoding: identity\r\n\r\n"
    )
    return head.encode() + body


def _length(head: bytes) -> int:
    lines = head.split(b"\r\n")
    if not lines[0].startswith(b"HTTP/1.1 200 "):
        raise ConnectionError(f"must answer 200; got {lines[0].decode()}")
    for line in lines[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    raise ConnectionError("must answer with Content-Length")


@contextlib.contextmanager
def server(nodes: int, gangs: int) -> Iterator[tuple[Connection, int]]:
    """Run a server on a core of its own; yield a connection to it and its process id.

    This process moves to another core meanwhile, where there are two.
    """
    cores = sorted(os.sched_getaffinity(0))
    apart = len(cores) > 1
    arguments = [str(nodes), str(gangs), str(cores[1] if apart else -1)]
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.server", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        if apart:
            os.sched_setaffinity(0, {cores[0]})
        connection = Connection(_port(process))
        with contextlib.closing(connection):
            _require_who(connection, process.pid, nodes)
            yield connection, process.pid
            _require_who(connection, process.pid, nodes)
    finally:
        os.sched_setaffinity(0, cores)
        _stop(process)


def _port(process: "subprocess.Popen[bytes]") -> int:
    """Read the port; a server that hangs before it says one is killed by the timer."""
    timer = threading.Timer(_START_SECONDS, process.kill)
    timer.start()
    try:
        line = process.stdout.readline() if process.stdout else b""
    finally:
        timer.cancel()
    if not line:
        raise ConnectionError("the server ended before it listened")
    return int(line)


def _stop(process: "subprocess.Popen[bytes]") -> None:
    if process.stdin:
        process.stdin.close()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout:
        process.stdout.close()


def _require_who(connection: Connection, pid: int, nodes: int) -> None:
    """Check that the process that answers is the one that was started, and set up as asked.

    A server left behind by another run once answered for three configurations.
    """
    found: Mapping[str, Any] = connection.ask("GET", "/bench/who")
    want = {"pid": pid, "nodes": nodes, "loop": "uvloop"}
    if (got := {key: found[key] for key in want}) != want:
        raise ConnectionError(f"must be answered by {want}; got {got}")
