"""The chunks of one prompt on their way from the store, over all ranks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial

from kvchaos.errors import KVChaosError
from kvchaos.results import Result
from kvchaos_blend.cancel import CancelToken
from kvchaos_blend.store import OnResult


class Arrivals:
    """Which chunks have arrived, as one load per rank reports them. Thread-safe.

    A chunk has arrived when every rank's share has; it has failed when any rank's share has.
    """

    def __init__(self, chunks: int, ranks: int, cancel: CancelToken) -> None:
        self._results: list[list[Result | None]] = [[None] * chunks for _ in range(ranks)]
        self._judged = [False] * ranks
        self._changed = threading.Condition()
        self._cancel = cancel
        self.trouble = ""
        """Why a whole load failed; empty when none did."""
        cancel.on_cancel(self._wake)

    def listener(self, rank: int) -> OnResult:
        """What one rank's load tells its results to."""
        return partial(self._settle, rank)

    def follow(self, rank: int, load: Future[list[Result]]) -> None:
        """Takes what the load did not tell position by position from its end."""
        load.add_done_callback(partial(self._finish, rank))

    def wait_until_judged(self) -> None:
        """Until the store has said of every chunk whether it means to serve it. Raises Cancelled."""
        self._wait(lambda: all(self._judged))

    def wait_for(self, chunk: int) -> None:
        """Until every rank's share of the chunk has arrived or failed. Raises Cancelled."""
        self._wait(lambda: all(results[chunk] is not None for results in self._results))

    def wait_for_all(self, timeout_s: float | None = None) -> bool:
        """Until nothing is on its way any more; False when ``timeout_s`` ends first. Raises Cancelled."""
        return self._wait(self._is_over, timeout_s)

    def failure(self, chunk: int) -> Result | None:
        """The first failure among the ranks; None when none has failed so far."""
        shares = (results[chunk] for results in self._results)
        return next((share for share in shares if share not in (None, Result.OK)), None)

    def is_partial(self, chunk: int) -> bool:
        """Whether some ranks' shares failed while others did not."""
        failed = [results[chunk] not in (None, Result.OK) for results in self._results]
        return any(failed) and not all(failed)

    def _settle(self, rank: int, position: int, result: Result) -> None:
        with self._changed:
            self._results[rank][position] = result
            if result is Result.OK:
                self._judged[rank] = True
            self._changed.notify_all()

    def _finish(self, rank: int, load: Future[list[Result]]) -> None:
        """A load that failed as a whole leaves what had arrived before."""
        with self._changed:
            told = self._results[rank]
            self._results[rank] = list(self._outcome(load, told))
            self._judged[rank] = True
            self._changed.notify_all()

    def _outcome(self, load: Future[list[Result]], told: list[Result | None]) -> Sequence[Result]:
        try:
            return load.result()
        except KVChaosError as error:
            self.trouble = str(error)
            return [result or Result.UNAVAILABLE for result in told]

    def _is_over(self) -> bool:
        return all(result is not None for results in self._results for result in results)

    def _wait(self, settled: Callable[[], bool], timeout_s: float | None = None) -> bool:
        with self._changed:
            is_settled = self._changed.wait_for(lambda: self._cancel.is_set or settled(), timeout_s)
        self._cancel.check()
        return is_settled

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()
