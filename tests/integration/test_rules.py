"""Rules on a real daemon: what is held is released, what is armed is bounded, nothing outlives its end."""

import os
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import grpc
import pytest
from tests.harness.processes import ProcessFailed
from tests.harness.sidecar import SidecarProcess
from tests.harness.waiting import eventually
from tests.harness.wire import INLINE, WireSession, make_keys, results_of

from kvchaos.control import ControlClient
from kvchaos.errors import RequestRefused
from kvchaos.keys import encode_keys
from kvchaos.protocol import PROTOCOL_VERSION
from kvchaos.results import Result
from kvchaos.v1 import cache_pb2, cache_pb2_grpc

KEYS = make_keys(8)
SIZE = 64
HANG = "{name: hang, match: {op: load}, fault: never_complete}"
DROP_ALL = "{name: all, match: {op: load}, fault: drop}"


@pytest.fixture(scope="module")
def daemon() -> Iterator[SidecarProcess]:
    with SidecarProcess({"type": "memory", "capacity_bytes": 1 << 20}, environment="lab") as process:
        with WireSession(process.cache_target) as session:
            session.store_objects(KEYS, [bytes([number]) * SIZE for number in range(8)])
        yield process


@pytest.fixture
def control(daemon: SidecarProcess) -> Iterator[ControlClient]:
    with ControlClient(daemon.control_target) as client:
        yield client
        client.resume()
        client.reset()


@pytest.fixture
def session(daemon: SidecarProcess) -> Iterator[WireSession]:
    with WireSession(daemon.cache_target) as opened:
        yield opened


def metric(daemon: SidecarProcess, name: str, **labels: str) -> float:
    return daemon.metrics().value(name, **labels)


def held(daemon: SidecarProcess) -> float:
    return metric(daemon, "kvchaos_held_calls")


def hang(session: WireSession, count: int) -> list[Any]:
    return [
        session.stub.Load.future(session.load_request(KEYS, SIZE, number, INLINE), timeout=60)
        for number in range(1, count + 1)
    ]


def load(session: WireSession, request_id: int = 1) -> list[Result]:
    return results_of(session.load(KEYS, SIZE, request_id, INLINE))


def test_halt_releases_a_thousand_hanging_loads_which_then_go_on(
    daemon: SidecarProcess, control: ControlClient, session: WireSession
) -> None:
    control.add_rules(HANG)
    calls = hang(session, 1000)
    eventually(lambda: held(daemon) == 1000, "a thousand held calls")
    assert control.get_status().fault_inject.rules == ["hang"]
    control.halt("enough")
    for call in calls:
        assert results_of(call.result(timeout=20)) == [Result.OK] * 8
    assert held(daemon) == 0


def test_a_rule_that_ends_lets_go_what_it_held_and_nothing_else(
    daemon: SidecarProcess, control: ControlClient, session: WireSession
) -> None:
    control.add_rules("{name: other, match: {op: lookup}, fault: never_complete}")
    control.add_rules(HANG, timedelta(seconds=1))
    calls = hang(session, 3)
    request = cache_pb2.LookupAndLockRequest(session_id=session.id, keys=encode_keys(KEYS))
    lookup = session.stub.LookupAndLock.future(request, timeout=60)
    for call in calls:
        assert results_of(call.result(timeout=20)) == [Result.OK] * 8
    assert not lookup.done()
    control.remove_rule("other")
    assert results_of(lookup.result(timeout=20)) == [Result.OK] * 8


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        (
            "{flip_bits: {offset: 5, mask: 128}}",
            lambda data: data == b"\2" * 5 + b"\x82" + b"\2" * (SIZE - 6),
        ),
        ("{truncate: {keep_bytes: 5}}", lambda data: data is None),
        ("{oversize: {extra_bytes: 9}}", lambda data: data == b"\2" * SIZE + b"\xee" * 9),
    ],
)
def test_altered_bytes_travel_inline_as_they_do_by_descriptor(
    control: ControlClient, session: WireSession, fault: str, check: Callable[[bytes | None], bool]
) -> None:
    control.add_rules(f"{{name: altered, match: {{op: load, position: 2}}, fault: {fault}}}")
    session.load(KEYS, SIZE, 7, INLINE)
    pieces = list(session.read(7))
    (data,) = [None if piece.failure else piece.data for piece in pieces if piece.position == 2]
    assert check(data)
    assert all(piece.data == bytes([piece.position]) * SIZE for piece in pieces if piece.position != 2)


