"""Reports made by hand, for tests of whatever shows them."""

from __future__ import annotations

from kvchaos_blend.plan import Policy, make_plan
from kvchaos_blend.report import Gate, LayerError, Outcome, RecoveryReport, Verification

VERIFICATION = Verification(
    gates=(Gate("filled", True, 0, 0), Gate("recomputed_kv", False, 0.5, 1e-6, "relative to a full prefill")),
    layers=(LayerError(0, 1e-9, 2e-9), LayerError(1, 0.5, 0.25)),
)


def recovery_report(
    policy: Policy = Policy.PREFIX, verification: Verification | None = None
) -> RecoveryReport:
    """Five chunks of 16 tokens, the third of which failed, and seven tokens more."""
    plan = make_plan([True, True, False, True, True], 87, 16, policy)
    return RecoveryReport(
        outcome=Outcome.RECOVERED
        if verification is None or verification.passed
        else Outcome.VERIFICATION_FAILED,
        asked_policy=Policy.SEGMENTED_PREFIX,
        plan=plan,
        fallback_reason="" if policy is Policy.SEGMENTED_PREFIX else "a sliding window would cross a gap",
        chunk_outcomes=("loaded", "loaded", "dropped", "unused", "unused"),
        computed_tokens=sum(run.tokens for run in plan.computed_runs),
        loaded_bytes=2 * 2**20,
        first_token=7,
        tokens=(7, 8),
        text="blue sky",
        attention="sdpa",
        phase_s={"lookup": 0.001, "load": 0.25, "recompute": 0.5},
        load_span_s=0.3,
        total_s=0.76,
        warnings=("the locks were not given back",),
        healed_chunks=1,
        verification=verification,
    )
