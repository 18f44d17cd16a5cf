"""The answers of many sidecars: a line for each, and a count."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from kvchaos.cli.output import Colour, Output
from kvchaos.cli.targets import Target


class Reported(Protocol):
    """What became of the command at one target."""

    @property
    def target(self) -> Target:
        """Where it was sent."""

    @property
    def answer(self) -> Any:
        """What the command would write as JSON."""

    @property
    def error(self) -> str:
        """Why it failed; empty when it did not."""


def show(reports: Sequence[Reported], command: str, output: Output) -> None:
    """A line for each target, in their order, and how many there were."""
    failed = sum(bool(report.error) for report in reports)
    if output.as_json:
        output.json(
            {
                "targets": [_plain(report) for report in reports],
                "ok": len(reports) - failed,
                "failed": failed,
            }
        )
        return
    width = max(len(report.target.name) for report in reports)
    for report in reports:
        word = (
            output.coloured("failed", Colour.BAD)
            if report.error
            else output.coloured("ok", Colour.GOOD) + " " * 4
        )
        text = report.error or SUMMARIES[command](report.answer)
        output.line(f"{report.target.name:<{width}}  {word}  {text}")
    output.line(f"{len(reports) - failed} of {len(reports)} ok" + (f", {failed} FAILED" if failed else ""))


def _plain(report: Reported) -> Mapping[str, Any]:
    return {
        "name": report.target.name,
        "address": report.target.address,
        "ok": not report.error,
        "error": report.error or None,
        "answer": None if report.error else report.answer,
    }


def _faults(faults: Mapping[str, Any]) -> str:
    parts = [
        f"generation {faults['generation']}",
        *(["HALTED"] if faults["halted"] else []),
        f"rate {faults['rate']:g} seed {faults['seed']}",
        *([f"gap_indices {faults['gap_indices']}"] if faults["gap_indices"] else []),
        *([f"gap_tail_ratios {faults['gap_tail_ratios']}"] if faults["gap_tail_ratios"] else []),
        *([f"rules {', '.join(faults['rules'])}"] if faults["rules"] else []),
    ]
    return ", ".join(parts)


def _change(answer: Mapping[str, Any]) -> str:
    warnings = "".join(f"; warning: {warning}" for warning in answer["warnings"])
    done = "changed" if answer["changed"] else "nothing to change"
    return f"{done}: {_faults(answer['fault_inject'])}{warnings}"


def _status(answer: Mapping[str, Any]) -> str:
    backend = answer["backend"]
    health = "healthy" if backend["healthy"] else f"NOT HEALTHY: {backend['detail']}"
    trouble = f"; reload error: {answer['reload_error']}" if answer["reload_error"] else ""
    return (
        f"{answer['daemon_version']}, {backend['type']} {health}, {len(answer['sessions'])} sessions, "
        f"{answer['fired_total']} of {answer['evaluated_total']} keys hit, "
        f"{_faults(answer['fault_inject'])}{trouble}"
    )


def _get(answer: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(f"{field['path']}={json.dumps(field['value'])} ({field['source']})" for field in answer)


def _rules(answer: Any) -> str:
    if isinstance(answer, list):
        listed = [f"{rule.get('rule') or rule['name']} {rule['state']}" for rule in answer]
        return ", ".join(listed)
    return (
        _change(answer)
        if "changed" in answer
        else f"{answer['name']} {answer['state']}, {answer['fired']} fired"
    )


def _drops(answer: Mapping[str, Any]) -> str:
    forgotten = int(answer["forgotten"])
    older = f", {forgotten} older forgotten" if forgotten else ""
    return f"{len(answer['events'])} events{older}"


SUMMARIES: Mapping[str, Callable[[Any], str]] = {
    "status": _status,
    "get": _get,
    "set": _change,
    "rules": _rules,
    "reload": _change,
    "halt": _change,
    "resume": _change,
    "reset": _change,
    "drops": _drops,
}
"""A line from the JSON of each command that works with many sidecars."""
