"""What a person sees on a terminal: the prompt as a row of coloured chunks, progress, and the numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kvchaos_blend.loader import LOADED, UNUSED
from kvchaos_blend.plan import Action, Plan
from kvchaos_blend.progress import (
    ChunkSettled,
    Event,
    LayerStarted,
    Phase,
    PhaseStarted,
    Planned,
    TokenMade,
)
from kvchaos_blend.report import RecoveryReport, StoreReport, Verification

COLOURS = {Action.LOADED: "green", Action.RECOMPUTED: "yellow", Action.DROPPED: "red"}
LETTERS = {Action.LOADED: "L", Action.RECOMPUTED: "R", Action.DROPPED: "d"}
PENDING = ("·", "dim")
FAILED = ("x", "bold red")


def prompt_row(plan: Plan) -> Text:
    """One cell for each chunk, and one for the sub-chunk end: colour and letter say what becomes of it."""
    row = Text(overflow="fold")
    for start in range(0, plan.prompt_tokens, plan.chunk_tokens):
        action = next(segment.action for segment in plan.segments if start < segment.run.end)
        row.append(LETTERS[action], style=f"bold white on {COLOURS[action]}")
        row.append(" ")
    return row


def legend() -> Text:
    """What the colours of :func:`prompt_row` mean."""
    line = Text()
    for action, colour in COLOURS.items():
        line.append(f" {LETTERS[action]} ", style=f"bold white on {colour}")
        line.append(f" {action.value}   ")
    return line


class LiveView:
    """A recovery under way, from its events. Renderable at any time."""

    def __init__(self, chunks: int) -> None:
        self._settled: list[str | None] = [None] * chunks
        self._plan: Plan | None = None
        self._phase = "starting"
        self._layer = ""
        self._tokens = 0

    def __call__(self, event: Event) -> None:
        """Takes one event in."""
        match event:
            case PhaseStarted(phase):
                self._phase, self._layer = phase.value, ""
            case ChunkSettled(chunk, outcome):
                self._settled[chunk] = outcome
            case Planned(plan):
                self._plan = plan
            case LayerStarted(layer, layers, tokens):
                self._layer = f"{tokens} tokens, layer {layer + 1} of {layers}"
            case TokenMade():
                self._tokens += 1

    def __rich__(self) -> RenderableType:
        """The picture as of now."""
        status = Text(f"{self._phase}  {self._layer}", style="bold")
        if self._tokens:
            status.append(f"  {self._tokens} tokens made", style="cyan")
        return Group(prompt_row(self._plan) if self._plan else self._arriving(), status)

    def _arriving(self) -> Text:
        row = Text(overflow="fold")
        for outcome in self._settled:
            letter, style = _ARRIVAL.get(outcome, FAILED)
            row.append(letter, style=style)
            row.append(" ")
        return row


_ARRIVAL: Mapping[str | None, tuple[str, str]] = {
    None: PENDING,
    LOADED: ("L", "bold white on green"),
    UNUSED: ("d", "bold white on red"),
}


def recovery_view(report: RecoveryReport) -> RenderableType:
    """Everything worth reading about one recovery."""
    parts: list[RenderableType] = [prompt_row(report.plan), legend(), Text(), comparison([report])]
    notes = [f"fallback: {report.fallback_reason}"] if report.fallback_reason else []
    notes += [f"warning: {warning}" for warning in report.warnings]
    notes += [f"healed chunks: {report.healed_chunks}"] if report.healed_chunks else []
    parts += [Text(note, style="yellow") for note in notes]
    if report.verification is not None:
        parts.append(gates_table(report.verification))
    parts.append(Text(f"next: {report.text!r}" if report.text else f"next token: {report.first_token}"))
    return Group(*parts)


def comparison(reports: Sequence[RecoveryReport]) -> Table:
    """Tokens, bytes and times of some recoveries, side by side. The total leaves verification out."""
    table = Table(title="recovery", title_justify="left")
    table.add_column("")
    for report in reports:
        table.add_column(report.plan.policy.value, justify="right")
    rows: list[tuple[str, list[str]]] = [
        (f"tokens {action.value}", [str(report.plan.tokens(action)) for report in reports])
        for action in Action
    ]
    rows.append(("tokens saved", [str(report.tokens_saved) for report in reports]))
    rows.append(("MiB loaded", [f"{report.loaded_bytes / 2**20:.1f}" for report in reports]))
    phases = [phase.value for phase in Phase if any(phase.value in report.phase_s for report in reports)]
    rows += [
        (f"{phase} ms", [_ms(report.phase_s.get(phase)) for report in reports])
        for phase in phases
        if phase != Phase.VERIFY.value
    ]
    rows.append(("overhead ms", [_ms(report.overhead_s) for report in reports]))
    rows.append(("total ms", [_ms(report.total_s - report.phase_s.get("verify", 0.0)) for report in reports]))
    for name, cells in rows:
        table.add_row(name, *cells)
    return table


def plan_table(plan: Plan) -> Table:
    """The plan's segments."""
    table = Table(title=f"plan, policy {plan.policy.value}", title_justify="left")
    for column in ("segment", "from", "to", "tokens"):
        table.add_column(column, justify="left" if column == "segment" else "right")
    for segment in plan.segments:
        run = segment.run
        table.add_row(segment.action.value, str(run.start), str(run.end - 1), str(run.tokens))
    return table


def gates_table(verification: Verification) -> Table:
    """The gates with their numbers."""
    table = Table(title="verification", title_justify="left")
    for column in ("gate", "", "measured", "limit", "what"):
        table.add_column(column, justify="right" if column in ("measured", "limit") else "left")
    for gate in verification.gates:
        verdict = Text("passed", style="green") if gate.passed else Text("FAILED", style="bold red")
        table.add_row(gate.name, verdict, f"{gate.measured:.3g}", f"{gate.limit:.3g}", gate.detail)
    return table


def store_view(report: StoreReport) -> RenderableType:
    """What came of storing a prompt."""
    text = Text(
        f"{report.stored} of {report.chunks} chunks stored ({report.stored_bytes / 2**20:.1f} MiB),"
        f" {report.present} were there, in {report.total_s * 1000:.0f} ms"
    )
    for reason, count in report.failed.items():
        text.append(f"\n{count} not stored: {reason}", style="bold red")
    return text


def _ms(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1000:.1f}"
