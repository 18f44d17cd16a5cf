"""A real LMCache multiprocess server on the CPU."""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.harness.processes import ManagedProcess, free_port

START_TIMEOUT_S = 90.0


class LMCacheServer:
    """``lmcache server`` with the given L2 adapters, ready when its health check answers."""

    def __init__(
        self,
        l2_adapters: Sequence[Mapping[str, object]],
        log: Path,
        l1_size_gb: float = 0.25,
        extra_arguments: Sequence[str] = (),
    ) -> None:
        self.rpc_url = f"tcp://127.0.0.1:{free_port()}"
        self.http_url = f"http://127.0.0.1:{free_port()}"
        command = [
            str(Path(sys.executable).parent / "lmcache"),
            "server",
            "--l1-size-gb",
            str(l1_size_gb),
            "--eviction-policy",
            "LRU",
            "--no-l1-use-lazy",
            "--shm-name",
            f"kvchaos-{uuid.uuid4().hex[:12]}",
            "--supported-transfer-mode",
            "auto",
            "--port",
            self.rpc_url.rsplit(":", 1)[1],
            "--http-port",
            self.http_url.rsplit(":", 1)[1],
            *(part for spec in l2_adapters for part in ("--l2-adapter", json.dumps(spec))),
            *extra_arguments,
        ]
        environment = {"LMCACHE_TRACK_USAGE": "false", "LMCACHE_DISABLE_BANNER": "1"}
        self.process = ManagedProcess(command, log, environment)

    def wait_ready(self) -> None:
        """Returns when the health check answers 200. Raises ProcessFailed otherwise."""
        self.process.wait_until(self._healthy, START_TIMEOUT_S, "lmcache server")

    def status(self) -> dict[str, Any]:
        """The server's own status document."""
        return dict(json.loads(self._request("GET", "/status")))

    def clear_l1(self) -> None:
        """Empties host memory, so that the next lookup has to ask L2."""
        self._request("POST", "/cache/clear", {"tier": "l1", "force": True})

    def stop(self) -> None:
        """Ends the server."""
        self.process.stop()

    def _healthy(self) -> bool:
        try:
            self._request("GET", "/healthcheck")
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False
        return True

    def _request(self, method: str, path: str, body: object = None) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self.http_url + path, data, {"Content-Type": "application/json"}, method=method
        )
        with urllib.request.urlopen(request, timeout=10) as reply:
            return bytes(reply.read())


def plugin_spec(cache_target: str, **adapter_params: object) -> dict[str, object]:
    """LMCache's spec of an L2 adapter that is the plugin, connected to a sidecar."""
    return {
        "type": "plugin",
        "module_path": "kvchaos.lmcache",
        "class_name": "KVChaosL2Adapter",
        "adapter_params": {"target": cache_target, **adapter_params},
    }
