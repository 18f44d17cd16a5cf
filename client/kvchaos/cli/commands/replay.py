"""``kvchaos replay``: injects the faults of a recording again, at the same calls."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from kvchaos.cli.child import add_command_argument, run_child
from kvchaos.cli.connection import TARGET_VARIABLE, connect, target_of
from kvchaos.cli.faults_view import show_change
from kvchaos.cli.output import Colour, Output
from kvchaos.cli.plain import plain
from kvchaos.cli.replaying import arm, armed, read_faults, replayed
from kvchaos.cli.values import duration
from kvchaos.control import ControlClient
from kvchaos.errors import ConfigError, ReplayFailed
from kvchaos.v1 import control_pb2

NAME = "replay"
HELP = "Inject the faults of a recording again, at the same calls; or report how far that has come."


def configure(parser: ArgumentParser) -> None:
    """Adds the recording, and what runs against it."""
    parser.add_argument("recording", type=Path, nargs="?", metavar="RECORDING", help="the recording")
    parser.add_argument("--ttl", type=duration, metavar="DURATION", help="end the replay after this")
    parser.add_argument(
        "--report", action="store_true", help="arm nothing; tell which recorded calls have not come"
    )
    add_command_argument(
        parser,
        "*",
        "behind --: replay while this runs, then report, and fail unless every recorded call came",
    )


def run(arguments: Namespace, output: Output) -> None:
    """Arms the replay, or runs a command under it, or reports."""
    with connect(arguments) as client:
        if arguments.report:
            _report(client, output)
        elif arguments.recording is None:
            raise ConfigError(["replay needs a recording, or --report"])
        elif arguments.child:
            _run_under(client, arguments, output)
        else:
            recording = read_faults(arguments.recording)
            _warn(recording.warnings, output)
            show_change(arm(client, recording.faults, arguments.ttl), output)


def _run_under(client: ControlClient, arguments: Namespace, output: Output) -> None:
    recording = read_faults(arguments.recording)
    _warn(recording.warnings, output)
    with armed(client, recording.faults):
        code = run_child(arguments.child, {TARGET_VARIABLE: target_of(arguments)})
        awaited = _report(client, output)
    if code:
        raise ReplayFailed(f"{arguments.child[0]} ended with exit code {code}")
    if awaited:
        raise ReplayFailed(f"{awaited} recorded calls did not come; the run was another one")


def _report(client: ControlClient, output: Output) -> int:
    """Shows how far the replay has come. Returns how many calls are awaited."""
    rules = replayed(client)
    if not rules:
        raise ConfigError(["no replay is in force; kvchaos replay RECORDING begins one"])
    if output.as_json:
        output.json([plain(rule) for rule in rules])
    else:
        _show(rules, output)
    return sum(rule.awaited for rule in rules)


def _show(rules: Sequence[control_pb2.RuleStatus], output: Output) -> None:
    output.table(
        ("rule", "state", "fault", "hit", "calls awaited"),
        [(rule.name, rule.state, rule.fault, rule.fired, rule.awaited) for rule in rules],
    )
    for rule in rules:
        for call in rule.awaited_calls:
            output.line(f"{rule.name} awaits {call}")


def _warn(warnings: Sequence[str], output: Output) -> None:
    if not output.as_json:
        for warning in warnings:
            output.line(output.coloured(f"warning: {warning}", Colour.WARNING))
