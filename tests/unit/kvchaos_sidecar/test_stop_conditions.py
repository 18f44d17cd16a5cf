"""Stop conditions against real HTTP servers."""

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from tests.harness.processes import free_port

from kvchaos.errors import ConfigError
from kvchaos_sidecar.clock import ManualClock
from kvchaos_sidecar.config.load import validate
from kvchaos_sidecar.config.safety import StopCondition
from kvchaos_sidecar.rules.governor import Governor
from kvchaos_sidecar.stop_conditions import StopConditions, reason_to_stop


class Server(HTTPServer):
    """Answers every GET with ``status`` and ``body``, and notes the paths."""

    status = 200
    body = b""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.paths: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def says(self, *values: float, kind: str = "vector") -> None:
        """The next answers are a query result."""
        result: Any = [{"metric": {}, "value": [1.0, str(value)]} for value in values]
        if kind == "scalar":
            result = [1.0, str(values[0])]
        self.body = json.dumps({"status": "success", "data": {"resultType": kind, "result": result}}).encode()


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.paths.append(self.path)
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def condition(**parts: Any) -> StopCondition:
    return StopCondition.model_validate({"name": "limit", **parts})


def query(server: Server, **parts: Any) -> StopCondition:
    return condition(prometheus={"url": server.url, "query": "errors", "limit": 5.0, **parts})


@pytest.mark.parametrize(("status", "reason"), [(200, ""), (503, "answered 503, not 200")])
def test_a_health_check_stops_on_another_status(server: Server, status: int, reason: str) -> None:
    server.status = status
    found = reason_to_stop(condition(http={"url": f"{server.url}/health"}))
    assert found.endswith(reason)
    assert bool(found) == bool(reason)
    assert server.paths == ["/health"]


@pytest.mark.parametrize(
    ("values", "stop_when", "stops"),
    [
        ([4.0], "above", False),
        ([6.0], "above", True),
        ([1.0, 6.0], "above", True),
        ([4.0], "below", True),
        ([6.0], "below", False),
        ([float("nan")], "above", False),
        ([], "above", False),
    ],
)
def test_a_query_stops_when_one_of_its_values_is_beyond_the_limit(
    server: Server, values: list[float], stop_when: str, stops: bool
) -> None:
    server.says(*values)
    assert bool(reason_to_stop(query(server, stop_when=stop_when))) == stops
    assert server.paths == ["/api/v1/query?query=errors"]


def test_a_scalar_is_a_value_too(server: Server) -> None:
    server.says(6.0, kind="scalar")
    assert reason_to_stop(query(server)) == "errors is 6, above 5"


def test_an_answer_that_is_no_query_result_stops(server: Server) -> None:
    server.body = b"<html>"
    assert "not a query result" in reason_to_stop(query(server))


@pytest.mark.parametrize(("unreachable", "stops"), [("halt", True), ("ignore", False)])
def test_nobody_there_stops_unless_it_is_to_be_ignored(unreachable: str, stops: bool) -> None:
    away = condition(http={"url": f"http://127.0.0.1:{free_port()}"}, unreachable=unreachable, timeout="1s")
    assert bool(reason_to_stop(away)) == stops
    assert condition(http={"url": "http://a"}).unreachable == "halt"


def test_it_is_asked_only_while_armed_and_halts_once(server: Server) -> None:
    backend = {"type": "memory", "capacity_bytes": 1}
    governor = Governor(validate({"version": 1, "backend": backend}), ManualClock())
    tripped: list[str] = []
    watcher = StopConditions(governor, tripped.append)
    server.status = 500
    health = condition(http={"url": server.url})
    asyncio.run(watcher.check(health))
    assert server.paths == []
    governor.set_faults(rate=0.5)
    for _ in range(2):
        asyncio.run(watcher.check(health))
    assert (len(server.paths), tripped) == (1, ["limit"])
    assert governor.snapshot().halt_reason == f"stop condition limit: {server.url} answered 500, not 200"


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ({}, "safety.stop_conditions[0]: give either http or prometheus"),
        ({"http": {"url": "ftp://x"}}, 'stop_conditions[0].http.url: "ftp://x" is not an HTTP address'),
        ({"http": {"url": "http://x"}, "interval": 5}, "stop_conditions[0].interval: 5 has no unit"),
        ({"http": {"url": "http://x"}, "unreachable": "go"}, "stop_conditions[0].unreachable: "),
    ],
)
def test_bad_input_is_named_with_its_place(parts: dict[str, Any], problem: str) -> None:
    backend = {"type": "memory", "capacity_bytes": 1}
    safety = {"stop_conditions": [{"name": "limit", **parts}]}
    with pytest.raises(ConfigError) as caught:
        validate({"version": 1, "backend": backend, "safety": safety})
    assert problem in str(caught.value)
