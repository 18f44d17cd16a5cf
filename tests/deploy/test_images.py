"""The images: what they weigh, what is in them, and how they end."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.deploy.compose import CommandFailed, run

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]

MEGABYTE = 10**6
BASE = "kvchaos-ci/base"
IMAGES = ("sidecar", "lmcache", "sidecar-lmcache", "blend")
SIDECAR_LIMIT = 250 * MEGABYTE
ENDS_WITHIN_S = 10.0


def size(image: str) -> int:
    """Bytes of an image with everything under it."""
    return int(run("docker", "image", "inspect", "--format", "{{.Size}}", image))


@pytest.mark.usefixtures("images")
def test_the_sidecar_is_light(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = {image: size(f"kvchaos-ci/{image}") - size(BASE) for image in IMAGES}

    with capsys.disabled():
        print(
            "\n"
            + "\n".join(
                f"{image:<16}{bytes_ / MEGABYTE:>8.0f} MB on the base" for image, bytes_ in sizes.items()
            )
        )
    assert sizes["sidecar"] < SIDECAR_LIMIT


@pytest.mark.usefixtures("images")
@pytest.mark.parametrize("package", ["torch", "lmcache", "numpy", "pip"])
def test_the_sidecar_holds_nothing_it_does_not_need(package: str) -> None:
    with pytest.raises(CommandFailed, match="ModuleNotFoundError"):
        _python("sidecar", f"import {package}")


@pytest.mark.usefixtures("images")
def test_lmcache_finds_the_plugin_and_its_own_adapters() -> None:
    for image in ("lmcache", "sidecar-lmcache"):
        assert "KVChaosL2Adapter" in _python(image, "import kvchaos.lmcache; print(kvchaos.lmcache.__all__)")


@pytest.mark.usefixtures("images")
def test_sigterm_ends_the_sidecar_in_time_and_in_order(tmp_path: Path) -> None:
    name = "kvchaos-test-sigterm"
    config = tmp_path / "kvchaos.yaml"
    config.write_text("version: 1\nbackend: {type: memory, capacity_bytes: 1048576}\n")
    tmp_path.chmod(0o755)
    hardened = ("--init", "--read-only", "--tmpfs", "/tmp", "--volume", f"{tmp_path}:/etc/kvchaos:ro")
    run(
        "docker",
        "run",
        "--detach",
        "--name",
        name,
        *hardened,
        "--volume",
        "/run/kvchaos",
        "--volume",
        "/run/kvchaos-control",
        "kvchaos-ci/sidecar",
    )
    try:
        run("docker", "exec", name, "python3", "-c", _WAIT_READY, timeout_s=60)
        began = time.monotonic()
        run("docker", "stop", "--time", "20", name)
        took_s = time.monotonic() - began

        assert run("docker", "inspect", "--format", "{{.State.ExitCode}}", name).strip() == "0"
        assert took_s < ENDS_WITHIN_S
    finally:
        run("docker", "rm", "--force", "--volumes", name)


def _python(image: str, program: str) -> str:
    return run(
        "docker",
        "run",
        "--rm",
        "--read-only",
        "--tmpfs",
        "/tmp",
        "--entrypoint",
        "python3",
        f"kvchaos-ci/{image}",
        "-c",
        program,
    )


_WAIT_READY = """
import subprocess, time
while subprocess.run(["healthy", "http://127.0.0.1:9464/readyz"], capture_output=True).returncode:
    time.sleep(0.1)
"""
