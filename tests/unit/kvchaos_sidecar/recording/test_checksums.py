"""Checksums of what is published, within a budget of descriptors."""

import os
from hashlib import blake2b
from pathlib import Path

from kvchaos.keys import ObjectKey
from kvchaos_sidecar.backends.contract import Extent, WriteLease
from kvchaos_sidecar.recording.checksums import Budget, HeldObjects

DATA = os.urandom(3 << 20)


class FileLease(WriteLease):
    """Room in a file that is there."""

    def __init__(self, path: Path, offset: int = 0) -> None:
        self.key = ObjectKey(b"x", "model", 0)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
        os.pwrite(descriptor, DATA, offset)
        self.extent = Extent(descriptor, offset, len(DATA))


def leases(directory: Path, count: int, offset: int = 0) -> dict[int, WriteLease]:
    return {number: FileLease(directory / str(number), offset) for number in range(count)}


def close_all(grants: dict[int, WriteLease]) -> None:
    for lease in grants.values():
        os.close(lease.extent.descriptor)


def test_the_bytes_can_be_read_after_the_lease_has_ended(tmp_path: Path) -> None:
    grants = leases(tmp_path, 1, offset=4096)
    held = HeldObjects(Budget(), grants)
    close_all(grants)
    (tmp_path / "0").unlink()
    assert held.checksum(0, len(DATA)) == blake2b(DATA, digest_size=16).hexdigest()
    assert held.checksum(0, 100) == blake2b(DATA[:100], digest_size=16).hexdigest()
    held.close()


def test_bytes_that_are_not_there_have_no_checksum(tmp_path: Path) -> None:
    grants = leases(tmp_path, 1)
    held = HeldObjects(Budget(), grants)
    assert held.checksum(0, len(DATA) + 1) is None
    assert held.checksum(7, 1) is None
    held.close()
    close_all(grants)


def test_it_holds_no_more_descriptors_than_the_budget_and_gives_them_back(tmp_path: Path) -> None:
    grants = leases(tmp_path, 4)
    before = len(os.listdir("/proc/self/fd"))
    budget = Budget(3)
    first = HeldObjects(budget, {number: grants[number] for number in (0, 1)})
    second = HeldObjects(budget, {number: grants[number] for number in (2, 3)})
    assert len(os.listdir("/proc/self/fd")) == before + 3
    assert second.checksum(2, 1) is not None
    assert second.checksum(3, 1) is None
    first.close()
    second.close()
    assert len(os.listdir("/proc/self/fd")) == before
    assert [budget.take() for _ in range(4)] == [True, True, True, False]
    close_all(grants)
