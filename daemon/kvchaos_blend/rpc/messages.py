"""Between the worker's values and the messages of blend.proto."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from google.protobuf.duration_pb2 import Duration

from kvchaos.v1 import blend_pb2 as pb
from kvchaos_blend.errors import PromptError
from kvchaos_blend.model import CausalModel
from kvchaos_blend.plan import Action, Plan, Policy
from kvchaos_blend.progress import ChunkSettled, Event, LayerStarted, PhaseStarted, Planned, TokenMade
from kvchaos_blend.report import Outcome, RecoveryReport, StoreReport, Verification

_POLICY_TO_WIRE = {
    Policy.FULL_PREFILL: pb.RECOVERY_POLICY_FULL_PREFILL,
    Policy.PREFIX: pb.RECOVERY_POLICY_PREFIX,
    Policy.SEGMENTED_PREFIX: pb.RECOVERY_POLICY_SEGMENTED_PREFIX,
}
_POLICY_FROM_WIRE: dict[int, Policy] = {wire: policy for policy, wire in _POLICY_TO_WIRE.items()}
_ACTION_TO_WIRE = {
    Action.LOADED: pb.SEGMENT_ACTION_LOADED,
    Action.RECOMPUTED: pb.SEGMENT_ACTION_RECOMPUTED,
    Action.DROPPED: pb.SEGMENT_ACTION_DROPPED,
}


def read_policy(value: int, default: Policy) -> Policy:
    """The policy asked for. Raises ValueError that names an unknown number."""
    if value == pb.RECOVERY_POLICY_UNSPECIFIED:
        return default
    if value not in _POLICY_FROM_WIRE:
        raise ValueError(f"unknown policy {value}; known: {', '.join(pb.RecoveryPolicy.keys())}")
    return _POLICY_FROM_WIRE[value]


def policy_message(policy: Policy) -> pb.RecoveryPolicy:
    """The policy on the wire."""
    return _POLICY_TO_WIRE[policy]


def read_prompt(prompt: pb.Prompt, model: CausalModel) -> tuple[int, ...]:
    """The prompt's token ids. Raises PromptError when there is none."""
    kind = prompt.WhichOneof("content")
    if kind == "text":
        return tuple(model.encode(prompt.text))
    if kind == "token_ids":
        return tuple(prompt.token_ids.ids)
    raise PromptError("the request has no prompt; set prompt.token_ids or prompt.text")


def event_message(event: Event) -> pb.RecoverEvent:
    """One event of a recovery."""
    match event:
        case PhaseStarted(phase):
            return pb.RecoverEvent(phase=phase.value)
        case ChunkSettled(chunk, outcome):
            return pb.RecoverEvent(chunk=pb.ChunkSettled(chunk=chunk, outcome=outcome))
        case Planned(plan):
            return pb.RecoverEvent(plan=plan_message(plan))
        case LayerStarted(layer, layers, tokens):
            return pb.RecoverEvent(layer=pb.LayerStarted(layer=layer, layers=layers, tokens=tokens))
        case TokenMade(token):
            return pb.RecoverEvent(token=token)


def plan_message(plan: Plan) -> pb.RecoveryPlan:
    """A plan."""
    return pb.RecoveryPlan(
        policy=_POLICY_TO_WIRE[plan.policy],
        prompt_tokens=plan.prompt_tokens,
        chunk_tokens=plan.chunk_tokens,
        segments=[
            pb.Segment(action=_ACTION_TO_WIRE[segment.action], start=segment.run.start, end=segment.run.end)
            for segment in plan.segments
        ],
        kept_chunks=plan.kept_chunks,
        tokens_loaded=plan.tokens(Action.LOADED),
        tokens_recomputed=plan.tokens(Action.RECOMPUTED),
        tokens_dropped=plan.tokens(Action.DROPPED),
    )


def report_message(report: RecoveryReport) -> pb.RecoveryReport:
    """What came of a recovery."""
    return pb.RecoveryReport(
        recovered=report.outcome is Outcome.RECOVERED,
        asked_policy=_POLICY_TO_WIRE[report.asked_policy],
        plan=plan_message(report.plan),
        fallback_reason=report.fallback_reason,
        chunk_outcomes=report.chunk_outcomes,
        loaded_bytes=report.loaded_bytes,
        tokens=report.tokens,
        text=report.text,
        attention=report.attention,
        phases=_phases(report.phase_s),
        load_span=_duration(report.load_span_s),
        total=_duration(report.total_s),
        warnings=report.warnings,
        healed_chunks=report.healed_chunks,
        tokens_saved=report.tokens_saved,
        verification=None if report.verification is None else _verification(report.verification),
    )


def store_message(report: StoreReport) -> pb.StoreResponse:
    """What came of storing a prompt."""
    return pb.StoreResponse(
        prompt_tokens=report.prompt_tokens,
        chunks=report.chunks,
        stored=report.stored,
        present=report.present,
        failed=report.failed,
        stored_bytes=report.stored_bytes,
        phases=_phases(report.phase_s),
        total=_duration(report.total_s),
    )


def _verification(verification: Verification) -> pb.Verification:
    return pb.Verification(
        passed=verification.passed,
        gates=[
            pb.Gate(name=g.name, passed=g.passed, measured=g.measured, limit=g.limit, detail=g.detail)
            for g in verification.gates
        ],
        layers=[pb.LayerError(layer=e.layer, key=e.key, value=e.value) for e in verification.layers],
    )


def _phases(phase_s: Mapping[str, float]) -> list[pb.PhaseTime]:
    return [pb.PhaseTime(phase=name, time=_duration(seconds)) for name, seconds in phase_s.items()]


def _duration(seconds: float) -> Duration:
    duration = Duration()
    duration.FromTimedelta(timedelta(seconds=seconds))
    return duration
