"""The gRPC listener of the worker: the Blend service, health and reflection."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from kvchaos.errors import ConfigError
from kvchaos.v1 import blend_pb2
from kvchaos.v1.blend_pb2_grpc import add_BlendServicer_to_server
from kvchaos_blend.rpc.service import BlendService

SERVICE_NAME = blend_pb2.DESCRIPTOR.services_by_name["Blend"].full_name
SPARE_THREADS = 8
"""For status and health while all recoveries that may run do."""

_LOOPBACK = ("127.0.0.1", "[::1]", "localhost")


def check_address(address: str) -> str:
    """The address, if only this host can reach it.

    Raises:
        ConfigError: it is another form, or others could connect; the worker has no authentication.
    """
    if address.startswith("unix:") and len(address) > len("unix:"):
        return address
    host, _, port = address.rpartition(":")
    if not port.isdigit():
        raise ConfigError([f"--listen {address}: expected unix:PATH or HOST:PORT"])
    if host not in _LOOPBACK:
        raise ConfigError(
            [f"--listen {address}: the worker asks nobody for a token; use a Unix socket or {_LOOPBACK[0]}"]
        )
    return address


def start_server(service: BlendService, address: str, max_running: int) -> grpc.Server:
    """Starts to listen.

    Raises:
        ConfigError: the address cannot be used.
    """
    server = grpc.server(ThreadPoolExecutor(max_running + SPARE_THREADS, thread_name_prefix="rpc"))
    add_BlendServicer_to_server(service, server)
    status = health.HealthServicer()
    for name in ("", SERVICE_NAME):
        status.set(name, health_pb2.HealthCheckResponse.SERVING)
    health_pb2_grpc.add_HealthServicer_to_server(status, server)
    reflection.enable_server_reflection((SERVICE_NAME, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
    try:
        server.add_insecure_port(check_address(address))
    except RuntimeError as error:
        raise ConfigError([f"--listen {address}: {error}"]) from error
    server.start()
    return server
