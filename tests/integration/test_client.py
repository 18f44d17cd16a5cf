"""The client library and a real daemon, over every transport."""

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path

import pytest
from tests.harness.processes import free_port
from tests.harness.scripted_daemon import open_descriptors
from tests.harness.sidecar import SidecarProcess
from tests.harness.waiting import eventually

from kvchaos.backoff import Backoff
from kvchaos.channel import TlsSettings
from kvchaos.client import L2Client
from kvchaos.errors import (
    DeadlineExceeded,
    OperationUnsupported,
    RequestRefused,
    SidecarError,
    SidecarUnavailable,
)
from kvchaos.keys import ObjectKey
from kvchaos.results import Result
from kvchaos.session import Transport

QUICK = Backoff(first_s=0.01, max_s=0.1)
MIB = 1024 * 1024


def make_keys(count: int, prefix: bytes = b"key", salt: str = "") -> list[ObjectKey]:
    return [ObjectKey(prefix + number.to_bytes(8, "big"), "org/model", 1, 0, salt) for number in range(count)]


def connect(target: str, handoff: bool = True, timeout_s: float = 30.0) -> L2Client:
    client = L2Client(target, "test", handoff=handoff, timeout_s=timeout_s, backoff=QUICK)
    assert client.wait_connected(), client.cause
    return client


@pytest.fixture(params=["handoff", "inline", "tcp"])
def client(request: pytest.FixtureRequest, store_path: Path) -> Iterator[L2Client]:
    """A client of a daemon over a directory, over each transport."""
    listen = {"cache": f"127.0.0.1:{free_port()}"} if request.param == "tcp" else {}
    with (
        SidecarProcess({"type": "fs", "base_path": str(store_path)}, listen=listen) as sidecar,
        connect(sidecar.cache_target, handoff=request.param == "handoff") as connected,
    ):
        yield connected


def buffers_of(sizes: Sequence[int]) -> list[bytearray]:
    return [bytearray(size) for size in sizes]


@pytest.mark.parametrize(
    "sizes",
    [[1], [4096] * 32, [100_000, 1, 3 * MIB + 7], [9 * MIB]],
    ids=["one byte", "many small", "mixed", "one large"],
)
def test_what_was_stored_is_loaded_bit_for_bit(client: L2Client, sizes: list[int]) -> None:
    keys, objects = make_keys(len(sizes)), [os.urandom(size) for size in sizes]
    assert client.lookup_and_lock(keys).result() == [Result.NOT_FOUND] * len(keys)
    assert client.store(keys, objects).result() == [Result.OK] * len(keys)
    assert client.lookup_and_lock(keys).result() == [Result.OK] * len(keys)
    loaded = buffers_of(sizes)
    assert client.load(keys, loaded).result() == [Result.OK] * len(keys)
    assert loaded == objects


def test_the_transport_is_known_with_its_reason(client: L2Client, request: pytest.FixtureRequest) -> None:
    facts = client.facts
    assert facts is not None
    expected = {
        "handoff": (Transport.HANDOFF, "descriptors over"),
        "inline": (Transport.INLINE, "switched off in the client"),
        "tcp": (Transport.INLINE, "switched off in the client"),
    }
    transport, reason = expected[request.node.callspec.params["client"]]
    assert facts.transport is transport
    assert reason in facts.transport_reason
    assert facts.backend == "fs"


def test_a_remote_client_is_not_offered_handoff(store_path: Path) -> None:
    listen = {"cache": f"127.0.0.1:{free_port()}"}
    with (
        SidecarProcess({"type": "fs", "base_path": str(store_path)}, listen=listen) as sidecar,
        connect(sidecar.cache_target) as client,
    ):
        assert client.facts is not None
        assert client.facts.transport is Transport.INLINE
        assert client.facts.transport_reason == "the daemon offers no handoff on this address"


