"""What the dashboards have in common: variables, links, annotations, refresh."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.models import dashboard as models
from panels import BLUE, DATASOURCE, ORANGE, RED, event
from promql import series


def _moved(function: str, metric: str, *conditions: str) -> str:
    return f"{function}({series(metric, *conditions)}[$__rate_interval]) > 0"


RULE_CHANGES = (
    event("Reload", _moved("increase", "kvchaos_reloads_total", 'result="applied"'), BLUE),
    event("Refused reload", _moved("increase", "kvchaos_reloads_total", 'result="refused"'), RED),
    event("Rules changed", _moved("changes", "kvchaos_generation"), ORANGE),
    event("Halted", f"{series('kvchaos_halted')} == 1", RED),
)
"""A reload, and any change of the rules in force: reload, runtime change, reset, end of a time to live."""


def frame(uid: str, title: str, description: str, instances_of: str) -> builders.Dashboard:
    """An empty dashboard. ``$instance`` chooses among the instances that have the metric ``instances_of``."""
    dashboard = (
        builders.Dashboard(title)
        .uid(uid)
        .description(description)
        .tags(["kvchaos"])
        .timezone("browser")
        .refresh("10s")
        .time("now-30m", "now")
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .link(
            builders.DashboardLink("kvchaos")
            .type(models.DashboardLinkType.DASHBOARDS)
            .tags(["kvchaos"])
            .keep_time(True)
            .include_vars(True)
        )
        .with_variable(builders.DatasourceVariable("datasource").label("Data source").type("prometheus"))
        .with_variable(labels_variable("instance", "Instance", f"label_values({instances_of}, instance)"))
    )
    for change in RULE_CHANGES:
        dashboard.annotation(change)
    return dashboard


def labels_variable(name: str, label: str, query: str) -> builders.QueryVariable:
    """A choice of several label values, all of them at first."""
    return (
        builders.QueryVariable(name)
        .label(label)
        .datasource(DATASOURCE)
        .query(query)
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.ALPHABETICAL_ASC)
        .multi(True)
        .include_all(True)
        .all_value(".*")
        .current(models.VariableOption(selected=True, text="All", value="$__all"))
    )
