"""What the cache server and its engine see when a part of the set dies under traffic, and when it is back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from tests.deploy.compose import ComposeSet, run
from tests.deploy.conftest import wait_healthy
from tests.deploy.traffic import SteadyTraffic

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]

PATIENCE_S = 90.0


@pytest.fixture(scope="module")
def traffic(stack: ComposeSet) -> Iterator[SteadyTraffic]:
    """Prompts that are asked for all the time, and served whole at first."""
    with SteadyTraffic(stack) as steady:
        _wait_for(steady, _whole, "whole prompts at first")
        yield steady


def test_the_sidecar_is_killed(stack: ComposeSet, traffic: SteadyTraffic) -> None:
    run("docker", "kill", stack.container("sidecar"))

    _wait_for(traffic, _missed, "misses while the sidecar is dead")
    assert stack.healthy("lmcache")

    run("docker", "start", stack.container("sidecar"))
    _wait_for(traffic, _whole, "whole prompts when the sidecar is back")
    assert _restarts(stack, "lmcache") == 0
    (session,) = stack.kvchaos("status")["sessions"]
    assert session["transport"] == "handoff"


def test_redis_is_killed(stack: ComposeSet, traffic: SteadyTraffic) -> None:
    run("docker", "kill", stack.container("redis"))

    _wait_for(traffic, _missed, "misses while Redis is dead")
    assert stack.healthy("lmcache")
    assert not stack.kvchaos("status")["backend"]["healthy"]

    run("docker", "start", stack.container("redis"))
    _wait_for(traffic, _whole, "whole prompts when Redis is back")
    assert _restarts(stack, "sidecar") == 0


def test_the_network_to_redis_is_cut(stack: ComposeSet, traffic: SteadyTraffic) -> None:
    network, sidecar = stack.network("store"), stack.container("sidecar")
    run("docker", "network", "disconnect", network, sidecar)
    try:
        _wait_for(traffic, _missed, "misses while the network is cut")
        assert stack.healthy("lmcache")
    finally:
        run("docker", "network", "connect", network, sidecar)

    _wait_for(traffic, _whole, "whole prompts when the network is back")
    assert _restarts(stack, "sidecar") == 0


def test_the_set_is_healthy_again_and_nothing_was_served_wrong(
    stack: ComposeSet, traffic: SteadyTraffic
) -> None:
    wait_healthy(stack, "redis", "sidecar", "lmcache")

    assert traffic.running()
    assert all(served["intact"] for served in traffic.all())


Served = dict[str, object]


def _whole(served: list[Served]) -> bool:
    """The last four prompts were served whole: one round."""
    return len(served) >= 4 and all(one["hit"] == one["asked"] for one in served[-4:])


def _missed(served: list[Served]) -> bool:
    """The last two prompts were missed, and the server answered."""
    return len(served) >= 2 and all(one["hit"] == 0 for one in served[-2:])


def _wait_for(traffic: SteadyTraffic, condition: Callable[[list[Served]], bool], what: str) -> None:
    """Looks at what is served from now on until the condition holds."""
    traffic.forget()
    deadline = time.monotonic() + PATIENCE_S
    while not condition(traffic.since()):
        assert traffic.running(), f"the driver ended while waiting for {what}:\n{traffic.log()[-4000:]}"
        assert time.monotonic() < deadline, f"no {what} within {PATIENCE_S:g} s: {traffic.since()[-8:]}"
        time.sleep(0.5)


def _restarts(stack: ComposeSet, service: str) -> int:
    return int(stack.inspect(service)["RestartCount"])
