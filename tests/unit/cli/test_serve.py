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

import pytest

from stowplan.serving.address import Address

DEADLINE_SECONDS = 30.0
REPOSITORY = Path(__file__).parents[3]

pytestmark = pytest.mark.process


def poll(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not what():
        assert time.monotonic() < deadline, "gave up waiting"
        time.sleep(0.01)


@dataclass(frozen=True, slots=True)
class Served:
    """A running ``stowplan serve``."""

    process: subprocess.Popen[str]
    addresses: list[Address]
    log: Path

    def get(self, path: str, listener: int = 0, tls: ssl.SSLContext | None = None) -> str:
        """Return status and text of one GET."""
        port = self.addresses[listener].port
        connection: http.client.HTTPConnection = (
            http.client.HTTPSConnection("localhost", port, timeout=10, context=tls)
            if tls
            else http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        )
        with contextlib.closing(connection):
            connection.request("GET", path)
            response = connection.getresponse()
            return f"{response.status} {response.read().decode()}"

    def logged(self, event: str) -> list[dict[str, Any]]:
        entries = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [entry for entry in entries if entry["event"].startswith(event)]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "stowplan", "serve", *arguments]


def environment() -> dict[str, str]:
    # Uncompiled kernels: what is served does not matter here, and compiling takes half a minute.
    return {**os.environ, "STOWPLAN_JIT": "0"}


@contextlib.contextmanager
def served(tmp_path: Path, *arguments: str) -> Iterator[Served]:
    address_file, log = tmp_path / "addresses", tmp_path / "log"
    common = ("--listen", "127.0.0.1:0", "--address-file", str(address_file))
    with log.open("w") as stderr:
        process = subprocess.Popen(
            command(*common, *arguments),
            cwd=REPOSITORY,
            env=environment(),
            stderr=stderr,
            text=True,
        )
    with process:
        try:
            poll(lambda: address_file.exists() or process.poll() is not None)
            assert process.poll() is None, log.read_text()
            addresses = [Address.parse(line) for line in address_file.read_text().splitlines()]
            yield Served(process, addresses, log)
        finally:
            process.kill()


def refused(*arguments: str) -> str:
    """Return what a start that ends with status 2 says."""
    done = subprocess.run(
        command(*arguments),
        cwd=REPOSITORY,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    return done.stderr


def write_nodes(file: Path, *names: str) -> Path:
    nodes = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}} for name in names]
    unfinished = file.with_suffix(".unfinished")
    unfinished.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes}))
    return unfinished.replace(file)


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    return str(write_nodes(tmp_path / "cluster.json", "n1"))


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[str, str]:
    certificate, key = str(tmp_path / "tls.crt"), str(tmp_path / "tls.key")
    made = ["openssl", "req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    made += ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    made += ["-addext", "subjectAltName=DNS:localhost", "-out", certificate, "-keyout", key]
    subprocess.run(made, check=True, capture_output=True)
    return certificate, key


def test_probes_and_metrics_are_beside_the_extender(cluster: str, tmp_path: Path) -> None:
    with served(tmp_path, "--from-file", cluster, "--drain-seconds", "0") as server:
        poll(lambda: server.get("/readyz") == "200 ok\n")
        assert server.get("/healthz") == "200 ok\n"
        assert "stowplan_build_info{" in server.get("/metrics")
        assert server.get("/filter").startswith("405")
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(DEADLINE_SECONDS) == 0
        assert server.logged("stopped")


def test_control_c_ends_it_well_and_without_waiting(cluster: str, tmp_path: Path) -> None:
    with served(tmp_path, "--from-file", cluster, "--drain-seconds", "3600") as server:
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(DEADLINE_SECONDS) == 0


def test_with_client_certificates_probes_are_apart_and_need_none(
    cluster: str, certificate: tuple[str, str], tmp_path: Path
) -> None:
    own, key = certificate
    tls = ("--tls-certificate", own, "--tls-key", key, "--client-ca", own)
    proven = ssl.create_default_context(cafile=own)
    proven.load_cert_chain(own, key)
    unproven = ssl.create_default_context(cafile=own)
    apart = ("--probe-listen", "127.0.0.1:0")
    with served(tmp_path, "--from-file", cluster, *tls, *apart) as server:
        assert server.get("/healthz", listener=1) == "200 ok\n"
        assert server.get("/filter", tls=proven).startswith("405")
        assert server.get("/healthz", tls=proven).startswith("404")
        with pytest.raises(OSError):  # noqa: PT011  # which one depends on who notices first
            server.get("/filter", tls=unproven)


def test_client_certificates_without_probes_apart_are_refused(
    cluster: str, certificate: tuple[str, str]
) -> None:
    own, key = certificate
    tls = ("--tls-certificate", own, "--tls-key", key, "--client-ca", own)
    assert refused("--from-file", cluster, *tls).splitlines()[1] == (
        "  --probe-listen: must be set with --client-ca: probes have no client certificate; "
        "set it to an address of its own, such as 0.0.0.0:8889"
    )


def test_files_that_change_are_taken_over_and_broken_ones_counted(
    cluster: str, tmp_path: Path
) -> None:
    with served(tmp_path, "--from-file", cluster, "--reload-seconds", "0.02") as server:
        write_nodes(Path(cluster), "n1", "n2")
        poll(lambda: 'reloads_total{result="ok"} 1.0' in server.get("/metrics"))
        write_nodes(Path(cluster), "n1", "n1")
        poll(lambda: 'reloads_total{result="refused"} 1.0' in server.get("/metrics"))
        assert server.get("/healthz") == "200 ok\n"
        [entry] = server.logged("files refused")
        assert "must be the only Node of this name" in entry["violations"][0]


def test_files_that_cannot_be_used_end_the_start_with_every_reason(tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    said = refused("--from-file", str(broken), str(tmp_path / "nowhere"))
    assert f"{broken}: must be JSON" in said
    assert f"{tmp_path}/nowhere: must be a file or folder that we can read" in said


def test_a_certificate_that_cannot_be_used_ends_the_start(cluster: str, tmp_path: Path) -> None:
    nowhere = str(tmp_path / "nowhere")
    said = refused("--from-file", cluster, "--tls-certificate", nowhere, "--tls-key", nowhere)
    assert said.startswith("the server certificate is refused:\n")


def test_an_address_in_use_ends_the_start(cluster: str, tmp_path: Path) -> None:
    with served(tmp_path, "--from-file", cluster) as server:
        said = refused("--from-file", cluster, "--listen", str(server.addresses[0]))
        assert "address: must be an address that is free to listen on" in said
        assert "choose another one, or stop the process that has it" in said
