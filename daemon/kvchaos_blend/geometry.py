"""The shape of a model's KV cache, and of one chunk's object in the store."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kvchaos_blend.errors import ModelError

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True, slots=True)
class KVGeometry:
    """The KV cache of one model; all zero for a model that has none."""

    layers: int
    kv_heads: int
    head_dim: int
    dtype: torch.dtype

    @property
    def token_bytes(self) -> int:
        """Bytes of KV that one token takes, over all layers."""
        return 2 * self.layers * self.kv_heads * self.head_dim * self.dtype.itemsize

    def heads_per_rank(self, ranks: int) -> int:
        """KV heads that each of ``ranks`` tensor-parallel ranks holds.

        Raises:
            ModelError: the heads cannot be split evenly.
        """
        if self.kv_heads % ranks:
            raise ModelError(
                f"the model's {self.kv_heads} KV heads cannot be split over {ranks} ranks; use a divisor"
            )
        return self.kv_heads // ranks

    def object_shape(self, tokens: int, ranks: int) -> tuple[int, int, int, int]:
        """Shape of one rank's object of one chunk: [2 (K, V), layers, tokens, heads * head_dim]."""
        return (2, self.layers, tokens, self.heads_per_rank(ranks) * self.head_dim)

    def object_bytes(self, tokens: int, ranks: int) -> int:
        """Bytes of one rank's object of one chunk."""
        return self.token_bytes * tokens // ranks

    def describe(self) -> str:
        """For error messages and status."""
        name = str(self.dtype).removeprefix("torch.")
        return f"{self.layers} layers, {self.kv_heads} KV heads of {self.head_dim}, {name}"
