"""Staging memory: isolation between batches, one budget, and nothing left behind."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

import pytest

from kvchaos.keys import ObjectKey
from kvchaos.results import Result
from kvchaos_sidecar.backends.staging import BLOCK_BYTES, StagedRead, StagedWrite, StagingArea

PAGE = os.sysconf("SC_PAGESIZE")
MIB = 1 << 20
KEY = ObjectKey(b"h", "m", 1)


def reads(answers: Sequence[StagedRead | Result]) -> list[StagedRead]:
    return [answer for answer in answers if isinstance(answer, StagedRead)]


def writes(answers: Sequence[StagedWrite | Result]) -> list[StagedWrite]:
    return [answer for answer in answers if isinstance(answer, StagedWrite)]


def content(lease: StagedRead) -> bytes:
    descriptor, offset, length = lease.extent
    return os.pread(descriptor, length, offset)


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_each_lease_of_a_batch_has_its_own_bytes() -> None:
    async def scenario() -> None:
        area = StagingArea(8 * MIB)
        leases = reads(await area.open_reads([1, 5000, PAGE, 3 * MIB]))
        for number, lease in enumerate(leases):
            lease.view[:] = bytes([number]) * len(lease.view)
        assert [content(lease) for lease in leases] == [
            bytes([number]) * lease.extent.length for number, lease in enumerate(leases)
        ]
        assert [lease.extent.offset % PAGE for lease in leases] == [0] * 4

    asyncio.run(scenario())


def test_small_objects_of_a_batch_share_a_file_and_batches_never_do() -> None:
    async def scenario() -> None:
        area = StagingArea(64 * MIB)
        first = reads(await area.open_reads([100] * 50))
        second = reads(await area.open_reads([100] * 50))
        large = reads(await area.open_reads([BLOCK_BYTES] * 3))
        assert len({lease.extent.descriptor for lease in first}) == 1
        assert len({lease.extent.descriptor for lease in large}) == 3
        files = [os.fstat(lease.extent.descriptor).st_ino for lease in (first[0], second[0], *large)]
        assert len(set(files)) == 5

    asyncio.run(scenario())


def test_memory_is_used_again_after_everybody_let_go() -> None:
    async def scenario() -> None:
        area = StagingArea(8 * MIB)
        (first,) = reads(await area.open_reads([MIB]))
        inode = os.fstat(first.extent.descriptor).st_ino
        first.close()
        (second,) = reads(await area.open_reads([MIB]))
        assert os.fstat(second.extent.descriptor).st_ino == inode

    asyncio.run(scenario())


def test_a_late_reader_keeps_its_bytes() -> None:
    async def scenario() -> None:
        area = StagingArea(8 * MIB)
        (first,) = reads(await area.open_reads([5]))
        first.view[:] = b"first"
        late = os.dup(first.extent.descriptor)
        first.close()
        for _ in range(3):
            (other,) = reads(await area.open_reads([5]))
            other.view[:] = b"other"
            other.close()
        assert os.pread(late, 5, 0) == b"first"
        os.close(late)

    asyncio.run(scenario())


def test_a_block_is_given_back_with_its_last_lease() -> None:
    async def scenario() -> None:
        area = StagingArea(8 * MIB)
        first, second = reads(await area.open_reads([10, 20]))
        first.close()
        first.close()
        assert area.used_bytes == 2 * PAGE
        second.close()
        assert area.used_bytes == 0
        with pytest.raises(ValueError, match="closed"):
            _ = second.view

    asyncio.run(scenario())


def test_what_does_not_fit_has_no_space_and_no_bytes_are_invalid() -> None:
    async def scenario() -> None:
        area = StagingArea(2 * PAGE, patience_s=0.01)
        answers = await area.open_reads([PAGE, 0, PAGE, 1])
        assert [type(answer) for answer in answers] == [StagedRead, Result, StagedRead, Result]
        assert answers[1] is Result.INVALID
        assert answers[3] is Result.NO_SPACE
        assert await area.open_writes([KEY], [1]) == [Result.NO_SPACE]
        for lease in reads(answers):
            lease.close()
        made = await area.open_writes([KEY, KEY, KEY], [PAGE, 0, 1])
        assert [type(answer) for answer in made] == [StagedWrite, Result, StagedWrite]
        for written in writes(made):
            written.discard()
        assert area.used_bytes == 0

    asyncio.run(scenario())


def test_idle_memory_makes_room_for_other_sizes() -> None:
    async def scenario() -> None:
        area = StagingArea(4 * MIB, patience_s=0.01)
        for size in (4 * MIB, 3 * MIB, 2 * MIB, MIB):
            (lease,) = reads(await area.open_reads([size]))
            lease.close()
        before = open_descriptors()
        area.close()
        assert before - open_descriptors() <= 2 * 2  # idle: at most MIB and 2 MIB, two descriptors each

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("data", "claimed", "result"),
    [
        (b"bytes", 5, Result.OK),
        (b"byte", 5, Result.SIZE_MISMATCH),
        (b"bytes", 4, Result.SIZE_MISMATCH),
        (b"bytes!", 5, Result.SIZE_MISMATCH),
    ],
)
def test_written_bytes_are_checked_and_then_cannot_change(data: bytes, claimed: int, result: Result) -> None:
    async def scenario() -> None:
        area = StagingArea(MIB)
        (lease,) = writes(await area.open_writes([KEY], [5]))
        descriptor = os.dup(lease.extent.descriptor)
        os.pwrite(descriptor, data, 0)
        staged = lease.take()
        assert staged is not None
        assert staged.finish(claimed) is result
        with pytest.raises(PermissionError):
            os.pwrite(descriptor, b"later", 0)
        if result is Result.OK:
            assert bytes(staged.view) == b"bytes"
        assert lease.take() is None
        staged.end()
        staged.end()
        lease.discard()
        assert area.used_bytes == 0
        os.close(descriptor)

    asyncio.run(scenario())


def test_nothing_is_left_open() -> None:
    async def scenario() -> None:
        area = StagingArea(8 * MIB)
        leases = reads(await area.open_reads([PAGE] * 10))
        made = writes(await area.open_writes([KEY] * 10, [1] * 10))
        for written in made:
            written.discard()
        area.close()
        for lease in leases:
            lease.close()

    before = open_descriptors()
    asyncio.run(scenario())
    assert open_descriptors() == before


def test_a_cancelled_batch_gives_back_what_it_had_opened() -> None:
    async def scenario() -> None:
        area = StagingArea(64 * MIB)
        for turns in range(6):
            task = asyncio.create_task(area.open_reads([PAGE] * 5000))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            (answers,) = await asyncio.gather(task, return_exceptions=True)
            if isinstance(answers, list):
                for lease in reads(answers):
                    lease.close()
            assert area.used_bytes == 0
        area.close()

    asyncio.run(scenario())
