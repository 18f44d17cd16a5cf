"""One of LMCache's own adapters, hosted in a container of the sidecar-lmcache image."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.deploy.compose import run

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600), pytest.mark.usefixtures("images")]

NAME = "kvchaos-test-hosted"
SOCKETS, STORE = f"{NAME}-sockets", f"{NAME}-store"
HARDENED = ("--init", "--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--network", "none")
CONFIG = {
    "version": 1,
    "listen": {
        "cache": "unix:/run/kvchaos/cache.sock",
        "control": "unix:/run/kvchaos-control/control.sock",
        "http": "127.0.0.1:9464",
    },
    "handoff": {"allow_uids": [10002]},
    "backend": {"type": "lmcache", "inner": {"type": "fs_native", "base_path": "/data/l2"}},
}


@pytest.fixture(scope="module")
def sidecar(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The sidecar's container, ready. Its store is a volume that no other container mounts."""
    directory = tmp_path_factory.mktemp("hosted")
    directory.chmod(0o755)
    (directory / "kvchaos.yaml").write_text(json.dumps(CONFIG))
    _remove()
    _own(STORE, "/data/l2")
    volumes = (
        f"{SOCKETS}:/run/kvchaos",
        f"{STORE}:/data/l2",
        f"{directory}:/etc/kvchaos:ro",
        "/run/kvchaos-control",
    )
    mounts = [part for volume in volumes for part in ("--volume", volume)]
    try:
        run("docker", "run", "--detach", "--name", NAME, *HARDENED, *mounts, "kvchaos-ci/sidecar-lmcache")
        run("docker", "exec", NAME, "python3", "-c", _WAIT_READY, timeout_s=120)
        yield NAME
    finally:
        _remove()


def test_what_a_client_stores_is_in_the_adapters_store_and_comes_back_whole(sidecar: str) -> None:
    seen = _as_client(_STORE_AND_LOAD)

    assert seen == {
        "backend": "lmcache",
        "transport": "handoff",
        "stored": ["ok"] * 4,
        "loaded": ["ok"] * 4,
        "intact": True,
    }
    files = run("docker", "exec", sidecar, "find", "/data/l2", "-type", "f").split()
    assert len(files) == 4


def test_faults_strike_in_front_of_the_adapter(sidecar: str) -> None:
    run("docker", "exec", sidecar, "kvchaos", "set", "--gap-indices", "1")
    try:
        seen = _as_client(_STORE_AND_LOAD)
    finally:
        run("docker", "exec", sidecar, "kvchaos", "reset")

    assert seen["loaded"] == ["ok", "dropped", "ok", "ok"]


def test_status_names_the_adapter(sidecar: str) -> None:
    backend = json.loads(run("docker", "exec", sidecar, "kvchaos", "--json", "status"))["backend"]

    assert (backend["type"], backend["healthy"]) == ("lmcache", True)
    assert "fs_native" in backend["description"]


def test_sigterm_ends_it_in_order(sidecar: str) -> None:
    run("docker", "stop", "--time", "20", sidecar)

    assert run("docker", "inspect", "--format", "{{.State.ExitCode}}", sidecar).strip() == "0"


def _as_client(program: str) -> dict[str, Any]:
    """What a program in another container, as the cache server's user, prints as JSON."""
    client = ("--entrypoint", "python3", "--volume", f"{SOCKETS}:/run/kvchaos:ro", "kvchaos-ci/lmcache")
    seen: dict[str, Any] = json.loads(run("docker", "run", "--rm", *HARDENED, *client, "-c", program))
    return seen


def _own(volume: str, path: str) -> None:
    """Gives a new volume to the sidecar's user, as Kubernetes does by fsGroup."""
    owner = ("--user", "0", "--entrypoint", "chown", "--volume", f"{volume}:{path}")
    run("docker", "run", "--rm", *owner, "kvchaos-ci/sidecar-lmcache", "10001:10001", path)


def _remove() -> None:
    run("docker", "rm", "--force", "--volumes", NAME)
    run("docker", "volume", "rm", "--force", SOCKETS, STORE)


_WAIT_READY = """
import subprocess, time
while subprocess.run(["healthy", "http://127.0.0.1:9464/readyz"], capture_output=True).returncode:
    time.sleep(0.1)
"""
_STORE_AND_LOAD = """
import json
from kvchaos.client import L2Client
from kvchaos.keys import ObjectKey

keys = [ObjectKey(b"hosted--" + number.to_bytes(8, "big"), "org/model", 1, 0, "") for number in range(4)]
objects = [bytes([number + 1]) * 100_000 for number in range(4)]
buffers = [bytearray(100_000) for _ in keys]
with L2Client("unix:/run/kvchaos/cache.sock", "hosted") as client:
    assert client.wait_connected(), client.cause
    stored = client.store(keys, objects).result()
    loaded = client.load(keys, buffers).result()
    intact = [bytes(buffer) for buffer in buffers] == objects
    facts = client.facts
print(json.dumps({
    "backend": facts.backend, "transport": facts.transport.value,
    "stored": ["ok" if result.label in ("ok", "present") else result.label for result in stored],
    "loaded": [result.label for result in loaded], "intact": intact,
}))
"""
