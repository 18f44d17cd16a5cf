"""Halts injection when something outside says that it has gone too far.

Conditions are looked at only while faults are armed and not halted. A condition that trips, or that cannot be
asked, halts once; injection stays halted until ``resume``.
"""

from __future__ import annotations

import asyncio
import json
import logging
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from math import isnan

from kvchaos_sidecar.config.safety import Comparison, HttpCheck, PrometheusCheck, StopCondition, Unreachable
from kvchaos_sidecar.rules.governor import Governor

log = logging.getLogger(__name__)

MAX_ANSWER_BYTES = 1 << 20

_TRIPS: Mapping[Comparison, Callable[[float, float], bool]] = {
    Comparison.ABOVE: lambda value, limit: value > limit,
    Comparison.BELOW: lambda value, limit: value < limit,
}


class CannotAsk(Exception):
    """A condition could not be asked."""


class StopConditions:
    """Asks each condition at its interval."""

    def __init__(self, governor: Governor, on_tripped: Callable[[str], None]) -> None:
        """``on_tripped`` is told the name of each condition that halts."""
        self._governor = governor
        self._on_tripped = on_tripped

    async def watch(self, condition: StopCondition) -> None:
        """Asks one condition at its interval, until cancelled."""
        while True:
            await asyncio.sleep(condition.interval.total_seconds())
            await self.check(condition)

    async def check(self, condition: StopCondition) -> None:
        """Asks one condition now, if faults are armed and not halted, and halts when it trips."""
        snapshot = self._governor.snapshot()
        if snapshot.halted or not snapshot.armed:
            return
        reason = await asyncio.to_thread(reason_to_stop, condition)
        if reason:
            log.warning("stop condition %s: %s; halting", condition.name, reason)
            self._on_tripped(condition.name)
            self._governor.halt(f"stop condition {condition.name}: {reason}")


def reason_to_stop(condition: StopCondition) -> str:
    """Why to stop; empty to go on. Blocks for as long as the condition's timeout."""
    try:
        if condition.http is not None:
            return _ask_http(condition.http, condition.timeout.total_seconds())
        if condition.prometheus is not None:
            return _ask_prometheus(condition.prometheus, condition.timeout.total_seconds())
    except CannotAsk as error:
        if condition.unreachable is Unreachable.HALT:
            return str(error)
        log.warning("stop condition %s: %s; going on", condition.name, error)
    return ""


def _ask_http(check: HttpCheck, timeout_s: float) -> str:
    status, _ = _get(check.url, timeout_s)
    return (
        "" if status == check.expect_status else f"{check.url} answered {status}, not {check.expect_status}"
    )


def _ask_prometheus(check: PrometheusCheck, timeout_s: float) -> str:
    query = urllib.parse.urlencode({"query": check.query})
    status, body = _get(f"{check.url.rstrip('/')}/api/v1/query?{query}", timeout_s)
    for value in _values(status, body):
        if not isnan(value) and _TRIPS[check.stop_when](value, check.limit):
            return f"{check.query} is {value:g}, {check.stop_when} {check.limit:g}"
    return ""


def _values(status: int, body: bytes) -> list[float]:
    """The numbers of an instant query."""
    try:
        result = json.loads(body)["data"]
        samples = (
            [result["result"]]
            if result["resultType"] == "scalar"
            else [series["value"] for series in result["result"]]
        )
        return [float(value) for _, value in samples]
    except (ValueError, KeyError, TypeError) as error:
        raise CannotAsk(f"Prometheus answered {status} with what is not a query result: {error!r}") from error


def _get(url: str, timeout_s: float) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(url, timeout=timeout_s) as response:  # noqa: S310 (checked in the document)
            return int(response.status), response.read(MAX_ANSWER_BYTES)
    except urllib.error.HTTPError as error:
        return error.code, error.read(MAX_ANSWER_BYTES)
    except OSError as error:
        raise CannotAsk(f"{url} cannot be asked: {error}") from error
