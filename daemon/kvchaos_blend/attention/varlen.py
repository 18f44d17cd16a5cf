"""Paged variable-length attention: torch's varlen call on the FlashAttention 3 kernels. CUDA only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.attention import activate_flash_attention_impl
from torch.nn.attention.varlen import varlen_attn

from kvchaos_blend.attention.contract import LayerPages
from kvchaos_blend.plan import Run
from kvchaos_blend.pool import BlockTable


@dataclass(frozen=True, slots=True)
class _Prepared:
    query_starts: torch.Tensor
    key_counts: torch.Tensor
    block_table: torch.Tensor
    longest_query: int
    longest_key: int


class Varlen:
    """Each run is one sequence that reads its keys straight from the pages; no gather, no mask tensor."""

    name = "varlen"

    def __init__(self, kernel: Callable[..., Any] = varlen_attn) -> None:
        """``kernel`` has the signature and meaning of ``torch.nn.attention.varlen.varlen_attn``."""
        self._kernel = kernel

    @classmethod
    def on_flash_attention_3(cls) -> Varlen:
        """Raises ImportError or RuntimeError when the FlashAttention 3 kernels are not installed."""
        activate_flash_attention_impl("FA3")
        return cls()

    def prepare(self, runs: Sequence[Run], table: BlockTable) -> _Prepared:
        """Describes each run as a sequence with its own length and the request's block table."""
        device = table.blocks.device
        lengths = torch.tensor([0, *(run.tokens for run in runs)], dtype=torch.int32, device=device)
        return _Prepared(
            query_starts=lengths.cumsum(0, dtype=torch.int32),
            key_counts=torch.tensor([run.end for run in runs], dtype=torch.int32, device=device),
            block_table=table.covering(runs[-1].end).to(torch.int32).expand(len(runs), -1).contiguous(),
            longest_query=max(run.tokens for run in runs),
            longest_key=runs[-1].end,
        )

    def attend(
        self, query: torch.Tensor, pages: LayerPages, prepared: _Prepared, scale: float, window: int | None
    ) -> torch.Tensor:
        """See :class:`kvchaos_blend.attention.contract.PagedAttention`."""
        output: torch.Tensor = self._kernel(
            query,
            pages.keys,
            pages.values,
            prepared.query_starts,
            None,
            prepared.longest_query,
            prepared.longest_key,
            scale=scale,
            window_size=(-1, 0) if window is None else (window - 1, 0),
            enable_gqa=True,
            seqused_k=prepared.key_counts,
            block_table=prepared.block_table,
        )
        return output
