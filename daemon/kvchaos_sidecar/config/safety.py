"""The ``safety`` part of the document: what keeps injection within bounds."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from kvchaos_sidecar.config.bounds import Between
from kvchaos_sidecar.config.fields import DurationField, ListOf, Part, PositiveCount, Ratio, Text
from kvchaos_sidecar.config.problems import shown


def _http_url(value: str) -> str:
    if not value.startswith(("http://", "https://")):
        raise ValueError(f"{shown(value)} is not an HTTP address; write for example http://127.0.0.1:9090")
    return value


HttpUrl = Annotated[str, AfterValidator(_http_url)]


class Comparison(StrEnum):
    """How a value is compared with the limit."""

    ABOVE = "above"
    BELOW = "below"


class Unreachable(StrEnum):
    """What a condition that cannot be asked means."""

    HALT = "halt"
    IGNORE = "ignore"


class Cap(Part):
    """Limits on what all rules together may hit. They win over every rule; later rules give way first."""

    faults_per_second: PositiveCount | None = None
    """Keys that may be hit in a second; a burst may use up one second's worth."""
    share_of_keys: Ratio | None = None
    """Share of the keys that rules looked at in the last ten seconds."""


class HttpCheck(Part):
    """A health check. Another status than the expected one halts."""

    url: HttpUrl
    """What is asked, with GET."""
    expect_status: Annotated[int, Between(100, 599)] = 200
    """The status of health."""


class PrometheusCheck(Part):
    """An instant query to a Prometheus. It halts when one of the values found is beyond the limit."""

    url: HttpUrl
    """The server, for example `http://127.0.0.1:9090`."""
    query: Text
    """The query, in PromQL. A query that finds nothing does not halt."""
    stop_when: Annotated[Comparison, Field(strict=False)] = Comparison.ABOVE
    """`above` or `below` the limit."""
    limit: float
    """The limit."""


class StopCondition(Part):
    """Something outside that halts injection."""

    name: Text
    """For log, status and metrics."""
    http: HttpCheck | None = None
    """A health check."""
    prometheus: PrometheusCheck | None = None
    """A query."""
    interval: DurationField = timedelta(seconds=10)
    """How often it is asked, while faults are armed."""
    timeout: DurationField = timedelta(seconds=5)
    """How long an answer may take."""
    unreachable: Annotated[Unreachable, Field(strict=False)] = Unreachable.HALT
    """What it means when nobody answers: `halt` or `ignore`."""

    @model_validator(mode="after")
    def _asks_one_thing(self) -> StopCondition:
        if (self.http is None) == (self.prometheus is None):
            raise ValueError("give either http or prometheus, for example http: {url: 'http://host/health'}")
        return self


class Safety(Part):
    """What keeps injection within bounds."""

    cap: Cap = Cap()
    """Limits on what all rules together may hit."""
    allow_production: bool = False
    """Arm faults although `environment` is `production`. Said in log, status and metrics."""
    stop_conditions: ListOf[StopCondition] = ()
    """What halts injection. Changed only by a restart."""
