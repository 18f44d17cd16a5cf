"""The report of a recovery as a picture in a file."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from kvchaos_blend.plan import Action
from kvchaos_blend.report import RecoveryReport

COLOURS = {Action.LOADED: "#2a9d4a", Action.RECOMPUTED: "#e3b505", Action.DROPPED: "#c8453b"}


def save_plot(report: RecoveryReport, path: Path) -> None:
    """Draws the prompt's segments, the time by phase, and the error by layer where it was measured.

    The suffix of ``path`` chooses the format (png, svg, pdf).

    Raises:
        ValueError: a suffix that matplotlib does not know.
        OSError: the file cannot be written.
    """
    rows = 3 if report.verification is not None and report.verification.layers else 2
    figure = Figure(figsize=(9, 2.2 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, 1)
    _draw_segments(axes[0], report)
    _draw_phases(axes[1], report)
    if rows == 3:
        _draw_errors(axes[2], report)
    figure.savefig(path)


def _draw_segments(axes: Axes, report: RecoveryReport) -> None:
    for segment in report.plan.segments:
        axes.barh(0, segment.run.tokens, left=segment.run.start, color=COLOURS[segment.action])
    axes.set_title(
        f"prompt of {report.plan.prompt_tokens} tokens, policy {report.plan.policy.value}", loc="left"
    )
    axes.set_yticks([])
    axes.set_xlim(0, report.plan.prompt_tokens)
    axes.set_xlabel("position")
    axes.legend(
        handles=[Patch(color=colour, label=action.value) for action, colour in COLOURS.items()],
        loc="upper left",
        bbox_to_anchor=(1.0, 1.0),
    )


def _draw_phases(axes: Axes, report: RecoveryReport) -> None:
    names = [*report.phase_s, "overhead"]
    bars = axes.barh(names, [*(s * 1000 for s in report.phase_s.values()), report.overhead_s * 1000])
    axes.bar_label(bars, fmt="%.1f", padding=3)
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.set_title(f"time by phase, {report.total_s * 1000:.1f} ms in all", loc="left")
    axes.set_xlabel("ms")


def _draw_errors(axes: Axes, report: RecoveryReport) -> None:
    layers = report.verification.layers if report.verification is not None else ()
    numbers = [error.layer for error in layers]
    axes.plot(numbers, [error.key for error in layers], marker=".", label="K")
    axes.plot(numbers, [error.value for error in layers], marker=".", label="V")
    axes.set_yscale("symlog", linthresh=1e-9)
    axes.set_title("relative error of the recomputed KV", loc="left")
    axes.set_xlabel("layer")
    axes.legend()
