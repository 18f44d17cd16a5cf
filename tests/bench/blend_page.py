"""The blend worker's numbers for the page: table, picture and targets."""

from __future__ import annotations

from collections.abc import Callable

from matplotlib.axes import Axes

from tests.bench.parts.blend import FULL, GAPS, PREFIX, SEGMENTED
from tests.bench.results import Results, Row

WORTHWHILE_GAP_TOKENS = 256
"""From this size of a gap on, the cost of a recovery is to follow its share of the operations."""


def over_share(run: Results, row: Row, value: str = "median_s") -> float:
    """Time of a recovery over (its share of a full prefill's operations) x (the measured full prefill)."""
    full_s, full_flops = (run.value(FULL, name, **row.case) or 0.0 for name in ("median_s", "flops"))
    return row.values[value] / (row.values["flops"] / full_flops * full_s)


def segmented_over_share(run: Results) -> list[float]:
    """For every gap worth it, the whole time of SEGMENTED_PREFIX over its share."""
    return [
        over_share(run, row)
        for row in run.rows
        if row.side == SEGMENTED and row.case["gap_tokens"] >= WORTHWHILE_GAP_TOKENS
    ]


def overhead_percent(run: Results) -> list[float]:
    """What is neither load, scatter nor model, for every recovery by SEGMENTED_PREFIX."""
    return [row.values["overhead_share"] * 100 for row in run.rows if row.side == SEGMENTED]


def describe(run: Results, table: Callable[..., str]) -> list[str]:
    """The section's tables."""
    head = (
        "tokens",
        "gap",
        "missing tokens",
        "full prefill, s",
        "PREFIX, s",
        "SEGMENTED_PREFIX, s",
        "of it load and scatter, ms",
        "share of the operations",
        "time over share",
        "overhead",
    )
    lines = [_line(run, row) for row in run.rows if row.side == SEGMENTED]
    return [
        "SmolLM2-135M in float32. *Time over share* is the whole time over (share of a full prefill's"
        " operations) x (the measured full prefill): 1.0 is as good as the model can be run here.\n",
        table(head, lines),
    ]


def _line(run: Results, row: Row) -> tuple[str, ...]:
    full, prefix = (run.value(side, "median_s", **row.case) or 0.0 for side in (FULL, PREFIX))
    share = row.values["flops"] / (run.value(FULL, "flops", **row.case) or 1.0)
    return (
        f"{row.case['tokens']:,}",
        row.case["gap"],
        f"{row.case['gap_tokens']:,}",
        f"{full:.2f}",
        f"{prefix:.2f}",
        f"{row.values['median_s']:.2f}",
        f"{(row.values['load_s'] + row.values['scatter_s']) * 1000:.0f}",
        f"{share:.1%}",
        f"{over_share(run, row):.2f}",
        f"{row.values['overhead_share']:.1%}",
    )


def plot(run: Results, axes: Axes) -> None:
    """Time by length of the prompt, for each policy and for what the operations allow."""
    gap = GAPS[0]
    lengths = run.distinct("tokens")
    for side in (FULL, PREFIX, SEGMENTED):
        times = [run.value(side, "median_s", tokens=length, gap=gap) for length in lengths]
        axes.plot(lengths, times, "-o", label=side, markersize=4)
    floor = [_floor(run, length, gap) for length in lengths]
    axes.plot(lengths, floor, ":", color="black", label="SEGMENTED_PREFIX by its share of the operations")
    axes.set(
        xscale="log", yscale="log", xlabel="tokens in the prompt", ylabel="seconds, one gap in the middle"
    )


def _floor(run: Results, length: int, gap: str) -> float:
    full_s, full_flops = (
        run.value(FULL, name, tokens=length, gap=gap) or 0.0 for name in ("median_s", "flops")
    )
    flops = run.value(SEGMENTED, "flops", tokens=length, gap=gap) or 0.0
    return full_s * flops / full_flops
