"""The control service of a real daemon, beside real loads."""

import json
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest
from tests.harness.processes import free_port
from tests.harness.sidecar import SidecarProcess
from tests.harness.wire import INLINE, WireSession, make_keys, results_of

from kvchaos.control import ControlClient
from kvchaos.errors import PermissionDenied, RequestRefused
from kvchaos.results import Result
from kvchaos.v1 import common_pb2, control_pb2, control_pb2_grpc

KEYS = make_keys(8)
SIZE = 64


@pytest.fixture(scope="module")
def daemon() -> Iterator[SidecarProcess]:
    with SidecarProcess({"type": "memory", "capacity_bytes": 1 << 20}, {"seed": 5}) as process:
        with WireSession(process.cache_target) as session:
            session.store_objects(KEYS, [bytes([number]) * SIZE for number in range(8)])
        yield process


@pytest.fixture
def client(daemon: SidecarProcess) -> Iterator[ControlClient]:
    with ControlClient(daemon.control_target) as control:
        yield control
        control.resume()
        control.reset()


@pytest.fixture
def session(daemon: SidecarProcess) -> Iterator[WireSession]:
    with WireSession(daemon.cache_target, client_name="test-client") as opened:
        yield opened


request_ids = iter(range(1, 10_000))


def dropped(session: WireSession) -> list[int]:
    results = results_of(session.load(KEYS, SIZE, next(request_ids), INLINE))
    assert set(results) <= {Result.OK, Result.DROPPED}
    return [position for position, result in enumerate(results) if result is Result.DROPPED]


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.02)


def fields(client: ControlClient) -> dict[str, control_pb2.ConfigField]:
    return {field.path: field for field in client.get_config().fields}


def test_status_tells_what_runs_and_who_is_connected(
    daemon: SidecarProcess, client: ControlClient, session: WireSession
) -> None:
    client.set_faults(gap_indices=[1, 2])
    before = client.get_status()
    dropped(session)
    status = client.get_status()
    assert status.daemon_version
    assert abs(status.started_at.ToDatetime(UTC) - datetime.now(UTC)) < timedelta(hours=1)
    assert "fault injection ACTIVE" in status.warning
    assert "gap_indices=[1, 2]" in status.warning
    assert (status.backend.type, status.backend.healthy) == ("memory", True)
    assert (status.backend.total_bytes, status.backend.capacity_bytes) == (8 * SIZE, 1 << 20)
    assert status.config_path == str(daemon.config_path)
    (connected,) = [held for held in status.sessions if held.client_name == "test-client"]
    assert connected.transport == common_pb2.TRANSPORT_INLINE
    assert connected.grants == 6
    assert status.evaluated_total - before.evaluated_total == 8
    assert status.fired_total - before.fired_total == 2


def test_every_field_has_its_source_and_a_runtime_value_its_end(client: ControlClient) -> None:
    client.set_faults(rate=0.5, time_to_live=timedelta(hours=1))
    client.set_faults(gap_indices=[])
    found = fields(client)
    assert (found["fault_inject.rate"].value_json, found["fault_inject.rate"].source) == ("0.5", "runtime")
    remaining = found["fault_inject.rate"].expires_at.ToDatetime(UTC) - datetime.now(UTC)
    assert timedelta(minutes=58) < remaining < timedelta(minutes=61)
    assert found["fault_inject.gap_indices"].source == "runtime"
    assert not found["fault_inject.gap_indices"].HasField("expires_at")
    assert (found["fault_inject.seed"].value_json, found["fault_inject.seed"].source) == ("5", "file")
    assert found["fault_inject.poison"].source == "default"


def test_a_change_is_in_force_for_the_next_load_and_a_reset_ends_it(
    client: ControlClient, session: WireSession
) -> None:
    assert dropped(session) == []
    change = client.set_faults(gap_tail_ratios=[0.5], gap_indices=[0])
    assert change.changed
    assert list(change.fault_inject.gap_tail_ratios) == [0.5]
    assert dropped(session) == [0, 4]
    assert not client.set_faults(gap_tail_ratios=[0.5]).changed
    reset = client.reset()
    assert reset.changed
    assert reset.fault_inject.generation > change.fault_inject.generation
    assert dropped(session) == []
    assert not client.reset().changed


