"""FlexAttention: all runs in one call, masked by the positions of the queries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from kvchaos_blend.attention.contract import LayerPages
from kvchaos_blend.plan import Run
from kvchaos_blend.pool import BlockTable


@dataclass(slots=True)
class _Prepared:
    positions: torch.Tensor
    key_count: int
    blocks: torch.Tensor
    masks: dict[int | None, BlockMask]


class Flex:
    """The mask is ``key position <= query position``; blocks of keys that no query sees are skipped."""

    name = "flex"

    def __init__(self, kernel: Callable[..., Any] = flex_attention) -> None:
        """``kernel`` is ``flex_attention`` or its compiled form, which alone is fast."""
        self._kernel = kernel

    @classmethod
    def compiled(cls) -> Flex:
        """Compiled on first use, which takes a compiler and some seconds. For a GPU.

        On the CPU, torch 2.13's template inserts the sizes of its blocks by replacing symbol names in the
        text of the kernel, so that ``ks1`` is also replaced within ``ks18``. Symbols are numbered by a hash,
        and therefore some kernels compile and others do not.
        """
        return cls(torch.compile(flex_attention, dynamic=True))

    def prepare(self, runs: Sequence[Run], table: BlockTable) -> _Prepared:
        """Lists the queries' positions; block masks are made once per window length."""
        device = table.blocks.device
        positions = torch.cat([torch.arange(run.start, run.end, device=device) for run in runs])
        key_count = runs[-1].end
        return _Prepared(positions, key_count, table.covering(key_count), {})

    def attend(
        self, query: torch.Tensor, pages: LayerPages, prepared: _Prepared, scale: float, window: int | None
    ) -> torch.Tensor:
        """See :class:`kvchaos_blend.attention.contract.PagedAttention`."""
        if window not in prepared.masks:
            prepared.masks[window] = _block_mask(prepared, window)
        output: torch.Tensor = self._kernel(
            query.transpose(0, 1)[None],
            _in_order(pages.keys, prepared),
            _in_order(pages.values, prepared),
            block_mask=prepared.masks[window],
            scale=scale,
            enable_gqa=True,
        )
        return output[0].transpose(0, 1)


def _in_order(pages: torch.Tensor, prepared: _Prepared) -> torch.Tensor:
    """[1, kv_heads, keys, head_dim], in the order of the prompt."""
    return pages.index_select(0, prepared.blocks).flatten(0, 1)[: prepared.key_count].transpose(0, 1)[None]


def _block_mask(prepared: _Prepared, window: int | None) -> BlockMask:
    positions = prepared.positions

    def sees(
        _batch: torch.Tensor, _head: torch.Tensor, query: torch.Tensor, key: torch.Tensor
    ) -> torch.Tensor:
        visible = key <= positions[query]
        return visible if window is None else visible & (key > positions[query] - window)

    return create_block_mask(sees, None, None, positions.numel(), prepared.key_count, device=positions.device)
