"""Child processes that end with the test, leave a log, and say what went wrong."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self


class ProcessFailed(Exception):
    """A process ended, or did not become ready. The message ends with the tail of its log."""


def free_port() -> int:
    """A TCP port on the loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class ManagedProcess:
    """One child process in a process group of its own, logging to a file."""

    def __init__(
        self, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.log_path = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Process id, which is also the id of the group."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def log(self) -> str:
        """Everything the process has written."""
        return self.log_path.read_text(errors="replace")

    def wait_until(self, ready: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Polls ``ready`` until it is true. Raises ProcessFailed when the process ends or time is up."""
        deadline = time.monotonic() + timeout_s
        while not ready():
            if not self.running:
                raise ProcessFailed(f"{what}: exit code {self._process.returncode}\n{self.log()[-4000:]}")
            if time.monotonic() > deadline:
                raise ProcessFailed(f"{what}: not ready after {timeout_s} s\n{self.log()[-4000:]}")
            time.sleep(0.05)

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to the process group, if it is still there."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def wait(self, timeout_s: float) -> int:
        """Waits for the end and returns the exit code."""
        return self._process.wait(timeout_s)

    def stop(self, grace_s: float = 10.0) -> int:
        """SIGTERM, then SIGKILL after ``grace_s``. Returns the exit code."""
        if self.running:
            self.signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(grace_s)
        self.signal(signal.SIGKILL)
        return self._process.wait(10)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
