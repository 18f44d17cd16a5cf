"""Panels as this project draws them: each with a unit, legends and a description."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.builders import prometheus, stat, table, timeseries
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

DATASOURCE = models.DataSourceRef(type_val="prometheus", uid="${datasource}")

GREEN, YELLOW, ORANGE, RED, BLUE = "green", "yellow", "orange", "red", "blue"

Panel = Builder[models.Panel]

Thresholds = Sequence[tuple[float | None, str]]
"""Colours from a value on; the first has no value."""


@dataclass(frozen=True, slots=True)
class Query:
    """One PromQL expression and how its series are named."""

    expression: str
    legend: str


@dataclass(frozen=True, slots=True)
class Size:
    """Width of 24 and height in grid units."""

    width: int
    height: int


TILE = Size(4, 4)
THIRD = Size(8, 8)
HALF = Size(12, 8)
FULL = Size(24, 8)


def chart(
    title: str,
    description: str,
    unit: str,
    queries: Sequence[Query],
    size: Size = THIRD,
    stacked: bool = False,
    thresholds: Thresholds = ((None, GREEN),),
) -> timeseries.Panel:
    """Lines over time, or stacked areas where the sum means something."""
    legend = (
        common_builders.VizLegendOptions()
        .show_legend(True)
        .display_mode(common.LegendDisplayMode.TABLE)
        .placement(common.LegendPlacement.BOTTOM)
        .calcs(["lastNotNull", "max"])
    )
    tooltip = (
        common_builders.VizTooltipOptions()
        .mode(common.TooltipDisplayMode.MULTI)
        .sort(common.SortOrder.DESCENDING)
    )
    panel = (
        timeseries.Panel()
        .title(title)
        .description(description)
        .datasource(DATASOURCE)
        .unit(unit)
        .min(0)
        .span(size.width)
        .height(size.height)
        .legend(legend)
        .tooltip(tooltip)
        .fill_opacity(20 if stacked else 5)
        .line_width(1)
        .show_points(common.VisibilityMode.NEVER)
        .thresholds(_thresholds(thresholds))
    )
    if stacked:
        panel.stacking(common_builders.StackingConfig().mode(common.StackingMode.NORMAL).group("A"))
    if len(thresholds) > 1:
        panel.thresholds_style(
            common_builders.GraphThresholdsStyleConfig().mode(common.GraphThresholdsStyleMode.DASHED)
        )
    for position, query in enumerate(queries):
        panel.with_target(_target(query, position))
    return panel


def tile(
    title: str,
    description: str,
    unit: str,
    query: Query,
    thresholds: Thresholds = ((None, BLUE),),
    words: Mapping[int, tuple[str, str]] | None = None,
    size: Size = TILE,
) -> stat.Panel:
    """The latest value, large. ``words`` gives values a text and a colour."""
    panel = (
        stat.Panel()
        .title(title)
        .description(description)
        .datasource(DATASOURCE)
        .unit(unit)
        .span(size.width)
        .height(size.height)
        .color_mode(common.BigValueColorMode.BACKGROUND_SOLID)
        .graph_mode(common.BigValueGraphMode.NONE)
        .reduce_options(common_builders.ReduceDataOptions().calcs(["lastNotNull"]).values(False))
        .thresholds(_thresholds(thresholds))
        .with_target(_target(query, 0))
    )
    if words:
        options = {
            str(value): models.ValueMappingResult(text=text, color=colour)
            for value, (text, colour) in words.items()
        }
        panel.mappings([models.ValueMap(options=options)])
    return panel


def listing(title: str, description: str, unit: str, query: Query, size: Size = HALF) -> table.Panel:
    """The latest value of every series, one row each."""
    target = _target(query, 0).instant().format(PromQueryFormat.TABLE)
    organize = models.DataTransformerConfig(
        id_val="organize",
        options={"excludeByName": {"Time": True}, "renameByName": {"Value": query.legend}},
    )
    return (
        table.Panel()
        .title(title)
        .description(description)
        .datasource(DATASOURCE)
        .unit(unit)
        .span(size.width)
        .height(size.height)
        .thresholds(_thresholds(((None, GREEN),)))
        .with_target(target)
        .with_transformation(organize)
    )


def event(name: str, expression: str, colour: str) -> builders.AnnotationQuery:
    """A vertical line wherever the expression has a value."""
    return (
        builders.AnnotationQuery()
        .name(name)
        .datasource(DATASOURCE)
        .enable(True)
        .icon_color(colour)
        .expr(expression)
    )


def _target(query: Query, position: int) -> prometheus.Dataquery:
    return (
        prometheus.Dataquery()
        .expr(query.expression)
        .legend_format(query.legend)
        .datasource(DATASOURCE)
        .ref_id(chr(ord("A") + position))
    )


def _thresholds(steps: Thresholds) -> builders.ThresholdsConfig:
    return (
        builders.ThresholdsConfig()
        .mode(models.ThresholdsMode.ABSOLUTE)
        .steps([models.Threshold(value=value, color=colour) for value, colour in steps])
    )
