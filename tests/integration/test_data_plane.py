"""Stores, lookups and loads through a real daemon, over both transports."""

import os
from pathlib import Path

import grpc
import pytest
from tests.harness.sidecar import SidecarProcess
from tests.harness.waiting import eventually
from tests.harness.wire import (
    HANDOFF,
    INLINE,
    TIMEOUT_S,
    WireSession,
    close_all,
    make_keys,
    pieces_of,
    results_of,
)

from kvchaos.control import ControlClient
from kvchaos.keys import MAX_BATCH_KEYS, ObjectKey, encode_keys
from kvchaos.results import Result
from kvchaos.v1 import cache_pb2, common_pb2


def transport_of(session: WireSession) -> common_pb2.Transport:
    return INLINE if session.handoff is None else HANDOFF


def usage(session: WireSession) -> int:
    request = cache_pb2.GetUsageRequest(session_id=session.id)
    return session.stub.GetUsage(request, timeout=TIMEOUT_S).total_bytes


def refusal(call: grpc.RpcError) -> tuple[grpc.StatusCode, str]:
    assert isinstance(call, grpc.Call)
    return call.code(), call.details() or ""


@pytest.mark.parametrize("size", [1, 4096, 3 * (1 << 20) + 17])
def test_what_was_stored_is_found_and_loaded_bit_for_bit(session: WireSession, size: int) -> None:
    keys = make_keys(5)
    objects = [os.urandom(size) for _ in keys]
    session.store_objects(keys, objects)
    assert session.lookup(keys) == [Result.OK] * 5
    assert session.load_objects(keys, size) == dict(enumerate(objects))


def test_what_one_transport_stores_the_other_loads(shared_sidecar: SidecarProcess) -> None:
    keys, size = make_keys(3), (2 << 20) + 5
    objects = [os.urandom(size) for _ in keys]
    with (
        WireSession(shared_sidecar.cache_target) as inline,
        WireSession(shared_sidecar.cache_target) as handoff,
    ):
        handoff.connect_handoff()
        inline.store_objects(keys[:2], objects[:2])
        handoff.store_objects(keys[2:], objects[2:])
        assert inline.load_objects(keys, size) == handoff.load_objects(keys, size) == dict(enumerate(objects))


def test_a_key_that_is_not_there_costs_only_its_own_position(session: WireSession) -> None:
    stored, absent = make_keys(2), make_keys(1)
    session.store_objects(stored, [b"one", b"two"])
    keys = [stored[0], absent[0], stored[1]]
    assert session.lookup(keys) == [Result.OK, Result.NOT_FOUND, Result.OK]
    assert session.load_objects(keys, 3) == {0: b"one", 2: b"two"}


def test_a_load_into_a_buffer_of_another_size_is_a_miss(session: WireSession) -> None:
    keys = make_keys(1)
    session.store_objects(keys, [b"four"])
    assert results_of(session.load(keys, 5, transport=transport_of(session))) == [Result.SIZE_MISMATCH]


def test_a_key_that_is_there_is_kept(session: WireSession) -> None:
    keys = make_keys(1)
    session.store_objects(keys, [b"first"])
    prepared = session.prepare(keys, 6, 2, transport_of(session))
    assert [Result(result) for result in prepared.results] == [Result.PRESENT]
    assert session.load_objects(keys, 5) == {0: b"first"}


def test_a_store_that_was_not_written_whole_is_not_published(session: WireSession) -> None:
    keys = make_keys(2)
    session.prepare(keys, 100, transport=transport_of(session))
    if session.handoff is None:
        session.write(pieces_of(0, bytes(100)) + pieces_of(1, bytes(99)))
        assert session.commit([100, 100]) == [Result.OK, Result.SIZE_MISMATCH]
    else:
        descriptors = session.handoff.receive_all(2)
        os.pwrite(descriptors[0], bytes(100), 0)
        os.pwrite(descriptors[1], bytes(99), 0)
        assert session.commit([100, 99]) == [Result.OK, Result.SIZE_MISMATCH]
    assert session.lookup(keys) == [Result.OK, Result.NOT_FOUND]


