"""A small public key infrastructure, made with the openssl program."""

import base64
import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path

CA = ("basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign")
_LEAF = (
    "basicConstraints=critical,CA:FALSE",
    "extendedKeyUsage=serverAuth,clientAuth",
    "subjectAltName=DNS:localhost,IP:127.0.0.1",
    "authorityKeyIdentifier=keyid",
)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, as files."""

    name: str
    certificate: Path
    key: Path

    def install(self, folder: Path) -> tuple[Path, Path]:
        """Copy both to ``tls.crt`` and ``tls.key`` in ``folder``, as in a mounted Secret."""
        certificate, key = folder / "tls.crt", folder / "tls.key"
        certificate.write_bytes(self.certificate.read_bytes())
        key.write_bytes(self.key.read_bytes())
        return certificate, key


@dataclass(frozen=True, slots=True)
class Authority:
    """A CA that issues to anybody who asks."""

    own: Pair

    def issue(self, name: str, organization: str = "") -> Pair:
        """Return a new pair with ``name`` as its subject, valid for localhost.

        Kubernetes takes the name for a user and the organization for a group.
        """
        signer = ("-CA", str(self.own.certificate), "-CAkey", str(self.own.key))
        return make_pair(self.own.key.parent, name, _LEAF, signer, organization)

    def bundle(self) -> str:
        """Return the CA's certificate as Kubernetes' objects hold it."""
        return base64.b64encode(self.own.certificate.read_bytes()).decode()

    def client_context(self, own: Pair | None = None) -> ssl.SSLContext:
        """Return what a client uses that trusts this CA and shows ``own``."""
        context = ssl.create_default_context(cafile=self.own.certificate)
        if own is not None:
            context.load_cert_chain(own.certificate, own.key)
        return context


def make_pair(
    folder: Path,
    name: str,
    extensions: tuple[str, ...],
    signer: tuple[str, ...] = (),
    organization: str = "",
) -> Pair:
    """Run openssl for one self-signed or signed certificate of two days."""
    config = folder / "openssl.cnf"
    config.write_text("[req]\ndistinguished_name = dn\n[dn]\n")
    file = name.replace(":", "-")
    pair = Pair(name, folder / f"{file}.crt", folder / f"{file}.key")
    group = f"/O={organization}" if organization else ""
    command = ["openssl", "req", "-x509", "-config", str(config), "-days", "2", "-nodes"]
    command += ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", *signer]
    command += ["-subj", f"{group}/CN={name}", "-addext", "subjectKeyIdentifier=hash"]
    command += [part for extension in extensions for part in ("-addext", extension)]
    command += ["-out", str(pair.certificate), "-keyout", str(pair.key)]
    subprocess.run(command, check=True, capture_output=True)
    return pair
