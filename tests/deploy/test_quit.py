"""The set ends: every container by itself within ten seconds. Then the set of the next file has the cores."""

from __future__ import annotations

import pytest

from tests.deploy.compose import ComposeSet
from tests.deploy.conftest import SERVICES, wait_healthy

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]

EVERY_SERVICE = (*SERVICES, "blend")
KILLED = 128 + 9


def test_every_service_ends_within_ten_seconds_of_sigterm(stack: ComposeSet) -> None:
    stack.up("blend")
    wait_healthy(stack, *EVERY_SERVICE)

    stack.compose("--profile", "blend", "stop")  # kills what is left after stop_grace_period, 10 s

    states = {service: stack.inspect(service)["State"] for service in EVERY_SERVICE}
    assert not any(state["Running"] for state in states.values())
    assert KILLED not in {state["ExitCode"] for state in states.values()}
    assert states["sidecar"]["ExitCode"] == 0
