"""The compose set that the Docker tests share. It is made once: starting LMCache takes ten seconds."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.deploy.compose import FILES, REPOSITORY, CommandFailed, ComposeSet, run

HEALTHY_WITHIN_S = 120.0
SERVICES = ("redis", "sidecar", "lmcache", "prometheus")


@pytest.fixture(scope="session")
def engine() -> None:
    """A Docker engine that answers, and the base image."""
    run(str(REPOSITORY / "deploy/ci/engine"))


@pytest.fixture(scope="session")
def images(engine: None) -> None:
    """Every image of the set, built from the working tree."""
    # docker-compose 1.29 builds a service with a profile only when the profile is on.
    ComposeSet("kvchaos-images", FILES, {}).compose("--profile", "blend", "build", "--quiet")
    target = ("--target", "sidecar-lmcache", "--tag", "kvchaos-ci/sidecar-lmcache")
    dockerfile = str(REPOSITORY / "deploy/images/Dockerfile")
    base = ("--build-arg", "BASE=kvchaos-ci/base")
    run("docker", "build", "--quiet", *base, *target, "--file", dockerfile, str(REPOSITORY))


@pytest.fixture(scope="package")
def config_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the committed configuration, which the sidecar of the set reads and the tests change."""
    directory = tmp_path_factory.mktemp("config")
    directory.chmod(0o755)
    return Path(shutil.copy(REPOSITORY / "deploy/compose/config/kvchaos.yaml", directory))


@pytest.fixture(scope="package")
def stack(images: None, config_file: Path) -> Iterator[ComposeSet]:
    """The set as a user gets it, up and healthy. It ends with this directory: it takes processor time."""
    made = ComposeSet("kvchaos-test", FILES, {"KVCHAOS_CONFIG_DIR": str(config_file.parent)})
    with running(made, *SERVICES):
        yield made


@contextmanager
def running(stack: ComposeSet, *services: str) -> Iterator[None]:
    """The services, healthy; everything of the set is removed afterwards."""
    stack.down()
    try:
        stack.up(*services)
        wait_healthy(stack, *services)
        yield
    except CommandFailed as error:
        pytest.fail(f"{error}\n{stack.logs()}")
    finally:
        stack.down()


def wait_healthy(stack: ComposeSet, *services: str) -> None:
    """Returns when every service is healthy; fails the test when one is not after two minutes."""
    deadline = time.monotonic() + HEALTHY_WITHIN_S
    while not all(stack.healthy(service) for service in services):
        if time.monotonic() > deadline:
            pytest.fail(f"not healthy within {HEALTHY_WITHIN_S:g} s:\n{stack.logs()}")
        time.sleep(0.5)