def test_what_is_not_committed_is_not_visible(session: WireSession) -> None:
    keys = make_keys(1)
    session.prepare(keys, 10, transport=transport_of(session))
    if session.handoff is None:
        session.write(pieces_of(0, bytes(10)))
    assert session.lookup(keys) == [Result.NOT_FOUND]


def test_delete_says_what_it_freed_and_listing_shows_what_is_left(session: WireSession) -> None:
    keys = make_keys(3, model_name=f"listed-{session.id}")
    before = usage(session)
    session.store_objects(keys, [bytes(10)] * 3)
    gone = encode_keys([keys[0], *make_keys(1)])
    answer = session.stub.Delete(cache_pb2.DeleteRequest(session_id=session.id, keys=gone), timeout=TIMEOUT_S)
    assert list(answer.results) == [Result.OK, Result.NOT_FOUND]
    assert list(answer.freed_bytes) == [10, 0]
    page = cache_pb2.ListKeysRequest(session_id=session.id, model_name=keys[0].model_name, page_size=10)
    listing = session.stub.ListKeys(page, timeout=TIMEOUT_S)
    assert sorted(listing.keys.chunk_hash) == [key.chunk_hash for key in keys[1:]]
    assert usage(session) - before == 20


def test_dropped_keys_are_present_but_do_not_load(store_path: Path) -> None:
    faults = {"gap_tail_ratios": [0.5], "poison": {"byte": 7}}
    keys = make_keys(5)
    with SidecarProcess({"type": "fs", "base_path": str(store_path)}, faults) as sidecar:
        with WireSession(sidecar.cache_target).connect_handoff() as session:
            session.store_objects(keys, [bytes(10)] * 5)
            assert session.lookup(keys) == [Result.OK] * 5
            response = session.load(keys, 10)
            assert results_of(response) == [Result.OK, Result.OK, Result.DROPPED, Result.OK, Result.OK]
            assert list(response.extents.position) == [0, 1, 3, 4]
            assert response.descriptor_count == 4
            assert (response.poison.kind, response.poison.fill) == (common_pb2.Poison.KIND_BYTE, 7)
        metrics = sidecar.metrics()
        assert metrics.value("kvchaos_drops_total", rule="fault_inject", reason="tail_ratio") == 1
        assert metrics.value("kvchaos_rule_evaluated_total", rule="fault_inject") == 5
        assert metrics.value("kvchaos_keys_total", op="load", result="dropped") == 1
        assert metrics.value("kvchaos_injection_active") == 1


def test_an_empty_batch_is_answered(session: WireSession) -> None:
    assert session.lookup([]) == []
    assert session.unlock([]) == 0
    assert results_of(session.load([], 1, transport=transport_of(session))) == []
    assert list(session.prepare([], 1, transport=transport_of(session)).results) == []


def test_ten_thousand_keys_are_one_batch(session: WireSession) -> None:
    keys = make_keys(MAX_BATCH_KEYS)
    session.store_objects(keys, [bytes([number % 251]) for number in range(MAX_BATCH_KEYS)])
    assert session.lookup(keys) == [Result.OK] * MAX_BATCH_KEYS
    loaded = session.load_objects(keys, 1)
    assert loaded == {number: bytes([number % 251]) for number in range(MAX_BATCH_KEYS)}
    assert session.unlock(keys) == MAX_BATCH_KEYS


def test_one_key_more_is_refused(session: WireSession) -> None:
    with pytest.raises(grpc.RpcError) as error:
        session.lookup(make_keys(MAX_BATCH_KEYS + 1))
    code, message = refusal(error.value)
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert "10001" in message
    assert "split" in message


def test_ten_thousand_keys_with_columns_of_their_own_fit_a_message(session: WireSession) -> None:
    keys = [
        ObjectKey(number.to_bytes(64, "big"), f"{'m' * 200}{number}", number, number, f"{'s' * 120}{number}")
        for number in range(MAX_BATCH_KEYS)
    ]
    assert session.lookup(keys) == [Result.NOT_FOUND] * MAX_BATCH_KEYS


