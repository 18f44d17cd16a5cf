"""One load: ask, receive what was granted straight into the caller's buffers, say what became of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future

from kvchaos.answers import Outcome, answer, read_results
from kvchaos.batch import BatchInFlight
from kvchaos.completion import Completion, read_completion
from kvchaos.deadline import Deadline
from kvchaos.grants import fit, read_grants
from kvchaos.poison import fill, poison_byte
from kvchaos.results import Result
from kvchaos.session import Session
from kvchaos.transfer import Direction
from kvchaos.v1 import cache_pb2, common_pb2
from kvchaos.workers import Workers

OnResult = Callable[[int, Result], None]
OnCompletion = Callable[[Completion], None]


class Load(BatchInFlight):
    """A load under way. Nothing touches a buffer any more once its future is done."""

    def __init__(
        self,
        session: Session,
        workers: Workers,
        buffers: Sequence[memoryview],
        deadline: Deadline,
        on_result: OnResult | None = None,
        on_completion: OnCompletion | None = None,
    ) -> None:
        super().__init__(session, workers, buffers, deadline)
        self._on_result = on_result
        self._on_completion = on_completion

    def start(self, keys: common_pb2.KeyBatch) -> Future[list[Result]]:
        """Sends the request and returns the outcome of each key."""
        request = cache_pb2.LoadRequest(
            session_id=self.session.id,
            request_id=self.request_id,
            keys=keys,
            size_bytes=self.size_column(),
            transport=self.route.transport,
        )
        with self.ending_on_error():
            self.session.call("Load", request, self.deadline.remaining_s, self._answered)
        return self.future

    def abandon(self) -> None:
        self.route.release(range(len(self.buffers)))

    def _answered(self, outcome: Outcome) -> None:
        with self.ending_on_error():
            response = answer(outcome)
            self.on_worker(lambda: self._receive(response))

    def _receive(self, response: cache_pb2.LoadResponse) -> None:
        results = read_results(response.results, len(self.buffers))
        if self._on_completion is not None:
            self._on_completion(read_completion(response))
        self._poison_dropped(results, response.poison)
        grants, misfits = fit(read_grants(response, results, self.route.transport), self.buffers)
        self.route.move(
            Direction.READ,
            grants,
            response.descriptor_count,
            self.buffers,
            lambda failed: self._received(results, {**misfits, **failed}),
            self._tell_refusals({**dict(enumerate(results)), **misfits}),
        )

    def _tell_refusals(self, known: Mapping[int, Result]) -> Callable[[int], None] | None:
        """Tells of the keys that will not come, and returns what is to be told of each that has."""
        on_result = self._on_result
        if on_result is None:
            return None
        for position, result in known.items():
            if result is not Result.OK:
                on_result(position, result)
        return lambda position: on_result(position, Result.OK)

    def _received(self, results: list[Result], failed: Mapping[int, Result]) -> None:
        with self.ending_on_error():
            for position, result in failed.items():
                results[position] = result
            self.future.set_result(results)
            self.route.release(failed)

    def _poison_dropped(self, results: Sequence[Result], poison: common_pb2.Poison) -> None:
        byte = poison_byte(poison)
        if byte is None:
            return
        for position, result in enumerate(results):
            if result is Result.DROPPED:
                fill(self.buffers[position], byte)
