"""``kvchaos status``: what the daemon is, does and has done."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from kvchaos.cli.connection import connect, target_of
from kvchaos.cli.faults_view import show_faults
from kvchaos.cli.output import Colour, Output
from kvchaos.cli.plain import iso, plain
from kvchaos.v1 import common_pb2, control_pb2

NAME = "status"
HELP = "Show what the daemon is, what it injects and who is connected."


def configure(parser: ArgumentParser) -> None:
    """No arguments of its own."""


def run(arguments: Namespace, output: Output) -> None:
    """Asks the daemon and shows the answer."""
    with connect(arguments) as client:
        status = client.get_status()
    if output.as_json:
        output.json(plain(status))
        return
    output.line(output.coloured(status.warning, Colour.WARNING))
    output.line()
    output.pairs(
        [("daemon", f"kvchaos-sidecar {status.daemon_version} at {target_of(arguments)}"), *_facts(status)]
    )
    output.line()
    show_faults(status.fault_inject, output)
    if status.sessions:
        output.line()
        _show_sessions(status, output)


def _facts(status: control_pb2.GetStatusResponse) -> list[tuple[str, object]]:
    backend = status.backend
    health = "healthy" if backend.healthy else f"NOT HEALTHY: {backend.detail}"
    capacity = f"{backend.capacity_bytes}" if backend.capacity_bytes else "no limit"
    return [
        ("started", iso(status.started_at)),
        ("backend", f"{backend.type} {backend.description} ({health})"),
        ("bytes stored", f"{backend.total_bytes} (capacity: {capacity})"),
        ("configuration", status.config_path),
        ("reload error", status.reload_error),
        ("generation", status.fault_inject.generation),
        ("keys evaluated", status.evaluated_total),
        ("keys hit", status.fired_total),
        ("halt reason", status.halt_reason),
    ]


def _show_sessions(status: control_pb2.GetStatusResponse, output: Output) -> None:
    output.table(
        ("session", "client", "transport", "locks", "grants", "uid", "opened"),
        [
            (
                session.short_id,
                session.client_name,
                common_pb2.Transport.Name(session.transport).removeprefix("TRANSPORT_").lower(),
                session.locks,
                session.grants,
                session.uid if session.uid >= 0 else "",
                iso(session.opened_at),
            )
            for session in status.sessions
        ],
    )