def test_a_message_over_the_limit_is_refused_with_its_size(session: WireSession) -> None:
    request = cache_pb2.LookupAndLockRequest(session_id=session.id)
    request.keys.chunk_hash.append(bytes(17 << 20))
    with pytest.raises(grpc.RpcError) as error:
        session.stub.LookupAndLock(request, timeout=TIMEOUT_S)
    code, message = refusal(error.value)
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert str(16 << 20) in message
    session.status()  # what is left of the message goes out first: closing over it crashes grpcio's client


@pytest.mark.parametrize(
    ("sizes", "named"),
    [([], "size_bytes has 0 entries"), ([1, 1, 1], "size_bytes has 3 entries"), ([0], "size_bytes 0")],
)
def test_a_bad_size_column_is_refused(session: WireSession, sizes: list[int], named: str) -> None:
    request = session.load_request(make_keys(2), 1, transport=transport_of(session))
    del request.size_bytes[:]
    request.size_bytes.extend(sizes)
    with pytest.raises(grpc.RpcError) as error:
        session.stub.Load(request, timeout=TIMEOUT_S)
    code, message = refusal(error.value)
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert named in message


def test_a_key_that_breaks_an_invariant_is_refused(session: WireSession) -> None:
    with pytest.raises(grpc.RpcError) as error:
        session.lookup([ObjectKey(b"h", "m", 0, 0, "../salt")])
    assert refusal(error.value)[0] is grpc.StatusCode.INVALID_ARGUMENT


def test_a_request_id_that_is_in_use_is_refused(session: WireSession) -> None:
    keys = make_keys(1)
    session.store_objects(keys, [b"x"])
    session.load(keys, 1, 5, transport_of(session))
    with pytest.raises(grpc.RpcError) as error:
        session.load(keys, 1, 5, transport_of(session))
    assert refusal(error.value)[0] is grpc.StatusCode.FAILED_PRECONDITION


def test_handoff_without_a_connection_is_refused(shared_sidecar: SidecarProcess) -> None:
    with WireSession(shared_sidecar.cache_target) as session, pytest.raises(grpc.RpcError) as error:
        session.load(make_keys(1), 1)
    code, message = refusal(error.value)
    assert code is grpc.StatusCode.FAILED_PRECONDITION
    assert "TRANSPORT_INLINE" in message


@pytest.mark.parametrize(
    ("piece", "named"),
    [
        (cache_pb2.WritePiece(position=1, data=b"x"), "position 1 is not granted"),
        (cache_pb2.WritePiece(position=0, offset=1, data=b"x"), "expected 0"),
        (cache_pb2.WritePiece(position=0, data=bytes(11)), "granted 10"),
        (cache_pb2.WritePiece(position=0, data=bytes((2 << 20) + 1)), "not in [1, 2097152]"),
        (cache_pb2.WritePiece(position=0), "not in [1, 2097152]"),
    ],
)
def test_a_piece_outside_its_grant_is_refused(
    shared_sidecar: SidecarProcess, piece: cache_pb2.WritePiece, named: str
) -> None:
    with WireSession(shared_sidecar.cache_target) as session:
        session.prepare(make_keys(1), 10, transport=INLINE)
        with pytest.raises(grpc.RpcError) as error:
            session.write([piece])
        code, message = refusal(error.value)
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert named in message


def test_an_unknown_session_is_not_found(session: WireSession) -> None:
    session.id = "someone-else"
    with pytest.raises(grpc.RpcError) as error:
        session.lookup([])
    assert refusal(error.value)[0] is grpc.StatusCode.NOT_FOUND


def test_inline_reads_run_only_as_far_ahead_as_the_client_takes(sidecar: SidecarProcess) -> None:
    size, count = 1 << 20, 64
    keys = make_keys(count)
    with WireSession(sidecar.cache_target) as session:
        session.store_objects(keys, [bytes(size)] * count)
        before = sidecar.metrics().value("process_resident_memory_bytes")
        session.load(keys, size, transport=INLINE)
        pieces = session.read()
        next(pieces)
        eventually(lambda: session.status().grants == count, "the load is still open")
        grown = sidecar.metrics().value("process_resident_memory_bytes") - before
        assert grown < count * size / 2
        assert sum(1 for _ in pieces) == count - 1