def test_outcomes_are_per_key(client: L2Client) -> None:
    keys = make_keys(4)
    assert client.store(keys[:2], [b"aaaa", b"bbbb"]).result() == [Result.OK] * 2
    assert client.store(keys[1:3], [b"BBBB", b"cccc"]).result() == [Result.PRESENT, Result.OK]
    loaded = buffers_of([4, 4, 5, 4])
    results = client.load(keys, loaded).result()
    assert results == [Result.OK, Result.OK, Result.SIZE_MISMATCH, Result.NOT_FOUND]
    assert loaded == [b"aaaa", b"bbbb", bytes(5), bytes(4)]


def test_a_buffer_of_another_size_leaves_its_neighbours_alone(client: L2Client) -> None:
    keys = make_keys(3)
    client.store(keys, [b"a" * 10, b"b" * 10, b"c" * 10]).result()
    memory = bytearray(b"." * 30)
    view = memoryview(memory)
    results = client.load(keys, [view[0:10], view[10:19], view[20:30]]).result()
    assert results == [Result.OK, Result.SIZE_MISMATCH, Result.OK]
    assert bytes(memory) == b"a" * 10 + b"." * 10 + b"c" * 10


def test_ten_thousand_keys_are_one_batch(client: L2Client) -> None:
    keys = make_keys(10_000)
    objects = [number.to_bytes(4, "big") for number in range(len(keys))]
    assert set(client.store(keys, objects).result()) == {Result.OK}
    assert set(client.lookup_and_lock(keys).result()) == {Result.OK}
    loaded = buffers_of([4] * len(keys))
    assert set(client.load(keys, loaded).result()) == {Result.OK}
    assert loaded == objects


def test_locks_are_counted_and_taken_back(client: L2Client) -> None:
    keys = make_keys(3)
    client.store(keys, [b"x"] * 3).result()
    client.lookup_and_lock(keys).result()
    assert client.status().result().locks == 3
    assert client.unlock(keys[:2]).result() == 2
    assert client.unlock(make_keys(1, b"never locked")).result() == 0
    assert client.status().result().locks == 1


def test_no_grant_is_left_when_loads_and_stores_are_over(client: L2Client) -> None:
    keys = make_keys(5)
    client.store(keys, [b"x" * 10] * 5).result()
    client.load(keys, buffers_of([10, 10, 11, 10, 10])).result()
    eventually(lambda: client.status().result().grants == 0)


def test_deleting_says_what_it_freed(client: L2Client) -> None:
    keys = make_keys(2)
    client.store(keys[:1], [b"12345"]).result()
    deleted = client.delete(keys).result()
    assert [(entry.result, entry.freed_bytes) for entry in deleted] == [(Result.OK, 5), (Result.NOT_FOUND, 0)]
    assert client.lookup_and_lock(keys).result() == [Result.NOT_FOUND] * 2


def test_usage_is_by_salt(client: L2Client) -> None:
    client.store(make_keys(2, salt="a"), [b"123"] * 2).result()
    client.store(make_keys(1, salt="b"), [b"12345"]).result()
    usage = client.usage().result()
    assert (usage.total_bytes, dict(usage.bytes_by_cache_salt)) == (11, {"a": 6, "b": 5})


def test_every_key_is_listed_once_over_the_pages(client: L2Client) -> None:
    keys = make_keys(7)
    client.store(keys, [bytes(number + 1) for number in range(7)]).result()
    found, cursor = [], ""
    while True:
        page = client.list_keys(page_size=3, cursor=cursor).result()
        found += page.entries
        cursor = page.next_cursor
        if not cursor:
            break
    assert sorted(found) == [(key, number + 1) for number, key in enumerate(keys)]
    assert client.list_keys("another/model").result().entries == ()
    with pytest.raises(RequestRefused):
        client.list_keys(cursor="no cursor of ours").result()


def test_nothing_stays_open_after_many_batches(client: L2Client) -> None:
    keys, objects = make_keys(20), [os.urandom(1000)] * 20
    client.store(keys, objects).result()
    before = open_descriptors()
    for round_number in range(20):
        client.load(keys, buffers_of([1000] * 20)).result()
        client.store(make_keys(20, b"round %d" % round_number), objects).result()
    eventually(lambda: open_descriptors() == before)


