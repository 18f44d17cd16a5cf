"""The overview: what is injected right now, and how the traffic fares."""

from __future__ import annotations

from frame import frame
from grafana_foundation_sdk.builders import dashboard as builders
from panels import FULL, GREEN, HALF, ORANGE, RED, YELLOW, Panel, Query, chart, listing, tile
from promql import quantile, ratio, series, summed

LOADS = 'op="load"'


def overview() -> builders.Dashboard:
    """All sidecars at a glance."""
    dashboard = frame(
        "kvchaos-overview",
        "kvchaos / Overview",
        "What the sidecars inject right now, and how loads, stores and lookups fare.",
        "kvchaos_build_info",
    )
    for row, panels in (
        ("Right now", _now()),
        ("Rules", _rules()),
        ("Traffic", _traffic()),
        ("State", _state()),
    ):
        dashboard.with_row(builders.Row(row))
        for panel in panels:
            dashboard.with_panel(panel)
    return dashboard


def _now() -> tuple[Panel, ...]:
    dropped = summed("rate", "kvchaos_drops_total")
    asked = summed("rate", "kvchaos_keys_total", LOADS)
    return (
        tile(
            "Injection",
            "Whether any sidecar has a fault armed and is not halted.",
            "none",
            Query(f"max({series('kvchaos_injection_active')})", "injection"),
            words={0: ("off", GREEN), 1: ("ACTIVE", RED)},
        ),
        tile(
            "Halt",
            "Whether a sidecar is halted: it injects nothing until kvchaos resume.",
            "none",
            Query(f"max({series('kvchaos_halted')})", "halt"),
            words={0: ("running", GREEN), 1: ("HALTED", ORANGE)},
        ),
        tile(
            "Drop share",
            "Keys dropped on purpose, of the keys that load calls asked for.",
            "percentunit",
            Query(ratio(dropped, asked), "dropped"),
            thresholds=((None, GREEN), (0.0001, YELLOW), (0.5, RED)),
        ),
        tile(
            "Generation",
            "Number of the newest rule set in force. It grows with every change of the rules.",
            "none",
            Query(f"max({series('kvchaos_generation')})", "generation"),
        ),
        tile(
            "Sidecars",
            "Sidecars that answer.",
            "none",
            Query(f"count({series('kvchaos_build_info')})", "sidecars"),
        ),
        tile(
            "Store",
            "Whether every store behind a sidecar answers.",
            "none",
            Query(f"min({series('kvchaos_backend_up')})", "store"),
            words={0: ("DOWN", RED), 1: ("up", GREEN)},
        ),
    )


def _rules() -> tuple[Panel, ...]:
    fired = summed("increase", "kvchaos_rule_fired_total", by="rule, reason, fault", window="5m")
    return (
        listing(
            "Rules that fired in the last five minutes",
            "Keys each rule changed the fate of, by reason and fault.",
            "short",
            Query(f"{fired} > 0", "Keys"),
        ),
        chart(
            "Evaluated and fired",
            "Keys a rule looked at, and keys it changed the fate of. A rule that is evaluated and never "
            "fires selects nothing; one that is never evaluated matches nothing.",
            "ops",
            (
                Query(summed("rate", "kvchaos_rule_evaluated_total", by="rule"), "{{rule}} evaluated"),
                Query(summed("rate", "kvchaos_rule_fired_total", by="rule"), "{{rule}} fired"),
            ),
            size=HALF,
        ),
    )


def _traffic() -> tuple[Panel, ...]:
    failed_calls = summed("rate", "kvchaos_requests_total", 'result_code!="ok"')
    return (
        chart(
            "Keys loaded, by result",
            "What became of the keys that load calls asked for. dropped is on purpose; io_error, "
            "unavailable and timed_out are the store's own failures.",
            "ops",
            (Query(f"{summed('rate', 'kvchaos_keys_total', LOADS, by='result')} > 0", "{{result}}"),),
            stacked=True,
        ),
        chart(
            "Load latency",
            "From the first to the last byte of the call; the bytes of the handoff move after it. faulted: a "
            "rule struck the call; failed: the call or the store failed without one.",
            "s",
            tuple(_load_latency(share) for share in (0.5, 0.99)),
        ),
        chart(
            "Lookup and store latency",
            "Half of the calls are faster.",
            "s",
            tuple(_latency(0.5, op) for op in ("lookup", "prepare_store", "commit_store")),
        ),
        chart(
            "Throughput",
            "Bytes of objects that arrived, by operation and transport.",
            "Bps",
            (Query(summed("rate", "kvchaos_bytes_total", by="op, transport"), "{{op}} {{transport}}"),),
            stacked=True,
        ),
        chart(
            "Calls",
            "Calls answered, by operation.",
            "reqps",
            (Query(f"{summed('rate', 'kvchaos_requests_total', by='op')} > 0", "{{op}}"),),
            stacked=True,
        ),
        chart(
            "Failed calls and objects",
            "Calls that did not end in ok, objects whose bytes did not arrive whole, and keys that the "
            "store failed.",
            "ops",
            (
                Query(f"{failed_calls} or vector(0)", "calls"),
                Query(summed("rate", "kvchaos_transfer_failures_total"), "objects not arrived"),
                Query(summed("rate", "kvchaos_backend_errors_total"), "store errors"),
            ),
        ),
    )


def _load_latency(share: float) -> Query:
    expression = quantile(share, "kvchaos_request_duration_seconds", 'op="load"', by="outcome")
    return Query(f"{expression} >= 0", f"{{{{outcome}}}} p{share * 100:.0f}")


def _latency(share: float, op: str) -> Query:
    expression = quantile(share, "kvchaos_request_duration_seconds", f'op="{op}"')
    return Query(expression, f"{op} p{share * 100:.0f}")


def _state() -> tuple[Panel, ...]:
    return (
        chart(
            "Sessions",
            "Cache servers connected, by sidecar.",
            "none",
            (Query(series("kvchaos_sessions"), "{{instance}}"),),
        ),
        chart(
            "Locks and grants",
            "What sessions hold. Both fall to 0 when traffic stops; what stays was leaked by a client.",
            "none",
            (
                Query(f"sum({series('kvchaos_locks')})", "locks"),
                Query(f"sum({series('kvchaos_grants')})", "grants"),
            ),
        ),
        chart(
            "Expired and ended",
            "Locks and grants that ran out in five minutes, and sessions that ended, by reason.",
            "none",
            (
                Query(summed("increase", "kvchaos_lock_expirations_total", window="5m"), "locks expired"),
                Query(summed("increase", "kvchaos_grant_expirations_total", window="5m"), "grants expired"),
                Query(
                    summed("increase", "kvchaos_sessions_ended_total", by="reason", window="5m"),
                    "session {{reason}}",
                ),
            ),
        ),
        chart(
            "Generation and halt",
            "A step of generation is a change of the rules. While halted is 1 nothing is injected.",
            "none",
            (
                Query(series("kvchaos_generation"), "generation {{instance}}"),
                Query(series("kvchaos_halted"), "halted {{instance}}"),
            ),
            size=FULL,
        ),
    )
