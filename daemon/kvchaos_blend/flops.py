"""What a forward pass over chosen positions costs, in floating-point operations. Pure.

A token costs twice the layers' weights, and in attention four operations per layer, query head, head
dimension and visible position. The vocabulary head, computed for one token, is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvchaos_blend.plan import Run


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The numbers that the cost depends on."""

    layers: int
    hidden: int
    query_heads: int
    kv_heads: int
    head_dim: int
    intermediate: int

    @property
    def layer_weights(self) -> int:
        """Weights in the linear maps of all layers: Q and O, K and V, and the gated MLP."""
        attention = 2 * self.hidden * (self.query_heads + self.kv_heads) * self.head_dim
        return self.layers * (attention + 3 * self.hidden * self.intermediate)

    def flops(self, runs: Sequence[Run]) -> int:
        """Operations to compute the tokens of ``runs`` when everything before each is known."""
        tokens = sum(run.tokens for run in runs)
        visible = sum(run.end * (run.end + 1) - run.start * (run.start + 1) for run in runs) // 2
        return 2 * self.layer_weights * tokens + 4 * self.layers * self.query_heads * self.head_dim * visible
