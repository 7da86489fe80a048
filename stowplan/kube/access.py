"""Where kube-apiserver is and how we prove who we are: a kubeconfig, or what a pod is given.

Both are read anew when their files change: tokens and certificates are rotated while we run.
"""

import asyncio
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stowplan.api.errors import InvalidObjectError, Violation

if TYPE_CHECKING:  # importing it takes 0.4 s and 63 MiB, which commands on files need not pay
    from kubernetes_asyncio.client.configuration import Configuration

_PLUGIN_SECONDS = 30.0  # for a credential plugin that asks some service

Stamps = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class Loaded:
    """What one reading found.

    Attributes:
        configuration: for the library's client.
        files: what it came from.
        stamps: what these looked like.
    """

    configuration: "Configuration"
    files: tuple[Path, ...]
    stamps: Stamps

    def changed(self) -> bool:
        """Whether a file is another one by now; this blocks."""
        return stamps_of(self.files) != self.stamps


def stamps_of(files: tuple[Path, ...]) -> Stamps:
    """Return what changes when a file does; one that is not there has no time and no size."""
    return tuple(_stamp(file) for file in files)


def _stamp(file: Path) -> tuple[str, int, int]:
    try:
        status = file.stat()
    except OSError:
        return (str(file), 0, 0)
    return (str(file), status.st_mtime_ns, status.st_size)


@dataclass(frozen=True, slots=True)
class InCluster:
    """What a pod is given: its service account.

    Attributes:
        folder: where its token and the CA are mounted.
    """

    folder: Path = Path("/var/run/secrets/kubernetes.io/serviceaccount")

    def __str__(self) -> str:
        """Return what a person may know it by."""
        return "the service account of this pod"

    def load(self) -> Loaded:
        """Read the token, the CA and the address; this blocks.

        Raises:
            InvalidObjectError: something of it is not there.
        """
        from kubernetes_asyncio.client.configuration import Configuration

        host, port = (os.environ.get(f"KUBERNETES_SERVICE_{part}", "") for part in ("HOST", "PORT"))
        token, authority = self.folder / "token", self.folder / "ca.crt"
        stamps = stamps_of((token, authority))
        configuration = Configuration()
        broken = list(_missing(host, port, authority))
        try:
            # As it stands, with the newline that some mounts end with, it would be no header.
            configuration.api_key["BearerToken"] = f"Bearer {token.read_text().strip()}"
        except OSError as error:
            broken.append(_unreadable(token, error))
        if broken:
            raise InvalidObjectError("the access to the cluster", broken)
        configuration.host = f"https://{f'[{host}]' if ':' in host else host}:{port}"
        configuration.ssl_ca_cert = str(authority)
        return Loaded(configuration, (token, authority), stamps)


def _missing(host: str, port: str, authority: Path) -> Iterator[Violation]:
    if not (host and port):
        problem = "must be set: no kubeconfig was named, and this is no pod"
        remedy = "name one with --kubeconfig, or files with --from-file"
        yield Violation("KUBERNETES_SERVICE_HOST and _PORT", "required", None, problem, remedy)
    elif not authority.is_file():
        yield Violation(str(authority), "required", None, "must be there", "mount the token")


def _unreadable(file: Path, error: OSError) -> Violation:
    problem = f"must be a file that we can read: {error.strerror}"
    return Violation(str(file), "required", None, problem, "check the path and its mode")


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """A kubeconfig as kubectl uses it, credential plugins included.

    Attributes:
        files: one, or several that are merged.
        context: which one of its contexts; None for the current one.
    """

    files: tuple[Path, ...]
    context: str | None = None

    def __str__(self) -> str:
        """Return what a person may know it by."""
        named = os.pathsep.join(map(str, self.files))
        return f"{named}, context {self.context}" if self.context else named

    def load(self) -> Loaded:
        """Read it, and run its credential plugin if it has one; this blocks.

        Raises:
            InvalidObjectError: it cannot be used.
        """
        broken = [
            Violation(str(file), "required", None, "must be a kubeconfig file", "check the path")
            for file in self.files
            if not file.is_file()
        ]
        if broken:
            raise InvalidObjectError("the kubeconfig", broken)
        stamps = stamps_of(self.files)
        try:
            # A loop of its own: the library reads files and runs plugins where it is called.
            configuration = asyncio.run(self._load())
        except Exception as error:  # the library raises whatever a wrong type leads to
            problem = f"must be a kubeconfig that can be used: {_told(error)}"
            whole = Violation(str(self), "invalid", None, problem, "try kubectl with it")
            raise InvalidObjectError("the kubeconfig", [whole]) from error
        named = (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
        others = tuple(Path(name) for name in named if name)
        return Loaded(configuration, (*self.files, *others), (*stamps, *stamps_of(others)))

    async def _load(self) -> "Configuration":
        from kubernetes_asyncio.client.configuration import Configuration
        from kubernetes_asyncio.config import load_kube_config

        configuration = Configuration()
        files = os.pathsep.join(map(str, self.files))
        async with asyncio.timeout(_PLUGIN_SECONDS):
            await load_kube_config(files, self.context, configuration, persist_config=False)
        return configuration


def _told(error: Exception) -> str:
    """Return one line about an error; never more, since a plugin may print a secret."""
    first = str(error).partition("\n")[0]
    return f"{type(error).__name__}: {first[:200]}" if first else type(error).__name__


Access = InCluster | Kubeconfig
