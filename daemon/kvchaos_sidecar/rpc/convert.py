"""Between the daemon's own types and those of the wire."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from kvchaos.results import Result
from kvchaos.v1 import cache_pb2, common_pb2
from kvchaos_sidecar.backends.contract import ReadLease, WriteLease
from kvchaos_sidecar.errors import InvalidRequest
from kvchaos_sidecar.faults.completion import Completion
from kvchaos_sidecar.faults.poison import Poison, PoisonKind
from kvchaos_sidecar.rules.governor import FaultSnapshot

MAX_OBJECT_BYTES = 2**63 - 1
"""The largest file offset."""

_POISON_KINDS = {
    PoisonKind.NAN: common_pb2.Poison.KIND_NAN,
    PoisonKind.BYTE: common_pb2.Poison.KIND_BYTE,
    PoisonKind.LEAVE: common_pb2.Poison.KIND_LEAVE,
}


def sizes_from_wire(column: Sequence[int], count: int) -> Sequence[int]:
    """The sizes of ``count`` objects, in bytes.

    Raises:
        InvalidRequest: the column has neither one entry nor one per key, or a size is out of range.
    """
    for size in set(column):
        if not 1 <= size <= MAX_OBJECT_BYTES:
            raise InvalidRequest(f"size_bytes {size} is not in [1, {MAX_OBJECT_BYTES}]")
    if len(column) == count:
        return column
    if len(column) == 1:
        return [column[0]] * count
    raise InvalidRequest(f"column size_bytes has {len(column)} entries; expected 1 or {count}")


def inline_from_wire(transport: common_pb2.Transport) -> bool:
    """Whether the bytes move inline. Raises InvalidRequest when no known transport is named."""
    if transport == common_pb2.TRANSPORT_INLINE:
        return True
    if transport == common_pb2.TRANSPORT_HANDOFF:
        return False
    raise InvalidRequest(f"transport {transport} is not known; choose TRANSPORT_HANDOFF or TRANSPORT_INLINE")


def results_to_wire(results: Iterable[Result]) -> list[common_pb2.Result]:
    """The results, whose numbers are those of the wire."""
    return cast("list[common_pb2.Result]", list(results))


def poison_to_wire(poison: Poison) -> common_pb2.Poison:
    """What a client does to the destination of a dropped key."""
    return common_pb2.Poison(kind=_POISON_KINDS[poison.kind], fill=poison.fill)


def completion_to_wire(completion: Completion) -> cache_pb2.Completion | None:
    """How the result of a load reaches the cache server; None for as ever."""
    if completion == Completion():
        return None
    return cache_pb2.Completion(
        late_s=completion.late_s, twice=completion.twice, exchanged=completion.exchanged
    )


def faults_to_wire(snapshot: FaultSnapshot) -> common_pb2.FaultInject:
    """The faults in force."""
    return common_pb2.FaultInject(
        rate=snapshot.rate,
        seed=snapshot.seed,
        gap_indices=snapshot.gap_indices,
        gap_tail_ratios=snapshot.gap_tail_ratios,
        generation=snapshot.generation,
        halted=snapshot.halted,
        rules=snapshot.rules,
    )


def unique_descriptors(leases: Mapping[int, ReadLease] | Mapping[int, WriteLease]) -> list[int]:
    """The descriptors that hold the leases' bytes, each once, in the order of the grants."""
    return list(dict.fromkeys(lease.extent.descriptor for lease in leases.values()))


def extents_to_wire(
    leases: Mapping[int, ReadLease] | Mapping[int, WriteLease], sent: Sequence[int]
) -> cache_pb2.Extents:
    """Where the bytes of the leases are. ``sent`` are the descriptors that went out, in order."""
    index = {descriptor: number for number, descriptor in enumerate(sent)}
    extents = [lease.extent for lease in leases.values()]
    return cache_pb2.Extents(
        position=list(leases),
        descriptor=[index[extent.descriptor] for extent in extents] if sent else (),
        offset=[extent.offset for extent in extents],
        length=[extent.length for extent in extents],
    )
