"""Moves chunk objects between staging memory and the paged pool."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from kvchaos_blend.geometry import KVGeometry
from kvchaos_blend.plan import Run
from kvchaos_blend.pool import BlockTable, KVPool


class Staging:
    """Host memory for the objects of some chunks, one buffer per rank and chunk."""

    def __init__(
        self, geometry: KVGeometry, chunks: int, chunk_tokens: int, ranks: int, pinned: bool = False
    ) -> None:
        shape = geometry.object_shape(chunk_tokens, ranks)
        self.objects = torch.empty((ranks, chunks, *shape), dtype=geometry.dtype, pin_memory=pinned)
        """[ranks, chunks, 2 (K, V), layers, chunk_tokens, heads_of_rank * head_dim]."""

    def buffers(self, rank: int) -> Sequence[memoryview]:
        """Writable bytes of each chunk's object of one rank."""
        return [
            memoryview(chunk.view(torch.uint8).numpy()).cast("B") for chunk in self.objects[rank].flatten(1)
        ]

    def is_finite(self, chunk: int) -> bool:
        """False when any rank's object of the chunk holds a NaN or an infinity."""
        low, high = torch.aminmax(self.objects[:, chunk])
        return bool(torch.isfinite(low) & torch.isfinite(high))


def scatter(pool: KVPool, table: BlockTable, run: Run, chunk_objects: torch.Tensor) -> None:
    """Puts one chunk's objects into the pool, all layers at once.

    Args:
        pool: where to.
        table: the request's blocks.
        run: the chunk's positions.
        chunk_objects: [ranks, 2, layers, tokens, heads_of_rank * head_dim].
    """
    geometry = pool.geometry
    by_head = chunk_objects.unflatten(-1, (-1, geometry.head_dim))
    whole = by_head.permute(2, 1, 3, 0, 4, 5).flatten(3, 4)
    pool.slots.index_copy_(2, table.slots[run.start : run.end], whole.to(pool.device, non_blocking=True))


def gather(pool: KVPool, table: BlockTable, run: Run, ranks: int) -> torch.Tensor:
    """The inverse of :func:`scatter`: [ranks, 2, layers, tokens, heads_of_rank * head_dim] on the host."""
    whole = pool.read(table.slots[run.start : run.end])
    by_rank = whole.unflatten(3, (ranks, -1))
    objects: torch.Tensor = by_rank.permute(3, 1, 0, 2, 4, 5).flatten(4, 5).contiguous().cpu()
    return objects
