"""Objects in a Redis server: blocking calls, one for a whole batch, over a few connections at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import redis

from kvchaos.keys import ObjectKey
from kvchaos.results import Result
from kvchaos_sidecar.backends.contract import ReadLease
from kvchaos_sidecar.backends.redis_client import RedisClient, ValueConnection
from kvchaos_sidecar.backends.redis_errors import failed_call, result_of
from kvchaos_sidecar.backends.repeats import without_repeats
from kvchaos_sidecar.backends.resp_keys import to_redis_key
from kvchaos_sidecar.backends.staging import StagedObject, StagedRead

Transfer = Callable[[ValueConnection, int], Result]


class RedisObjects:
    """Reads and writes of whole batches. Thread-safe."""

    def __init__(self, client: RedisClient, connections: int) -> None:
        """``connections``: how many values of all batches move at the same time."""
        self._client = client
        self._connections = connections
        self._workers = ThreadPoolExecutor(connections, thread_name_prefix="kvchaos-redis-value")

    def exist(self, keys: Sequence[ObjectKey]) -> list[bool]:
        """Whether each key is there. Raises BackendError."""
        answers = self._ask("EXISTS", list(map(to_redis_key, keys)))
        for answer in answers:
            if isinstance(answer, redis.RedisError):
                raise failed_call(self._client.address, answer)
        return [answer == 1 for answer in answers]

    def load(self, keys: Sequence[ObjectKey], leases: Sequence[StagedRead]) -> list[ReadLease | Result]:
        """Fills the lease of each key that is there with as many bytes, and closes the others.

        Raises:
            BackendError: not one key could be read.
        """
        load_one = partial(_load_one, names=list(map(to_redis_key, keys)), leases=leases)
        results: dict[int, Result] = {}
        try:
            results = self._transfer(range(len(keys)), load_one)
        finally:
            for position, lease in enumerate(leases):
                if results.get(position) is not Result.OK:
                    lease.close()
        return [lease if results[i] is Result.OK else results[i] for i, lease in enumerate(leases)]

    def store(self, objects: Sequence[StagedObject | None], written: Sequence[int]) -> list[Result]:
        """Stores what was written whole, unless there is such a key already, and ends every object.

        Raises:
            BackendError: not one object could be stored.
        """
        try:
            results = [_finish(staged, length) for staged, length in zip(objects, written, strict=True)]
            whole = {i: staged for i, staged in enumerate(objects) if staged and results[i] is Result.OK}
            for positions in without_repeats((i, staged.key) for i, staged in whole.items()):
                moved = self._transfer(positions, partial(_store_one, objects=whole))
                for position, result in moved.items():
                    results[position] = result
        finally:
            for staged in objects:
                if staged is not None:
                    staged.end()
        return results

    def delete(self, keys: Sequence[ObjectKey]) -> list[int | Result]:
        """Deletes what is there. The bytes freed by each key; NOT_FOUND where there was nothing.

        Raises:
            BackendError: nothing may have been deleted.
        """
        names = list(map(to_redis_key, keys))
        sizes = self._ask("STRLEN", names)  # refused for what is no string: that is somebody else's
        objects = [name for name, size in zip(names, sizes, strict=True) if isinstance(size, int)]
        gone = iter(self._ask("UNLINK", objects))
        return [_freed(size, next(gone)) if isinstance(size, int) else result_of(size) for size in sizes]

    def close(self) -> None:
        """Closes every connection. Calls under way fail."""
        self._workers.shutdown(wait=False)
        self._client.close()

    def _ask(self, command: str, names: Sequence[bytes]) -> list[int | redis.ResponseError]:
        try:
            return self._client.call([(command, name) for name in names])
        except redis.RedisError as error:
            raise failed_call(self._client.address, error) from error

    def _transfer(self, positions: Sequence[int], move: Transfer) -> dict[int, Result]:
        """The result of each position, moved by the connections as each becomes free."""
        transfer = _Transfer(self._client, positions, move)
        list(self._workers.map(transfer.work, range(min(self._connections, len(positions)))))
        return transfer.results()


class _Transfer:
    def __init__(self, client: RedisClient, positions: Sequence[int], move: Transfer) -> None:
        self._client = client
        self._positions = positions
        self._move = move
        self._next = iter(positions)
        self._results: dict[int, Result] = {}
        self._error: redis.RedisError | None = None

    def work(self, _worker: int) -> None:
        """Moves one value after the other until none is left or the server fails."""
        position = next(self._next, None)

        def use(connection: ValueConnection) -> None:
            nonlocal position
            while position is not None:
                self._results[position] = self._move(connection, position)
                position = next(self._next, None)

        try:
            self._client.with_connection(use)
        except redis.RedisError as error:
            self._error = error

    def results(self) -> dict[int, Result]:
        """The result of each position. Raises BackendError when the server failed before the first one."""
        if self._error is None:
            return self._results
        if not self._results:
            raise failed_call(self._client.address, self._error) from self._error
        failed = result_of(self._error)
        return {position: self._results.get(position, failed) for position in self._positions}


def _freed(size: int, deleted: int | redis.ResponseError) -> int | Result:
    if isinstance(deleted, redis.ResponseError):
        return result_of(deleted)
    return size if deleted else Result.NOT_FOUND


def _load_one(
    connection: ValueConnection, position: int, names: Sequence[bytes], leases: Sequence[StagedRead]
) -> Result:
    room = leases[position].view
    try:
        length = connection.get_into(names[position], room)
    except redis.ResponseError as error:
        return result_of(error)
    if length is None:
        return Result.NOT_FOUND
    return Result.OK if length == len(room) else Result.SIZE_MISMATCH


def _store_one(connection: ValueConnection, position: int, objects: Mapping[int, StagedObject]) -> Result:
    staged = objects[position]
    try:
        value = staged.view
    except OSError:  # no memory or descriptors to map it
        return Result.NO_SPACE
    (stored,) = connection.ask([("SET", to_redis_key(staged.key), value, "NX")])
    staged.end()  # now, not after the batch: every mapping takes a descriptor
    if isinstance(stored, redis.ResponseError):
        return result_of(stored)
    return Result.PRESENT if stored is None else Result.OK


def _finish(staged: StagedObject | None, written: int) -> Result:
    return Result.INVALID if staged is None else staged.finish(written)
