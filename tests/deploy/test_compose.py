"""The compose set as a user starts it: what is isolated from what, and that the traffic is what it seems."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.compose import CommandFailed, ComposeSet
from tests.deploy.conftest import SERVICES
from tests.harness.waiting import eventually

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]

DEMO_CHUNKS = 32
KINDS = ("net", "pid", "mnt", "ipc", "uts")


@pytest.fixture
def quiet(stack: ComposeSet, config_file: Path) -> Iterator[ComposeSet]:
    """The set, with the faults of its file again afterwards."""
    text = config_file.read_text()
    yield stack
    config_file.write_text(text)
    stack.kvchaos("reset")
    eventually(lambda: _fields(stack)["fault_inject.rate"] == (0.0, "file"), "the first rules")


def test_every_service_is_healthy_and_scraped(stack: ComposeSet) -> None:
    assert all(stack.healthy(service) for service in SERVICES)
    eventually(lambda: {("kvchaos-sidecar", "up"), ("lmcache", "up")} <= set(stack.targets()), "the scrapes")


def test_the_demo_is_served_what_the_faults_leave_and_prometheus_counts_the_rest(quiet: ComposeSet) -> None:
    before = quiet.value("sum(kvchaos_drops_total)") or 0.0

    table = quiet.compose("run", "--rm", "demo")

    steps = dict(re.findall(r"^(\w[\w ]+?)\s{2,}(\d+\s+\d+\s+\d+\s+\w+)$", table, re.MULTILINE))
    numbers = {name: tuple(map(int, row.split()[:3])) for name, row in steps.items()}
    assert numbers["no faults"] == (32, 32, 0)
    assert numbers["gap in the middle"] == (32, 16, 4)
    assert numbers["halted"] == (32, 32, 0)
    assert numbers["reset"] == (32, 32, 0)
    dropped = sum(row[2] for row in numbers.values())
    eventually(
        lambda: quiet.value("sum(kvchaos_drops_total)") == before + dropped, f"{dropped} drops in Prometheus"
    )
    assert int(quiet.inside("redis", "redis-cli", "dbsize")) == DEMO_CHUNKS


def test_a_rule_set_over_grpc_shows_in_status_and_in_prometheus(quiet: ComposeSet) -> None:
    generation = quiet.kvchaos("status")["fault_inject"]["generation"]

    quiet.kvchaos("set", "--rate", "0.25")

    assert _fields(quiet)["fault_inject.rate"] == (0.25, "runtime")
    eventually(lambda: quiet.value("kvchaos_injection_active") == 1, "the injection in Prometheus")
    eventually(
        lambda: (quiet.value("kvchaos_generation") or 0) > int(generation), "the generation in Prometheus"
    )


def test_a_rule_changed_in_the_file_shows_in_status_and_in_prometheus(
    quiet: ComposeSet, config_file: Path
) -> None:
    applied = 'kvchaos_reloads_total{result="applied"}'
    before = quiet.value(applied) or 0.0

    _rename_into_place(config_file, "rate: 0.0", "rate: 0.125")

    eventually(lambda: _fields(quiet)["fault_inject.rate"] == (0.125, "file"), "the rule of the file")
    eventually(lambda: quiet.value(applied) == before + 1, "the reload in Prometheus")


def test_a_bad_file_changes_nothing_and_shows(quiet: ComposeSet, config_file: Path) -> None:
    refused = 'kvchaos_reloads_total{result="refused"}'
    before = quiet.value(refused) or 0.0

    _rename_into_place(config_file, "rate: 0.0", "rate: 1.5")

    eventually(lambda: "fault_inject.rate" in quiet.kvchaos("status")["reload_error"], "the refusal")
    assert _fields(quiet)["fault_inject.rate"] == (0.0, "file")
    eventually(lambda: (quiet.value(refused) or 0) > before, "the refusal in Prometheus")


def test_descriptors_pass_between_containers_of_other_users_and_namespaces(stack: ComposeSet) -> None:
    sidecar, lmcache = (
        stack.inside(service, "python3", "-c", _WHO).split() for service in ("sidecar", "lmcache")
    )

    assert sidecar[0] != lmcache[0], "both run as the same user"
    assert "0" not in (sidecar[0], lmcache[0])
    for kind, one, other in zip(KINDS, sidecar[1:], lmcache[1:], strict=True):
        assert one != other, f"both are in the same {kind} namespace"
    (session,) = stack.kvchaos("status")["sessions"]
    assert session["transport"] == "handoff"
    assert session["uid"] == int(lmcache[0])


def test_the_cache_server_cannot_reach_redis_by_name_or_address(stack: ComposeSet) -> None:
    networks = stack.inspect("redis")["NetworkSettings"]["Networks"]
    address = networks[stack.network("store")]["IPAddress"]

    for host in ("redis", address):
        with pytest.raises(CommandFailed, match=r"gaierror|TimeoutError|OSError|ConnectionRefused"):
            stack.inside("lmcache", "python3", "-c", _CONNECT, host)
    assert "connected" in stack.inside("sidecar", "python3", "-c", _CONNECT, "redis")


def test_the_cache_server_shares_one_volume_with_the_sidecar_and_cannot_write_it(stack: ComposeSet) -> None:
    def volumes(service: str) -> dict[str, bool]:
        mounts = stack.inspect(service)["Mounts"]
        return {mount["Name"]: mount["RW"] for mount in mounts if mount["Type"] == "volume"}

    shared = volumes("sidecar").keys() & volumes("lmcache").keys()
    assert shared == {f"{stack.project}_cache-socket"}
    assert volumes("lmcache")[shared.pop()] is False


@pytest.mark.parametrize("service", SERVICES)
def test_no_container_runs_as_root_or_writes_its_image(stack: ComposeSet, service: str) -> None:
    container = stack.inspect(service)

    assert container["HostConfig"]["ReadonlyRootfs"]
    assert container["HostConfig"]["CapDrop"] == ["ALL"]
    assert not container["HostConfig"]["Privileged"]
    assert container["Config"]["User"].partition(":")[0] not in ("", "0", "root")


def test_every_published_port_is_on_the_loopback(stack: ComposeSet) -> None:
    bindings = [
        binding
        for service in SERVICES
        for published in (stack.inspect(service)["NetworkSettings"]["Ports"] or {}).values()
        for binding in published or ()
    ]

    assert bindings
    assert {binding["HostIp"] for binding in bindings} == {"127.0.0.1"}


_WHO = f"""
import os
print(os.getuid(), *(os.readlink("/proc/self/ns/" + kind) for kind in {KINDS}))
"""

_CONNECT = """
import socket, sys
socket.create_connection((sys.argv[1], 6379), timeout=2)
print("connected")
"""


def _fields(stack: ComposeSet) -> dict[str, tuple[object, str]]:
    """Value and source of every field of the effective configuration."""
    return {field["path"]: (field["value"], field["source"]) for field in stack.kvchaos("get")}


def _rename_into_place(path: Path, old: str, new: str) -> None:
    """Changes a file as most editors do."""
    fresh = path.with_suffix(".new")
    fresh.write_text(path.read_text().replace(old, new))
    fresh.rename(path)
