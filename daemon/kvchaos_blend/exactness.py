"""For which models and prompts a policy gives what a full prefill would have given. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kvchaos_blend.plan import Policy


@dataclass(frozen=True, slots=True)
class ModelTraits:
    """What decides whether the KV of a chunk is all that its tokens leave behind."""

    architecture: str
    recurrent: bool = False
    """Layers carry a state from token to token (Mamba and hybrids)."""
    windows: tuple[int | None, ...] = ()
    """Length in tokens of each layer's sliding window; None for full attention."""
    rope_fixed_up_to: int | None = None
    """Rotary frequencies depend on the prompt's length above this many tokens; None when they never do."""

    @property
    def shortest_window(self) -> int | None:
        """The shortest sliding window of any layer, or None when there is none."""
        return min((window for window in self.windows if window is not None), default=None)


class Decision(NamedTuple):
    """The policy to use, and why it is not the one asked for; the reason is empty when it is."""

    policy: Policy
    reason: str = ""


def decide(policy: Policy, traits: ModelTraits, prompt_tokens: int) -> Decision:
    """The nearest policy to ``policy`` that is exact for this model and prompt."""
    if policy is Policy.FULL_PREFILL:
        return Decision(policy)
    uncacheable = why_uncacheable(traits, prompt_tokens)
    if uncacheable:
        return Decision(Policy.FULL_PREFILL, uncacheable)
    window = traits.shortest_window
    if policy is Policy.SEGMENTED_PREFIX and window is not None and window < prompt_tokens:
        return Decision(
            Policy.PREFIX,
            f"a sliding window of {window} tokens is shorter than the prompt of {prompt_tokens}, so it would"
            " cross a gap",
        )
    return Decision(policy)


def why_uncacheable(traits: ModelTraits, prompt_tokens: int) -> str:
    """Why no chunk of such a prompt can be taken from or put into a store; empty when it can."""
    if traits.recurrent:
        return f"{traits.architecture} carries a recurrent state that a chunk's KV does not hold"
    limit = traits.rope_fixed_up_to
    if limit is not None and prompt_tokens > limit:
        return f"rotary frequencies change with the length of prompts above {limit} tokens"
    return ""


def decide_on_partial(policy: Policy, partial_chunks: Sequence[int], ranks: int) -> Decision:
    """Falls back to PREFIX when a chunk was found on some ranks only."""
    if policy is not Policy.SEGMENTED_PREFIX or not partial_chunks:
        return Decision(policy)
    which = ", ".join(map(str, partial_chunks))
    return Decision(Policy.PREFIX, f"chunk {which} is missing on some of the {ranks} ranks")
