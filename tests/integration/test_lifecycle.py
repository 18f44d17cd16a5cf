"""How the daemon starts, refuses to start, reloads and ends."""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from tests.harness.processes import ManagedProcess, free_port
from tests.harness.sidecar import SidecarProcess
from tests.harness.stuck_sidecar import STUCK
from tests.harness.waiting import eventually
from tests.harness.wire import INLINE, TIMEOUT_S, WireSession, make_keys

PROGRAM = str(Path(sys.executable).parent / "kvchaos-sidecar")
STARTS_WITHIN_S = 30


@pytest.fixture
def short_path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="kvc-", dir="/tmp") as directory:
        yield Path(directory)


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [PROGRAM, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=STARTS_WITHIN_S)


def config_of(directory: Path, **parts: str) -> Path:
    """A configuration whose sockets are in ``directory``, with lines replaced by ``parts``."""
    lines = {
        "version": "1",
        "backend": f"{{type: fs, base_path: {directory}/store}}",
        "listen": f"{{cache: 'unix:{directory}/c.sock', control: 'unix:{directory}/o.sock',"
        f" http: '127.0.0.1:{free_port()}'}}",
        **parts,
    }
    path = directory / "sidecar.yaml"
    path.write_text("".join(f"{name}: {value}\n" for name, value in lines.items()))
    return path


def test_a_wrong_configuration_exits_with_2_and_names_the_place(short_path: Path) -> None:
    config = config_of(short_path, fault_inject="{rate: 1.5}")
    refused = run("--config", config)
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1
    assert str(config) in refused.stderr
    assert "fault_inject.rate" in refused.stderr
    assert os.listdir(short_path) == ["sidecar.yaml"]


def test_without_anything_to_serve_it_exits_with_2() -> None:
    refused = run()
    assert refused.returncode == 2
    assert "--config" in refused.stderr


def test_a_wrong_adapter_spec_exits_with_2() -> None:
    refused = run("--l2-adapter", '{"type": "fault_inject", "rate": 0.1}')
    assert refused.returncode == 2
    assert "inner" in refused.stderr


def test_an_address_that_others_can_reach_needs_tls_and_a_token(short_path: Path) -> None:
    refused = run("--config", config_of(short_path), "--listen-cache", "0.0.0.0:7000")
    assert refused.returncode == 2
    assert "0.0.0.0:7000" in refused.stderr
    assert "token_file" in refused.stderr


def test_files_of_tls_and_token_that_cannot_be_read_are_named(short_path: Path) -> None:
    refused = run("--config", config_of(short_path, listen="{token_file: /no/t}"))
    assert refused.returncode == 2
    assert "listen.token_file: cannot read /no/t" in refused.stderr


def test_a_store_that_cannot_be_used_exits_with_1_and_opens_nothing(short_path: Path) -> None:
    (short_path / "file").write_text("")
    config = config_of(short_path, backend=f"{{type: fs, base_path: {short_path}/file}}")
    refused = run("--config", config)
    assert refused.returncode == 1
    assert f"{short_path}/file" in refused.stderr
    assert sorted(os.listdir(short_path)) == ["file", "sidecar.yaml"]


@pytest.mark.parametrize("listener", ["http", "cache", "control"])
def test_a_port_in_use_is_named(short_path: Path, listener: str) -> None:
    with socket.create_server(("127.0.0.1", 0), reuse_port=True) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        refused = run("--config", config_of(short_path), f"--listen-{listener}", address)
    assert refused.returncode == 1
    assert f"listen.{listener}" in refused.stderr
    assert address in refused.stderr
    assert not [name for name in os.listdir(short_path) if name.endswith(".sock")]


