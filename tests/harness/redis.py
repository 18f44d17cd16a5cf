"""A real Redis server that tests can kill and bring back."""

from __future__ import annotations

import signal
from pathlib import Path
from types import TracebackType
from typing import Self

import redis

from tests.harness.processes import ManagedProcess, free_port

START_TIMEOUT_S = 20.0


class RedisServer:
    """``redis-server`` on a free port of the loopback. Unless told otherwise it forgets all when it ends."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        """Starts nothing yet. ``arguments`` are added to the command line (``"--maxmemory", "1mb"``)."""
        self.host = "127.0.0.1"
        self.port = free_port()
        self._directory = directory
        self._arguments = arguments
        self._process: ManagedProcess | None = None

    def start(self) -> None:
        """Starts the server, again on the same port, and returns when it accepts connections."""
        command = ["redis-server", "--port", str(self.port), "--bind", self.host, "--save", ""]
        command += ["--dir", str(self._directory), *self._arguments]
        self._process = ManagedProcess(command, self._directory / "redis.log")
        self._process.wait_until(self._accepts, START_TIMEOUT_S, "redis-server")

    def client(self) -> redis.Redis:
        """A plain client. The caller closes it."""
        return redis.Redis(self.host, self.port)

    def kill(self) -> None:
        """SIGKILL, and waits for the end."""
        self._signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait(10)

    def freeze(self) -> None:
        """Stops the process: connections stay open, nothing answers."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Undoes :meth:`freeze`."""
        self._signal(signal.SIGCONT)

    def stop(self) -> None:
        """Ends the server if it runs."""
        if self._process is not None:
            self._process.signal(signal.SIGCONT)
            self._process.stop()

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.signal(number)

    def _accepts(self) -> bool:
        try:
            with self.client() as client:
                client.ping()
        except redis.AuthenticationError:
            return True
        except redis.ConnectionError:
            return False
        return True

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
