"""A Redis or Valkey server, with the keys and values of LMCache's ``resp`` adapter.

Values move between a socket and staging memory that is granted to the client, without a copy in between. The
server need not be up when the daemon starts: what it cannot do then is reported by the probe and by every
call, and it heals by itself. What a person has to change (credentials, database, a port of something else)
is refused at the start.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import cast

import redis

from kvchaos.keys import ObjectKey
from kvchaos.results import Result
from kvchaos_sidecar.backends.blocking import BlockingCalls
from kvchaos_sidecar.backends.contract import (
    Backend,
    BackendError,
    KeyPage,
    ReadLease,
    Usage,
    WriteLease,
)
from kvchaos_sidecar.backends.keyed_accounting import KeyedAccounting
from kvchaos_sidecar.backends.redis_client import RedisAddress, RedisClient, RedisTimeouts
from kvchaos_sidecar.backends.redis_errors import failed_call, is_for_a_person_to_fix
from kvchaos_sidecar.backends.redis_listing import list_page, parse_cursor
from kvchaos_sidecar.backends.redis_objects import RedisObjects
from kvchaos_sidecar.backends.staging import StagedObject, StagedRead, StagedWrite, StagingArea

MAX_VALUE_BYTES = 512 << 20
"""What a Redis string may hold."""
DEFAULT_TIMEOUTS = RedisTimeouts()
_CONNECTIONS = 4
_COMMAND_THREADS = 4
_BATCH_THREADS = 8

_log = logging.getLogger(__name__)


class RedisBackend(Backend):
    """Objects as strings in one database of a server, which may be shared with others and with LMCache."""

    type_name = "redis"

    def __init__(
        self,
        address: RedisAddress,
        staging: StagingArea,
        capacity_bytes: int = 0,
        timeouts: RedisTimeouts = DEFAULT_TIMEOUTS,
        connections: int = _CONNECTIONS,
    ) -> None:
        """
        Args:
            address: the server.
            staging: memory for values on their way; the backend closes it.
            capacity_bytes: what the store is taken to hold, for usage and eviction; 0 for no limit. The
                server's own ``maxmemory`` is what limits it.
            timeouts: how long calls may take.
            connections: values that move at the same time, over all batches.
        """
        self.description = str(address)
        self.capacity_bytes = capacity_bytes
        self._client = RedisClient(address, timeouts)
        self._objects = RedisObjects(self._client, connections)
        self._staging = staging
        self._accounting = KeyedAccounting(capacity_bytes)
        self._commands = BlockingCalls(_COMMAND_THREADS, "kvchaos-redis")
        self._batches = BlockingCalls(_BATCH_THREADS, "kvchaos-redis-batch")

    async def start(self) -> None:
        try:
            await self._ping()
        except redis.RedisError as error:
            if is_for_a_person_to_fix(error):
                raise BackendError(
                    f"redis at {self.description} refuses: {error}. "
                    "Check host, port, db, username and password of the backend"
                ) from error
            _log.warning("redis at %s does not answer yet: %s", self.description, error)

    async def close(self) -> None:
        self._commands.close()
        self._batches.close()
        self._objects.close()
        self._staging.close()

    async def probe(self) -> None:
        try:
            await self._ping()
        except redis.RedisError as error:
            raise failed_call(self.description, error) from error

    async def contains(self, keys: Sequence[ObjectKey]) -> list[bool]:
        return await self._commands.run(partial(self._objects.exist, keys))

    async def open_reads(self, keys: Sequence[ObjectKey], sizes: Sequence[int]) -> list[ReadLease | Result]:
        staged = await self._staging.open_reads(sizes)
        leases = [lease for lease in staged if isinstance(lease, StagedRead)]
        wanted = [key for key, lease in zip(keys, staged, strict=True) if isinstance(lease, StagedRead)]
        try:
            loaded = await self._batches.run(partial(self._objects.load, wanted, leases), _close_reads)
        except BackendError:
            _close_reads(leases)
            raise
        answers = iter(loaded)
        return [next(answers) if isinstance(lease, StagedRead) else lease for lease in staged]

    async def open_writes(self, keys: Sequence[ObjectKey], sizes: Sequence[int]) -> list[WriteLease | Result]:
        present = await self.contains(keys)
        refused = [_refusal(size, there) for size, there in zip(sizes, present, strict=True)]
        asked = [position for position, refusal in enumerate(refused) if refusal is None]
        staged = iter(await self._staging.open_writes([keys[i] for i in asked], [sizes[i] for i in asked]))
        return [next(staged) if refusal is None else refusal for refusal in refused]

    async def publish(self, leases: Sequence[WriteLease], written: Sequence[int]) -> list[Result]:
        staged = [lease.take() for lease in cast("Sequence[StagedWrite]", leases)]
        try:
            return await self._batches.run(partial(self._store, staged, written))
        except BackendError:
            _end_all(staged)
            raise

    def discard(self, leases: Sequence[WriteLease]) -> None:
        for lease in cast("Sequence[StagedWrite]", leases):
            lease.discard()

    async def delete(self, keys: Sequence[ObjectKey]) -> list[int | Result]:
        return await self._commands.run(partial(self._delete, keys))

    async def list_keys(self, model_name: str, page_size: int, cursor: str) -> KeyPage:
        parse_cursor(cursor)
        return await self._commands.run(partial(list_page, self._client, model_name, page_size, cursor))

    async def usage(self) -> Usage:
        return self._accounting.usage()

    async def _ping(self) -> None:
        (answer,) = await self._commands.run(partial(self._client.call, [("PING",)]))
        if isinstance(answer, redis.RedisError):
            raise answer

    def _store(self, staged: Sequence[StagedObject | None], written: Sequence[int]) -> list[Result]:
        results = self._objects.store(staged, written)
        for stored, result in zip(staged, results, strict=True):
            if stored is not None and result is Result.OK:
                self._accounting.stored(stored.key, stored.size)
        return results

    def _delete(self, keys: Sequence[ObjectKey]) -> list[int | Result]:
        freed = self._objects.delete(keys)
        for key, result in zip(keys, freed, strict=True):
            if not isinstance(result, Result):
                self._accounting.deleted(key)
        return freed


def _refusal(size: int, present: bool) -> Result | None:
    if size < 1 or size > MAX_VALUE_BYTES:
        return Result.INVALID
    return Result.PRESENT if present else None


def _close_reads(answers: Sequence[ReadLease | Result]) -> None:
    for lease in answers:
        if isinstance(lease, ReadLease):
            lease.close()


def _end_all(objects: Sequence[StagedObject | None]) -> None:
    for staged in objects:
        if staged is not None:
            staged.end()
