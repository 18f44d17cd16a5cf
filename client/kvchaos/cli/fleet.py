"""One command for many sidecars: sent to all at once, answered with a line for each.

No target's failure is hidden by the success of another: each has its line, the last line counts them, and
the exit code says that one failed. With ``--all-or-nothing`` nothing is sent unless every target answers, and
what was changed is taken back when one fails all the same.
"""

from __future__ import annotations

import io
import json
from argparse import Namespace
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from kvchaos.cli.connection import connect
from kvchaos.cli.explained import explained
from kvchaos.cli.fleet_view import SUMMARIES, show
from kvchaos.cli.output import Output
from kvchaos.cli.targets import Target, read_targets
from kvchaos.errors import ConfigError, DeadlineExceeded, KVChaosError

MAX_AT_ONCE = 64
CHANGES = ("set", "halt", "resume", "reset", "rules")
"""Commands whose changes can be taken back."""
RULE_CHANGES = ("add", "remove", "enable", "disable")


@dataclass(frozen=True, slots=True)
class Report:
    """What became of the command at one target."""

    target: Target
    answer: Any = None
    """What the command would write as JSON; None when it failed."""
    error: str = ""


def run(arguments: Namespace, output: Output) -> bool:
    """Sends the command to every target and shows the answers. True when it was carried out at all.

    Raises:
        ConfigError: the targets or the command do not fit. Nothing was sent.
    """
    _require_one_way(arguments)
    targets = read_targets(arguments.targets)
    reports = _all_or_nothing(targets, arguments) if _is_whole(arguments) else _send(targets, arguments)
    show(reports, arguments.command.NAME, output)
    return not any(report.error for report in reports)


def _is_whole(arguments: Namespace) -> bool:
    return bool(getattr(arguments, "all_or_nothing", False))


def _require_one_way(arguments: Namespace) -> None:
    name = arguments.command.NAME
    if hasattr(arguments, "target"):
        raise ConfigError(["give --target or --targets, not both"])
    if name not in SUMMARIES:
        raise ConfigError([f"{name} works with one sidecar; give --target instead of --targets"])
    if getattr(arguments, "what", None) == "-":
        raise ConfigError(
            ["rules add: standard input can be read once; give a file when there are --targets"]
        )
    changes = name in CHANGES and getattr(arguments, "action", "add") in RULE_CHANGES
    if _is_whole(arguments) and not changes:
        raise ConfigError([f"--all-or-nothing: {name} makes no change that can be taken back"])


def _send(targets: Sequence[Target], arguments: Namespace) -> list[Report]:
    return _on_all(targets, lambda target: _ask(target, arguments))


def _all_or_nothing(targets: Sequence[Target], arguments: Namespace) -> list[Report]:
    probes = _on_all(targets, lambda target: _probe(target, arguments))
    if any(probe.error for probe in probes):
        return [
            replace(probe, error=probe.error or "nothing was sent: another target failed") for probe in probes
        ]
    reports = _send(targets, arguments)
    if not any(report.error for report in reports):
        return reports
    answers = {report.target: report for report in reports}
    return _on_all(targets, lambda target: _take_back(answers[target], arguments))


def _on_all(targets: Sequence[Target], work: Callable[[Target], Report]) -> list[Report]:
    with ThreadPoolExecutor(min(len(targets), MAX_AT_ONCE), thread_name_prefix="kvchaos-fleet") as threads:
        return list(threads.map(work, targets))


def _ask(target: Target, arguments: Namespace) -> Report:
    written = io.StringIO()
    return _reported(
        target,
        lambda: _run_into(written, arguments.command, _addressed(arguments, target)),
    )


def _run_into(written: io.StringIO, command: Any, arguments: Namespace) -> Any:
    command.run(arguments, Output(written, as_json=True))
    return json.loads(written.getvalue())


def _probe(target: Target, arguments: Namespace) -> Report:
    def answers() -> None:
        with connect(_addressed(arguments, target)) as client:
            client.get_status()

    return _reported(target, answers)


def _take_back(report: Report, arguments: Namespace) -> Report:
    if report.error:
        return report
    if not report.answer["changed"]:
        return replace(report, error="another target failed; nothing had changed here")

    def undo() -> None:
        with connect(_addressed(arguments, report.target)) as client:
            client.undo(report.answer["change"])

    undone = _reported(report.target, undo)
    if undone.error:
        return replace(report, error=f"CHANGED, and not taken back: {undone.error}")
    return replace(report, error="another target failed; the change was taken back")


def _reported(target: Target, work: Callable[[], Any]) -> Report:
    if target.problem:
        return Report(target, error=target.problem)
    try:
        return Report(target, work())
    except KVChaosError as error:
        text = " ".join(explained(error, target.address).split())
        if isinstance(error, DeadlineExceeded):
            text += "; what it was asked it may still do"
        return Report(target, error=text)


def _addressed(arguments: Namespace, target: Target) -> Namespace:
    server_name = getattr(arguments, "server_name", "") or target.server_name
    return Namespace(**{**vars(arguments), "target": target.address, "server_name": server_name})
