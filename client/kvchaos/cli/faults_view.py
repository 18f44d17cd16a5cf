"""The faults in force, and a change of them, for a person."""

from __future__ import annotations

from collections.abc import Sequence

from kvchaos.cli.output import Colour, Output
from kvchaos.cli.plain import plain
from kvchaos.v1 import common_pb2, control_pb2

SHOWN_RULES = 8


def show_change(change: control_pb2.ChangeResponse, output: Output) -> None:
    """What a change led to."""
    if output.as_json:
        output.json(plain(change))
        return
    generation = change.fault_inject.generation
    output.line(
        f"{'changed' if change.changed else 'nothing to change'}; generation {generation} is in force"
    )
    show_warnings(change.warnings, output)
    rules = change.fault_inject.rules
    if rules:
        more = f" and {len(rules) - SHOWN_RULES} more" if len(rules) > SHOWN_RULES else ""
        output.line(f"rules: {', '.join(rules[:SHOWN_RULES])}{more}; kvchaos rules lists them")
    show_faults(change.fault_inject, output)


def show_warnings(warnings: Sequence[str], output: Output) -> None:
    """Rules that can never fire, one to a line."""
    for warning in warnings:
        output.line(output.coloured(f"warning: {warning}", Colour.WARNING))


def show_faults(faults: common_pb2.FaultInject, output: Output) -> None:
    """The fault_inject values, one to a line."""
    halted = output.coloured("yes", Colour.BAD) if faults.halted else "no"
    output.pairs(
        [
            ("rate", f"{faults.rate:g}"),
            ("seed", faults.seed),
            ("gap_indices", list(faults.gap_indices)),
            ("gap_tail_ratios", list(faults.gap_tail_ratios)),
            ("halted", halted),
        ]
    )
