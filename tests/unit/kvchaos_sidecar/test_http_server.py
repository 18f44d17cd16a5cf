import socket
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry, Gauge

from kvchaos_sidecar.config.addresses import TcpAddress
from kvchaos_sidecar.errors import ListenError
from kvchaos_sidecar.http_server import HttpServer


class Daemon:
    """A server on a free port, and why it says it is not ready."""

    def __init__(self, host: str) -> None:
        self.reason = ""
        registry = CollectorRegistry()
        Gauge("kvchaos_answer", "It.", registry=registry).set(42)
        self.server = HttpServer(TcpAddress(host, 0), registry, lambda: self.reason)
        self.server.start()

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://{self.server.address}{path}", timeout=10) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


@pytest.fixture(params=["127.0.0.1", "::1"])
def daemon(request: pytest.FixtureRequest) -> Iterator[Daemon]:
    started = Daemon(request.param)
    yield started
    started.server.stop()


def test_it_serves_the_registry(daemon: Daemon) -> None:
    status, text = daemon.get("/metrics")
    assert status == 200
    assert "kvchaos_answer 42.0" in text


def test_probes(daemon: Daemon) -> None:
    assert daemon.get("/healthz") == (200, "alive\n")
    assert daemon.get("/readyz") == (200, "ready\n")
    daemon.reason = "the store is away"
    assert daemon.get("/healthz") == (200, "alive\n")
    assert daemon.get("/readyz") == (503, "the store is away\n")


def test_another_path_is_answered_with_the_paths_there_are(daemon: Daemon) -> None:
    status, text = daemon.get("/")
    assert status == 404
    assert "/metrics" in text


def test_a_client_that_says_nothing_holds_up_nobody(daemon: Daemon) -> None:
    address = daemon.server.address
    with socket.create_connection((address.host, address.port)):
        assert daemon.get("/healthz")[0] == 200


def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = TcpAddress("127.0.0.1", taken.getsockname()[1])
        with pytest.raises(ListenError, match=str(address)):
            HttpServer(address, CollectorRegistry(), str).start()