def test_a_client_that_gives_up_and_a_session_that_ends_leave_nothing_held(
    daemon: SidecarProcess, control: ControlClient
) -> None:
    control.add_rules(HANG)
    with WireSession(daemon.cache_target) as leaving:
        calls = hang(leaving, 20)
        eventually(lambda: held(daemon) == 20, "held calls")
        for call in calls[:10]:
            call.cancel()
        eventually(lambda: held(daemon) == 10, "the end of the cancelled calls")
    eventually(lambda: held(daemon) == 0, "the end of the session's calls")
    eventually(lambda: metric(daemon, "kvchaos_grants") == 0, "the end of the grants")


def test_a_connection_that_is_silent_is_let_go_by_halt(
    daemon: SidecarProcess, control: ControlClient
) -> None:
    control.add_rules("{name: silence, match: {op: connect}, fault: never_complete}")
    channel = grpc.insecure_channel(daemon.cache_target)
    stream = cache_pb2_grpc.L2CacheStub(channel).OpenSession(
        cache_pb2.OpenSessionRequest(client_name="waiting", protocol_version=PROTOCOL_VERSION)
    )
    eventually(lambda: held(daemon) == 1, "the held connection")
    control.halt()
    assert next(iter(stream)).opened.session_id
    stream.cancel()
    channel.close()


def test_a_daemon_that_is_told_to_end_does_not_wait_for_what_it_holds() -> None:
    rules = [{"name": "hang", "match": {"op": "load"}, "fault": "never_complete"}]
    backend = {"type": "memory", "capacity_bytes": 1 << 20}
    with (
        SidecarProcess(backend, environment="lab", rules=rules) as process,
        WireSession(process.cache_target) as opened,
    ):
        calls = hang(opened, 5)
        eventually(lambda: held(process) == 5, "held calls")
        assert process.stop() == 0
        assert all(call.done() for call in calls)
        assert "did not end in time" not in process.log()


@pytest.mark.parametrize(
    ("fault", "result"),
    [
        ("{error: {cause: timed_out}}", Result.TIMED_OUT),
        ("drop", Result.DROPPED),
        ("{error: {cause: not_found}}", Result.NOT_FOUND),
    ],
)
def test_a_result_on_the_wire_is_what_the_rule_says_and_the_store_is_not_blamed(
    daemon: SidecarProcess, control: ControlClient, session: WireSession, fault: str, result: Result
) -> None:
    blamed = metric(daemon, "kvchaos_backend_errors_total")
    control.add_rules(f"{{name: one, match: {{op: load, position: 2}}, fault: {fault}}}")
    found = load(session)
    assert found == [result if place == 2 else Result.OK for place in range(8)]
    assert metric(daemon, "kvchaos_backend_errors_total") == blamed


def test_the_cap_wins_and_is_counted_and_noted(daemon: SidecarProcess) -> None:
    backend = {"type": "memory", "capacity_bytes": 1 << 20}
    safety = {"cap": {"share_of_keys": 0.25}}
    rules = [{"name": "all", "match": {"op": "load"}, "fault": "drop"}]
    with SidecarProcess(backend, environment="lab", rules=rules, safety=safety) as process:
        with WireSession(process.cache_target) as opened, ControlClient(process.control_target) as client:
            assert load(opened).count(Result.DROPPED) == 2
            assert [event.reason for event in client.list_drops().events] == ["capped", "match"]
        assert metric(process, "kvchaos_rule_capped_total", rule="all") == 6


def test_halt_resume_and_expiry_are_counted_and_noted(daemon: SidecarProcess, control: ControlClient) -> None:
    halts, expired = metric(daemon, "kvchaos_halts_total"), metric(daemon, "kvchaos_expired_total")
    control.halt()
    control.halt()
    control.resume()
    control.add_rules(DROP_ALL, timedelta(milliseconds=50))
    eventually(lambda: metric(daemon, "kvchaos_expired_total") == expired + 1, "the expiry")
    assert metric(daemon, "kvchaos_halts_total") == halts + 1
    assert [event.reason for event in control.list_drops().events][-3:] == ["halted", "resumed", "expired"]
    assert control.list_rules().rules == []


def test_production_needs_a_flag_which_is_said_everywhere() -> None:
    backend = {"type": "memory", "capacity_bytes": 1 << 20}
    with SidecarProcess(backend, environment="production") as process:
        with ControlClient(process.control_target) as client:
            with pytest.raises(RequestRefused, match="faults are not armed in 'production'"):
                client.add_rules(DROP_ALL)
            with pytest.raises(RequestRefused, match="faults are not armed in 'production'"):
                client.set_faults(rate=0.1)
        assert metric(process, "kvchaos_production_allowed") == 0
        process.kill()
        process.write_config(safety={"allow_production": True})
        process.restart()
        with ControlClient(process.control_target) as client:
            client.add_rules(DROP_ALL)
            assert client.get_status().production_allowed
        assert metric(process, "kvchaos_production_allowed") == 1
        assert "PRODUCTION ALLOWED" in process.log()


