"""One store: ask for room, write the caller's buffers into it, have it published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future

from kvchaos.answers import Outcome, answer, read_results
from kvchaos.batch import BatchInFlight
from kvchaos.errors import DeadlineExceeded
from kvchaos.grants import Grant, fit, read_grants
from kvchaos.results import Result
from kvchaos.transfer import Direction
from kvchaos.v1 import cache_pb2, common_pb2

GIVE_BACK_TIMEOUT_S = 2.0


class Store(BatchInFlight):
    """A store under way. Nothing reads a buffer any more once its future is done."""

    _grants: Sequence[Grant] = ()

    def start(self, keys: common_pb2.KeyBatch) -> Future[list[Result]]:
        """Sends the request and returns the outcome of each key."""
        request = cache_pb2.PrepareStoreRequest(
            session_id=self.session.id,
            request_id=self.request_id,
            keys=keys,
            size_bytes=self.size_column(),
            transport=self.route.transport,
        )
        with self.ending_on_error():
            self.session.call("PrepareStore", request, self.deadline.remaining_s, self._prepared)
        return self.future

    def abandon(self) -> None:
        self.route.close()
        if self._grants and not self.session.ended:
            nothing = [0] * len(self._grants)
            self.session.call("CommitStore", self._commit(nothing), GIVE_BACK_TIMEOUT_S, lambda _: None)

    def _prepared(self, outcome: Outcome) -> None:
        with self.ending_on_error():
            response = answer(outcome)
            self.on_worker(lambda: self._write(response))

    def _write(self, response: cache_pb2.PrepareStoreResponse) -> None:
        results = read_results(response.results, len(self.buffers))
        self._grants = read_grants(response, results, self.route.transport)
        if not self._grants:
            self.route.close()
            self.future.set_result(results)
            return
        grants, misfits = fit(self._grants, self.buffers)
        self.route.move(
            Direction.WRITE,
            grants,
            response.descriptor_count,
            self.buffers,
            lambda failed: self._written(results, {**misfits, **failed}),
        )

    def _written(self, results: list[Result], failed: Mapping[int, Result]) -> None:
        with self.ending_on_error():
            self.route.close()
            if self.deadline.expired():
                raise DeadlineExceeded("the objects could not be written in time")
            written = [0 if grant.position in failed else grant.length for grant in self._grants]
            self.session.call(
                "CommitStore",
                self._commit(written),
                self.deadline.remaining_s,
                lambda outcome: self._committed(outcome, results, failed),
            )

    def _committed(self, outcome: Outcome, results: list[Result], failed: Mapping[int, Result]) -> None:
        grants, self._grants = self._grants, ()
        with self.ending_on_error():
            committed = read_results(answer(outcome).results, len(grants))
            for grant, result in zip(grants, committed, strict=True):
                results[grant.position] = failed.get(grant.position, result)
            self.future.set_result(results)

    def _commit(self, written: Sequence[int]) -> cache_pb2.CommitStoreRequest:
        return cache_pb2.CommitStoreRequest(
            session_id=self.session.id, request_id=self.request_id, written_bytes=written
        )