@pytest.mark.parametrize("listener", ["cache", "control", "handoff"])
def test_a_socket_of_a_running_daemon_is_left_alone(
    shared_sidecar: SidecarProcess, short_path: Path, listener: str
) -> None:
    path = shared_sidecar.directory / f"{listener}.sock"
    own = ["--listen-handoff", f"unix:{short_path}/h.sock"]
    refused = run("--config", config_of(short_path), *own, f"--listen-{listener}", f"unix:{path}")
    assert refused.returncode == 1
    assert f"{path} is in use by another process" in refused.stderr
    with WireSession(shared_sidecar.cache_target).connect_handoff() as session:
        assert session.status().healthy


@pytest.mark.parametrize("listener", ["cache", "control", "handoff"])
def test_a_path_that_is_no_socket_is_left_alone(short_path: Path, listener: str) -> None:
    path = short_path / "precious"
    path.write_text("data")
    refused = run("--config", config_of(short_path), f"--listen-{listener}", f"unix:{path}")
    assert refused.returncode == 1
    assert f"{path} exists and is not a socket" in refused.stderr
    assert path.read_text() == "data"


def test_a_socket_path_that_is_too_long_is_refused(short_path: Path) -> None:
    deep = short_path / ("d" * (106 - len(str(short_path)) - len("/c")))
    refused = run("--config", config_of(short_path), "--listen-cache", f"unix:{deep}/c")
    assert refused.returncode == 1
    assert f"{deep}/handoff.sock" in refused.stderr
    assert "at most 107" in refused.stderr


def test_sockets_are_for_owner_and_group_only(short_path: Path) -> None:
    config = config_of(short_path)
    arguments = ["--listen-cache", f"unix:{short_path}/new/c.sock"]
    with ManagedProcess([PROGRAM, "--config", str(config), *arguments], short_path / "log") as process:
        process.wait_until(lambda: "ready:" in process.log(), STARTS_WITHIN_S, "kvchaos-sidecar")
        for name in ("new/c.sock", "new/handoff.sock", "o.sock"):
            assert stat.S_IMODE((short_path / name).stat().st_mode) == 0o660
        assert stat.S_IMODE((short_path / "new").stat().st_mode) == 0o750
        assert process.stop() == 0
    assert not list(short_path.rglob("*.sock"))


@pytest.mark.parametrize(
    ("faults", "said"),
    [
        ("{}", ["rate=0", "backend fs", "pass-through until a rule is set"]),
        ("{rate: 0.25, seed: 7, gap_indices: [3], gap_tail_ratios: [0.5]}",
         ["rate=0.25", "seed=7", "gap_indices=[3]", "gap_tail_ratios=[0.5]", "backend fs"]),
    ],
)  # fmt: skip
def test_it_warns_at_the_start_what_it_is(short_path: Path, faults: str, said: list[str]) -> None:
    config = config_of(short_path, fault_inject=faults)
    with ManagedProcess([PROGRAM, "--config", str(config)], short_path / "log") as process:
        process.wait_until(lambda: "ready:" in process.log(), STARTS_WITHIN_S, "kvchaos-sidecar")
        warning = next(line for line in process.log().splitlines() if "WARNING" in line)
    assert "fault injection" in warning
    for part in said:
        assert part in warning


def test_the_log_can_be_json(short_path: Path) -> None:
    command = [PROGRAM, "--config", str(config_of(short_path)), "--log-format", "json"]
    with ManagedProcess(command, short_path / "log") as process:
        process.wait_until(lambda: '"ready: ' in process.log(), STARTS_WITHIN_S, "kvchaos-sidecar")


def test_a_hangup_reloads_the_file(sidecar: SidecarProcess) -> None:
    before = sidecar.metrics().value("kvchaos_reloads_total", result="applied")
    sidecar.process.signal(signal.SIGHUP)
    eventually(lambda: sidecar.metrics().value("kvchaos_reloads_total", result="applied") == before + 1)


def test_a_bad_file_at_reload_leaves_the_rules_in_force(sidecar: SidecarProcess) -> None:
    sidecar.write_config(fault_inject={"rate": 2})
    sidecar.process.signal(signal.SIGHUP)
    eventually(lambda: sidecar.metrics().value("kvchaos_reloads_total", result="refused") >= 1)
    assert sidecar.metrics().value("kvchaos_generation") == 1
    assert sidecar.process.running


