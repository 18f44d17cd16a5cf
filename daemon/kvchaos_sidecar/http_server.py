"""/metrics, /healthz and /readyz, on threads of their own: the event loop cannot hold them up."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable
from functools import partial
from http import HTTPStatus
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app

from kvchaos_sidecar.config.addresses import TcpAddress
from kvchaos_sidecar.errors import ListenError

_POLL_S = 0.1
"""How soon the server notices that it is to end."""

_StartResponse = Callable[..., Any]
_App = Callable[[dict[str, Any], _StartResponse], Iterable[bytes]]


class HttpServer:
    """Serves a registry and two probes.

    Attributes:
        address: where it listens; after :meth:`start` with the port that the system chose.
    """

    def __init__(
        self, address: TcpAddress, registry: CollectorRegistry, readiness: Callable[[], str]
    ) -> None:
        """``readiness`` says why the daemon is not ready, and nothing when it is."""
        self.address = address
        self._metrics: _App = make_wsgi_app(registry)
        self._readiness = readiness
        self._server: WSGIServer | None = None

    def start(self) -> None:
        """Listens and serves. Raises ListenError when it cannot."""
        kind = _ServerV6 if ":" in self.address.host else _Server
        try:
            self._server = make_server(self.address.host, self.address.port, self._answer, kind, _Quiet)
        except OSError as error:
            raise ListenError(
                f"listen.http: cannot listen on {self.address}: {error.strerror or error}"
            ) from error
        self.address = TcpAddress(self.address.host, self._server.server_port)
        serve = partial(self._server.serve_forever, poll_interval=_POLL_S)
        threading.Thread(target=serve, name="kvchaos-http", daemon=True).start()

    def stop(self) -> None:
        """Ends the server. Idempotent."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def _answer(self, environ: dict[str, Any], start_response: _StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "/")
        if path == "/metrics":
            return self._metrics(environ, start_response)
        if path == "/healthz":
            return _plain(start_response, HTTPStatus.OK, "alive")
        if path == "/readyz":
            reason = self._readiness()
            status = HTTPStatus.SERVICE_UNAVAILABLE if reason else HTTPStatus.OK
            return _plain(start_response, status, reason or "ready")
        return _plain(start_response, HTTPStatus.NOT_FOUND, "try /metrics, /healthz or /readyz")


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _ServerV6(_Server):
    address_family = socket.AF_INET6


class _Quiet(WSGIRequestHandler):
    timeout = 10.0

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing: a scrape is not news."""


def _plain(start_response: _StartResponse, status: HTTPStatus, text: str) -> Iterable[bytes]:
    start_response(f"{status.value} {status.phrase}", [("Content-Type", "text/plain; charset=utf-8")])
    return [f"{text}\n".encode()]
