"""A request's keys or values in the order of its prompt."""

from __future__ import annotations

import torch

from kvchaos_blend.pool import BlockTable


def in_order(pages: torch.Tensor, table: BlockTable, tokens: int) -> torch.Tensor:
    """The first ``tokens`` positions: [1, kv_heads, tokens, head_dim].

    A view where the request's blocks lie one behind the other, a copy elsewhere.

    Args:
        pages: [blocks, block_tokens, kv_heads, head_dim].
        table: the request's blocks.
        tokens: how many positions.
    """
    slots = pages.flatten(0, 1)
    if table.first_slot is not None:
        ordered = slots[table.first_slot : table.first_slot + tokens]
    else:
        ordered = slots.index_select(0, table.slots[:tokens])
    return ordered.transpose(0, 1)[None]
