"""What every attention implementation does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import torch

from kvchaos_blend.plan import Run
from kvchaos_blend.pool import BlockTable


class LayerPages(NamedTuple):
    """One layer's pages of the pool."""

    keys: torch.Tensor
    """[blocks, block_tokens, kv_heads, head_dim], after RoPE."""
    values: torch.Tensor
    """[blocks, block_tokens, kv_heads, head_dim]."""


class Heads(NamedTuple):
    """The heads of a model's attention layers."""

    query: int
    kv: int
    dim: int


class PagedAttention(Protocol):
    """Causal attention of a request's runs over its pages.

    The query at position ``p`` sees the keys at positions ``q`` with ``q <= p``, and, in a layer with a
    sliding window, ``q > p - window``. Query heads share KV heads in equal groups.
    """

    name: str
    """For status and reports."""

    def prepare(self, runs: Sequence[Run], table: BlockTable) -> Any:
        """What is the same in every layer of one forward pass over ``runs``."""

    def attend(
        self, query: torch.Tensor, pages: LayerPages, prepared: Any, scale: float, window: int | None
    ) -> torch.Tensor:
        """The attention output: [tokens, heads, head_dim].

        Args:
            query: [tokens, heads, head_dim], the tokens of all runs in order.
            pages: already holds the KV of those tokens.
            prepared: what :meth:`prepare` returned.
            scale: factor on the scores.
            window: length of a sliding window in tokens, or None.
        """
