"""Which policy is exact for which model and prompt."""

from __future__ import annotations

import pytest

from kvchaos_blend.exactness import Decision, ModelTraits, decide, decide_on_partial, why_uncacheable
from kvchaos_blend.plan import Policy

FULL_ATTENTION = ModelTraits("llama", windows=(None, None))
SLIDING = ModelTraits("mistral", windows=(None, 64))
RECURRENT = ModelTraits("mamba2", recurrent=True)
LONGROPE = ModelTraits("llama", windows=(None,), rope_fixed_up_to=100)


@pytest.mark.parametrize("policy", Policy)
def test_full_attention_gets_what_was_asked_for(policy: Policy) -> None:
    assert decide(policy, FULL_ATTENTION, 10_000) == Decision(policy)


def test_a_window_shorter_than_the_prompt_falls_back_to_prefix() -> None:
    decision = decide(Policy.SEGMENTED_PREFIX, SLIDING, 65)
    assert decision.policy is Policy.PREFIX
    assert "sliding window of 64 tokens" in decision.reason


def test_a_window_that_never_slides_changes_nothing() -> None:
    assert decide(Policy.SEGMENTED_PREFIX, SLIDING, 64) == Decision(Policy.SEGMENTED_PREFIX)


@pytest.mark.parametrize("policy", [Policy.PREFIX, Policy.SEGMENTED_PREFIX])
def test_a_recurrent_state_means_full_prefill(policy: Policy) -> None:
    decision = decide(policy, RECURRENT, 10)
    assert decision.policy is Policy.FULL_PREFILL
    assert "recurrent state" in decision.reason


def test_length_dependent_rope_is_exact_up_to_its_limit() -> None:
    assert why_uncacheable(LONGROPE, 100) == ""
    assert decide(Policy.PREFIX, LONGROPE, 101).policy is Policy.FULL_PREFILL


def test_a_chunk_on_some_ranks_only_falls_back_to_prefix() -> None:
    decision = decide_on_partial(Policy.SEGMENTED_PREFIX, [3], ranks=2)
    assert decision == (Policy.PREFIX, "chunk 3 is missing on some of the 2 ranks")
    assert decide_on_partial(Policy.SEGMENTED_PREFIX, [], ranks=2) == Decision(Policy.SEGMENTED_PREFIX)
