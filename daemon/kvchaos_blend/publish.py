"""Puts chunks from the pool into the store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from kvchaos.errors import KVChaosError
from kvchaos.results import Result
from kvchaos_blend.cancel import CancelToken
from kvchaos_blend.plan import Run
from kvchaos_blend.pool import BlockTable
from kvchaos_blend.scatter import Staging, gather
from kvchaos_blend.worker import Worker


@dataclass(frozen=True, slots=True)
class Published:
    """What became of the chunks. A chunk counts once, by the worst result of its ranks."""

    stored: int
    present: int
    failed: dict[str, int]
    """By the label of the result."""


def publish(
    worker: Worker,
    hashes: Sequence[bytes],
    table: BlockTable,
    chunks: Sequence[int],
    cancel: CancelToken,
    replace: Sequence[int] = (),
) -> Published:
    """Stores the KV of ``chunks``; those also in ``replace`` are deleted first, because they are bad.

    A store that cannot be reached leaves them all unstored.
    """
    if not chunks:
        return Published(0, 0, {})
    staging = _stage(worker, table, chunks)
    by_rank = [
        _publish_rank(worker, hashes, staging, chunks, rank, replace, cancel)
        for rank in range(worker.key_space.ranks)
    ]
    staging.give_back()
    count = Counter(max(results, key=_badness) for results in zip(*by_rank, strict=True))
    failed = {result.label: n for result, n in count.items() if result not in (Result.OK, Result.PRESENT)}
    return Published(count[Result.OK], count[Result.PRESENT], failed)


def _publish_rank(
    worker: Worker,
    hashes: Sequence[bytes],
    staging: Staging,
    chunks: Sequence[int],
    rank: int,
    replace: Sequence[int],
    cancel: CancelToken,
) -> list[Result]:
    keys = worker.key_space.keys([hashes[chunk] for chunk in chunks], rank)
    try:
        if replace:
            bad = worker.key_space.keys([hashes[chunk] for chunk in replace], rank)
            cancel.wait_for(worker.store.delete(bad))
        return cancel.wait_for(worker.store.store(keys, staging.buffers(rank)))
    except KVChaosError:
        cancel.check()
        return [Result.UNAVAILABLE] * len(chunks)


def _stage(worker: Worker, table: BlockTable, chunks: Sequence[int]) -> Staging:
    space = worker.key_space
    staging = Staging(worker.pool.geometry, len(chunks), space.chunk_tokens, space.ranks, worker.host_memory)
    for index, chunk in enumerate(chunks):
        run = Run(chunk * space.chunk_tokens, (chunk + 1) * space.chunk_tokens)
        staging.objects[:, index] = gather(worker.pool, table, run, space.ranks)
    return staging


def _badness(result: Result) -> int:
    if result is Result.OK:
        return 1
    return 0 if result is Result.PRESENT else 2
