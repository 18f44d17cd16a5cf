"""Pictures of the results, as SVG that stays the same for the same numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
from matplotlib import pyplot
from matplotlib.axes import Axes

from tests.bench import blend_page
from tests.bench.parts import adapters, decisions, drops, inline, proxies, scale
from tests.bench.results import Results

mpl.rcParams["svg.hashsalt"] = "kvchaos"
mpl.rcParams["svg.fonttype"] = "none"
_SIZE_INCHES = (7.5, 4.0)
_MIB = 1 << 20


def draw(run: Results, path: Path) -> bool:
    """Draws the part's picture. False when it has none."""
    plot = _PLOTS.get(run.part)
    if plot is None:
        return False
    figure, axes = pyplot.subplots(figsize=_SIZE_INCHES, layout="constrained")
    plot(run, axes)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
    return True


def _adapters(run: Results, axes: Axes) -> None:
    for operation in ("load", "store"):
        for keys in run.distinct("keys"):
            points = [
                (row.case["size_bytes"] / _MIB, ratio)
                for row in run.rows
                if row.side == adapters.SIDECAR_FS
                and (row.case["operation"], row.case["keys"], row.case["in_flight"]) == (operation, keys, 1)
                and (ratio := run.ratio(adapters.SIDECAR_FS, adapters.FS_NATIVE, **row.case)) is not None
            ]
            if points:
                style = "-o" if operation == "load" else "--s"
                axes.plot(*zip(*points, strict=True), style, label=f"{operation}, {keys} keys", markersize=4)
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.set(xscale="log", xlabel="object, MiB", ylabel="speed, in-process fs_native = 1", ylim=(0, None))


def _proxies(run: Results, axes: Axes) -> None:
    for side in (proxies.SIDECAR_REDIS, proxies.SIDECAR_HOSTED_RESP, proxies.HAPROXY, proxies.NGINX):
        points = [
            (row.case["size_bytes"] / _MIB, (row.values["median_s"] - direct) * 1000)
            for row in run.rows
            if row.side == side
            and row.case["operation"] == "load"
            and (direct := run.value(proxies.DIRECT, "median_s", **row.case)) is not None
        ]
        if points:
            axes.plot(*zip(*points, strict=True), "-o", label=side, markersize=4)
    axes.set(xscale="log", xlabel="object, MiB", ylabel="added to a load of 32 keys, ms")


def _decisions(run: Results, axes: Axes) -> None:
    judged = [row for row in run.rows if row.side == "judge"]
    largest = max(row.case["batch"] for row in judged)
    for kind in (decisions.ONE_RATE, decisions.CLASSIC, decisions.IDLE, decisions.RATE_ZERO):
        points = [
            (max(row.case["rules"], 0.5), row.values["median_s"] * 1e6)
            for row in judged
            if row.case["kind"] == kind and row.case["batch"] == largest
        ]
        if points:
            axes.plot(*zip(*points, strict=True), "-o", label=kind, markersize=4)
    axes.set(xscale="log", yscale="log", xlabel="rules", ylabel=f"µs for a batch of {largest:,} keys")


def _drops(run: Results, axes: Axes) -> None:
    largest = max(run.distinct("size_bytes"))
    for side in (drops.SIDECAR, drops.FAULT_INJECT):
        points = [
            (row.case["rate"], row.values["median_s"] * 1000)
            for row in run.rows
            if row.side == side and row.case["size_bytes"] == largest
        ]
        axes.plot(*zip(*points, strict=True), "-o", label=side, markersize=4)
    axes.set(xlabel="rate", ylabel=f"load of 32 objects of {largest // _MIB} MiB, ms", ylim=(0, None))


def _scale(run: Results, axes: Axes) -> None:
    points = [
        (row.case["sessions"], row.values["bytes_per_s"] / 1e9)
        for row in run.rows
        if row.case["what"] == "sessions"
    ]
    axes.plot(*zip(*points, strict=True), "-o", label=f"{scale.SIDECAR}, 32 objects of 256 KiB")
    axes.set(xscale="log", xlabel="sessions at once", ylabel="GB/s together", ylim=(0, None))


def _inline(run: Results, axes: Axes) -> None:
    for side in (inline.INLINE, inline.HANDOFF):
        points = [
            (
                f"{row.case['keys']} x {row.case['size_bytes'] // _MIB} MiB",
                row.case["keys"] * row.case["size_bytes"] / row.values["median_s"] / 1e9,
            )
            for row in run.rows
            if row.side == side
        ]
        axes.plot(*zip(*points, strict=True), "o", label=side)
    axes.set(ylabel="GB/s", ylim=(0, None))


_PLOTS: Mapping[str, Callable[[Results, Axes], None]] = {
    "adapters": _adapters,
    "proxies": _proxies,
    "decisions": _decisions,
    "drops": _drops,
    "scale": _scale,
    "inline": _inline,
    "blend": blend_page.plot,
}
