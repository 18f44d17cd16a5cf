"""``serve``: the Blend service until a signal ends it."""

from __future__ import annotations

import logging
import signal
import threading
from argparse import ArgumentParser, Namespace
from datetime import UTC, datetime

from prometheus_client import CollectorRegistry, start_http_server

from kvchaos import __version__
from kvchaos.client import L2Client
from kvchaos.errors import ConfigError
from kvchaos_blend.cli.command import FAILED, FINE
from kvchaos_blend.cli.setup import add_policy_arguments, add_worker_arguments, open_worker
from kvchaos_blend.metrics import BlendMetrics
from kvchaos_blend.rpc.server import check_address, start_server
from kvchaos_blend.rpc.service import BlendService, StoreState

NAME = "serve"
HELP = "serve the Blend service"

GRACE_S = 5.0

logger = logging.getLogger(__name__)


def configure(parser: ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("--listen", default="127.0.0.1:9470", help="unix:PATH or loopback HOST:PORT")
    parser.add_argument("--http", default="127.0.0.1:9471", help="HOST:PORT of /metrics")
    parser.add_argument(
        "--max-running", type=int, default=4, metavar="N", help="requests at a time (default: 4)"
    )
    add_policy_arguments(parser)
    add_worker_arguments(parser)


def run(arguments: Namespace) -> int:
    """Serves until SIGTERM or SIGINT."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    check_address(arguments.listen)
    host, port = _http_address(arguments.http)
    asked_to_end = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: asked_to_end.set())
    with open_worker(arguments) as (worker, client):
        attention = worker.model.attention.name
        metrics = BlendMetrics(CollectorRegistry(), __version__, worker.model.name, attention)
        service = BlendService(
            worker,
            metrics,
            arguments.policy,
            lambda: _state_of(client),
            datetime.now(UTC),
            arguments.max_running,
        )
        server = start_server(service, arguments.listen, arguments.max_running)
        http, _ = start_http_server(port, host, metrics.registry)
        logger.info("serving %s on %s", worker.model.name, arguments.listen)
        logger.info("attention %s: %s", attention, worker.attention_reason)
        asked_to_end.wait()
        server.stop(grace=0).wait()
        http.shutdown()
        return FINE if service.wait_until_idle(GRACE_S) else FAILED


def _state_of(client: L2Client) -> StoreState:
    if client.connected and client.facts is not None:
        return StoreState(True, f"{client.target}, {client.facts.transport.value}")
    return StoreState(False, f"{client.target}: {client.cause}")


def _http_address(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise ConfigError([f"--http {address}: expected HOST:PORT"])
    return host, int(port)
