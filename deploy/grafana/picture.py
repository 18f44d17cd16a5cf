"""Draws a dashboard's panels from the data of a running Prometheus, for the documentation.

    python deploy/grafana/picture.py http://127.0.0.1:9090 dashboards/kvchaos-overview.json overview.png

Every number is what Prometheus answers to the panel's own query. The drawing is matplotlib's: Grafana shows
the same panels in the same places, and looks different.
"""

from __future__ import annotations

import argparse
import json
import urllib.parse
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.dates import DateFormatter
from matplotlib.ticker import EngFormatter, PercentFormatter

COLUMNS = 24
STEP_S = 5
WIDTH_IN, ROW_IN, HEADER_IN, DPI = 18, 0.4, 0.8, 75
MARGIN_IN = {"left": 0.6, "right": 0.15, "bottom": 0.3, "top": 0.3}
VARIABLES = {"$__rate_interval": "20s", "$instance": ".*", "$rule": ".*"}
UNITS = {
    "s": EngFormatter("s"),
    "Bps": EngFormatter("B/s"),
    "percentunit": PercentFormatter(1.0, decimals=0),
    "ops": EngFormatter("/s"),
    "reqps": EngFormatter("/s"),
}
COLOURS = {"green": "#56a64b", "yellow": "#e0b400", "orange": "#ff780a", "red": "#e02f44", "blue": "#3274d9"}


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a panel."""

    name: str
    times: Sequence[datetime]
    values: Sequence[float]


class Source:
    """A Prometheus and the stretch of time that is drawn."""

    def __init__(self, url: str, minutes: float) -> None:
        self._url = url
        self.end = datetime.now(UTC)
        self.start = self.end - timedelta(minutes=minutes)

    def series(self, expression: str, legend: str) -> list[Series]:
        """What a panel's query gives, named by its legend."""
        for name, value in VARIABLES.items():
            expression = expression.replace(name, value)
        parameters = {
            "query": expression,
            "start": self.start.timestamp(),
            "end": self.end.timestamp(),
            "step": STEP_S,
        }
        url = f"{self._url}/api/v1/query_range?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310  (the caller's own Prometheus)
            results = json.load(answer)["data"]["result"]
        return [_series(result, legend) for result in results]


def _series(result: dict[str, Any], legend: str) -> Series:
    for label, value in result["metric"].items():
        legend = legend.replace(f"{{{{{label}}}}}", value)
    times = [datetime.fromtimestamp(float(at), UTC) for at, _ in result["values"]]
    return Series(legend, times, [float(value) for _, value in result["values"]])


def draw(dashboard: dict[str, Any], source: Source, output: Path) -> None:
    """Writes a picture of all panels in their places."""
    panels = dashboard["panels"]
    rows = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels)
    figure = plt.figure(figsize=(WIDTH_IN, rows * ROW_IN + HEADER_IN), facecolor="white")
    for panel in panels:
        _DRAWN[panel["type"]](figure.add_axes(_place(panel["gridPos"], rows)), panel, source)
    figure.text(0.01, 1 - 0.5 / (rows * ROW_IN + HEADER_IN), dashboard["title"], fontsize=16)
    figure.text(
        0.99,
        1 - 0.5 / (rows * ROW_IN + HEADER_IN),
        "drawn with matplotlib from Prometheus, not by Grafana",
        ha="right",
        color="grey",
    )
    figure.savefig(output, dpi=DPI)
    plt.close(figure)


def _place(box: dict[str, int], rows: int) -> tuple[float, float, float, float]:
    """Left, bottom, width and height of a panel's axes, as shares of the figure, with room for its labels."""
    height_in = rows * ROW_IN + HEADER_IN
    left_in = box["x"] / COLUMNS * WIDTH_IN + MARGIN_IN["left"]
    bottom_in = (rows - box["y"] - box["h"]) * ROW_IN + MARGIN_IN["bottom"]
    width_in = box["w"] / COLUMNS * WIDTH_IN - MARGIN_IN["left"] - MARGIN_IN["right"]
    tall_in = max(box["h"] * ROW_IN - MARGIN_IN["bottom"] - MARGIN_IN["top"], 0.1)
    return left_in / WIDTH_IN, bottom_in / height_in, width_in / WIDTH_IN, tall_in / height_in


def _draw_row(axes: Axes, panel: dict[str, Any], source: Source) -> None:
    axes.axis("off")
    axes.text(0, 0.5, panel["title"], fontsize=13, weight="bold", va="center")


def _draw_stat(axes: Axes, panel: dict[str, Any], source: Source) -> None:
    lines = _lines(panel, source)
    value = lines[0].values[-1] if lines else float("nan")
    text, colour = _appearance(panel, value)
    axes.set_facecolor(colour)
    axes.set(xticks=[], yticks=[])
    axes.set_title(panel["title"], fontsize=10, loc="left")
    axes.text(0.5, 0.5, text, color="white", fontsize=20, weight="bold", ha="center", va="center")


def _draw_table(axes: Axes, panel: dict[str, Any], source: Source) -> None:
    axes.axis("off")
    axes.set_title(panel["title"], fontsize=10, loc="left")
    target = panel["targets"][0]
    rows = source.series(target["expr"], "{{rule}} | {{reason}} | {{fault}}")
    cells = [[*row.name.split(" | "), f"{row.values[-1]:.0f}"] for row in rows]
    if cells:
        axes.table(cells, colLabels=["rule", "reason", "fault", target["legendFormat"]], loc="upper center")


def _draw_chart(axes: Axes, panel: dict[str, Any], source: Source) -> None:
    lines = _lines(panel, source)
    for line in lines:
        axes.plot(line.times, line.values, label=line.name, linewidth=1.2)
    formatter = UNITS.get(panel["fieldConfig"]["defaults"]["unit"])
    if formatter is not None:
        axes.yaxis.set_major_formatter(formatter)
    axes.set_ylim(bottom=0)
    axes.set_xlim(source.start, source.end)
    axes.xaxis.set_major_formatter(DateFormatter("%H:%M:%S"))
    axes.set_title(panel["title"], fontsize=10, loc="left")
    axes.tick_params(labelsize=7)
    axes.grid(alpha=0.3)
    if lines:
        axes.legend(fontsize=6, loc="upper left", ncols=2, framealpha=0.6)


def _lines(panel: dict[str, Any], source: Source) -> list[Series]:
    return [
        line for target in panel["targets"] for line in source.series(target["expr"], target["legendFormat"])
    ]


def _appearance(panel: dict[str, Any], value: float) -> tuple[str, str]:
    """Text and colour of a value: by its mapping, else by its unit and thresholds."""
    defaults = panel["fieldConfig"]["defaults"]
    for mapping in defaults.get("mappings", ()):
        word = mapping["options"].get(f"{value:.0f}")
        if word:
            return word["text"], COLOURS[word["color"]]
    steps = [
        step for step in defaults["thresholds"]["steps"] if step["value"] is None or value >= step["value"]
    ]
    text = f"{value:.0%}" if defaults["unit"] == "percentunit" else f"{value:.0f}"
    return text, COLOURS[steps[-1]["color"]]


_DRAWN = {"row": _draw_row, "stat": _draw_stat, "table": _draw_table, "timeseries": _draw_chart}


def main() -> None:
    """Reads the arguments and draws."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("prometheus", metavar="URL")
    parser.add_argument("dashboard", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--minutes", type=float, default=5.0, help="how far back (default: 5)")
    options = parser.parse_args()
    dashboard = json.loads(options.dashboard.read_text())
    draw(dashboard, Source(options.prometheus, options.minutes), options.output)


if __name__ == "__main__":
    main()
