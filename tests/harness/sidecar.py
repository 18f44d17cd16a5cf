"""A real ``kvchaos-sidecar`` process, with its sockets in a directory of its own."""

from __future__ import annotations

import json
import re
import shutil
import signal
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.harness.processes import ManagedProcess, free_port

START_TIMEOUT_S = 30.0

_SAMPLE = re.compile(r"^(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>[^}]*)\})? (?P<value>\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


class Metrics:
    """One scrape of /metrics."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._samples = [
            (match["name"], dict(_LABEL.findall(match["labels"] or "")), float(match["value"]))
            for match in _SAMPLE.finditer(text)
        ]

    def value(self, name: str, **labels: str) -> float:
        """Sum of the samples of that name that have (at least) those labels. KeyError when there is none."""
        found = [
            value for sample, has, value in self._samples if sample == name and labels.items() <= has.items()
        ]
        if not found:
            raise KeyError(f"{name}{labels}")
        return sum(found)


class SidecarProcess:
    """``kvchaos-sidecar --config FILE``, ready when /readyz answers 200.

    Attributes:
        directory: holds configuration, sockets and log; removed by :meth:`close`. Its path is short, as
            that of a Unix socket must be.
        config_path: the configuration file, as JSON, which is YAML.
        process: the running process; another one after :meth:`restart`.
    """

    def __init__(
        self,
        backend: Mapping[str, object],
        fault_inject: Mapping[str, object] | None = None,
        arguments: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
        **document: Any,
    ) -> None:
        """``document`` gives further parts of the configuration; its ``listen`` is laid over the defaults.
        ``variables`` are laid over the environment of this process."""
        self.directory = Path(tempfile.mkdtemp(prefix="kvc-", dir="/tmp"))
        self.directory.chmod(0o755)
        self.config_path = self.directory / "sidecar.yaml"
        listen = {
            "cache": f"unix:{self.directory}/cache.sock",
            "control": f"unix:{self.directory}/control.sock",
            "http": f"127.0.0.1:{free_port()}",
            **document.pop("listen", {}),
        }
        self._arguments = list(arguments)
        self._variables = variables
        self.document: dict[str, Any] = {
            "version": 1,
            "listen": listen,
            "backend": dict(backend),
            "fault_inject": dict(fault_inject or {}),
            **document,
        }
        self.write_config()
        self.process = self._spawn()

    @property
    def cache_target(self) -> str:
        """What a gRPC channel to the cache service needs."""
        return str(self.document["listen"]["cache"])

    @property
    def control_target(self) -> str:
        """What a gRPC channel to the control service needs."""
        return str(self.document["listen"]["control"])

    @property
    def http_url(self) -> str:
        """Where /metrics, /healthz and /readyz are."""
        return f"http://{self.document['listen']['http']}"

    def write_config(self, **parts: Any) -> None:
        """Writes the configuration file anew, with ``parts`` of the document replaced."""
        self.document |= parts
        self.config_path.write_text(json.dumps(self.document, indent=2))

    def wait_ready(self) -> Self:
        """Returns when the daemon is ready. Raises ProcessFailed otherwise."""
        self.process.wait_until(lambda: self.probe("/readyz") == 200, START_TIMEOUT_S, "kvchaos-sidecar")
        return self

    def probe(self, path: str) -> int:
        """HTTP status of a path; 0 when nobody answers."""
        try:
            with urllib.request.urlopen(self.http_url + path, timeout=5.0) as response:
                return int(response.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    def metrics(self) -> Metrics:
        """Scrapes /metrics."""
        with urllib.request.urlopen(f"{self.http_url}/metrics", timeout=5.0) as response:
            return Metrics(response.read().decode())

    def log(self) -> str:
        """Everything the daemon has written, over all its lives."""
        return self.process.log()

    def kill(self) -> None:
        """SIGKILL, and waits for the end."""
        self.process.signal(signal.SIGKILL)
        self.process.wait(10.0)

    def restart(self) -> Self:
        """Starts it again on the same addresses, after its end, and waits until it is ready."""
        self.process = self._spawn()
        return self.wait_ready()

    def stop(self) -> int:
        """SIGTERM, and waits. Returns the exit code."""
        return self.process.stop(grace_s=15.0)

    def close(self) -> None:
        """Ends it, if it runs, and removes its directory."""
        self.process.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.wait_ready()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _spawn(self) -> ManagedProcess:
        program = str(Path(sys.executable).parent / "kvchaos-sidecar")
        command = [program, "--config", str(self.config_path), *self._arguments]
        return ManagedProcess(command, self.directory / "sidecar.log", self._variables)
