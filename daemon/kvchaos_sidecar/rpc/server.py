"""gRPC listeners: one for the cache service, one for the control service."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from kvchaos.errors import ConfigError
from kvchaos_sidecar.config.addresses import Address, TcpAddress, UnixAddress
from kvchaos_sidecar.config.schema import Listen
from kvchaos_sidecar.errors import ListenError
from kvchaos_sidecar.rpc.auth import BearerToken, read_token
from kvchaos_sidecar.rpc.unix_sockets import claim_socket_path, socket_permissions

MAX_MESSAGE_BYTES = 16 << 20
"""A batch of 10,000 keys with columns of their own fits, and so does a piece of inline transport."""
_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.so_reuseport", 0),  # a port in use is an error, not a share of the traffic
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.http2.ping_timeout_ms", 20_000),  # keepalive_timeout_ms is not what ends a silent connection
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
)


class Security:
    """TLS and token of the TCP listeners. A Unix socket is guarded by the permissions of its file."""

    def __init__(self, listen: Listen) -> None:
        """Reads the files. Raises ConfigError when one cannot be used."""
        self._credentials = _read_credentials(listen)
        self._token = None if listen.token_file is None else BearerToken(read_token(listen.token_file))

    def interceptors(self, address: Address) -> Sequence[grpc.aio.ServerInterceptor]:
        """What every call to a listener passes first."""
        return [self._token] if self._token is not None and isinstance(address, TcpAddress) else []

    def bind(self, server: grpc.aio.Server, address: Address) -> int:
        """Binds a server to an address. Returns the port; raises RuntimeError when that fails."""
        if self._credentials is not None and isinstance(address, TcpAddress):
            return server.add_secure_port(str(address), self._credentials)
        return server.add_insecure_port(str(address))


class GrpcListener:
    """A gRPC server with health and reflection.

    Attributes:
        address: where clients reach it; after :meth:`start` with the port that the system chose.
    """

    def __init__(
        self,
        place: str,
        address: Address,
        service: str,
        add_servicer: Callable[[grpc.aio.Server], None],
        security: Security,
    ) -> None:
        """``place`` is the field of the configuration that names the address; ``service`` the full name of
        the service that ``add_servicer`` adds."""
        self.address = address
        self._place = place
        self._service = service
        self._security = security
        self._health = health.aio.HealthServicer()
        self._server = grpc.aio.server(options=_OPTIONS, interceptors=security.interceptors(address))
        add_servicer(self._server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        reflection.enable_server_reflection(
            (service, health.SERVICE_NAME, reflection.SERVICE_NAME), self._server
        )

    async def start(self) -> None:
        """Listens. Raises ListenError, naming the field and the address, when it cannot."""
        if isinstance(self.address, UnixAddress):
            claim_socket_path(self.address.path)
        try:
            with socket_permissions():
                port = self._security.bind(self._server, self.address)
        except RuntimeError as error:
            raise ListenError(
                f"{self._place}: cannot listen on {self.address}: is it in use, or not of this host?"
            ) from error
        if isinstance(self.address, TcpAddress):
            self.address = TcpAddress(self.address.host, port)
        await self._server.start()
        await self.report(serving=True)

    async def report(self, serving: bool) -> None:
        """Sets what health checks of the service are told."""
        status = (
            health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
        )
        await self._health.set(self._service, status)

    async def drain(self) -> None:
        """Tells health checks that the end is near."""
        await self._health.enter_graceful_shutdown()

    async def stop(self, grace_s: float) -> None:
        """Ends the server; calls in flight have ``grace_s`` to finish."""
        await self._server.stop(grace_s)
        if isinstance(self.address, UnixAddress):
            with contextlib.suppress(OSError):
                os.unlink(self.address.path)


def _read_credentials(listen: Listen) -> grpc.ServerCredentials | None:
    if listen.tls is None:
        return None
    key = _read("listen.tls.key", listen.tls.key)
    certificate = _read("listen.tls.certificate", listen.tls.certificate)
    return grpc.ssl_server_credentials([(key, certificate)])


def _read(place: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError([f"{place}: cannot read {path}: {error.strerror}"]) from error