def test_clients_hear_of_changed_faults(sidecar: SidecarProcess) -> None:
    with WireSession(sidecar.cache_target) as session:
        assert session.opened.fault_inject.rate == 0
        sidecar.write_config(fault_inject={"rate": 0.5})
        heard = next(session.stream).fault_inject
        assert (heard.rate, heard.generation) == (0.5, 2)
    assert sidecar.metrics().value("kvchaos_generation") == 2


def test_it_ends_although_a_thread_hangs_in_the_store(short_path: Path) -> None:
    command = [sys.executable, "-m", "tests.harness.stuck_sidecar", "--config", str(config_of(short_path))]
    with ManagedProcess(command, short_path / "log") as process:
        process.wait_until(lambda: "ready:" in process.log(), STARTS_WITHIN_S, "stuck sidecar")
        with WireSession(f"unix:{short_path}/c.sock") as session:
            session.load(make_keys(1), 1, transport=INLINE)
        assert STUCK in process.log()
        process.signal(signal.SIGTERM)
        assert process.wait(15) == 1


def test_both_grpc_listeners_can_be_asked_what_they_serve(shared_sidecar: SidecarProcess) -> None:
    served = {
        "kvchaos.v1.L2Cache": shared_sidecar.cache_target,
        "kvchaos.v1.Control": shared_sidecar.control_target,
    }
    for service, target in served.items():
        with grpc.insecure_channel(target) as channel:
            stub = reflection_pb2_grpc.ServerReflectionStub(channel)
            question = reflection_pb2.ServerReflectionRequest(list_services="")
            answer = next(stub.ServerReflectionInfo(iter([question]), timeout=TIMEOUT_S))
        names = {entry.name for entry in answer.list_services_response.service}
        assert names == {service, "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"}


def test_a_tcp_listener_with_a_token_refuses_calls_without_it(store_path: Path, short_path: Path) -> None:
    token = short_path / "token"
    token.write_text("open-sesame\n")
    listen = {"cache": f"127.0.0.1:{free_port()}", "token_file": str(token)}
    keys = make_keys(1)
    with SidecarProcess({"type": "fs", "base_path": str(store_path)}, listen=listen) as sidecar:
        for wrong in ("", "open-says-me"):
            with pytest.raises(grpc.RpcError) as error:
                WireSession(sidecar.cache_target, token=wrong)
            assert isinstance(error.value, grpc.Call)
            assert error.value.code() is grpc.StatusCode.UNAUTHENTICATED
            assert "listen.token_file" in (error.value.details() or "")
        with WireSession(sidecar.cache_target, token="open-sesame") as session:
            assert not session.opened.HasField("handoff")
            with pytest.raises(grpc.RpcError):
                session.lookup(keys)


def test_check_and_schema_and_version_say_their_part_and_end(short_path: Path) -> None:
    assert run("--check", "--config", config_of(short_path)).stdout.endswith(": ok\n")
    assert '"fault_inject"' in run("--print-schema").stdout
    assert run("--version").stdout.startswith("kvchaos-sidecar 0.")
    assert os.listdir(short_path) == ["sidecar.yaml"]


@pytest.mark.slow
def test_an_adapter_that_lmcache_does_not_know_is_refused_by_every_check(short_path: Path) -> None:
    inner = {"type": "fs_natvie", "base_path": "/data/l2"}
    path = config_of(short_path, backend=json.dumps({"type": "lmcache", "inner": inner}))
    spec = json.dumps({"type": "fault_inject", "inner": inner})
    validate = subprocess.run(
        [Path(PROGRAM).with_name("kvchaos"), "validate", path], capture_output=True, text=True
    )
    for check in (run("--check", "--config", path), run("--check", "--l2-adapter", spec), validate):
        assert check.returncode == 2
        assert "backend.inner.type: 'fs_natvie' is not registered in the installed LMCache" in check.stderr
