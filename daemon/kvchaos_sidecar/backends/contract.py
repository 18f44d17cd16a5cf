"""What every backend does: the store behind the proxy, as the data plane sees it.

A backend knows nothing of rules, sessions, gRPC or metrics. It yields *leases*: permissions to read or
write one object's bytes through an open file descriptor, so that the bytes need not pass through the
daemon. One contract suite (tests/contract) runs over every backend.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kvchaos.keys import ObjectKey
from kvchaos.results import Result


class Extent(NamedTuple):
    """A run of bytes of an open file."""

    descriptor: int
    """File descriptor, owned by the lease it came with."""
    offset: int
    """First byte."""
    length: int
    """Number of bytes."""


class ReadLease(ABC):
    """The bytes of one object, held readable until closed. Deleting the object does not disturb it."""

    extent: Extent

    @abstractmethod
    def close(self) -> None:
        """Gives the bytes back. Idempotent; never raises; callable from any thread."""


class WriteLease(ABC):
    """Room for one object that nobody can see until it is published.

    A lease ends in :meth:`Backend.publish` or :meth:`Backend.discard`, whichever comes first. Discarding one
    that has ended, or is being published, does nothing: a caller whose publish is cancelled discards.
    """

    key: ObjectKey
    extent: Extent


@dataclass(frozen=True, slots=True)
class Usage:
    """What the store holds, counted as LMCache's adapters count: by what passed through this process."""

    total_bytes: int
    capacity_bytes: int
    """0 when there is no limit or none is known."""
    bytes_by_cache_salt: Mapping[str, int] = field(default_factory=dict)
    """Only salts with a positive count."""


@dataclass(frozen=True, slots=True)
class KeyPage:
    """One page of a listing."""

    entries: Sequence[tuple[ObjectKey, int]]
    """Keys with their sizes in bytes."""
    next_cursor: str
    """Empty on the last page."""


class BackendError(Exception):
    """A backend cannot start or cannot serve a whole call. The message names the place and the fix.

    Attributes:
        result: what every key of the call becomes.
    """

    def __init__(self, message: str, result: Result = Result.UNAVAILABLE) -> None:
        super().__init__(message)
        self.result = result


class ListingUnsupported(BackendError):
    """The backend cannot list its keys."""


class Backend(ABC):
    """A store of KV objects.

    Batches keep their order: result ``i`` belongs to key ``i``. Trouble with one key is a Result for that
    key; trouble with all of them may be a BackendError. Methods may run concurrently on one event loop,
    and none may block it for longer than a memory copy. Cancelling a call releases what it had opened.
    """

    type_name: str
    """As in the configuration: "fs", "memory", "redis", "lmcache"."""
    description: str
    """What it is bound to, without secrets."""
    capacity_bytes: int = 0
    """Bytes it may hold; 0 when there is no limit or none is known."""

    @abstractmethod
    async def start(self) -> None:
        """Opens the store. Raises BackendError, naming the place and the fix, when it cannot be used."""

    @abstractmethod
    async def close(self) -> None:
        """Releases everything. Idempotent."""

    @abstractmethod
    async def probe(self) -> None:
        """Raises BackendError when the store does not answer."""

    @abstractmethod
    async def contains(self, keys: Sequence[ObjectKey]) -> list[bool]:
        """Whether each key is present."""

    async def lock(self, keys: Sequence[ObjectKey]) -> list[bool]:
        """As :meth:`contains`, and asks the store not to evict the keys that are present.

        Each True is one lock, and is given back by exactly one :meth:`unlock` of that key. Only a store
        that evicts by itself has anything to do here; for every other this is :meth:`contains`.
        """
        return await self.contains(keys)

    async def unlock(self, keys: Sequence[ObjectKey]) -> None:
        """Gives back one lock for each key named; a key locked twice is named twice. Never raises."""
        return

    @abstractmethod
    async def open_reads(self, keys: Sequence[ObjectKey], sizes: Sequence[int]) -> list[ReadLease | Result]:
        """A lease for each key whose object exists and has exactly ``sizes[i]`` bytes.

        Otherwise NOT_FOUND, SIZE_MISMATCH or the failure. The caller closes every lease.
        """

    @abstractmethod
    async def open_writes(self, keys: Sequence[ObjectKey], sizes: Sequence[int]) -> list[WriteLease | Result]:
        """Room of ``sizes[i]`` bytes for each key; PRESENT where the object exists already.

        Otherwise NO_SPACE, INVALID or the failure.
        """

    @abstractmethod
    async def publish(self, leases: Sequence[WriteLease], written: Sequence[int]) -> list[Result]:
        """Makes each object visible, whole, in one step.

        SIZE_MISMATCH, and nothing visible, where ``written[i]`` or what the store finds is not the granted
        length. PRESENT where another writer was first: its object stays. INVALID where the lease has ended
        before. Ends every lease.
        """

    @abstractmethod
    def discard(self, leases: Sequence[WriteLease]) -> None:
        """Ends leases without publishing, those that have not ended. Never raises."""

    @abstractmethod
    async def delete(self, keys: Sequence[ObjectKey]) -> list[int | Result]:
        """Bytes freed for each key; NOT_FOUND or the failure where nothing was deleted."""

    @abstractmethod
    async def list_keys(self, model_name: str, page_size: int, cursor: str) -> KeyPage:
        """One page of the keys, of one model unless ``model_name`` is empty, in a stable order.

        Raises:
            ListingUnsupported: the backend cannot list.
            ValueError: ``cursor`` is not one that this method returned.
        """

    @abstractmethod
    async def usage(self) -> Usage:
        """What the store holds."""
