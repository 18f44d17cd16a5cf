"""The plugin when the sidecar is not well: it never raises, never hangs, says so once, and recovers."""

import contextlib
import gc
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
from lmcache.v1.distributed.l2_adapters.base import L2AdapterInterface
from tests.harness import other_version
from tests.harness.lmcache import plugin_spec
from tests.harness.plugin import (
    Driver,
    Listener,
    contents,
    make_adapter,
    make_keys,
    make_objects,
)
from tests.harness.processes import ManagedProcess
from tests.harness.scripted_daemon import ScriptedDaemon
from tests.harness.sidecar import SidecarProcess
from tests.harness.waiting import eventually

from kvchaos.lmcache.adapter import logger as adapter_logger
from kvchaos.v1 import cache_pb2, common_pb2

SIZE = 5000
Connect = Callable[..., Driver]


@pytest.fixture
def warnings() -> Iterator[list[str]]:
    """What the plugin warns of."""
    noted: list[str] = []

    class Note(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            noted.append(record.getMessage())

    handler = Note(logging.WARNING)
    adapter_logger.addHandler(handler)
    yield noted
    adapter_logger.removeHandler(handler)


@pytest.fixture
def connect(warnings: list[str]) -> Iterator[Connect]:
    """Makes adapters, and closes them at the end."""
    with contextlib.ExitStack() as stack:

        def make(target: str, **params: object) -> Driver:
            adapter = make_adapter(plugin_spec(target, **params))
            stack.callback(adapter.close)
            return Driver(adapter)

        yield make


def healthy(driver: Driver) -> bool:
    return bool(driver.adapter.report_status()["is_healthy"])


def everything_misses(driver: Driver) -> None:
    keys, objects = make_keys(3), make_objects(3, SIZE, fill=99)
    before = contents(objects)
    assert driver.lookup(keys) == []
    assert driver.load(keys, objects) == []
    assert not driver.store(keys, objects).is_successful()
    assert contents(objects) == before
    driver.adapter.submit_unlock(keys)
    driver.adapter.delete(keys)
    driver.adapter.get_usage()
    with pytest.raises(RuntimeError):
        driver.adapter.list_l2_keys()


def everything_works(driver: Driver) -> None:
    keys, objects = make_keys(3, b"works"), make_objects(3, SIZE, fill=7)
    assert driver.store(keys, objects).is_successful()
    assert driver.lookup(keys) == [0, 1, 2]
    loaded = make_objects(3, SIZE, fill=99)
    assert driver.load(keys, loaded) == [0, 1, 2]
    assert contents(loaded) == contents(objects)
    driver.adapter.submit_unlock(keys)


def test_a_sidecar_that_is_not_there_at_the_start_is_used_when_it_comes(
    connect: Connect, warnings: list[str], store_path: Path
) -> None:
    backend = {"type": "fs", "base_path": str(store_path)}
    with SidecarProcess(backend) as sidecar:
        sidecar.kill()
        driver = connect(sidecar.cache_target)
        for _ in range(5):
            everything_misses(driver)
        assert not healthy(driver)
        assert driver.adapter.report_status()["fault_inject"] is None
        assert len(warnings) == 1
        assert "is not available" in warnings[0]
        assert sidecar.cache_target in warnings[0]
        sidecar.restart()
        eventually(lambda: healthy(driver))
        everything_works(driver)
        assert len(warnings) == 2
        assert "ACTIVE" in warnings[1]


def test_a_sidecar_that_dies_and_comes_back_is_told_once_each_way(
    connect: Connect, warnings: list[str], sidecar: SidecarProcess
) -> None:
    driver = connect(sidecar.cache_target)
    everything_works(driver)
    for life in range(2):
        sidecar.kill()
        eventually(lambda: not healthy(driver))
        for _ in range(3):
            everything_misses(driver)
        sidecar.restart()
        eventually(lambda: healthy(driver))
        everything_works(driver)
        assert driver.adapter.report_status()["reconnects"] == life + 1
    kinds = ["ACTIVE" if "ACTIVE" in warning else "gone" for warning in warnings]
    assert kinds == ["ACTIVE", "gone", "ACTIVE", "gone", "ACTIVE"]


def test_a_sidecar_of_another_version_is_named_and_used_when_it_is_replaced(
    connect: Connect, warnings: list[str], store_path: Path
) -> None:
    with SidecarProcess({"type": "fs", "base_path": str(store_path)}) as sidecar:
        sidecar.stop()
        command = [sys.executable, "-m", other_version.__name__, str(sidecar.directory), "7", "9.9.9"]
        with ManagedProcess(command, sidecar.directory / "other.log") as other:
            other.wait_until(lambda: other_version.SERVING in other.log(), 30.0, "the other version")
            driver = connect(sidecar.cache_target, timeout_s=60.0)
            for _ in range(3):
                everything_misses(driver)
            assert len(warnings) == 1
            assert "the sidecar is kvchaos 9.9.9 with protocol version 7" in warnings[0]
            assert not healthy(driver)
        sidecar.restart()
        eventually(lambda: healthy(driver))
        everything_works(driver)


@pytest.mark.parametrize("handoff", [True, False])
def test_killing_the_sidecar_ends_the_tasks_that_are_under_way(
    connect: Connect, sidecar: SidecarProcess, handoff: bool
) -> None:
    driver = connect(sidecar.cache_target, handoff=handoff)
    everything_works(driver)
    sidecar.process.signal(signal.SIGSTOP)
    killer = threading.Timer(0.3, sidecar.kill)
    killer.start()
    keys = make_keys(3, b"works")
    assert driver.load(keys, make_objects(3, SIZE)) == []
    assert not driver.store(make_keys(1, b"new"), make_objects(1, SIZE)).is_successful()
    assert driver.lookup(keys) == []
    killer.join()
    sidecar.restart()
    eventually(lambda: healthy(driver))
    everything_works(driver)
    assert driver.lookup(make_keys(1, b"new")) == []


def test_a_sidecar_that_hangs_costs_each_task_no_more_than_its_timeout(
    connect: Connect, warnings: list[str], sidecar: SidecarProcess
) -> None:
    driver = connect(sidecar.cache_target, timeout_s=0.3)
    everything_works(driver)
    sidecar.process.signal(signal.SIGSTOP)
    for _ in range(2):
        everything_misses(driver)
    told = warnings[1:]
    assert len(told) == 1
    assert "DeadlineExceeded" in told[0]
    sidecar.process.signal(signal.SIGCONT)
    everything_works(driver)


@pytest.mark.slow
def test_a_sidecar_that_stays_silent_is_given_up_and_used_again_when_it_answers(
    connect: Connect, warnings: list[str], sidecar: SidecarProcess
) -> None:
    driver = connect(sidecar.cache_target, timeout_s=1.0)
    sidecar.process.signal(signal.SIGSTOP)
    eventually(lambda: not healthy(driver))
    everything_misses(driver)
    assert ["ACTIVE" in warning for warning in warnings] == [True, False]
    sidecar.process.signal(signal.SIGCONT)
    eventually(lambda: healthy(driver))
    everything_works(driver)


def test_a_buffer_is_not_touched_any_more_when_its_task_is_done(
    connect: Connect, sidecar: SidecarProcess
) -> None:
    driver = connect(sidecar.cache_target, timeout_s=0.3)
    everything_works(driver)
    sidecar.process.signal(signal.SIGSTOP)
    loaded = make_objects(3, SIZE, fill=99)
    before = contents(loaded)
    assert driver.load(make_keys(3, b"works"), loaded) == []
    sidecar.process.signal(signal.SIGCONT)
    everything_works(driver)
    assert contents(loaded) == before


def test_memory_lives_as_long_as_its_task(connect: Connect, sidecar: SidecarProcess) -> None:
    driver = connect(sidecar.cache_target)
    everything_works(driver)
    sidecar.process.signal(signal.SIGSTOP)
    objects = make_objects(1, SIZE)
    alive = weakref.ref(objects[0])
    task = driver.adapter.submit_load_task(make_keys(1, b"works"), objects)
    del objects
    gc.collect()
    assert alive() is not None
    sidecar.process.signal(signal.SIGCONT)
    eventually(lambda: driver.adapter.query_load_result(task) is not None)

    def gone() -> bool:
        gc.collect()
        return alive() is None

    eventually(gone)


def test_a_peer_that_accepts_and_never_answers_is_no_sidecar(connect: Connect, warnings: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        driver = connect(f"127.0.0.1:{silent.getsockname()[1]}", timeout_s=0.3)
        everything_misses(driver)
        eventually(lambda: len(warnings) == 1)
        assert "no answer within 0.3 s" in warnings[0]


@pytest.mark.parametrize("target", ["127.0.0.1:1", "unix:/nowhere/cache.sock", "no-such-host.invalid:1"])
def test_a_wrong_address_is_named_and_everything_misses(
    connect: Connect, warnings: list[str], target: str
) -> None:
    driver = connect(target, timeout_s=3.0)
    everything_misses(driver)
    assert len(warnings) == 1
    assert target in warnings[0]


def test_using_it_while_it_is_away_makes_no_more_attempts_to_connect(connect: Connect) -> None:
    """How far apart attempts are is in the tests of Backoff; tasks neither add any nor wait for one."""
    driver = connect("unix:/nowhere/cache.sock")
    everything_misses(driver)
    attempts = driver.adapter.report_status()["connection_attempts"]
    for _ in range(200):
        assert driver.lookup(make_keys(1)) == []
    assert driver.adapter.report_status()["connection_attempts"] <= attempts + 3


def test_a_full_store_is_told_once_and_again_when_it_happens_again(
    connect: Connect, warnings: list[str]
) -> None:
    with SidecarProcess({"type": "memory", "capacity_bytes": 2 * SIZE}) as sidecar:
        driver = connect(sidecar.cache_target)
        keys = make_keys(4)
        for _ in range(3):
            assert not driver.store(keys, make_objects(4, SIZE)).is_successful()
        assert [warning for warning in warnings if "no_space" in warning] == warnings[1:2]
        driver.adapter.delete(keys)
        assert driver.store(keys[:1], make_objects(1, SIZE)).is_successful()
        assert not driver.store(keys, make_objects(4, SIZE)).is_successful()
        assert sum("no_space" in warning for warning in warnings) == 2


def test_usage_is_the_last_one_known_while_the_sidecar_is_away(
    connect: Connect, sidecar: SidecarProcess
) -> None:
    driver = connect(sidecar.cache_target)
    driver.store(make_keys(2), make_objects(2, SIZE))
    assert driver.adapter.get_usage().total_bytes_used == 2 * SIZE
    sidecar.process.signal(signal.SIGSTOP)
    assert driver.adapter.get_usage().total_bytes_used == 2 * SIZE
    sidecar.kill()
    eventually(lambda: not healthy(driver))
    assert driver.adapter.get_usage().total_bytes_used == 2 * SIZE


def test_closing_is_bounded_while_the_sidecar_hangs(sidecar: SidecarProcess) -> None:
    others = set(threading.enumerate())
    adapter = make_adapter(plugin_spec(sidecar.cache_target, timeout_s=600))
    sidecar.process.signal(signal.SIGSTOP)
    keys = make_keys(2)
    adapter.submit_load_task(keys, make_objects(2, SIZE))
    adapter.submit_store_task(keys, make_objects(2, SIZE))
    adapter.submit_unlock(keys)
    closing = threading.Thread(target=adapter.close)
    closing.start()
    closing.join(30)
    sidecar.kill()
    assert not closing.is_alive()
    assert not [
        thread.name for thread in set(threading.enumerate()) - others if thread.name.startswith("kvchaos-")
    ]


def test_an_unlock_that_is_lost_on_the_way_is_tried_until_it_arrives(connect: Connect) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        daemon = ScriptedDaemon(Path(directory))
        unlocked: list[bytes] = []
        failures = iter([grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL, grpc.StatusCode.UNAVAILABLE])

        def unlock(
            request: cache_pb2.UnlockRequest, context: grpc.ServicerContext
        ) -> cache_pb2.UnlockResponse:
            code = next(failures, None)
            if code is not None:
                context.abort(code, "not now")
            unlocked.extend(request.keys.chunk_hash)
            return cache_pb2.UnlockResponse(released=1)

        daemon.answers["Unlock"] = unlock
        driver = connect(daemon.target)
        keys = make_keys(3)
        driver.adapter.submit_unlock(keys[:2])
        driver.adapter.submit_unlock(keys[2:])
        eventually(lambda: unlocked == [key.chunk_hash for key in keys])
        eventually(lambda: driver.adapter.report_status()["pending_unlocks"] == 0)
        daemon.close()


def test_unlocks_of_a_session_that_ended_are_forgotten(connect: Connect) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        daemon = ScriptedDaemon(Path(directory))
        arrived = threading.Event()
        sessions: list[str] = []

        def unlock(
            request: cache_pb2.UnlockRequest, context: grpc.ServicerContext
        ) -> cache_pb2.UnlockResponse:
            sessions.append(request.session_id)
            arrived.set()
            context.abort(grpc.StatusCode.UNAVAILABLE, "not now")
            raise AssertionError

        daemon.answers["Unlock"] = unlock
        driver = connect(daemon.target)
        driver.adapter.submit_unlock(make_keys(3))
        assert arrived.wait(10)
        daemon.tell(None)
        eventually(lambda: driver.adapter.report_status()["sessions_opened"] == 2)
        eventually(lambda: driver.adapter.report_status()["pending_unlocks"] == 0)
        assert set(sessions) == {"session-1"}
        daemon.close()


def test_a_store_whose_commit_is_refused_is_a_failure_and_is_not_told(connect: Connect) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        daemon = ScriptedDaemon(Path(directory), handoff=False)

        def prepare(request: object, context: object) -> cache_pb2.PrepareStoreResponse:
            extents = cache_pb2.Extents(position=[0, 1], offset=[0, 0], length=[SIZE, SIZE])
            ok = common_pb2.RESULT_OK
            return cache_pb2.PrepareStoreResponse(results=[ok, ok], extents=extents)

        def write(pieces: Iterator[object], context: object) -> cache_pb2.WriteExtentsResponse:
            return cache_pb2.WriteExtentsResponse(written_bytes=sum(1 for _ in pieces))

        def commit(request: object, context: object) -> cache_pb2.CommitStoreResponse:
            return cache_pb2.CommitStoreResponse(results=[common_pb2.RESULT_IO_ERROR, common_pb2.RESULT_OK])

        daemon.answers.update(PrepareStore=prepare, WriteExtents=write, CommitStore=commit)
        driver = connect(daemon.target)
        listener = Listener()
        driver.adapter.register_listener(listener)
        keys = make_keys(2)
        assert not driver.store(keys, make_objects(2, SIZE)).is_successful()
        assert listener.stored == [(keys[1], SIZE)]
        daemon.close()


def test_a_forked_process_misses_and_its_parent_goes_on(connect: Connect, sidecar: SidecarProcess) -> None:
    driver = connect(sidecar.cache_target)
    everything_works(driver)
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            driver.adapter.submit_load_task(make_keys(1, b"works"), make_objects(1, SIZE))
            driver.adapter.close()
            os._exit(0)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    everything_works(driver)


@pytest.mark.parametrize("state", ["connected", "gone", "hanging"])
def test_the_interpreter_ends_without_close(sidecar: SidecarProcess, state: str) -> None:
    script = f"""
import os, signal
from tests.harness.lmcache import plugin_spec
from tests.harness.plugin import *
driver = Driver(make_adapter(plugin_spec("{sidecar.cache_target}")))
keys = make_keys(2)
assert driver.store(keys, make_objects(2, 100)).is_successful()
if "{state}" == "gone":
    os.kill({sidecar.process.pid}, signal.SIGKILL)
if "{state}" == "hanging":
    os.kill({sidecar.process.pid}, signal.SIGSTOP)
task = driver.adapter.submit_load_task(keys, make_objects(2, 100))
driver.adapter.submit_unlock(keys)
print("the end is near", flush=True)
"""
    environment = {**os.environ, "LMCACHE_TRACK_USAGE": "false", "LMCACHE_DISABLE_BANNER": "1"}
    run = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert "the end is near" in run.stdout
    assert run.returncode == 0, run.stderr[-3000:]
    assert "Traceback" not in run.stderr
    if state == "connected":
        goodbyes = sidecar.metrics().value("kvchaos_sessions_ended_total", reason="closed")
        assert goodbyes == 1, "it left without a word, with its threads still inside gRPC"
    sidecar.kill()


def test_it_works_beside_an_asyncio_grpc_server(sidecar: SidecarProcess) -> None:
    """As in ``lmcache server --transport grpc``, in a process of its own."""
    script = f"""
import asyncio, grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from tests.harness.lmcache import plugin_spec
from tests.harness.plugin import *

async def main():
    server = grpc.aio.server()
    health_pb2_grpc.add_HealthServicer_to_server(health.aio.HealthServicer(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    driver = Driver(make_adapter(plugin_spec("{sidecar.cache_target}")))
    keys = make_keys(4)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{{port}}") as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        for round_number in range(20):
            check = stub.Check(health_pb2.HealthCheckRequest())
            store = asyncio.to_thread(driver.store, keys, make_objects(4, 1000))
            answer, stored = await asyncio.gather(check, store)
            assert stored.is_successful()
            assert await asyncio.to_thread(driver.load, keys, make_objects(4, 1000)) == [0, 1, 2, 3]
    driver.adapter.close()
    await server.stop(None)

asyncio.run(main())
"""
    environment = {**os.environ, "LMCACHE_TRACK_USAGE": "false", "LMCACHE_DISABLE_BANNER": "1"}
    run = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]


def closed(adapter: L2AdapterInterface) -> L2AdapterInterface:
    adapter.close()
    return adapter


@pytest.mark.parametrize(
    ("params", "problem"),
    [
        ({}, "adapter_params.target: missing"),
        ({"target": "nonsense"}, "neither 'unix:/PATH' nor 'HOST:PORT'"),
        ({"target": "localhost:1", "timeout": 3}, "adapter_params.timeout: unknown"),
        ({"target": "localhost:1", "token_file": "/nowhere/token"}, "token_file: cannot read"),
        ({"target": "localhost:1", "tls": True, "ca_file": "/nowhere/ca"}, "ca_file: cannot read"),
    ],
)
def test_wrong_settings_stop_the_cache_server_with_a_clear_error(
    params: dict[str, object], problem: str
) -> None:
    spec = plugin_spec("")
    spec["adapter_params"] = params
    with pytest.raises(ValueError, match=problem):
        closed(make_adapter(spec))