def test_many_threads_share_a_client(client: L2Client) -> None:
    failures: list[str] = []

    def work(number: int) -> None:
        keys = make_keys(8, b"thread %d" % number)
        objects = [os.urandom(10_000) for _ in keys]
        for _ in range(5):
            loaded = buffers_of([10_000] * 8)
            client.store(keys, objects).result()
            if client.load(keys, loaded).result() != [Result.OK] * 8 or loaded != objects:
                failures.append(f"thread {number}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_key_that_breaks_an_invariant_is_refused_by_name(client: L2Client) -> None:
    with pytest.raises(RequestRefused, match="model_name 'a@b'"):
        client.lookup_and_lock([ObjectKey(b"x", "a@b", 1)]).result()
    with pytest.raises(RequestRefused, match="cache_salt"):
        client.lookup_and_lock([ObjectKey(b"x", "a", 1, 0, "a/b")]).result()


@pytest.mark.parametrize("handoff", [True, False])
@pytest.mark.parametrize("backend", ["fs", "memory"])
@pytest.mark.parametrize(("poison", "spoilt"), [("nan", b"\xff"), ({"byte": 7}, b"\x07"), ("leave", b".")])
def test_dropped_keys_are_found_but_spoilt(
    store_path: Path, backend: str, handoff: bool, poison: object, spoilt: bytes
) -> None:
    stores = {"fs": {"base_path": str(store_path)}, "memory": {"capacity_bytes": MIB}}
    faults = {"gap_tail_ratios": [0.5], "poison": poison}
    with (
        SidecarProcess({"type": backend, **stores[backend]}, faults) as sidecar,
        connect(sidecar.cache_target, handoff) as client,
    ):
        keys = make_keys(5)
        client.store(keys, [b"data"] * 5).result()
        assert client.lookup_and_lock(keys).result() == [Result.OK] * 5
        loaded = [bytearray(b"....") for _ in keys]
        results = client.load(keys, loaded).result()
        assert results == [Result.OK, Result.OK, Result.DROPPED, Result.OK, Result.OK]
        assert loaded == [b"data", b"data", spoilt * 4, b"data", b"data"]


@pytest.mark.parametrize("handoff", [True, False])
def test_a_load_tells_of_each_key_before_its_end_and_of_refusals_first(
    store_path: Path, handoff: bool
) -> None:
    store = {"type": "fs", "base_path": str(store_path)}
    with (
        SidecarProcess(store, {"gap_tail_ratios": [0.0]}) as sidecar,
        connect(sidecar.cache_target, handoff) as client,
    ):
        keys, told = make_keys(4), []
        client.store(keys[:1] + keys[2:], [b"data"] * 3).result()
        loaded = [bytearray(4) for _ in keys]

        def on_result(position: int, result: Result) -> None:
            told.append((position, result, bytes(loaded[position])))

        load = client.load(keys, loaded, on_result=on_result)
        load.add_done_callback(lambda _: told.append("end"))
        assert load.result() == [Result.OK, Result.NOT_FOUND, Result.OK, Result.DROPPED]
    assert told[:2] == [(1, Result.NOT_FOUND, bytes(4)), (3, Result.DROPPED, b"\xff" * 4)]
    assert sorted(told[2:4]) == [(0, Result.OK, b"data"), (2, Result.OK, b"data")]
    assert told[4:] == ["end"]


@pytest.mark.parametrize("handoff", [True, False])
def test_a_full_store_says_so_and_keeps_what_it_has(handoff: bool) -> None:
    with (
        SidecarProcess({"type": "memory", "capacity_bytes": 2 * MIB}) as sidecar,
        connect(sidecar.cache_target, handoff) as client,
    ):
        keys, objects = make_keys(3), [os.urandom(MIB) for _ in range(3)]
        results = client.store(keys, objects).result()
        assert results == [Result.OK, Result.OK, Result.NO_SPACE]
        loaded = buffers_of([MIB] * 2)
        assert client.load(keys[:2], loaded).result() == [Result.OK] * 2
        assert loaded == objects[:2]
        assert client.usage().result().capacity_bytes == 2 * MIB


@pytest.mark.parametrize("handoff", [True, False], ids=["handoff", "inline"])
def test_a_client_that_closes_says_so(sidecar: SidecarProcess, handoff: bool) -> None:
    keys = make_keys(2)
    with connect(sidecar.cache_target, handoff) as client:
        client.store(keys, [b"one", b"two"]).result()
        client.lookup_and_lock(keys).result()
    metrics = sidecar.metrics()
    assert metrics.value("kvchaos_sessions_ended_total", reason="closed") == 1
    assert metrics.value("kvchaos_locks") == 0


@pytest.mark.parametrize("transport", ["handoff", "inline", "tcp"])
def test_closing_does_not_wait_for_a_daemon_that_hangs(store_path: Path, transport: str) -> None:
    listen = {"cache": f"127.0.0.1:{free_port()}"} if transport == "tcp" else {}
    with SidecarProcess({"type": "fs", "base_path": str(store_path)}, listen=listen) as sidecar:
        client = connect(sidecar.cache_target, transport == "handoff", timeout_s=600)
        sidecar.process.signal(signal.SIGSTOP)
        stored = client.store(make_keys(4), buffers_of([MIB] * 4))
        closing = threading.Thread(target=client.close)
        closing.start()
        closing.join(30)
        sidecar.kill()
        assert not closing.is_alive()
        with pytest.raises(SidecarUnavailable):
            stored.result(0)


def test_killing_the_daemon_ends_what_is_under_way_and_restarting_it_helps(sidecar: SidecarProcess) -> None:
    with connect(sidecar.cache_target) as client:
        keys = make_keys(3)
        client.store(keys, [b"abc"] * 3).result()
        client.lookup_and_lock(keys).result()
        first = client.session_id
        sidecar.process.signal(signal.SIGSTOP)
        waiting: list[Future[object]] = [
            client.load(keys, buffers_of([3] * 3)),
            client.store(make_keys(1, b"other"), [b"x"]),
            client.lookup_and_lock(keys),
        ]
        sidecar.kill()
        for future in waiting:
            assert isinstance(future.exception(timeout=20), SidecarError)
        eventually(lambda: not client.connected)
        with pytest.raises(SidecarUnavailable):
            client.lookup_and_lock(keys).result(timeout=20)
        sidecar.restart()
        eventually(lambda: client.connected)
        assert client.session_id != first
        assert client.sessions_opened == 2
        assert client.status().result().locks == 0
        loaded = buffers_of([3] * 3)
        assert client.load(keys, loaded).result() == [Result.OK] * 3
        assert loaded == [b"abc"] * 3


@pytest.mark.parametrize("handoff", [True, False])
def test_a_daemon_that_hangs_costs_each_call_its_timeout_and_no_late_write(
    sidecar: SidecarProcess, handoff: bool
) -> None:
    with connect(sidecar.cache_target, handoff) as client:
        keys = make_keys(3)
        client.store(keys, [b"abc"] * 3).result()
        sidecar.process.signal(signal.SIGSTOP)
        loaded = buffers_of([3] * 3)
        with pytest.raises(DeadlineExceeded):
            client.load(keys, loaded, timeout_s=0.2).result(timeout=20)
        with pytest.raises(DeadlineExceeded):
            client.store(make_keys(1, b"x"), [b"x"], timeout_s=0.2).result(timeout=20)
        before = open_descriptors()
        sidecar.process.signal(signal.SIGCONT)
        assert client.load(keys, buffers_of([3] * 3)).result() == [Result.OK] * 3
        eventually(lambda: client.status().result().grants == 0)
        assert loaded == buffers_of([3] * 3)
        eventually(lambda: open_descriptors() == before)


@pytest.mark.parametrize("handoff", [True, False])
def test_kills_at_any_moment_never_give_wrong_bytes_or_late_writes(
    sidecar: SidecarProcess, handoff: bool
) -> None:
    """Loads and stores go on while the daemon dies again and again."""
    keys, objects = make_keys(8), [os.urandom(MIB) for _ in range(8)]
    with connect(sidecar.cache_target, handoff, timeout_s=5.0) as client:
        client.store(keys, objects).result()
        over = threading.Event()
        trouble: list[str] = []
        served = [0]

        def load_on() -> None:
            while not over.is_set():
                loaded = buffers_of([MIB] * 8)
                try:
                    results = client.load(keys, loaded).result(timeout=30)
                except SidecarError:
                    over.wait(0.01)
                    continue
                for place, result in enumerate(results):
                    if result is Result.OK and loaded[place] != objects[place]:
                        trouble.append("wrong bytes")
                    loaded[place][:] = b"\xaa" * MIB
                served[0] += all(result is Result.OK for result in results)
                over.wait(0.01)
                if any(buffer != b"\xaa" * MIB for buffer in loaded):
                    trouble.append("late write")

        def store_on() -> None:
            number = 0
            while not over.is_set():
                number += 1
                try:
                    client.store(make_keys(2, b"store %d" % number), objects[:2]).result(timeout=30)
                except SidecarError:
                    over.wait(0.01)

        threads = [threading.Thread(target=load_on), threading.Thread(target=store_on)]
        for thread in threads:
            thread.start()
        chance = random.Random(5)
        for _ in range(4):
            loads = served[0]
            eventually(lambda loads=loads: served[0] > loads)
            over.wait(chance.uniform(0.0, 0.2))
            sidecar.kill()
            sidecar.restart()
        eventually(lambda: client.connected)
        over.set()
        for thread in threads:
            thread.join()
        assert trouble == []
        visible = client.list_keys(page_size=10_000).result().entries
        assert {size for _, size in visible} == {MIB}


def test_tls_and_token_let_in_who_has_them(
    store_path: Path, tmp_path: Path, certificate: tuple[Path, Path]
) -> None:
    token = tmp_path / "token"
    token.write_text("a-token-that-is-long-enough-1234567890\n")
    tls = {"certificate": str(certificate[0]), "key": str(certificate[1])}
    listen = {"cache": f"127.0.0.1:{free_port()}", "tls": tls, "token_file": str(token)}
    settings = TlsSettings(ca_file=str(certificate[0]), server_name="kvchaos-test")
    with SidecarProcess({"type": "fs", "base_path": str(store_path)}, listen=listen) as sidecar:
        right = {"tls": settings, "token": token.read_text().strip()}
        with L2Client(sidecar.cache_target, "test", backoff=QUICK, **right) as client:
            assert client.wait_connected(), client.cause
            keys = make_keys(2)
            assert client.store(keys, [b"ab", b"cd"]).result() == [Result.OK] * 2
            loaded = buffers_of([2, 2])
            assert client.load(keys, loaded).result() == [Result.OK] * 2
            assert loaded == [b"ab", b"cd"]
        for wrong in ({**right, "token": "wrong"}, {**right, "token": ""}, {"token": right["token"]}):
            with L2Client(sidecar.cache_target, "test", backoff=QUICK, timeout_s=2.0, **wrong) as client:
                assert not client.wait_connected(30.0)


def test_a_batch_that_needs_more_descriptors_than_the_process_may_have_goes_inline(
    sidecar: SidecarProcess,
) -> None:
    """In a process of its own, whose limit of open files is lower than the batch is long."""
    script = f"""
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
from tests.integration.test_client import *
with connect("{sidecar.cache_target}") as client:
    keys, loaded = make_keys(200), buffers_of([4] * 200)
    assert client.facts.transport is Transport.HANDOFF
    assert client.store(keys, [b"data"] * 200).result() == [Result.OK] * 200
    assert client.load(keys, loaded).result() == [Result.OK] * 200
    assert loaded == [b"data"] * 200
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_a_backend_that_cannot_list_says_so(tmp_path: Path) -> None:
    inner = {"type": "fs_native", "base_path": str(tmp_path)}
    with (
        SidecarProcess({"type": "lmcache", "inner": inner}) as sidecar,
        connect(sidecar.cache_target) as client,
        pytest.raises(OperationUnsupported),
    ):
        client.list_keys().result()
