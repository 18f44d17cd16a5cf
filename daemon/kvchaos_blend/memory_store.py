"""A store in memory that does as it is told: the double for tests of whatever uses a ChunkStore."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from kvchaos.errors import KVChaosError, SidecarUnavailable
from kvchaos.keys import ObjectKey
from kvchaos.results import Result
from kvchaos_blend.store import OnResult

T = TypeVar("T")


class MemoryStore:
    """Objects in a dictionary, locks in a counter, and faults where they are planted.

    Attributes:
        objects: what is stored.
        locks: locks held on each key.
        load_faults: outcome of the load of a key, in place of its bytes.
        hold: called before each byte is delivered, with the position; may block, to order events.
        unreachable: while true, every call fails as a dead sidecar's would.
        calls: names of the calls, in order.
    """

    def __init__(self) -> None:
        self.objects: dict[ObjectKey, bytes] = {}
        self.locks: Counter[ObjectKey] = Counter()
        self.load_faults: dict[ObjectKey, Result] = {}
        self.hold: Callable[[int], None] = lambda _: None
        self.unreachable = False
        self.calls: list[str] = []
        self._lock = threading.Lock()
        self._changed = threading.Condition()
        self._open_calls = 0
        self._threads = ThreadPoolExecutor(max_workers=8, thread_name_prefix="memory-store")

    def close(self) -> None:
        """Ends the threads."""
        self._threads.shutdown()

    def wait_until_idle(self) -> None:
        """Until every call has ended, with those that its end brought about."""
        with self._changed:
            self._changed.wait_for(lambda: self._open_calls == 0)

    def lookup_and_lock(self, keys: Sequence[ObjectKey]) -> Future[list[Result]]:
        """See ChunkStore."""
        return self._call("lookup_and_lock", lambda: [self._lock_one(key) for key in keys])

    def load(
        self, keys: Sequence[ObjectKey], buffers: Sequence[memoryview], on_result: OnResult
    ) -> Future[list[Result]]:
        """See ChunkStore."""
        return self._call("load", lambda: self._load(keys, buffers, on_result))

    def store(self, keys: Sequence[ObjectKey], buffers: Sequence[memoryview]) -> Future[list[Result]]:
        """See ChunkStore."""
        return self._call(
            "store", lambda: [self._store_one(k, b) for k, b in zip(keys, buffers, strict=True)]
        )

    def delete(self, keys: Sequence[ObjectKey]) -> Future[list[Result]]:
        """See ChunkStore."""
        return self._call("delete", lambda: [self._delete_one(key) for key in keys])

    def unlock(self, keys: Sequence[ObjectKey]) -> Future[int]:
        """See ChunkStore."""
        return self._call("unlock", lambda: sum(self._unlock_one(key) for key in keys))

    @property
    def locked(self) -> Mapping[ObjectKey, int]:
        """Keys that are locked now, with the number of their locks."""
        return {key: count for key, count in self.locks.items() if count}

    def _call(self, name: str, work: Callable[[], T]) -> Future[T]:
        def guarded() -> T:
            self.calls.append(name)
            if self.unreachable:
                raise SidecarUnavailable("the store cannot be reached")
            return work()

        with self._changed:
            self._open_calls += 1
        future: Future[T] = Future()
        self._threads.submit(self._finish, future, guarded)
        return future

    def _finish(self, future: Future[T], work: Callable[[], T]) -> None:
        """Sets the result before the call counts as ended, so that callbacks can open further calls."""
        try:
            future.set_result(work())
        except KVChaosError as error:
            future.set_exception(error)
        finally:
            with self._changed:
                self._open_calls -= 1
                self._changed.notify_all()

    def _lock_one(self, key: ObjectKey) -> Result:
        with self._lock:
            if key not in self.objects:
                return Result.NOT_FOUND
            self.locks[key] += 1
            return Result.OK

    def _unlock_one(self, key: ObjectKey) -> int:
        with self._lock:
            released = min(1, self.locks[key])
            self.locks[key] -= released
            return released

    def _store_one(self, key: ObjectKey, buffer: memoryview) -> Result:
        with self._lock:
            if key in self.objects:
                return Result.PRESENT
            self.objects[key] = bytes(buffer)
            return Result.OK

    def _delete_one(self, key: ObjectKey) -> Result:
        with self._lock:
            return Result.OK if self.objects.pop(key, None) is not None else Result.NOT_FOUND

    def _load(
        self, keys: Sequence[ObjectKey], buffers: Sequence[memoryview], on_result: OnResult
    ) -> list[Result]:
        results = [self._judge(key, buffer) for key, buffer in zip(keys, buffers, strict=True)]
        for position, result in enumerate(results):
            if result is not Result.OK:
                on_result(position, result)
        for position, result in enumerate(results):
            if result is Result.OK:
                self.hold(position)
                buffers[position][:] = self.objects[keys[position]]
                on_result(position, result)
        return results

    def _judge(self, key: ObjectKey, buffer: memoryview) -> Result:
        if key in self.load_faults:
            return self.load_faults[key]
        if key not in self.objects:
            return Result.NOT_FOUND
        return Result.OK if len(self.objects[key]) == buffer.nbytes else Result.SIZE_MISMATCH
