"""The sidecar in this process, on a thread of its own: for stores and clocks that a test makes itself."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from prometheus_client import CollectorRegistry

from kvchaos_sidecar.app import Sidecar
from kvchaos_sidecar.backends.contract import Backend
from kvchaos_sidecar.clock import Clock, SystemClock
from kvchaos_sidecar.config.load import Configuration, validate

TIMEOUT_S = 30.0

T = TypeVar("T")


class InProcessSidecar:
    """A started :class:`Sidecar`.

    Attributes:
        sidecar: the daemon.
        registry: its metrics.
        directory: where its sockets are.
    """

    def __init__(self, backend: Backend, clock: Clock | None = None, **document: Any) -> None:
        """``document`` gives parts of the configuration, without ``backend``."""
        self.directory = tempfile.mkdtemp(prefix="kvc-", dir="/tmp")
        self.registry = CollectorRegistry()
        listen = {
            "cache": f"unix:{self.directory}/cache.sock",
            "control": f"unix:{self.directory}/control.sock",
            "http": "127.0.0.1:0",
            **document.pop("listen", {}),
        }
        placeholder = {"type": "memory", "capacity_bytes": 1}
        parts = {"version": 1, "listen": listen, "backend": placeholder, **document}
        configuration = Configuration(validate(parts))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="sidecar-under-test")
        self._thread.start()
        self.sidecar = self.run(self._make(configuration, backend, clock or SystemClock()))
        self.run(self.sidecar.start())

    @property
    def cache_target(self) -> str:
        """What a gRPC channel to the cache service needs."""
        return str(self.sidecar.cache.address)

    @property
    def control_target(self) -> str:
        """What a gRPC channel to the control service needs."""
        return str(self.sidecar.control.address)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs something on the daemon's loop and returns its value."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(TIMEOUT_S)

    def value(self, name: str, **labels: str) -> float:
        """One sample. KeyError when it is not there."""
        value = self.registry.get_sample_value(name, labels)
        if value is None:
            raise KeyError(f"{name}{labels}")
        return value

    def close(self) -> None:
        """Ends the daemon and its thread."""
        try:
            self.run(self.sidecar.stop())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(TIMEOUT_S)
            self._loop.close()
            shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def _make(self, configuration: Configuration, backend: Backend, clock: Clock) -> Sidecar:
        return Sidecar(configuration, backend, self.registry, clock)
