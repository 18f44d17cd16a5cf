"""Older version: a key that was deleted and stored anew is served with what it held before."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pydantic import PrivateAttr

from kvchaos.keys import ObjectKey
from kvchaos_sidecar.config.fields import PositiveCount
from kvchaos_sidecar.faults.contract import Fault, Selected
from kvchaos_sidecar.rules.call import Operation

if TYPE_CHECKING:
    from kvchaos_sidecar.faults.batch import Batch


class OlderVersion(Fault):
    """Remembers what it served first for a key, and serves that again, whatever was stored under it since.

    A key that the store does not hold stays missing.
    """

    kind = "older_version"
    operations = frozenset({Operation.LOAD})

    memory_bytes: PositiveCount = 64 << 20
    """How much is remembered; further keys are served as they are."""

    _remembered: dict[ObjectKey, bytes] = PrivateAttr(default_factory=dict)
    _held_bytes: int = PrivateAttr(default=0)

    async def after(self, selected: Selected, batch: Batch) -> None:
        for position in batch.granted(selected.positions):
            key = batch.keys[position]
            older = self._remembered.get(key)
            if older is None:
                self._remember(key, await batch.read(position))
            else:
                await batch.alter(position, partial(_instead, older))

    def _remember(self, key: ObjectKey, data: bytes) -> None:
        if key not in self._remembered and self._held_bytes + len(data) <= self.memory_bytes:
            self._remembered[key] = data
            self._held_bytes += len(data)


def _instead(older: bytes, _newer: bytes) -> bytes:
    return older
