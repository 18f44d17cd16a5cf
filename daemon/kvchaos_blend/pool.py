"""The paged KV pool: one tensor, cut into blocks, lent to requests."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from kvchaos_blend.errors import PoolFull
from kvchaos_blend.geometry import KVGeometry

DEFAULT_BLOCK_TOKENS = 16


class BlockTable:
    """The blocks of one request: position ``p`` of the prompt lives in slot ``slots[p]`` of the pool."""

    def __init__(self, blocks: Sequence[int], block_tokens: int, device: torch.device) -> None:
        self.blocks = torch.tensor(blocks, dtype=torch.int64, device=device)
        """[blocks] int64, indices into the pool's blocks in the order of the prompt."""
        within = torch.arange(block_tokens, device=device)
        self.slots = (self.blocks[:, None] * block_tokens + within).flatten()
        """[blocks * block_tokens] int64, slot of each position."""
        self.block_tokens = block_tokens

    @property
    def capacity_tokens(self) -> int:
        """Positions that fit."""
        return self.slots.numel()

    def covering(self, tokens: int) -> torch.Tensor:
        """The blocks that hold positions 0 to ``tokens - 1``: [ceil(tokens / block_tokens)] int64."""
        return self.blocks[: -(-tokens // self.block_tokens)]


class KVPool:
    """Paged KV of a bounded number of tokens, shared by several requests. Thread-safe."""

    def __init__(
        self,
        geometry: KVGeometry,
        capacity_tokens: int,
        device: torch.device,
        block_tokens: int = DEFAULT_BLOCK_TOKENS,
    ) -> None:
        """Takes ``capacity_tokens``, rounded up to whole blocks, of device memory at once."""
        if capacity_tokens < 1 or block_tokens < 1:
            raise ValueError(
                f"pool of {capacity_tokens} tokens in blocks of {block_tokens}: both must be at least 1"
            )
        self.geometry = geometry
        self.block_tokens = block_tokens
        self.total_blocks = -(-capacity_tokens // block_tokens)
        self.pages = torch.zeros(
            (geometry.layers, 2, self.total_blocks, block_tokens, geometry.kv_heads, geometry.head_dim),
            dtype=geometry.dtype,
            device=device,
        )
        """[layers, 2 (K, V), blocks, block_tokens, kv_heads, head_dim]."""
        self.slots = self.pages.flatten(2, 3)
        """The same memory by slot: [layers, 2, blocks * block_tokens, kv_heads, head_dim]."""
        self._free = list(range(self.total_blocks - 1, -1, -1))
        self._lock = threading.Lock()

    @property
    def device(self) -> torch.device:
        """Where the pages live."""
        return self.pages.device

    @property
    def free_blocks(self) -> int:
        """Blocks that nobody holds."""
        return len(self._free)

    @contextmanager
    def lend(self, tokens: int) -> Iterator[BlockTable]:
        """Blocks for ``tokens`` positions, taken back at the end of the block. Contents are arbitrary.

        Raises:
            PoolFull: there are not enough; nothing has been taken.
        """
        blocks = self._take(-(-tokens // self.block_tokens))
        try:
            yield BlockTable(blocks, self.block_tokens, self.device)
        finally:
            with self._lock:
                self._free.extend(reversed(blocks))

    def fill(self, table: BlockTable, value: float) -> None:
        """Sets every slot of the table, in all layers."""
        self.slots[:, :, table.slots] = value

    def write(self, layer: int, slots: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> None:
        """Puts fresh KV of one layer into its slots.

        Args:
            layer: index of the layer.
            slots: [tokens] int64.
            key: [tokens, kv_heads, head_dim], after RoPE.
            value: [tokens, kv_heads, head_dim].
        """
        self.slots[layer, 0].index_copy_(0, slots, key)
        self.slots[layer, 1].index_copy_(0, slots, value)

    def read(self, slots: torch.Tensor) -> torch.Tensor:
        """A copy of some slots, all layers: [layers, 2, tokens, kv_heads, head_dim]."""
        return self.slots.index_select(2, slots)

    def _take(self, needed: int) -> list[int]:
        with self._lock:
            if needed > len(self._free):
                raise PoolFull(needed, len(self._free), self.total_blocks, self.block_tokens)
            return sorted(self._free.pop() for _ in range(needed))