def test_a_time_to_live_ends_and_the_session_is_told(client: ControlClient, session: WireSession) -> None:
    client.set_faults(gap_indices=[3], time_to_live=timedelta(milliseconds=300))
    wait_for(lambda: not client.get_status().fault_inject.gap_indices)
    assert dropped(session) == []
    seen = [next(session.stream).fault_inject for _ in range(2)]
    assert [list(event.gap_indices) for event in seen] == [[3], []]


def test_a_halt_stops_all_injection_until_resume(client: ControlClient, session: WireSession) -> None:
    client.set_faults(rate=1.0)
    assert client.halt("too much").changed
    assert not client.halt().changed
    status = client.get_status()
    assert (status.fault_inject.halted, status.halt_reason) == (True, "too much")
    assert "HALTED" in status.warning
    assert dropped(session) == []
    client.reload()
    assert dropped(session) == []
    assert client.resume().changed
    assert len(dropped(session)) == 8


def test_explain_tells_what_a_load_then_does_and_counts_nothing(
    client: ControlClient, session: WireSession
) -> None:
    client.set_faults(rate=0.4, seed=2, gap_tail_ratios=[1.0])
    before = client.get_status()
    explained = client.explain(KEYS)
    assert [found.position for found in explained.positions] == dropped(session)
    head = explained.positions[0]
    assert (head.position, head.hits[0].rule, head.hits[0].reason) == (0, "fault_inject", "tail_ratio")
    assert (head.hits[0].fault, head.hits[0].detail) == ("drop", "round((1 - 1) * 7) = 0")
    assert client.get_status().evaluated_total - before.evaluated_total == 8
    assert not explained.halted
    client.halt()
    halted = client.explain(KEYS)
    assert halted.halted
    assert halted.positions == explained.positions


def test_drops_are_listed_with_their_batch_and_a_few_short_keys(
    client: ControlClient, session: WireSession
) -> None:
    client.set_faults(gap_indices=[1, 2, 3, 5])
    dropped(session)
    (event,) = client.list_drops(1).events
    assert (event.rule, event.reason, event.fault, event.operation) == (
        "fault_inject",
        "index",
        "drop",
        "load",
    )
    assert (event.batch_size, list(event.positions)) == (8, [1, 2, 3, 5])
    assert list(event.sample_keys) == [KEYS[position].short() for position in (1, 2, 3)]
    assert (event.client_name, event.session) == ("test-client", session.id[:8])
    assert event.generation == client.get_status().fault_inject.generation
    assert len(client.list_drops().events) >= 1


def test_every_watcher_sees_drops_as_they_happen(
    daemon: SidecarProcess, client: ControlClient, session: WireSession
) -> None:
    client.set_faults(gap_indices=[6])
    with (
        ControlClient(daemon.control_target) as other,
        closing(client.watch_drops()) as first,
        closing(other.watch_drops()) as second,
    ):
        dropped(session)
        for events in (first, second):
            watched = next(events)
            assert (list(watched.event.positions), watched.missed) == ([6], 0)


def test_a_reload_applies_the_file_or_says_why_not(
    daemon: SidecarProcess, client: ControlClient, session: WireSession
) -> None:
    good = daemon.config_path.read_text()
    try:
        daemon.write_config(fault_inject={"seed": 5, "rate": 1.5})
        with pytest.raises(RequestRefused, match=r"fault_inject\.rate: 1\.5 is not in \[0, 1\]"):
            client.reload()
        assert "fault_inject.rate" in client.get_status().reload_error
        assert daemon.metrics().value("kvchaos_reloads_total", result="refused") >= 1
        daemon.write_config(fault_inject={"seed": 5, "gap_indices": [7]})
        wait_for(lambda: list(client.get_status().fault_inject.gap_indices) == [7])
        assert client.get_status().reload_error == ""
        assert dropped(session) == [7]
    finally:
        daemon.config_path.write_text(good)
        daemon.document["fault_inject"] = {"seed": 5}
        client.reload()


def test_a_hangup_signal_reloads(daemon: SidecarProcess, client: ControlClient) -> None:
    applied = daemon.metrics().value("kvchaos_reloads_total", result="applied")
    daemon.process.signal(signal.SIGHUP)
    wait_for(lambda: daemon.metrics().value("kvchaos_reloads_total", result="applied") == applied + 1)
    assert client.get_status().reload_error == ""


