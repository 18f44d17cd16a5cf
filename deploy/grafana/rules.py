"""Per rule: what each rule sees and does."""

from __future__ import annotations

from frame import frame, labels_variable
from grafana_foundation_sdk.builders import dashboard as builders
from panels import BLUE, FULL, GREEN, HALF, RED, YELLOW, Panel, Query, Size, chart, tile
from promql import or_zero, quantile, ratio, series, summed

CHOSEN = 'rule=~"$rule"'
EVALUATED, FIRED = "kvchaos_rule_evaluated_total", "kvchaos_rule_fired_total"
WIDE_TILE = Size(8, 4)


def rules() -> builders.Dashboard:
    """The chosen rules, side by side."""
    dashboard = frame(
        "kvchaos-rules",
        "kvchaos / Rules",
        "What each rule looked at, what it changed, and why.",
        "kvchaos_build_info",
    )
    dashboard.with_variable(labels_variable("rule", "Rule", f"label_values({EVALUATED}, rule)"))
    for panel in (*_totals(), *_over_time(), *_safety()):
        dashboard.with_panel(panel)
    return dashboard


def _totals() -> tuple[Panel, ...]:
    evaluated, fired = (f"sum({series(metric, CHOSEN)})" for metric in (EVALUATED, FIRED))
    return (
        tile(
            "Keys evaluated",
            "Keys the rules looked at since the sidecar started.",
            "short",
            Query(evaluated, "evaluated"),
            size=WIDE_TILE,
        ),
        tile(
            "Keys fired",
            "Keys the rules changed the fate of since the sidecar started.",
            "short",
            Query(fired, "fired"),
            thresholds=((None, GREEN), (1, YELLOW)),
            size=WIDE_TILE,
        ),
        tile(
            "Share fired",
            "Fired of evaluated since the sidecar started. For a rule with a rate it tends to that rate.",
            "percentunit",
            Query(ratio(fired, evaluated), "share"),
            thresholds=((None, BLUE), (0.5, RED)),
            size=WIDE_TILE,
        ),
    )


def _over_time() -> tuple[Panel, ...]:
    evaluated, fired = (summed("rate", metric, CHOSEN, by="rule") for metric in (EVALUATED, FIRED))
    by_fault = summed("rate", FIRED, CHOSEN, by="rule, reason, fault")
    by_reason = summed("increase", "kvchaos_drops_total", CHOSEN, by="rule, reason", window="1m")
    return (
        chart(
            "Evaluated",
            "Keys a second that each rule looked at.",
            "ops",
            (Query(evaluated, "{{rule}}"),),
            size=HALF,
        ),
        chart(
            "Fired",
            "Keys a second that each rule changed the fate of, by reason and fault.",
            "ops",
            (Query(by_fault, "{{rule}} {{reason}} {{fault}}"),),
            size=HALF,
        ),
        chart(
            "Share fired over time",
            "Fired of evaluated. Dashed: half of all keys.",
            "percentunit",
            (Query(ratio(fired, evaluated), "{{rule}}"),),
            size=HALF,
            thresholds=((None, GREEN), (0.5, RED)),
        ),
        chart(
            "Drops, by reason",
            "Keys dropped in one minute: by rate, by index from the head, by ratio from the tail.",
            "short",
            (Query(by_reason, "{{rule}} {{reason}}"),),
            size=HALF,
            stacked=True,
        ),
        chart(
            "Size of load batches",
            "Keys in one load call. Positions of gap_indices beyond it hit nothing.",
            "none",
            tuple(
                Query(quantile(share, "kvchaos_load_keys"), f"p{share * 100:.0f}") for share in (0.5, 0.99)
            ),
            size=FULL,
        ),
    )


def _safety() -> tuple[Panel, ...]:
    capped = summed("rate", "kvchaos_rule_capped_total", CHOSEN, by="rule")
    tripped = summed("increase", "kvchaos_stop_conditions_tripped_total", by="condition", window="1m")
    expired = summed("increase", "kvchaos_expired_total", window="1m")
    halts = summed("increase", "kvchaos_halts_total", window="1m")
    return (
        chart(
            "Spared by the cap",
            "Keys a second that a rule would have hit and the cap (safety.cap) spared, by rule..",
            "ops",
            (Query(or_zero(capped), "{{rule}}"),),
            size=HALF,
        ),
        chart(
            "Ended, halted, tripped",
            "In one minute: runtime changes that ended by themselves, halts, stop conditions that tripped.",
            "short",
            (
                Query(expired, "expired"),
                Query(halts, "halted"),
                Query(or_zero(tripped), "tripped {{condition}}"),
            ),
            size=HALF,
        ),
    )
