"""Opening a channel to a daemon, and turning what gRPC raises into this package's errors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import grpc

from kvchaos.errors import (
    ConfigError,
    DeadlineExceeded,
    OperationUnsupported,
    PermissionDenied,
    RequestRefused,
    SessionEnded,
    SidecarError,
    SidecarUnavailable,
)

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
MAX_SOCKET_PATH_BYTES = 107
KEEPALIVE_INTERVAL_MS = 6_000
"""A daemon counts pings less than 5 s apart as abuse."""
KEEPALIVE_TIMEOUT_MS = 4_000

_HOST_PORT = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+):(\d{1,5})")

_ERRORS: Mapping[grpc.StatusCode, type[SidecarError]] = MappingProxyType(
    {
        grpc.StatusCode.CANCELLED: SidecarUnavailable,
        grpc.StatusCode.UNKNOWN: SidecarError,
        grpc.StatusCode.INVALID_ARGUMENT: RequestRefused,
        grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceeded,
        grpc.StatusCode.NOT_FOUND: SessionEnded,
        grpc.StatusCode.ALREADY_EXISTS: RequestRefused,
        grpc.StatusCode.PERMISSION_DENIED: PermissionDenied,
        grpc.StatusCode.RESOURCE_EXHAUSTED: RequestRefused,
        grpc.StatusCode.FAILED_PRECONDITION: RequestRefused,
        grpc.StatusCode.ABORTED: SidecarUnavailable,
        grpc.StatusCode.OUT_OF_RANGE: RequestRefused,
        grpc.StatusCode.UNIMPLEMENTED: OperationUnsupported,
        grpc.StatusCode.INTERNAL: SidecarError,
        grpc.StatusCode.UNAVAILABLE: SidecarUnavailable,
        grpc.StatusCode.DATA_LOSS: SidecarError,
        grpc.StatusCode.UNAUTHENTICATED: PermissionDenied,
    }
)


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """How to check the daemon's certificate."""

    ca_file: str = ""
    """PEM file with the authorities to trust; empty for the system's."""
    server_name: str = ""
    """Name the certificate must carry, when it is not the target's host."""


def check_target(target: str) -> None:
    """Raises ConfigError unless ``target`` is ``unix:PATH`` with an absolute path, or ``HOST:PORT``."""
    if target.startswith("unix:"):
        path = target.removeprefix("unix:")
        if not path.startswith("/"):
            raise ConfigError([f"target {target!r}: the path after 'unix:' must be absolute"])
        if len(path.encode()) > MAX_SOCKET_PATH_BYTES:
            raise ConfigError([f"target {target!r}: the path is longer than {MAX_SOCKET_PATH_BYTES} bytes"])
        return
    match = _HOST_PORT.fullmatch(target)
    if match is None or not 1 <= int(match.group(1)) <= 65535:
        raise ConfigError([f"target {target!r} is neither 'unix:/PATH' nor 'HOST:PORT'"])


def open_channel(target: str, tls: TlsSettings | None = None, keepalive: bool = False) -> grpc.Channel:
    """A channel of its own to the daemon at ``target``; it connects when first used.

    Args:
        target: ``unix:/PATH`` or ``HOST:PORT``.
        tls: None for plain text.
        keepalive: notice a daemon that has stopped answering pings, and give the connection up.

    Raises:
        ConfigError: the target is malformed, or the authorities' file cannot be read.
    """
    check_target(target)
    options: list[tuple[str, int | str]] = [
        ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
        ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.enable_http_proxy", 0),
    ]
    if keepalive:
        options += [
            ("grpc.keepalive_time_ms", KEEPALIVE_INTERVAL_MS),
            ("grpc.http2.ping_timeout_ms", KEEPALIVE_TIMEOUT_MS),  # keepalive_timeout_ms alone never fires
            ("grpc.http2.max_pings_without_data", 0),
        ]
    if tls is None:
        return grpc.insecure_channel(target, options)
    if tls.server_name:
        options.append(("grpc.ssl_target_name_override", tls.server_name))
    return grpc.secure_channel(target, _credentials(tls), options)


def bearer(token: str) -> tuple[tuple[str, str], ...]:
    """The call metadata that carries ``token``; empty without one."""
    return (("authorization", f"Bearer {token}"),) if token else ()


def translate(error: grpc.RpcError) -> SidecarError:
    """The error of this package that stands for what gRPC raised."""
    code = error.code() if isinstance(error, grpc.Call) else grpc.StatusCode.UNKNOWN
    return status_error(code, error.details() if isinstance(error, grpc.Call) else str(error))


def status_error(code: grpc.StatusCode, details: str | None) -> SidecarError:
    """The error of this package that stands for a status."""
    return _ERRORS[code](details or code.name.lower().replace("_", " "))


def _credentials(tls: TlsSettings) -> grpc.ChannelCredentials:
    try:
        authorities = Path(tls.ca_file).read_bytes() if tls.ca_file else None
    except OSError as error:
        raise ConfigError([f"ca_file: cannot read {tls.ca_file!r}: {error.strerror}"]) from error
    return grpc.ssl_channel_credentials(authorities)
