"""What came of a recovery or a store, as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any

from kvchaos_blend.plan import Action, Plan, Policy


class Outcome(Enum):
    """How a recovery ended."""

    RECOVERED = "recovered"
    VERIFICATION_FAILED = "verification_failed"


@dataclass(frozen=True, slots=True)
class Gate:
    """One check of the recovered KV."""

    name: str
    passed: bool
    measured: float
    """The worst value found."""
    limit: float
    """What it may be at most."""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class LayerError:
    """Relative error of the recomputed KV of one layer against the reference: ||a - b|| / ||b||."""

    layer: int
    key: float
    value: float


@dataclass(frozen=True, slots=True)
class Verification:
    """The gates and the numbers behind them."""

    gates: tuple[Gate, ...]
    layers: tuple[LayerError, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether every gate did."""
        return all(gate.passed for gate in self.gates)


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """What came of one recovery. Sizes in bytes, times in seconds."""

    outcome: Outcome
    asked_policy: Policy
    plan: Plan
    fallback_reason: str
    """Why the plan's policy is not the one asked for; empty when it is."""
    chunk_outcomes: tuple[str, ...]
    """For each full chunk "loaded", or why it was not: a Result's label, "not_finite", "not_asked"."""
    computed_tokens: int
    """Prompt tokens whose KV was computed, the last one in any case."""
    loaded_bytes: int
    """Bytes that the store delivered and the recovery kept."""
    first_token: int
    tokens: tuple[int, ...]
    """The first token and the greedy continuation."""
    text: str
    """Those tokens as text; empty when the model has no tokenizer."""
    attention: str
    """Name of the attention implementation."""
    phase_s: Mapping[str, float]
    load_span_s: float
    """From asking for the chunks to the last arrival, whatever else went on meanwhile."""
    total_s: float
    warnings: tuple[str, ...] = ()
    healed_chunks: int = 0
    """Chunks stored back."""
    verification: Verification | None = None

    @property
    def overhead_s(self) -> float:
        """Time that no phase accounts for."""
        return self.total_s - sum(self.phase_s.values())

    @property
    def tokens_saved(self) -> int:
        """Prompt tokens that did not have to be computed."""
        return self.plan.prompt_tokens - self.computed_tokens

    def to_json(self) -> dict[str, Any]:
        """Plain data for a JSON document."""
        document: dict[str, Any] = _plain(asdict(self))
        document["plan"] = plan_to_json(self.plan)
        document["overhead_s"] = self.overhead_s
        document["tokens_saved"] = self.tokens_saved
        if self.verification is not None:
            document["verification"]["passed"] = self.verification.passed
        return document


@dataclass(frozen=True, slots=True)
class StoreReport:
    """What came of storing a prompt's chunks."""

    prompt_tokens: int
    chunks: int
    stored: int
    present: int
    """Chunks that were there already and were kept."""
    failed: Mapping[str, int] = field(default_factory=dict)
    """Chunks that could not be stored, by reason."""
    stored_bytes: int = 0
    phase_s: Mapping[str, float] = field(default_factory=dict)
    total_s: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Plain data for a JSON document."""
        document: dict[str, Any] = _plain(asdict(self))
        return document


def plan_to_json(plan: Plan) -> dict[str, Any]:
    """A plan as plain data, with its token counts."""
    return {
        "policy": plan.policy.value,
        "prompt_tokens": plan.prompt_tokens,
        "chunk_tokens": plan.chunk_tokens,
        "kept_chunks": list(plan.kept_chunks),
        "segments": [
            {"action": segment.action.value, "start": segment.run.start, "end": segment.run.end}
            for segment in plan.segments
        ],
        "tokens": {action.value: plan.tokens(action) for action in Action},
    }


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    return value
