"""A cache server's view of a catalogue entry: real plugin, real sidecar, and what can be seen of both."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from lmcache.lmcache_native import Bitmap
from lmcache.v1.distributed.api import ObjectKey
from lmcache.v1.memory_management import MemoryObj

from kvchaos.control import ControlClient
from kvchaos_sidecar.catalogue import entries
from tests.harness.lmcache import plugin_spec
from tests.harness.plugin import Driver, contents, hits, make_adapter, make_keys, make_objects
from tests.harness.sidecar import SidecarProcess
from tests.harness.waiting import eventually

SIZE = 5000
PLUGIN_TIMEOUT_S = 2.0


class Field:
    """One sidecar over a directory, and one adapter connected to it.

    Attributes:
        driver: drives the adapter as LMCache does.
        control: the sidecar's control service.
        store_path: the directory.
    """

    def __init__(self, store_path: Path) -> None:
        self.store_path = store_path
        backend = {"type": "fs", "base_path": str(store_path)}
        self._process = SidecarProcess(backend, environment="test").wait_ready()
        self.control = ControlClient(self._process.control_target)
        spec = plugin_spec(self._process.cache_target, timeout_s=PLUGIN_TIMEOUT_S)
        self.driver = Driver(make_adapter(spec))

    def arm(self, identifier: str) -> None:
        """Adds the rules of a catalogue entry."""
        (text,) = [entry["text"] for entry in entries() if entry["id"] == identifier]
        self.control.add_rules(text)

    def disarm(self) -> None:
        """Drops every rule."""
        self.control.reset()

    def metric(self, name: str, **labels: str) -> int:
        """One sum of samples; 0 where there is none."""
        try:
            return int(self._process.metrics().value(name, **labels))
        except KeyError:
            return 0

    def fired(self, rule: str) -> int:
        """Keys that a rule has hit."""
        return self.metric("kvchaos_rule_fired_total", rule=rule)

    def stored(self, count: int, fill: int = 1, keys: Sequence[ObjectKey] | None = None) -> list[ObjectKey]:
        """Keys of objects in the store; object ``i`` is filled with the byte ``i + fill``."""
        wanted = list(keys) if keys is not None else make_keys(count)
        assert self.driver.store(wanted, make_objects(count, SIZE, fill)).is_successful()
        return wanted

    def load(self, keys: Sequence[ObjectKey]) -> tuple[list[int], list[bytes]]:
        """The positions that arrived, and every buffer. Buffers start filled with the byte 0xAA."""
        objects = make_objects(len(keys), SIZE)
        for item in objects:
            memoryview(item.byte_array).cast("B")[:] = filled(0xAA)
        return self.driver.load(keys, objects), contents(objects)

    def submit_load(self, keys: Sequence[ObjectKey]) -> tuple[int, list[MemoryObj]]:
        """Starts a load and returns its task id, and its buffers, which must live until it is done."""
        objects = make_objects(len(keys), SIZE)
        return self.driver.adapter.submit_load_task(list(keys), objects), objects

    def result(self, task: int) -> list[int]:
        """The positions of a load that was started, once it is done."""
        found: list[Bitmap] = []

        def done() -> bool:
            bitmap = self.driver.adapter.query_load_result(task)
            if bitmap is not None:
                found.append(bitmap)
            return bitmap is not None

        eventually(done, f"load task {task}")
        return hits(found[0])

    def unlock(self, keys: Sequence[ObjectKey]) -> None:
        """Unlocks, in the background as the adapter does."""
        self.driver.adapter.submit_unlock(list(keys))

    def healthy(self) -> bool:
        """Whether the adapter is connected."""
        return bool(self.driver.adapter.report_status()["is_healthy"])

    def settles(self, what: str, condition: Callable[[], bool]) -> None:
        """Waits for something that happens beside the test."""
        eventually(condition, what)

    def is_at_rest(self, locks: int = 0) -> None:
        """Waits until the sidecar holds nothing but ``locks`` locks."""
        self.settles("the locks to be given back", lambda: self.metric("kvchaos_locks") == locks)
        self.settles("the grants to be given back", lambda: self.metric("kvchaos_grants") == 0)
        self.settles("held calls to end", lambda: self.metric("kvchaos_held_calls") == 0)
        self.settles("descriptors to be closed", lambda: not self._open_objects())

    def _open_objects(self) -> list[str]:
        """Files of the store, and memory for copies, that the sidecar has open."""
        directory = f"/proc/{self._process.process.pid}/fd"
        opened = []
        for descriptor in os.listdir(directory):
            with contextlib.suppress(FileNotFoundError):
                opened.append(os.readlink(f"{directory}/{descriptor}"))
        return [path for path in opened if path.startswith((f"{self.store_path}/", "/memfd:"))]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.driver.adapter.close()
        self.control.close()
        self._process.close()


def filled(number: int) -> bytes:
    """An object of one byte."""
    return bytes([number]) * SIZE