def test_a_handoff_load_is_counted_when_the_client_reports(
    sidecar: SidecarProcess,
) -> None:
    keys = make_keys(3)
    with WireSession(sidecar.cache_target).connect_handoff() as session:
        session.store_objects(keys, [bytes(10)] * 3)
        session.load(keys, 10, 7)
        assert session.handoff is not None
        session.handoff.receive_all(3)
        session.handoff.release(7, failed=[1])
        eventually(lambda: session.status().grants == 0)
    metrics = sidecar.metrics()
    assert metrics.value("kvchaos_bytes_total", op="load", transport="handoff") == 20
    assert metrics.value("kvchaos_bytes_total", op="store", transport="handoff") == 30
    assert metrics.value("kvchaos_transfer_failures_total", op="load", transport="handoff") == 1


def durations(sidecar: SidecarProcess, operation: str) -> dict[str, float]:
    """How many calls there were, by how they came out."""
    name, metrics = "kvchaos_request_duration_seconds_count", sidecar.metrics()
    return {
        outcome: metrics.value(name, op=operation, outcome=outcome)
        for outcome in ("served", "faulted", "failed")
    }


def test_the_time_of_a_load_is_counted_by_how_it_came_out(sidecar: SidecarProcess, store_path: Path) -> None:
    keys = make_keys(3)
    with WireSession(sidecar.cache_target) as session, ControlClient(sidecar.control_target) as control:
        session.store_objects(keys, [bytes(10)] * 3)
        session.load_objects([*keys, *make_keys(1, prefix=b"none")], 10, 1)
        assert durations(sidecar, "load") == {"served": 1, "faulted": 0, "failed": 0}

        control.set_faults(gap_indices=[1])
        session.load_objects(keys, 10, 2)
        assert durations(sidecar, "load") == {"served": 1, "faulted": 1, "failed": 0}
        session.load_objects(keys[:1], 10, 3)  # the rule looks and does not strike
        assert durations(sidecar, "load") == {"served": 2, "faulted": 1, "failed": 0}

        control.halt()
        store_path.rename(store_path.with_name("moved"))
        store_path.touch()  # a file where the directory was: ENOTDIR
        assert results_of(session.load(keys, 10, 4, INLINE)) == [Result.IO_ERROR] * 3
        assert durations(sidecar, "load") == {"served": 2, "faulted": 1, "failed": 1}

        with pytest.raises(grpc.RpcError):
            session.load(keys, 10, 5)  # there is no handoff connection
        assert durations(sidecar, "load") == {"served": 2, "faulted": 1, "failed": 2}
        assert durations(sidecar, "lookup") == {"served": 0, "faulted": 0, "failed": 0}


def test_a_session_holds_only_so_many_grants(store_path: Path) -> None:
    keys = make_keys(5)
    limits = {"session_grants": 4}
    with (
        SidecarProcess({"type": "fs", "base_path": str(store_path)}, limits=limits) as sidecar,
        WireSession(sidecar.cache_target).connect_handoff() as session,
        WireSession(sidecar.cache_target) as other,
    ):
        session.store_objects(keys[:4], [bytes(10)] * 4)
        session.load(keys[:3], 10, 1)
        with pytest.raises(grpc.RpcError) as refused:
            session.prepare(keys[3:], 10, 2)
        assert refusal(refused.value) == (
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            "this session holds 3 grants and asks for 2 more; limits.session_grants is 4: release what has "
            "been loaded, or raise it",
        )
        assert len(other.load_objects(keys[:4], 10)) == 4
        assert session.handoff is not None
        close_all(session.handoff.receive_all(3))
        session.handoff.release(1)
        eventually(lambda: session.status().grants == 0)
        assert len(session.load_objects(keys[:4], 10, 3)) == 4
