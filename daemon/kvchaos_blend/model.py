"""A causal language model that computes chosen positions of a prompt over paged KV.

The Hugging Face model is used unmodified. It is given an attention function of ours by name; what that
function needs for one forward pass travels to it through the model's keyword arguments.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import AttentionInterface

from kvchaos_blend.attention.contract import Heads, LayerPages, PagedAttention
from kvchaos_blend.errors import ModelError
from kvchaos_blend.exactness import ModelTraits
from kvchaos_blend.geometry import KVGeometry
from kvchaos_blend.loading import LoadedModel
from kvchaos_blend.plan import Run
from kvchaos_blend.pool import BlockTable, KVPool
from kvchaos_blend.reference import Checkpoint, greedy

ARCHITECTURES = ("llama", "mistral", "qwen2", "qwen3")
"""Architectures whose attention layers hand their keyword arguments on, as tests prove for each."""

ATTENTION_NAME = "kvchaos_paged"

_LENGTH_DEPENDENT_ROPE = frozenset({"dynamic", "longrope"})


@dataclass(frozen=True, slots=True)
class _PagedPass:
    """What the attention layers of one forward pass share."""

    attention: PagedAttention
    prepared: Any
    pool: KVPool
    slots: torch.Tensor
    checkpoint: Callable[[int], None]


def _paged_attention_forward(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    _attention_mask: torch.Tensor | None,
    *,
    scaling: float,
    kv_pass: _PagedPass,
    sliding_window: int | None = None,
    **_unused: Any,
) -> tuple[torch.Tensor, None]:
    """Writes the fresh KV into its slots, then attends over the pages.

    Shapes as transformers has them: query [1, heads, tokens, head_dim], key and value
    [1, kv_heads, tokens, head_dim], result [1, tokens, heads, head_dim].
    """
    layer = int(module.layer_idx)
    kv_pass.checkpoint(layer)
    kv_pass.pool.write(layer, kv_pass.slots, key[0].transpose(0, 1), value[0].transpose(0, 1))
    pages = LayerPages(kv_pass.pool.pages[layer, 0], kv_pass.pool.pages[layer, 1])
    fresh = query[0].transpose(0, 1)
    output = kv_pass.attention.attend(fresh, pages, kv_pass.prepared, scaling, sliding_window)
    return output[None], None


AttentionInterface.register(ATTENTION_NAME, _paged_attention_forward)


class CausalModel:
    """One loaded model. Forward passes of several requests take turns."""

    def __init__(self, loaded: LoadedModel, attention: PagedAttention) -> None:
        """Raises ModelError when the architecture is not supported."""
        config = loaded.hf_model.config
        self.hf_model = loaded.hf_model
        self.tokenizer = loaded.tokenizer
        self.name = loaded.name
        self.attention = attention
        self.traits = _traits(loaded.hf_model)
        self.vocabulary = int(config.vocab_size)
        self.max_positions = int(getattr(config, "max_position_embeddings", None) or 2**31 - 1)
        self.device: torch.device = loaded.hf_model.device
        self.geometry = _geometry(config, loaded.hf_model.dtype, self.traits)
        self.shortest_pass_s = 0.0
        """The shortest forward pass so far: what one pass more costs. 0 before the first."""
        self._turn = threading.Lock()
        if not self.traits.recurrent:
            self.hf_model.set_attn_implementation(ATTENTION_NAME)

    def compute(
        self,
        token_ids: Sequence[int],
        runs: Sequence[Run],
        pool: KVPool,
        table: BlockTable,
        checkpoint: Callable[[int], None] = lambda _: None,
        want_logits: bool = False,
    ) -> torch.Tensor | None:
        """Runs the tokens of ``runs`` through all layers in one pass and leaves their KV in the pool.

        Every position before a run that is not itself in a run must already be in the pool.

        Args:
            token_ids: the whole prompt, and what was generated so far.
            runs: positions to compute, ascending, apart from each other.
            pool: holds the KV.
            table: the request's blocks.
            checkpoint: called with the index of each layer before it; what it raises ends the pass.
            want_logits: whether to compute the logits that follow the last position.

        Returns:
            [vocabulary] float32, or None.
        """
        positions = torch.cat([torch.arange(run.start, run.end) for run in runs])
        tokens = torch.tensor(token_ids)[positions]
        with self._turn, torch.inference_mode():
            kv_pass = _PagedPass(
                attention=self.attention,
                prepared=self.attention.prepare(runs, table),
                pool=pool,
                slots=table.slots[positions.to(table.slots.device)],
                checkpoint=checkpoint,
            )
            return self._forward(tokens[None], positions[None], kv_pass, want_logits)

    def note_pass(self, seconds: float) -> None:
        """A forward pass took so long."""
        if self.shortest_pass_s == 0.0 or seconds < self.shortest_pass_s:
            self.shortest_pass_s = seconds

    def compute_alone(
        self, token_ids: Sequence[int], new_tokens: int, checkpoint: Checkpoint
    ) -> tuple[int, ...]:
        """Full prefill and greedy continuation as transformers does it, for a model without paged KV."""
        with self._turn:
            tokens, _ = greedy(self.hf_model, token_ids, new_tokens, checkpoint)
        return tokens

    def encode(self, text: str) -> list[int]:
        """The text's token ids. Raises ModelError when the model has no tokenizer."""
        if self.tokenizer is None:
            raise ModelError(f"model {self.name} has no tokenizer; give token ids")
        return [int(token) for token in self.tokenizer(text)["input_ids"]]

    def decode(self, token_ids: Sequence[int]) -> str:
        """The tokens as text; empty when the model has no tokenizer."""
        return str(self.tokenizer.decode(list(token_ids))) if self.tokenizer is not None else ""

    def _forward(
        self, tokens: torch.Tensor, positions: torch.Tensor, kv_pass: _PagedPass, want_logits: bool
    ) -> torch.Tensor | None:
        arguments = {
            "input_ids": tokens.to(self.device),
            "position_ids": positions.to(self.device),
            "use_cache": False,
            "kv_pass": kv_pass,
        }
        if not want_logits:
            self.hf_model.base_model(**arguments)
            return None
        logits: torch.Tensor = self.hf_model(**arguments, logits_to_keep=1).logits
        return logits[0, -1].float()


