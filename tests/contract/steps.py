"""What the data plane does with a backend, in short steps."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence

from kvchaos.keys import ObjectKey
from kvchaos.results import Result
from kvchaos_sidecar.backends.contract import Backend, ReadLease, WriteLease

PATIENCE_S = 20.0


def key(number: int, model: str = "meta-llama/Llama-3.1-8B", salt: str = "", group: int = 0) -> ObjectKey:
    """A key told apart by its number."""
    return ObjectKey(number.to_bytes(32, "big"), model, 0x01000100, group, salt)


def content(number: int, size: int) -> bytes:
    """Bytes that differ for every number and position."""
    block = b"".join((number * 1_000_003 + i).to_bytes(8, "big") for i in range(min(size, 4096) // 8 + 1))
    return (block * (size // len(block) + 1))[:size]


def fill(lease: WriteLease, data: bytes) -> int:
    """Writes as a client does. Returns the bytes written."""
    descriptor, offset, _ = lease.extent
    return os.pwrite(descriptor, data, offset)


def read(lease: ReadLease) -> bytes:
    """Reads a lease whole, and leaves it open."""
    descriptor, offset, length = lease.extent
    return os.pread(descriptor, length, offset)


def write_leases(made: Sequence[WriteLease | Result]) -> list[WriteLease]:
    """The leases among the answers."""
    return [lease for lease in made if isinstance(lease, WriteLease)]


def read_lease(answer: ReadLease | Result) -> ReadLease:
    """The answer, which must be a lease."""
    if not isinstance(answer, ReadLease):
        raise AssertionError(f"expected a lease, got {answer!r}")
    return answer


def write_lease(answer: WriteLease | Result) -> WriteLease:
    """The answer, which must be a lease."""
    if not isinstance(answer, WriteLease):
        raise AssertionError(f"expected a lease, got {answer!r}")
    return answer


async def store(backend: Backend, objects: Mapping[ObjectKey, bytes]) -> list[Result]:
    """Stores objects as the data plane does: grant, write, publish."""
    keys = list(objects)
    made = await backend.open_writes(keys, [len(objects[k]) for k in keys])
    leases = write_leases(made)
    published = iter(await backend.publish(leases, [fill(lease, objects[lease.key]) for lease in leases]))
    return [answer if isinstance(answer, Result) else next(published) for answer in made]


async def load(backend: Backend, keys: Sequence[ObjectKey], sizes: Sequence[int]) -> list[bytes | Result]:
    """Loads objects as the data plane does: grant, read, close."""
    loaded: list[bytes | Result] = []
    for answer in await backend.open_reads(keys, sizes):
        if isinstance(answer, Result):
            loaded.append(answer)
        else:
            loaded.append(read(answer))
            answer.close()
    return loaded


def open_descriptors() -> list[str]:
    """What this process has open, as the targets of its descriptors."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{number}"))
        except FileNotFoundError:  # the descriptor of the listing itself
            continue
    return sorted(found)


def settled(before: list[str]) -> list[str]:
    """What is open more than ``before``, once threads have had time to close what they were closing."""
    deadline = time.monotonic() + PATIENCE_S
    while len(now := open_descriptors()) > len(before) and time.monotonic() < deadline:
        time.sleep(0.01)
    return [target for target in now if target not in before]
