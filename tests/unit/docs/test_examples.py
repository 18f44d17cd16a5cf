"""The examples of the pages on how to add a fault and a backend work as they stand."""

from __future__ import annotations

import asyncio
import os

from docs.examples.dictionary import DictionaryBackend
from docs.examples.not_found import NotFound
from tests.harness.judged_batch import judged_batch

from kvchaos.keys import ObjectKey
from kvchaos.results import Result
from kvchaos_sidecar.backends.contract import ReadLease, WriteLease
from kvchaos_sidecar.backends.staging import StagingArea

KEY = ObjectKey(b"k" * 32, "model", 0)
DATA = b"some kv bytes"


def test_the_fault_settles_its_key_and_leaves_the_others() -> None:
    batch = judged_batch([NotFound()], {0: [1]}, keys=3)
    asyncio.run(batch.before())
    assert list(batch.open_positions()) == [0, 2]
    batch.take_answers([], [])
    assert batch.result(1) is Result.NOT_FOUND


def test_the_backend_keeps_and_deletes_an_object() -> None:
    asyncio.run(_keep_and_delete(DictionaryBackend(StagingArea(1 << 20))))


async def _keep_and_delete(backend: DictionaryBackend) -> None:
    await backend.start()
    (room,) = await backend.open_writes([KEY], [len(DATA)])
    assert isinstance(room, WriteLease)
    os.pwrite(room.extent.descriptor, DATA, room.extent.offset)
    assert await backend.publish([room], [len(DATA)]) == [Result.OK]
    assert await backend.open_reads([KEY], [1]) == [Result.SIZE_MISMATCH]
    (found,) = await backend.open_reads([KEY], [len(DATA)])
    assert isinstance(found, ReadLease)
    assert os.pread(found.extent.descriptor, len(DATA), found.extent.offset) == DATA
    found.close()
    assert (await backend.usage()).total_bytes == len(DATA)
    assert await backend.delete([KEY]) == [len(DATA)]
    assert await backend.contains([KEY]) == [False]
    await backend.close()
