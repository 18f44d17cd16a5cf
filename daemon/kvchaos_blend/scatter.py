"""Moves chunk objects between staging memory and the paged pool."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence

import torch

from kvchaos_blend.geometry import KVGeometry
from kvchaos_blend.plan import Run
from kvchaos_blend.pool import BlockTable, KVPool


class HostMemory:
    """Host memory that is kept for the next who needs it, because fresh memory costs more than filling it.

    Keeps one piece, the largest. Thread-safe.
    """

    def __init__(self, pinned: bool) -> None:
        """``pinned`` memory can be copied to a GPU without a stop."""
        self._pinned = pinned
        self._kept: torch.Tensor | None = None
        self._lock = threading.Lock()

    def take(self, size_bytes: int) -> torch.Tensor:
        """At least so many bytes, with arbitrary contents: [bytes] uint8."""
        with self._lock:
            kept, self._kept = self._kept, None
        if kept is not None and kept.numel() >= size_bytes:
            return kept
        return torch.empty(size_bytes, dtype=torch.uint8, pin_memory=self._pinned)

    def give_back(self, memory: torch.Tensor) -> None:
        """Nobody uses ``memory`` any more."""
        with self._lock:
            if self._kept is None or self._kept.numel() < memory.numel():
                self._kept = memory


class Staging:
    """The objects of some chunks in host memory, one buffer per rank and chunk."""

    def __init__(
        self, geometry: KVGeometry, chunks: int, chunk_tokens: int, ranks: int, host: HostMemory
    ) -> None:
        shape = (ranks, chunks, *geometry.object_shape(chunk_tokens, ranks))
        size_bytes = math.prod(shape) * geometry.dtype.itemsize
        self._host = host
        self._memory = host.take(size_bytes)
        self.objects = self._memory[:size_bytes].view(geometry.dtype).view(shape)
        """[ranks, chunks, 2 (K, V), layers, chunk_tokens, heads_of_rank * head_dim]."""

    def give_back(self) -> None:
        """Nobody uses the objects any more, neither here nor in the store's client."""
        self._host.give_back(self._memory)

    def buffers(self, rank: int) -> Sequence[memoryview]:
        """Writable bytes of each chunk's object of one rank."""
        return [
            memoryview(chunk.view(torch.uint8).numpy()).cast("B") for chunk in self.objects[rank].flatten(1)
        ]

    def is_finite(self, chunk: int) -> bool:
        """False when any rank's object of the chunk holds a NaN or an infinity."""
        return bool(torch.isfinite(self.objects[:, chunk].sum(dtype=torch.float32)))


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
