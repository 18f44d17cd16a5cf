"""Batches with faults on them, over objects in memory, without a daemon around."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from kvchaos.keys import ObjectKey
from kvchaos_sidecar.backends.contract import ReadLease
from kvchaos_sidecar.backends.slabs import Slab, SlabPool
from kvchaos_sidecar.batch import JudgedBatch
from kvchaos_sidecar.faults.contract import Fault
from kvchaos_sidecar.rules.call import Call, Operation
from kvchaos_sidecar.rules.strike import Strike


class SlabRead(ReadLease):
    """Bytes in a slab."""

    def __init__(self, slab: Slab) -> None:
        self.extent = slab.extent
        self._slab = slab

    def close(self) -> None:
        self._slab.free()


class NotedWorld:
    """Notes what a fault asks for.

    Attributes:
        slabs: memory of leases and altered copies; ``used_bytes`` tells of a leak.
        held_s: how long calls were to wait.
        deleted: keys.
        held_bytes: what the store holds.
        clock_s: the time.
    """

    def __init__(self) -> None:
        self.slabs = SlabPool(1 << 20, "test")
        self.held_s: list[float] = []
        self.deleted: list[ObjectKey] = []
        self.held_bytes = 0
        self.clock_s = 0.0
        self.ended: list[str] = []

    def now(self) -> float:
        return self.clock_s

    async def hold(self, rule: str, seconds: float) -> None:
        self.held_s.append(seconds)

    async def delete_objects(self, keys: Sequence[ObjectKey]) -> None:
        self.deleted += keys

    async def stored_bytes(self) -> int:
        return self.held_bytes

    def end_session(self) -> None:
        self.ended.append("session")

    async def lose_metadata(self) -> None:
        self.ended.append("all")

    def lease(self, data: bytes) -> SlabRead:
        """A granted object."""
        slab = self.slabs.allocate(len(data))
        assert slab is not None
        os.pwrite(slab.extent.descriptor, data, 0)
        return SlabRead(slab)


def judged_batch(
    faults: Sequence[Fault],
    positions: Mapping[int, Sequence[int]],
    keys: int = 4,
    world: NotedWorld | None = None,
    operation: Operation = Operation.LOAD,
    sizes: Sequence[int] = (),
) -> JudgedBatch[ReadLease]:
    """A call on which fault ``i`` strikes ``positions[i]``."""
    batch_keys = [ObjectKey(bytes([number]) * 8, "model", 0) for number in range(keys)]
    call = Call(operation, batch_keys, sizes)
    strikes = [
        Strike(f"rule-{number}", fault, positions[number], ["match"] * len(positions[number]))
        for number, fault in enumerate(faults)
    ]

    def close(leases: Sequence[ReadLease]) -> None:
        for lease in leases:
            lease.close()

    return JudgedBatch(call, strikes, 1, world or NotedWorld(), close)
