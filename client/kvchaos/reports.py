"""What a daemon tells about its store, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kvchaos.answers import read_result
from kvchaos.errors import SidecarError
from kvchaos.keys import ObjectKey, decode_keys
from kvchaos.results import Result
from kvchaos.v1 import cache_pb2, common_pb2


@dataclass(frozen=True, slots=True)
class FaultsInForce:
    """The faults that a daemon has in force, with LMCache's names and meaning."""

    rate: float = 0.0
    seed: int = 0
    gap_indices: tuple[int, ...] = ()
    gap_tail_ratios: tuple[float, ...] = ()
    generation: int = 0
    """Number of the rule set these values belong to."""
    halted: bool = False
    """True while injection is halted: the values are then configured but not applied."""
    rules: tuple[str, ...] = ()
    """Names of the further rules, in the order in which they are evaluated."""


@dataclass(frozen=True, slots=True)
class Deleted:
    """What became of one key of a delete."""

    result: Result
    freed_bytes: int


@dataclass(frozen=True, slots=True)
class KeyPage:
    """One page of a listing."""

    entries: tuple[tuple[ObjectKey, int], ...]
    """Keys with their sizes in bytes."""
    next_cursor: str
    """Empty on the last page."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What the store holds, as the daemon counts it."""

    total_bytes: int
    capacity_bytes: int
    """0 when the store has no limit or none is known."""
    bytes_by_cache_salt: Mapping[str, int]
    """Only salts with a positive count."""


@dataclass(frozen=True, slots=True)
class CacheStatus:
    """The daemon as one session sees it."""

    healthy: bool
    detail: str
    """Why it is not healthy; empty when it is."""
    backend: str
    faults: FaultsInForce
    locks: int
    """Keys locked by this session."""
    grants: int
    """Grants of this session that are still open."""


def read_faults(message: common_pb2.FaultInject) -> FaultsInForce:
    """The values of the wire message."""
    return FaultsInForce(
        rate=message.rate,
        seed=message.seed,
        gap_indices=tuple(message.gap_indices),
        gap_tail_ratios=tuple(message.gap_tail_ratios),
        generation=message.generation,
        halted=message.halted,
        rules=tuple(message.rules),
    )


def read_deleted(message: cache_pb2.DeleteResponse, count: int) -> list[Deleted]:
    """One entry for each of ``count`` keys. Raises SidecarError when the answer is for another number."""
    if not len(message.results) == len(message.freed_bytes) == count:
        raise SidecarError(f"the daemon answered for {len(message.results)} keys; expected {count}")
    return [
        Deleted(read_result(number), freed)
        for number, freed in zip(message.results, message.freed_bytes, strict=True)
    ]


def read_page(message: cache_pb2.ListKeysResponse) -> KeyPage:
    """The page. Raises SidecarError where keys and sizes do not match, InvalidKeyError for a bad key."""
    keys = decode_keys(message.keys)
    if len(keys) != len(message.size_bytes):
        raise SidecarError(f"the daemon listed {len(keys)} keys with {len(message.size_bytes)} sizes")
    return KeyPage(tuple(zip(keys, message.size_bytes, strict=True)), message.next_cursor)


def read_usage(message: cache_pb2.GetUsageResponse) -> Usage:
    """The values of the wire message."""
    by_salt = MappingProxyType(dict(message.bytes_by_cache_salt))
    return Usage(message.total_bytes, message.capacity_bytes, by_salt)


def read_status(message: cache_pb2.GetCacheStatusResponse) -> CacheStatus:
    """The values of the wire message."""
    return CacheStatus(
        healthy=message.healthy,
        detail=message.detail,
        backend=message.backend,
        faults=read_faults(message.fault_inject),
        locks=message.locks,
        grants=message.grants,
    )
