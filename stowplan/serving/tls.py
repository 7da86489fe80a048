"""A server certificate that follows its files, and the client certificates it may demand.

A new pair is tried in a context of its own first: loaded into a live one, a key that does not match
leaves the server unable to complete any handshake (fact A25). A pair that cannot be used is refused
and logged, and the last good one stays. New connections get the new pair; open ones keep theirs.
"""

import asyncio
import hashlib
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import structlog

from stowplan.api.errors import InvalidObjectError, Violation

log = structlog.get_logger()

CHECK_SECONDS = 10.0

_CERTIFICATE = b"-----BEGIN CERTIFICATE-----"
_KEY = b"PRIVATE KEY-----"
_ENCRYPTED = b"ENCRYPTED"


class ReloadingCertificate:
    """The certificate of a server; with ``client_ca`` its clients must prove who they are."""

    def __init__(self, certificate: Path, key: Path, client_ca: Path | None = None) -> None:
        """Load the files; this blocks, so do it before an event loop runs or in a thread.

        Raises:
            InvalidObjectError: when the files cannot be used, with every reason.
        """
        self._certificate = certificate
        self._key = key
        self._client_ca = client_ca
        self._seen = self._fingerprint()
        self._context = _CurrentContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.current = self._load()

    @property
    def context(self) -> ssl.SSLContext:
        """The context to listen with; each handshake gets the newest good certificate."""
        return self._context

    async def watch(self, interval_seconds: float = CHECK_SECONDS) -> None:
        """Follow the files for ever.

        A change counts once it has been stable for one interval: whoever writes two files cannot
        write both at once.
        """
        pending: bytes | None = None
        while True:
            await asyncio.sleep(interval_seconds)
            found = await asyncio.to_thread(self._fingerprint)
            if found == self._seen:
                pending = None
            elif found != pending:
                pending = found
            else:
                self._seen = found
                await self._reload()

    async def _reload(self) -> None:
        try:
            self._context.current = await asyncio.to_thread(self._load)
        except InvalidObjectError as refused:
            reasons = [str(violation) for violation in refused.violations]
            log.error("certificate refused, the last good one stays", violations=reasons)
        else:
            log.info("certificate reloaded", certificate=str(self._certificate))

    def _files(self) -> list[Path]:
        return [file for file in (self._certificate, self._key, self._client_ca) if file]

    def _fingerprint(self) -> bytes:
        """Return what tells one state of the files from another, without keeping the key around."""
        digest = hashlib.sha256()
        for file in self._files():
            try:
                content = file.read_bytes()
            except OSError:
                content = b""
            digest.update(hashlib.sha256(content).digest())
        return digest.digest()

    def _load(self) -> ssl.SSLContext:
        violations = list(self._problems())
        if not violations:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            context.set_alpn_protocols(["http/1.1"])
            violations += self._load_pair(context)
            violations += self._load_client_ca(context)
            if not violations:
                return context
        raise InvalidObjectError("the server certificate", violations)

    def _problems(self) -> Iterator[Violation]:
        """Yield what can be seen in the files by themselves; their content is never shown."""
        for file in self._files():
            is_key = file == self._key
            try:
                content = file.read_bytes()
            except OSError as error:
                problem = f"must be a file that we can read: {error.strerror}"
                yield Violation(str(file), "required", None, problem, "check its path and mode")
                continue
            if (_KEY if is_key else _CERTIFICATE) not in content:
                what = "private key" if is_key else "certificate"
                yield _invalid(file, f"must hold a PEM {what}", "write one into it")
            elif is_key and _ENCRYPTED in content:
                yield _invalid(file, "must not be encrypted", "store the key without a passphrase")

    def _load_pair(self, context: ssl.SSLContext) -> Iterator[Violation]:
        try:
            # The password is never asked for on a terminal.
            context.load_cert_chain(self._certificate, self._key, password="")
        except OSError as error:
            if (reason := _reason(error)) == "KEY_VALUES_MISMATCH":
                problem = f"must be the private key of {self._certificate}"
                yield _invalid(self._key, problem, "write both files from one and the same pair")
            else:
                problem = f"must be a certificate with its key: {reason}"
                yield _invalid(self._certificate, problem, f"renew it and {self._key}")

    def _load_client_ca(self, context: ssl.SSLContext) -> Iterator[Violation]:
        if self._client_ca is None:
            return
        try:
            context.load_verify_locations(self._client_ca)
        except OSError as error:
            problem = f"must hold readable certificates: {_reason(error)}"
            yield _invalid(self._client_ca, problem, "write the CA of the clients into it")
        context.verify_mode = ssl.CERT_REQUIRED


class _CurrentContext(ssl.SSLContext):
    """Hands each new connection to ``current``.

    Event loops call ``wrap_bio`` once per connection. A context that is replaced as a whole forgets
    old client CAs and old sessions, which one that is loaded again would keep.
    """

    current: ssl.SSLContext

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        return self.current.wrap_bio(*args, **kwargs)


def _reason(error: OSError) -> str:
    named = error.reason if isinstance(error, ssl.SSLError) else error.strerror
    return named or "unreadable"


def _invalid(file: Path, problem: str, remedy: str) -> Violation:
    return Violation(str(file), "invalid", None, problem, remedy)
