"""The full prefill to compare with: the same weights, transformers' own attention and cache."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from transformers import DynamicCache

from kvchaos_blend.plan import Run

Checkpoint = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Prefill:
    """A full prefill and its greedy continuation."""

    kv: torch.Tensor
    """[layers, 2 (K, V), tokens, kv_heads, head_dim] of the prompt."""
    tokens: tuple[int, ...]
    """The greedy continuation."""
    logits: torch.Tensor
    """[tokens of the continuation, vocabulary] float32, from which each was chosen."""


class Reference:
    """A second view of a model's weights that runs as transformers made it."""

    def __init__(self, hf_model: Any) -> None:
        """Shares every tensor with ``hf_model``."""
        shared = {id(tensor): tensor for tensor in (*hf_model.parameters(), *hf_model.buffers())}
        self._hf_model = copy.deepcopy(hf_model, shared)
        self._hf_model.set_attn_implementation("sdpa")

    def in_float32(self) -> Reference:
        """The same weights in single precision; a copy unless they are already."""
        if self._hf_model.dtype == torch.float32:
            return self
        wide = object.__new__(Reference)
        wide._hf_model = copy.deepcopy(self._hf_model).float()
        return wide

    def prefill(
        self, token_ids: Sequence[int], new_tokens: int, checkpoint: Checkpoint = lambda: None
    ) -> Prefill:
        """Prefills the whole prompt at once and continues it greedily for ``new_tokens``, at least 1."""
        cache = DynamicCache()
        tokens, logits = greedy(self._hf_model, token_ids, new_tokens, checkpoint, cache)
        return Prefill(_prompt_kv(cache, len(token_ids)), tokens, logits)

    def chunked_kv(
        self, token_ids: Sequence[int], pieces: Sequence[Run], checkpoint: Checkpoint = lambda: None
    ) -> torch.Tensor:
        """KV of the prompt prefilled piece by piece: what another order of the sums alone does to it.

        Args:
            token_ids: the prompt.
            pieces: cover it, in order.
            checkpoint: called before every layer; what it raises ends the work.

        Returns:
            [layers, 2 (K, V), tokens, kv_heads, head_dim].
        """
        cache = DynamicCache()
        prompt = torch.tensor([list(token_ids)], device=self._hf_model.device)
        with torch.inference_mode(), _stopping_at(self._hf_model, checkpoint):
            for start, end in pieces:
                self._hf_model.base_model(input_ids=prompt[:, start:end], cache=cache, use_cache=True)
        return _prompt_kv(cache, len(token_ids))


def greedy(
    hf_model: Any,
    token_ids: Sequence[int],
    new_tokens: int,
    checkpoint: Checkpoint = lambda: None,
    cache: Any | None = None,
) -> tuple[tuple[int, ...], torch.Tensor]:
    """Full prefill and greedy continuation by the model alone, in ``cache`` or in one of its own making.

    Nobody else may use the model meanwhile. ``checkpoint`` is called before every layer; what it raises ends
    the work.

    Returns:
        The tokens, and [new_tokens, vocabulary] float32 logits from which each was chosen.
    """
    logits: list[torch.Tensor] = []
    tokens: list[int] = []
    step = torch.tensor([list(token_ids)], device=hf_model.device)
    with torch.inference_mode(), _stopping_at(hf_model, checkpoint):
        for _ in range(new_tokens):
            output = hf_model(input_ids=step, cache=cache, use_cache=True, logits_to_keep=1)
            cache = output.cache
            logits.append(output.logits[0, -1].float())
            tokens.append(int(logits[-1].argmax()))
            step = torch.tensor([tokens[-1:]], device=hf_model.device)
    return tuple(tokens), torch.stack(logits)


@contextmanager
def _stopping_at(hf_model: Any, checkpoint: Checkpoint) -> Iterator[None]:
    """Has ``checkpoint`` called before every layer of the model in the block."""
    hooks = [layer.register_forward_pre_hook(lambda *_: checkpoint()) for layer in hf_model.base_model.layers]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _prompt_kv(cache: DynamicCache, tokens: int) -> torch.Tensor:
    layers = [torch.stack((layer.keys[0, :, :tokens], layer.values[0, :, :tokens])) for layer in cache.layers]
    return torch.stack(layers).transpose(2, 3)
