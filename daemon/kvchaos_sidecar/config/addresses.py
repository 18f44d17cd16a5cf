"""Where a server listens: ``unix:PATH`` or ``HOST:PORT``."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass

MAX_SOCKET_PATH_BYTES = 107
"""What Linux takes in ``sockaddr_un.sun_path``, less the closing NUL."""


@dataclass(frozen=True, slots=True)
class UnixAddress:
    """A Unix socket."""

    path: str
    """Absolute path of the socket."""

    def __str__(self) -> str:
        return f"unix:{self.path}"

    @property
    def is_local(self) -> bool:
        """Always: only this host can reach it."""
        return True


@dataclass(frozen=True, slots=True)
class TcpAddress:
    """A TCP port."""

    host: str
    """Name or address, without brackets."""
    port: int
    """0 to 65535; 0 lets the system choose."""

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_local(self) -> bool:
        """Whether only this host can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


Address = UnixAddress | TcpAddress


def parse_address(text: str) -> Address:
    """The address that ``text`` names.

    Raises:
        ValueError: neither ``unix:PATH`` with an absolute path short enough for a socket, nor ``HOST:PORT``.
    """
    if text.startswith("unix:"):
        return _parse_unix(text)
    return _parse_tcp(text)


def _parse_unix(text: str) -> UnixAddress:
    path = text.removeprefix("unix:").removeprefix("//")
    if not path.startswith("/") or "\0" in path:
        raise ValueError(f"{text!r} needs an absolute path, for example unix:/run/kvchaos/cache.sock")
    length = len(os.fsencode(path))
    if length > MAX_SOCKET_PATH_BYTES:
        raise ValueError(
            f"the socket path {path!r} has {length} bytes; choose one of at most {MAX_SOCKET_PATH_BYTES}"
        )
    return UnixAddress(path)


def _parse_tcp(text: str) -> TcpAddress:
    host, colon, port_text = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{text!r} is ambiguous; write an IPv6 address in brackets, for example [::1]:9464")
    if not colon or not host or not (port_text.isascii() and port_text.isdigit()):
        raise ValueError(f"{text!r} is not an address; write unix:/absolute/path or HOST:PORT")
    port = int(port_text)
    if port > 65535:
        raise ValueError(f"{text!r} has port {port}; the highest is 65535")
    return TcpAddress(host, port)
