"""What the sides stand on: a directory in memory, Redis, the proxies that users pick instead, sidecars."""

from __future__ import annotations

import shutil
import socket
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.harness.processes import ManagedProcess, free_port
from tests.harness.sidecar import SidecarProcess

START_TIMEOUT_S = 20.0
_SHARED_MEMORY = Path("/dev/shm")

_HAPROXY = """\
global
  maxconn 4096
defaults
  mode tcp
  timeout connect 5s
  timeout client 10m
  timeout server 10m
frontend redis
  bind 127.0.0.1:{port}
  default_backend redis
backend redis
  server one 127.0.0.1:{upstream}
"""
_NGINX = """\
load_module /usr/lib/nginx/modules/ngx_stream_module.so;
daemon off;
worker_processes auto;
pid {directory}/nginx.pid;
error_log {directory}/error.log;
events {{ worker_connections 4096; }}
stream {{
  server {{
    listen 127.0.0.1:{port};
    proxy_pass 127.0.0.1:{upstream};
    proxy_timeout 10m;
  }}
}}
"""


@contextmanager
def directory() -> Iterator[Path]:
    """A directory in memory (tmpfs), removed afterwards. Its path is short enough for sockets."""
    path = Path(tempfile.mkdtemp(prefix="kvb-", dir=_SHARED_MEMORY))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def redis(place: Path) -> Iterator[int]:
    """A Redis server that keeps nothing on disk. Yields its port."""
    port = free_port()
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(place)]
    with _listening(command, place / "redis.log", port):
        yield port


@contextmanager
def haproxy(place: Path, upstream: int) -> Iterator[int]:
    """HAProxy in TCP mode before a port, with its defaults. Yields the port in front."""
    port = free_port()
    config = place / "haproxy.cfg"
    config.write_text(_HAPROXY.format(port=port, upstream=upstream))
    with _listening(["haproxy", "-db", "-f", str(config)], place / "haproxy.log", port):
        yield port


@contextmanager
def nginx(place: Path, upstream: int) -> Iterator[int]:
    """nginx's stream module before a port, with its defaults. Yields the port in front."""
    port = free_port()
    config = place / "nginx.conf"
    config.write_text(_NGINX.format(port=port, upstream=upstream, directory=place))
    with _listening(["nginx", "-c", str(config)], place / "nginx.log", port):
        yield port


@contextmanager
def sidecar(backend: Mapping[str, object], **document: Any) -> Iterator[SidecarProcess]:
    """A sidecar process with its default settings and the given backend."""
    with SidecarProcess(backend, **document) as process:
        yield process


def plugin(target: str, **parameters: object) -> dict[str, Any]:
    """The adapter spec with which LMCache uses a sidecar."""
    return {
        "type": "plugin",
        "module_path": "kvchaos.lmcache",
        "class_name": "KVChaosL2Adapter",
        "adapter_params": {"target": target, **parameters},
    }


def hosted(inner: Mapping[str, object]) -> dict[str, Any]:
    """The backend of a sidecar that hosts an LMCache adapter."""
    return {"type": "lmcache", "inner": dict(inner)}


def missing(programs: Sequence[str]) -> list[str]:
    """Those of the programs that are not installed."""
    return [name for name in programs if shutil.which(name) is None]


@contextmanager
def _listening(command: Sequence[str], log: Path, port: int) -> Iterator[None]:
    with ManagedProcess(command, log) as process:
        process.wait_until(lambda: _accepts(port), START_TIMEOUT_S, command[0])
        yield


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
