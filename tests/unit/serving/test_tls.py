import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from stowplan.api.errors import InvalidObjectError
from stowplan.serving.address import Address
from stowplan.serving.listener import Listener, listening
from stowplan.serving.probes import probe_application
from stowplan.serving.readiness import Readiness
from stowplan.serving.run import run
from stowplan.serving.tls import ReloadingCertificate
from tests.pki import Authority, Pair
from tests.unit.serving.wire import DEADLINE_SECONDS, exchange

CHECK_SECONDS = 0.02


@contextlib.asynccontextmanager
async def served(certificate: ReloadingCertificate) -> AsyncIterator[int]:
    """Serve the probes over TLS, with the files watched; yield the port."""
    readiness = Readiness()
    app = probe_application(readiness)
    listener = Listener("main", app, Address("127.0.0.1", 0), certificate)
    async with listening(listener, readiness) as bound:
        watch = asyncio.create_task(certificate.watch(CHECK_SECONDS))
        yield bound.port
        watch.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watch


class Client:
    """One connection over TLS."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def subject(self) -> str:
        """Make a request, and return the subject of the certificate that the server showed."""
        head = await exchange(self._reader, self._writer, "/healthz")
        assert head.startswith(b"HTTP/1.1 200")
        [[[_, name]]] = self._writer.get_extra_info("peercert")["subject"]
        return str(name)


@contextlib.asynccontextmanager
async def connected(port: int, trust: ssl.SSLContext) -> AsyncIterator[Client]:
    async with asyncio.timeout(DEADLINE_SECONDS):
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=trust, server_hostname="localhost"
        )
    try:
        yield Client(reader, writer)
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def subject_on_a_new_connection(port: int, trust: ssl.SSLContext) -> str:
    async with connected(port, trust) as client:
        return await client.subject()


async def poll_until_logged(logged: list[Any], event: str) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not any(entry["event"].startswith(event) for entry in logged):  # noqa: ASYNC110
            await asyncio.sleep(CHECK_SECONDS)


@pytest.fixture
def first(authority: Authority) -> Pair:
    return authority.issue("first")


@pytest.fixture
def second(authority: Authority) -> Pair:
    return authority.issue("second")


@pytest.fixture
def trust(authority: Authority) -> ssl.SSLContext:
    return authority.client_context()


@pytest.fixture
def certificate(first: Pair, tmp_path: Path) -> ReloadingCertificate:
    return ReloadingCertificate(*first.install(tmp_path))


@pytest.fixture
def client_ca(authority: Authority, tmp_path: Path) -> Path:
    file = tmp_path / "ca.crt"
    file.write_bytes(authority.own.certificate.read_bytes())
    return file


@pytest.fixture
def demanding(first: Pair, client_ca: Path) -> ReloadingCertificate:
    return ReloadingCertificate(first.certificate, first.key, client_ca)


@pytest.fixture
def scheduler(authority: Authority) -> ssl.SSLContext:
    return authority.client_context(authority.issue("kube-scheduler"))


@pytest.fixture
def impostor(authority: Authority, stranger: Authority) -> ssl.SSLContext:
    return authority.client_context(stranger.issue("kube-scheduler"))


async def test_new_connections_get_the_new_certificate_and_open_ones_stay(
    certificate: ReloadingCertificate, trust: ssl.SSLContext, second: Pair, tmp_path: Path
) -> None:
    async with served(certificate) as port, connected(port, trust) as old:
        assert await old.subject() == "first"
        with capture_logs() as logged:
            second.install(tmp_path)
            await poll_until_logged(logged, "certificate reloaded")
        assert await subject_on_a_new_connection(port, trust) == "second"
        assert await old.subject() == "first"


async def test_a_broken_new_pair_is_refused_and_the_last_good_one_stays(
    certificate: ReloadingCertificate, trust: ssl.SSLContext, second: Pair, tmp_path: Path
) -> None:
    async with served(certificate) as port:
        with capture_logs() as logged:
            (tmp_path / "tls.crt").write_bytes(second.certificate.read_bytes())
            await poll_until_logged(logged, "certificate refused")
            assert await subject_on_a_new_connection(port, trust) == "first"
            (tmp_path / "tls.key").write_bytes(second.key.read_bytes())
            await poll_until_logged(logged, "certificate reloaded")
        assert await subject_on_a_new_connection(port, trust) == "second"
    [refusal] = [entry for entry in logged if entry["log_level"] == "error"]
    assert "must be the private key of" in refusal["violations"][0]


async def test_files_that_vanish_are_refused_and_the_last_good_pair_stays(
    certificate: ReloadingCertificate, trust: ssl.SSLContext, tmp_path: Path
) -> None:
    async with served(certificate) as port:
        with capture_logs() as logged:
            (tmp_path / "tls.key").unlink()
            await poll_until_logged(logged, "certificate refused")
        assert await subject_on_a_new_connection(port, trust) == "first"


async def test_with_a_client_ca_only_its_clients_get_through(
    demanding: ReloadingCertificate,
    trust: ssl.SSLContext,
    scheduler: ssl.SSLContext,
    impostor: ssl.SSLContext,
) -> None:
    async with served(demanding) as port:
        assert await subject_on_a_new_connection(port, scheduler) == "first"
        for unproven in (trust, impostor):
            with pytest.raises((OSError, EOFError)):
                await subject_on_a_new_connection(port, unproven)


async def test_a_client_ca_that_was_replaced_is_forgotten(
    demanding: ReloadingCertificate,
    stranger: Authority,
    client_ca: Path,
    scheduler: ssl.SSLContext,
    impostor: ssl.SSLContext,
) -> None:
    async with served(demanding) as port:
        assert await subject_on_a_new_connection(port, scheduler) == "first"
        with capture_logs() as logged:
            replaced = stranger.own.certificate.read_bytes()
            await asyncio.to_thread(client_ca.write_bytes, replaced)
            await poll_until_logged(logged, "certificate reloaded")
        assert await subject_on_a_new_connection(port, impostor) == "first"
        with pytest.raises((OSError, EOFError)):
            await subject_on_a_new_connection(port, scheduler)


async def test_a_peer_that_speaks_no_tls_does_no_harm(
    certificate: ReloadingCertificate, trust: ssl.SSLContext
) -> None:
    async with served(certificate) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with pytest.raises((OSError, EOFError)):
            await exchange(reader, writer, "/healthz")
        writer.close()
        assert await subject_on_a_new_connection(port, trust) == "first"


def test_uvloop_asks_for_the_current_certificate_too(
    certificate: ReloadingCertificate, trust: ssl.SSLContext, second: Pair, tmp_path: Path
) -> None:
    async def reload() -> list[str]:
        async with served(certificate) as port:
            before = await subject_on_a_new_connection(port, trust)
            with capture_logs() as logged:
                await asyncio.to_thread(second.install, tmp_path)
                await poll_until_logged(logged, "certificate reloaded")
            return [before, await subject_on_a_new_connection(port, trust)]

    assert run(reload()) == ["first", "second"]


def test_every_file_that_cannot_be_used_is_named_at_once(tmp_path: Path) -> None:
    (tmp_path / "tls.crt").write_text("not a certificate")
    client_ca = tmp_path / "ca.crt"
    client_ca.write_text("-----BEGIN CERTIFICATE-----\n")
    with pytest.raises(InvalidObjectError) as refused:
        ReloadingCertificate(tmp_path / "tls.crt", tmp_path / "tls.key", client_ca)
    assert [str(violation) for violation in refused.value.violations] == [
        f"{tmp_path}/tls.crt: must hold a PEM certificate; write one into it",
        f"{tmp_path}/tls.key: must be a file that we can read: No such file or directory; "
        "check its path and mode",
    ]


@pytest.mark.parametrize(
    ("broken", "content", "want"),
    [
        pytest.param("tls.crt", "-----BEGIN CERTIFICATE-----\nAAAA\n", "with its key", id="cut"),
        pytest.param("tls.key", "-----BEGIN PRIVATE KEY-----\nAAAA\n", "with its key", id="key"),
        pytest.param("ca.crt", "-----BEGIN CERTIFICATE-----\nAAAA\n", "readable", id="client CA"),
        pytest.param(
            "tls.key", "-----BEGIN ENCRYPTED PRIVATE KEY-----\n", "encrypted", id="passphrase"
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_without_showing_what_is_in_it(
    broken: str, content: str, want: str, first: Pair, authority: Authority, tmp_path: Path
) -> None:
    certificate, key = first.install(tmp_path)
    client_ca = tmp_path / "ca.crt"
    client_ca.write_bytes(authority.own.certificate.read_bytes())
    (tmp_path / broken).write_text(content)
    with pytest.raises(InvalidObjectError, match=want) as refused:
        ReloadingCertificate(certificate, key, client_ca)
    assert "AAAA" not in str(refused.value)
