"""Brings a prompt's chunks from the store into the pool, in position order."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import Future

import torch

from kvchaos.errors import KVChaosError
from kvchaos.keys import ObjectKey
from kvchaos.results import Result
from kvchaos_blend.arrivals import Arrivals
from kvchaos_blend.cancel import CancelToken
from kvchaos_blend.errors import StoreMismatch
from kvchaos_blend.lease import Lease
from kvchaos_blend.plan import Run
from kvchaos_blend.pool import BlockTable
from kvchaos_blend.progress import ChunkSettled, OnEvent, Phase, Stopwatch
from kvchaos_blend.scatter import Staging, scatter
from kvchaos_blend.worker import Worker

LOADED = "loaded"
NOT_LOOKED_UP = "not_looked_up"
"""The policy has no use for it, so nobody asked whether it is there."""
UNUSED = "unused"
"""It is there, and the policy has no use for it."""
NOT_FINITE = "not_finite"
"""It came, and holds a NaN or an infinity."""


class ChunkLoader:
    """Looks chunks up, loads them, checks them and scatters them.

    Attributes:
        outcomes: of each chunk, "loaded" or why it is not; None while it may still come.
        warnings: what went wrong with whole calls.
        load_span_s: from asking for the chunks to the end of the load.
    """

    def __init__(
        self,
        worker: Worker,
        hashes: Sequence[bytes],
        table: BlockTable,
        lease: Lease,
        stopwatch: Stopwatch,
        on_event: OnEvent,
        cancel: CancelToken,
    ) -> None:
        self.outcomes: list[str | None] = [NOT_LOOKED_UP] * len(hashes)
        self.warnings: list[str] = []
        self._staging: Staging | None = None
        self._loads: list[Future[list[Result]]] = []
        self.load_span_s = 0.0
        self._worker = worker
        self._hashes = hashes
        self._table = table
        self._lease = lease
        self._stopwatch = stopwatch
        self._on_event = on_event
        self._cancel = cancel
        self._ranks = worker.key_space.ranks
        self._asked: Sequence[int] = ()
        self._arrivals = Arrivals(0, 0, cancel)
        self._next = 0
        self._partial_at_lookup: set[int] = set()

    @property
    def found(self) -> list[bool]:
        """For each chunk, whether it was found, as far as is known now."""
        return [outcome in (None, LOADED, UNUSED) for outcome in self.outcomes]

    @property
    def partial(self) -> list[int]:
        """Chunks that some ranks have and others have not, as far as is known now."""
        at_load = {chunk for index, chunk in enumerate(self._asked) if self._arrivals.is_partial(index)}
        return sorted(self._partial_at_lookup | at_load)

    def lookup(self) -> None:
        """Asks the store which chunks it has and locks them. A store that fails has none."""
        lookups = [self._lease.lookup(self._keys(rank, self._hashes)) for rank in range(self._ranks)]
        try:
            by_rank = [self._cancel.wait_for(lookup) for lookup in lookups]
        except KVChaosError as error:
            self._cancel.check()
            self.warnings.append(f"lookup failed, so every chunk counts as missing: {error}")
            self.outcomes = [Result.UNAVAILABLE.label] * len(self._hashes)
            return
        for chunk, results in enumerate(zip(*by_rank, strict=True)):
            failures = [result for result in results if result is not Result.OK]
            self.outcomes[chunk] = failures[0].label if failures else UNUSED
            if 0 < len(failures) < self._ranks:
                self._partial_at_lookup.add(chunk)

    def start(self, chunks: Sequence[int]) -> None:
        """Starts to load these chunks, which were found, and waits until the store has judged them.

        Raises:
            StoreMismatch: the store's objects have another size than the model's chunks.
        """
        if not chunks:
            return
        self._asked = chunks
        for chunk in chunks:
            self.outcomes[chunk] = None
        geometry, tokens = self._worker.pool.geometry, self._worker.key_space.chunk_tokens
        self._staging = Staging(geometry, len(chunks), tokens, self._ranks, self._worker.host_memory)
        self._arrivals = Arrivals(len(chunks), self._ranks, self._cancel)
        began_s = self._worker.clock()
        for rank in range(self._ranks):
            self._start_rank(rank, self._staging, began_s)
        self._arrivals.wait_until_judged()
        self._judge()

    def fill(self, kept: Collection[int], until: int) -> bool:
        """Waits for the kept chunks before chunk ``until`` and scatters them, in order.

        Each call goes on where the last one ended. It stops early, and returns False, when a chunk turns
        out to be missing, because that may change what is to be kept.
        """
        while self._next < len(self._asked) and self._asked[self._next] < until:
            index, chunk = self._next, self._asked[self._next]
            self._next += 1
            if chunk in kept and not self._fill_one(index, chunk):
                return False
        return True

    def is_over_within(self, timeout_s: float) -> bool:
        """Waits at most ``timeout_s`` for everything to arrive or fail; whether it has."""
        with self._stopwatch.phase(Phase.LOAD):
            return self._arrivals.wait_for_all(timeout_s)

    def settle(self) -> None:
        """Waits until nothing is on its way any more."""
        self._arrivals.wait_for_all()
        for index, chunk in enumerate(self._asked):
            if self.outcomes[chunk] is None:
                failure = self._arrivals.failure(index)
                self._settle(chunk, failure.label if failure else UNUSED)
        if self._arrivals.trouble:
            self.warnings.append(f"load failed: {self._arrivals.trouble}")

    def close(self) -> None:
        """Gives the memory that was loaded into back, unless a load that was given up still writes there."""
        if self._staging is not None and all(load.done() for load in self._loads):
            self._staging.give_back()

    def run_of(self, chunk: int) -> Run:
        """The chunk's positions in the prompt."""
        tokens = self._worker.key_space.chunk_tokens
        return Run(chunk * tokens, (chunk + 1) * tokens)

    def delivered(self, chunk: int) -> torch.Tensor:
        """A loaded chunk as it came: [ranks, 2, layers, tokens, heads_of_rank * head_dim]."""
        if self._staging is None:
            raise LookupError(f"chunk {chunk} was not asked for")
        return self._staging.objects[:, self._asked.index(chunk)]

    def _keys(self, rank: int, hashes: Sequence[bytes]) -> list[ObjectKey]:
        return self._worker.key_space.keys(hashes, rank)

    def _start_rank(self, rank: int, staging: Staging, began_s: float) -> None:
        keys = self._keys(rank, [self._hashes[chunk] for chunk in self._asked])
        load = self._worker.store.load(keys, staging.buffers(rank), self._arrivals.listener(rank))
        self._lease.covers(load)
        self._loads.append(load)
        self._arrivals.follow(rank, load)
        load.add_done_callback(lambda _: self._note_span(began_s))

    def _note_span(self, began_s: float) -> None:
        self.load_span_s = self._worker.clock() - began_s

    def _judge(self) -> None:
        failures = [self._arrivals.failure(index) for index in range(len(self._asked))]
        if Result.SIZE_MISMATCH in failures and None not in failures:
            raise StoreMismatch(self._mismatch())
        for chunk, failure in zip(self._asked, failures, strict=True):
            if failure is not None:
                self._settle(chunk, failure.label)

    def _mismatch(self) -> str:
        space, geometry = self._worker.key_space, self._worker.pool.geometry
        expected = geometry.object_bytes(space.chunk_tokens, self._ranks)
        return (
            f"the store's objects of {space.model_name!r} have another size than the {expected} bytes that a"
            f" chunk of {space.chunk_tokens} tokens takes ({geometry.describe()}; ranks: {self._ranks});"
            " check dtype, chunk size, ranks and the model's name"
        )

    def _fill_one(self, index: int, chunk: int) -> bool:
        if self.outcomes[chunk] is not None:
            return True
        with self._stopwatch.phase(Phase.LOAD):
            self._arrivals.wait_for(index)
        failure = self._arrivals.failure(index)
        if failure is not None:
            outcome = failure.label
        else:
            with self._stopwatch.phase(Phase.SCATTER):
                outcome = self._scatter(index, chunk)
        self._settle(chunk, outcome)
        return outcome == LOADED

    def _scatter(self, index: int, chunk: int) -> str:
        if self._staging is None or not self._staging.is_finite(index):
            return NOT_FINITE
        scatter(self._worker.pool, self._table, self.run_of(chunk), self._staging.objects[:, index])
        return LOADED

    def _settle(self, chunk: int, outcome: str) -> None:
        self.outcomes[chunk] = outcome
        self._on_event(ChunkSettled(chunk, outcome))
