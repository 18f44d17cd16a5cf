"""Prefills a prompt and stores its chunks."""

from __future__ import annotations

from collections.abc import Sequence

from kvchaos_blend.cancel import CancelToken
from kvchaos_blend.chunks import chunk_hashes
from kvchaos_blend.errors import ModelError
from kvchaos_blend.exactness import why_uncacheable
from kvchaos_blend.plan import Run
from kvchaos_blend.progress import LayerStarted, OnEvent, Phase, Stopwatch
from kvchaos_blend.publish import publish
from kvchaos_blend.report import StoreReport
from kvchaos_blend.worker import Worker


def store_prompt(
    worker: Worker,
    token_ids: Sequence[int],
    on_event: OnEvent = lambda _: None,
    cancel: CancelToken | None = None,
) -> StoreReport:
    """Computes the KV of the whole prompt and puts its full chunks into the store.

    Raises:
        PromptError: the prompt cannot be used.
        ModelError: the model's chunks would be of no use to anybody.
        PoolFull: it does not fit in the pool now.
        Cancelled: the token was set.
    """
    cancel = cancel or CancelToken()
    worker.check_prompt(token_ids, 1)
    uncacheable = why_uncacheable(worker.model.traits, len(token_ids))
    if uncacheable:
        raise ModelError(f"nothing can be stored: {uncacheable}")
    stopwatch = Stopwatch(worker.clock, on_event, worker.settle)
    layers = worker.pool.geometry.layers

    def checkpoint(layer: int) -> None:
        cancel.check()
        on_event(LayerStarted(layer, layers, len(token_ids)))

    with worker.pool.lend(len(token_ids)) as table:
        with stopwatch.phase(Phase.HASH):
            hashes = chunk_hashes(token_ids, worker.key_space.chunk_tokens)
        with stopwatch.phase(Phase.RECOMPUTE):
            worker.model.compute(token_ids, [Run(0, len(token_ids))], worker.pool, table, checkpoint)
        with stopwatch.phase(Phase.STORE):
            published = publish(worker, hashes, table, range(len(hashes)), cancel)
    object_bytes = worker.pool.geometry.token_bytes * worker.key_space.chunk_tokens
    return StoreReport(
        prompt_tokens=len(token_ids),
        chunks=len(hashes),
        stored=published.stored,
        present=published.present,
        failed=published.failed,
        stored_bytes=published.stored * object_bytes,
        phase_s=stopwatch.by_name(),
        total_s=stopwatch.total_s,
    )