def heads_of(config: Any) -> Heads:
    """The attention heads of a model, by its configuration; one where the architecture has none."""
    query = int(getattr(config, "num_attention_heads", None) or 1)
    kv = int(getattr(config, "num_key_value_heads", None) or query)
    return Heads(query, kv, int(getattr(config, "head_dim", None) or config.hidden_size // query))


def _traits(hf_model: Any) -> ModelTraits:
    config = hf_model.config
    architecture = str(config.model_type)
    if hf_model._is_stateful:
        return ModelTraits(architecture, recurrent=True)
    if architecture not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise ModelError(f"model architecture {architecture!r} is not supported; supported: {known}")
    return ModelTraits(architecture, windows=_windows(config), rope_fixed_up_to=_rope_fixed_up_to(config))


def _windows(config: Any) -> tuple[int | None, ...]:
    layers = int(config.num_hidden_layers)
    window = getattr(config, "sliding_window", None)
    kinds = getattr(config, "layer_types", None) or ["sliding_attention"] * layers
    return tuple(window if kind == "sliding_attention" else None for kind in kinds)


def _rope_fixed_up_to(config: Any) -> int | None:
    rope = config.rope_parameters
    if rope["rope_type"] not in _LENGTH_DEPENDENT_ROPE:
        return None
    return int(rope.get("original_max_position_embeddings") or config.max_position_embeddings)


def _geometry(config: Any, dtype: torch.dtype, traits: ModelTraits) -> KVGeometry:
    if traits.recurrent:
        return KVGeometry(layers=0, kv_heads=0, head_dim=0, dtype=dtype)
    heads = heads_of(config)
    return KVGeometry(int(config.num_hidden_layers), heads.kv, heads.dim, dtype)
