"""The blend worker: what recovery saves, where its time goes, and how the policies compare."""

from __future__ import annotations

from frame import frame
from grafana_foundation_sdk.builders import dashboard as builders
from panels import BLUE, GREEN, HALF, RED, YELLOW, Panel, Query, chart, tile
from promql import quantile, ratio, series, summed

TOKENS = "kvchaos_blend_prompt_tokens_total"
PHASES = "kvchaos_blend_phase_seconds"
RECOVERIES = "kvchaos_blend_recoveries_total"
LOADED, COMPUTED = 'action="loaded"', 'action!="loaded"'
UNTIL_THE_ANSWER = 'phase!~"continue|verify|heal|store"'
VERIFICATION_FAILED = 'ending="verification_failed"'


def blend() -> builders.Dashboard:
    """All blend workers."""
    dashboard = frame(
        "kvchaos-blend",
        "kvchaos / Blend worker",
        "Recovery of prompts whose chunks came back with gaps: tokens saved, time per phase, policies.",
        "kvchaos_blend_build_info",
    )
    for row, panels in (
        ("Right now", _now()),
        ("Tokens", _tokens()),
        ("Policies", _policies()),
        ("Chunks and checks", _checks()),
    ):
        dashboard.with_row(builders.Row(row))
        for panel in panels:
            dashboard.with_panel(panel)
    return dashboard


def _now() -> tuple[Panel, ...]:
    failed = f"sum({series(RECOVERIES, VERIFICATION_FAILED)})"
    free = f"sum({series('kvchaos_blend_pool_free_blocks')})"
    return (
        tile(
            "Tokens saved",
            "Prompt tokens whose KV was loaded instead of computed, of all, since the worker started.",
            "percentunit",
            Query(ratio(f"sum({series(TOKENS, LOADED)})", f"sum({series(TOKENS)})"), "saved"),
            thresholds=((None, RED), (0.25, YELLOW), (0.5, GREEN)),
        ),
        tile(
            "Recoveries",
            "Recoveries ended since the worker started, however they ended.",
            "short",
            Query(f"sum({series(RECOVERIES)})", "recoveries"),
        ),
        tile(
            "Failed verifications",
            "Recoveries whose KV differed from a full prefill. Any is a bug.",
            "short",
            Query(failed, "failed"),
            thresholds=((None, GREEN), (1, RED)),
        ),
        tile(
            "Running",
            "Recoveries and stores going on.",
            "none",
            Query(f"sum({series('kvchaos_blend_running')})", "running"),
        ),
        tile(
            "Pool free",
            "Free blocks of the KV pool.",
            "percentunit",
            Query(ratio(free, f"sum({series('kvchaos_blend_pool_blocks')})"), "free"),
            thresholds=((None, RED), (0.1, YELLOW), (0.25, GREEN)),
        ),
        tile(
            "Sidecar",
            "Whether every worker has a session with its sidecar.",
            "none",
            Query(f"min({series('kvchaos_blend_store_connected')})", "connected"),
            words={0: ("LOST", RED), 1: ("connected", GREEN)},
        ),
    )


def _tokens() -> tuple[Panel, ...]:
    return (
        chart(
            "Prompt tokens, by what became of them",
            "loaded: from the store. recomputed: in a gap, or without a key. dropped: found, and computed "
            "again all the same, because of the policy.",
            "short",
            (Query(summed("increase", TOKENS, by="action", window="1m"), "{{action}}"),),
            size=HALF,
            stacked=True,
        ),
        chart(
            "Time per phase",
            "Mean time of a recovery in each phase.",
            "s",
            (Query(_mean_phase("phase"), "{{phase}}"),),
            size=HALF,
            stacked=True,
        ),
        chart(
            "Recompute, median and tail",
            "Time to compute the gaps of one prompt.",
            "s",
            tuple(_recompute(share) for share in (0.5, 0.99)),
        ),
        chart(
            "Bytes moved",
            "Bytes of chunks loaded from the sidecar and stored back.",
            "Bps",
            (Query(summed("rate", "kvchaos_blend_bytes_total", by="op"), "{{op}}"),),
        ),
        chart(
            "Tokens made and chunks healed",
            "Tokens generated after a recovery, and recomputed chunks stored back, in a minute.",
            "short",
            (
                Query(summed("increase", "kvchaos_blend_made_tokens_total", window="1m"), "tokens made"),
                Query(summed("increase", "kvchaos_blend_healed_chunks_total", window="1m"), "chunks healed"),
            ),
        ),
    )


def _policies() -> tuple[Panel, ...]:
    asked = summed("increase", TOKENS, by="policy", window="5m")
    computed = summed("increase", TOKENS, COMPUTED, by="policy", window="5m")
    return (
        chart(
            "Share computed, by policy",
            "Prompt tokens that were computed, of all, in five minutes. The same gaps cost segmented_prefix "
            "only themselves, prefix everything after the first, full the whole prompt.",
            "percentunit",
            (Query(ratio(computed, asked), "{{policy}}"),),
            size=HALF,
            thresholds=((None, GREEN), (0.5, RED)),
        ),
        chart(
            "Tokens saved, by policy",
            "Prompt tokens that a recovery did not compute, compared with a full prefill, in a minute.",
            "short",
            (
                Query(
                    summed("increase", "kvchaos_blend_saved_tokens_total", by="policy", window="1m"),
                    "{{policy}}",
                ),
            ),
            size=HALF,
        ),
        chart(
            "Time per recovery, by policy",
            "Mean time from asking to the first token, without verification and healing.",
            "s",
            (Query(f"sum by (policy) ({_mean_phase('policy, phase', UNTIL_THE_ANSWER)})", "{{policy}}"),),
            size=HALF,
        ),
        chart(
            "Recoveries, by policy asked for and ending",
            "In five minutes.",
            "short",
            (
                Query(
                    f"{summed('increase', RECOVERIES, by='policy, ending', window='5m')} > 0",
                    "{{policy}} {{ending}}",
                ),
            ),
            size=HALF,
            stacked=True,
        ),
    )


def _checks() -> tuple[Panel, ...]:
    chunks = summed("increase", "kvchaos_blend_chunks_total", by="outcome", window="1m")
    gates = f"sum by (gate, result) ({series('kvchaos_blend_gates_total')})"
    return (
        chart(
            "Chunks, by what became of them",
            "Full chunks of recovered prompts, in a minute. dropped is the sidecar's fault injection.",
            "short",
            (Query(f"{chunks} > 0", "{{outcome}}"),),
            size=HALF,
            stacked=True,
        ),
        chart(
            "Verification gates",
            "Checks of recovered KV against a full prefill since the worker started. A failed one is a bug.",
            "short",
            (Query(gates, "{{gate}} {{result}}"),),
            size=HALF,
            thresholds=((None, BLUE),),
        ),
    )


def _mean_phase(by: str, *conditions: str) -> str:
    """Mean seconds in each phase over five minutes; no value for a phase that did not occur."""
    total, count = (
        summed("rate", f"{PHASES}_{part}", *conditions, by=by, window="5m") for part in ("sum", "count")
    )
    return ratio(total, count)


def _recompute(share: float) -> Query:
    return Query(quantile(share, PHASES, 'phase="recompute"'), f"p{share * 100:.0f}")
