"""Scaled dot product attention, one call per run, over gathered pages. Always there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention

from kvchaos_blend.attention.contract import LayerPages
from kvchaos_blend.plan import Run
from kvchaos_blend.pool import BlockTable

MAX_TILE_TOKENS = 512
"""Where a kernel needs the mask written out, a tile of this many queries bounds it."""


@dataclass(frozen=True, slots=True)
class _Prepared:
    tiles: tuple[Run, ...]
    blocks: torch.Tensor


class SdpaGaps:
    """A run's keys are the positions up to its end, so bottom-right causal alignment is its mask."""

    name = "sdpa"

    def prepare(self, runs: Sequence[Run], table: BlockTable) -> _Prepared:
        """Cuts the runs into tiles and finds the blocks that hold their keys."""
        tiles = tuple(tile for run in runs for tile in _tiles(run))
        return _Prepared(tiles, table.covering(runs[-1].end))

    def attend(
        self, query: torch.Tensor, pages: LayerPages, prepared: _Prepared, scale: float, window: int | None
    ) -> torch.Tensor:
        """See :class:`kvchaos_blend.attention.contract.PagedAttention`."""
        keys = _in_order(pages.keys, prepared.blocks)
        values = _in_order(pages.values, prepared.blocks)
        by_head = query.transpose(0, 1)[None]
        outputs = []
        for tile, part in zip(
            prepared.tiles, by_head.split([t.tokens for t in prepared.tiles], dim=2), strict=True
        ):
            outputs.append(
                scaled_dot_product_attention(
                    part,
                    keys[:, :, : tile.end],
                    values[:, :, : tile.end],
                    attn_mask=_mask(tile, window, query.device),
                    scale=scale,
                    enable_gqa=True,
                )
            )
        return torch.cat(outputs, dim=2)[0].transpose(0, 1)


def _tiles(run: Run) -> list[Run]:
    if run.start == 0:
        return [run]
    starts = range(run.start, run.end, MAX_TILE_TOKENS)
    return [Run(start, min(start + MAX_TILE_TOKENS, run.end)) for start in starts]


def _in_order(pages: torch.Tensor, blocks: torch.Tensor) -> torch.Tensor:
    """[1, kv_heads, blocks * block_tokens, head_dim], in the order of the prompt."""
    return pages.index_select(0, blocks).flatten(0, 1).transpose(0, 1)[None]


def _mask(tile: Run, window: int | None, device: torch.device) -> torch.Tensor:
    if window is None or window >= tile.end:
        return causal_lower_right(tile.tokens, tile.end)
    distance = torch.arange(tile.start, tile.end, device=device)[:, None] - torch.arange(
        tile.end, device=device
    )
    return (distance >= 0) & (distance < window)