def test_every_change_is_in_the_log_with_what_is_in_force(
    daemon: SidecarProcess, client: ControlClient
) -> None:
    client.set_faults(rate=0.125)
    client.halt("because")
    log = daemon.log()
    assert "control: set rate: 0.125 (from unix:" in log
    assert "control: halt 'because' (from unix:" in log


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        (control_pb2.SetFaultsRequest(), "nothing to set; give at least one of rate, seed"),
        (control_pb2.SetFaultsRequest(rate=1.5), "rate: 1.5 is not in [0, 1]"),
        (control_pb2.SetFaultsRequest(rate=float("nan")), "rate: nan is not in [0, 1]"),
        (
            control_pb2.SetFaultsRequest(gap_indices=control_pb2.Positions(values=[0, -1])),
            "gap_indices[1]: -1 is not in",
        ),
        (
            control_pb2.SetFaultsRequest(gap_tail_ratios=control_pb2.Ratios(values=[-0.1])),
            "gap_tail_ratios[0]: -0.1 is not in [0, 1]",
        ),
        (
            control_pb2.SetFaultsRequest(rate=0.1, time_to_live={"seconds": 0}),
            "time_to_live: 0s is not between",
        ),
        (control_pb2.SetFaultsRequest(rate=0.1, time_to_live={"seconds": -5}), "time_to_live: -5s is not"),
        (control_pb2.SetFaultsRequest(rate=0.1, time_to_live={"seconds": 2**62}), "time_to_live: "),
    ],
)
def test_a_bad_change_is_refused_whole(
    daemon: SidecarProcess, client: ControlClient, request_: control_pb2.SetFaultsRequest, problem: str
) -> None:
    before = client.get_config()
    with grpc.insecure_channel(daemon.control_target) as channel, pytest.raises(grpc.RpcError) as caught:
        control_pb2_grpc.ControlStub(channel).SetFaults(request_, timeout=10)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert problem in caught.value.details()
    assert client.get_config() == before


def test_explaining_a_malformed_batch_is_refused(daemon: SidecarProcess) -> None:
    batch = common_pb2.KeyBatch(chunk_hash=[b"1", b"2", b"3"], model_name=["a", "b"], kv_rank=[0])
    with grpc.insecure_channel(daemon.control_target) as channel, pytest.raises(grpc.RpcError) as caught:
        control_pb2_grpc.ControlStub(channel).Explain(control_pb2.ExplainRequest(keys=batch), timeout=10)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "keys: column model_name has 2 entries; expected 1 or 3" in caught.value.details()


def test_a_listener_with_a_token_refuses_without_it(tmp_path: Path) -> None:
    token_file = tmp_path / "token"
    token_file.write_text("s3cret\n")
    listen = {"control": f"127.0.0.1:{free_port()}", "token_file": str(token_file)}
    backend = {"type": "memory", "capacity_bytes": 1 << 20}
    with SidecarProcess(backend, listen=listen) as process:
        for token in ("", "wrong"):
            with ControlClient(process.control_target, token=token) as refused:
                with pytest.raises(PermissionDenied, match="token"):
                    refused.halt()
                with pytest.raises(PermissionDenied, match="token"):
                    next(refused.watch_drops())
        with ControlClient(process.control_target, token="s3cret") as client:
            assert not client.get_status().fault_inject.halted


def test_what_an_adapter_spec_says_comes_from_the_argument(tmp_path: Path) -> None:
    inner = {"type": "fs_native", "base_path": str(tmp_path)}
    spec = {"type": "fault_inject", "inner": inner, "gap_indices": [1]}
    backend = {"type": "memory", "capacity_bytes": 1}
    with (
        SidecarProcess(backend, arguments=["--l2-adapter", json.dumps(spec)]) as process,
        ControlClient(process.control_target) as client,
    ):
        found = fields(client)
        gaps = found["fault_inject.gap_indices"]
        assert (gaps.value_json, gaps.source) == ("[1]", "argument")
        hosted = found["backend.inner.type"]
        assert (hosted.value_json, hosted.source) == ('"fs_native"', "argument")
        assert found["listen.control"].source == "file"
