"""The sidecar as a store of chunks, through the client library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TypeVar

from kvchaos.client import L2Client
from kvchaos.errors import KVChaosError
from kvchaos.keys import ObjectKey
from kvchaos.reports import Deleted
from kvchaos.results import Result
from kvchaos_blend.store import OnResult

S = TypeVar("S")
T = TypeVar("T")


class L2Store:
    """A ChunkStore over a client that somebody else closes."""

    def __init__(self, client: L2Client) -> None:
        self._client = client

    def lookup_and_lock(self, keys: Sequence[ObjectKey]) -> Future[list[Result]]:
        """See ChunkStore."""
        return _guarded(lambda: self._client.lookup_and_lock(keys))

    def load(
        self, keys: Sequence[ObjectKey], buffers: Sequence[memoryview], on_result: OnResult
    ) -> Future[list[Result]]:
        """See ChunkStore."""
        return _guarded(lambda: self._client.load(keys, buffers, on_result=on_result))

    def store(self, keys: Sequence[ObjectKey], buffers: Sequence[memoryview]) -> Future[list[Result]]:
        """See ChunkStore."""
        return _guarded(lambda: self._client.store(keys, buffers))

    def delete(self, keys: Sequence[ObjectKey]) -> Future[list[Result]]:
        """See ChunkStore."""
        return _mapped(_guarded(lambda: self._client.delete(keys)), _results_of)

    def unlock(self, keys: Sequence[ObjectKey]) -> Future[int]:
        """See ChunkStore."""
        return _guarded(lambda: self._client.unlock(keys))


def _results_of(deleted: Sequence[Deleted]) -> list[Result]:
    return [one.result for one in deleted]


def _guarded(call: Callable[[], Future[T]]) -> Future[T]:
    """A call that cannot even start ends its future too."""
    try:
        return call()
    except KVChaosError as error:
        failed: Future[T] = Future()
        failed.set_exception(error)
        return failed


def _mapped(source: Future[S], convert: Callable[[S], T]) -> Future[T]:
    target: Future[T] = Future()

    def finish(done: Future[S]) -> None:
        error = done.exception()
        if error is None:
            target.set_result(convert(done.result()))
        else:
            target.set_exception(error)

    source.add_done_callback(finish)
    return target
