"""``kvchaos rules``: the rules in force, in the order in which they are evaluated."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from kvchaos.cli.connection import connect
from kvchaos.cli.output import Output
from kvchaos.v1 import common_pb2

NAME = "rules"
HELP = "List the rules in force."


def configure(parser: ArgumentParser) -> None:
    """Adds the action."""
    parser.add_argument("action", nargs="?", choices=["list"], default="list", help="list (the default)")


def run(arguments: Namespace, output: Output) -> None:
    """Asks the daemon and shows the rules."""
    with connect(arguments) as client:
        faults = client.get_status().fault_inject
    rows = [_fault_inject(faults), *({"rule": name, "state": _state(faults, True)} for name in faults.rules)]
    if output.as_json:
        output.json(rows)
        return
    output.table(("rule", "state", "operation", "fault", "selects"), [_row(rule) for rule in rows])


def _fault_inject(faults: common_pb2.FaultInject) -> dict[str, str]:
    selects = [
        *([f"rate {faults.rate:g} seed {faults.seed}"] if faults.rate else []),
        *([f"gap_indices {list(faults.gap_indices)}"] if faults.gap_indices else []),
        *([f"gap_tail_ratios {list(faults.gap_tail_ratios)}"] if faults.gap_tail_ratios else []),
    ]
    return {
        "rule": "fault_inject",
        "state": _state(faults, bool(selects)),
        "operation": "load",
        "fault": "drop",
        "selects": ", ".join(selects) or "nothing",
    }


def _state(faults: common_pb2.FaultInject, armed: bool) -> str:
    if not armed:
        return "idle"
    return "halted" if faults.halted else "armed"


def _row(rule: dict[str, str]) -> list[str]:
    return [rule.get(name, "") for name in ("rule", "state", "operation", "fault", "selects")]
