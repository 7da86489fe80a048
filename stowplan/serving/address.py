"""Where a server listens, as people write it: HOST:PORT."""

from dataclasses import dataclass

_MOST = 65535


@dataclass(frozen=True, slots=True)
class Address:
    """A host, by name or number, and a port; port 0 lets the system choose one."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Return the address that ``text`` names, such as ``127.0.0.1:8888`` or ``[::1]:8888``.

        Raises:
            ValueError: with what ``text`` must be.
        """
        host, colon, port = text.rpartition(":")
        if not colon or not host:
            raise ValueError("must be HOST:PORT; 0.0.0.0:PORT listens everywhere")
        bracketed = host.startswith("[") and host.endswith("]")
        if ":" in host and not bracketed:
            raise ValueError("must have brackets around an IPv6 address: [::1]:8888")
        if not (port.isascii() and port.isdigit() and int(port) <= _MOST):
            raise ValueError(f"must end in a port from 0 to {_MOST}")
        return cls(host[1:-1] if bracketed else host, int(port))

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"