def test_nothing_that_was_armed_at_runtime_survives_a_restart() -> None:
    backend = {"type": "memory", "capacity_bytes": 1 << 20}
    rules = [{"name": "from-file", "match": {"op": "load"}, "fault": "drop"}]
    with SidecarProcess(backend, environment="lab", rules=rules) as process:
        with ControlClient(process.control_target) as client:
            client.add_rules(DROP_ALL)
            client.switch_rule("from-file", enabled=False)
            client.set_faults(rate=0.5)
        process.kill()
        process.restart()
        with ControlClient(process.control_target) as client:
            assert [(rule.name, rule.state) for rule in client.list_rules().rules] == [("from-file", "armed")]
            assert client.get_status().fault_inject.rate == 0


def test_rules_in_the_file_are_reloaded_whole_or_not_at_all() -> None:
    backend = {"type": "memory", "capacity_bytes": 1 << 20}
    with (
        SidecarProcess(backend, environment="lab") as process,
        ControlClient(process.control_target) as client,
    ):

        def names() -> list[str]:
            return [rule.name for rule in client.list_rules().rules]

        good = {"name": "good", "match": {"op": "load"}, "fault": "drop"}
        process.write_config(rules=[good])
        eventually(lambda: names() == ["good"], "the reload")
        process.write_config(rules=[good, {**good, "name": "bad", "fault": "dorp"}])
        eventually(lambda: "rules[1].fault.dorp" in client.get_status().reload_error, "the refusal")
        assert names() == ["good"]


def test_the_same_seed_and_traffic_give_the_same_faults_in_another_daemon() -> None:
    rules = [
        {"name": "a", "match": {"op": "load"}, "select": {"rate": 0.3, "seed": 7}, "fault": "drop"},
        {
            "name": "b",
            "match": {"op": "load"},
            "select": {"rate": 0.3, "seed": 7, "per": "attempt"},
            "fault": {"error": {"cause": "io_error"}},
        },
        {"name": "c", "match": {"op": "load"}, "select": {"every": 2}, "fault": {"flip_bits": {}}},
    ]

    def run() -> list[tuple[str, tuple[int, ...]]]:
        backend = {"type": "memory", "capacity_bytes": 1 << 20}
        keys = make_keys(8, b"same")
        with (
            SidecarProcess(backend, environment="lab", rules=rules) as process,
            WireSession(process.cache_target) as opened,
            ControlClient(process.control_target) as client,
        ):
            opened.store_objects(keys, [bytes(SIZE)] * 8)
            for number in range(1, 6):
                opened.load(keys, SIZE, number, INLINE)
            return [(event.rule, tuple(event.positions)) for event in client.list_drops().events]

    first = run()
    assert {rule for rule, _ in first} == {"a", "b", "c"}
    assert run() == first


def test_rules_that_come_and_go_do_not_leave_series_or_descriptors(
    daemon: SidecarProcess, control: ControlClient, session: WireSession
) -> None:
    def series() -> int:
        return len(set(re.findall(r'rule="(come-and-go-\d+)"', daemon.metrics().text)))

    descriptors = len(os.listdir(f"/proc/{daemon.process.pid}/fd"))
    for number in range(300):
        control.add_rules(
            f"{{name: come-and-go-{number}, match: {{op: load}}, fault: {{truncate: {{keep_bytes: 3}}}}}}"
        )
        load(session, number + 1)
        control.remove_rule(f"come-and-go-{number}")
    assert 0 < series() <= 101
    session.close()
    eventually(lambda: metric(daemon, "kvchaos_grants") == 0, "the end of the grants")
    eventually(
        lambda: len(os.listdir(f"/proc/{daemon.process.pid}/fd")) <= descriptors, "the end of the copies"
    )


def test_a_bad_rule_at_start_ends_the_daemon_with_its_place() -> None:
    rules = [{"name": "x", "match": {"op": "load"}, "fault": "hide"}]
    process = SidecarProcess({"type": "memory", "capacity_bytes": 1}, environment="lab", rules=rules)
    try:
        with pytest.raises(
            ProcessFailed, match=r"exit code 2[\s\S]*rules\[0\]: fault.hide cannot strike load"
        ):
            process.wait_ready()
    finally:
        process.close()
