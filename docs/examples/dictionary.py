"""Objects in a dictionary: the smallest backend without files of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from kvchaos.keys import ObjectKey
from kvchaos.results import Result
from kvchaos_sidecar.backends.accounting import Accounting
from kvchaos_sidecar.backends.contract import (
    Backend,
    KeyPage,
    ListingUnsupported,
    ReadLease,
    Usage,
    WriteLease,
)
from kvchaos_sidecar.backends.staging import StagedObject, StagedRead, StagedWrite, StagingArea


class DictionaryBackend(Backend):
    """Copies between a dictionary and staging memory. Gone when the daemon ends."""

    type_name = "dictionary"
    description = "the daemon's memory"

    def __init__(self, staging: StagingArea) -> None:
        """``staging`` is closed with the backend."""
        self._staging = staging
        self._objects: dict[ObjectKey, bytes] = {}
        self._accounting = Accounting()

    async def start(self) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        self._staging.close()

    async def probe(self) -> None:
        """It always answers."""

    async def contains(self, keys: Sequence[ObjectKey]) -> list[bool]:
        return [key in self._objects for key in keys]

    async def open_reads(self, keys: Sequence[ObjectKey], sizes: Sequence[int]) -> list[ReadLease | Result]:
        answers: list[ReadLease | Result] = [
            self._refusal(key, size) for key, size in zip(keys, sizes, strict=True)
        ]
        found = [position for position, answer in enumerate(answers) if answer is Result.OK]
        staged = await self._staging.open_reads([sizes[position] for position in found])
        for position, lease in zip(found, staged, strict=True):
            if isinstance(lease, StagedRead):
                lease.view[:] = self._objects[keys[position]]
            answers[position] = lease
        return answers

    async def open_writes(self, keys: Sequence[ObjectKey], sizes: Sequence[int]) -> list[WriteLease | Result]:
        answers: list[WriteLease | Result] = [
            Result.PRESENT if key in self._objects else Result.OK for key in keys
        ]
        new = [position for position, answer in enumerate(answers) if answer is Result.OK]
        staged = await self._staging.open_writes(
            [keys[position] for position in new], [sizes[position] for position in new]
        )
        for position, lease in zip(new, staged, strict=True):
            answers[position] = lease
        return answers

    async def publish(self, leases: Sequence[WriteLease], written: Sequence[int]) -> list[Result]:
        return [
            self._publish(lease.take(), length)
            for lease, length in zip(cast("Sequence[StagedWrite]", leases), written, strict=True)
        ]

    def discard(self, leases: Sequence[WriteLease]) -> None:
        for lease in cast("Sequence[StagedWrite]", leases):
            lease.discard()

    async def delete(self, keys: Sequence[ObjectKey]) -> list[int | Result]:
        return [self._delete(key) for key in keys]

    async def list_keys(self, model_name: str, page_size: int, cursor: str) -> KeyPage:
        raise ListingUnsupported("the dictionary backend cannot list its keys")

    async def usage(self) -> Usage:
        return self._accounting.usage()

    def _refusal(self, key: ObjectKey, size: int) -> Result:
        if key not in self._objects:
            return Result.NOT_FOUND
        return Result.OK if len(self._objects[key]) == size else Result.SIZE_MISMATCH

    def _publish(self, staged: StagedObject | None, written: int) -> Result:
        if staged is None:
            return Result.INVALID
        try:
            result = staged.finish(written)
            if result is not Result.OK:
                return result
            if staged.key in self._objects:
                return Result.PRESENT
            self._objects[staged.key] = bytes(staged.view)
            self._accounting.stored(staged.key.cache_salt, written)
            return Result.OK
        finally:
            staged.end()

    def _delete(self, key: ObjectKey) -> int | Result:
        value = self._objects.pop(key, None)
        if value is None:
            return Result.NOT_FOUND
        self._accounting.deleted(key.cache_salt, len(value))
        return len(value)
