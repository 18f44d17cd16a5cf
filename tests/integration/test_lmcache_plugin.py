"""The plugin in front of a sidecar does what LMCache's own adapter does on the same kind of directory.

Every test of the first part runs against both, so LMCache's own adapter says what is right.
"""

import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from lmcache.v1.distributed.l2_adapters.base import L2AdapterInterface
from tests.harness.lmcache import plugin_spec
from tests.harness.plugin import (
    Driver,
    Listener,
    contents,
    make_adapter,
    make_keys,
    make_objects,
)
from tests.harness.scripted_daemon import open_descriptors
from tests.harness.sidecar import SidecarProcess
from tests.harness.waiting import eventually

SIZE = 5000


@pytest.fixture(params=["plugin, handoff", "plugin, inline", "lmcache's fs"])
def adapter(request: pytest.FixtureRequest, store_path: Path) -> Iterator[L2AdapterInterface]:
    if request.param == "lmcache's fs":
        subject = make_adapter({"type": "fs", "base_path": str(store_path)})
        yield subject
        subject.close()
        return
    with SidecarProcess({"type": "fs", "base_path": str(store_path)}) as sidecar:
        subject = make_adapter(plugin_spec(sidecar.cache_target, handoff=request.param.endswith("handoff")))
        yield subject
        subject.close()


@pytest.fixture
def driver(adapter: L2AdapterInterface) -> Driver:
    return Driver(adapter)


@pytest.fixture
def listener(adapter: L2AdapterInterface) -> Listener:
    noted = Listener()
    adapter.register_listener(noted)
    return noted


def test_the_event_fds_are_distinct(adapter: L2AdapterInterface) -> None:
    fds = {
        adapter.get_store_event_fd(),
        adapter.get_lookup_and_lock_event_fd(),
        adapter.get_load_event_fd(),
    }
    assert len(fds) == 3


def test_what_was_stored_is_found_and_loaded(driver: Driver) -> None:
    keys, objects = make_keys(4), make_objects(4, SIZE, fill=1)
    assert driver.lookup(keys) == []
    result = driver.store(keys, objects)
    assert result.is_successful()
    assert result.bytes_transferred() == 4 * SIZE
    assert driver.lookup(keys) == [0, 1, 2, 3]
    loaded = make_objects(4, SIZE, fill=99)
    assert driver.load(keys, loaded) == [0, 1, 2, 3]
    assert contents(loaded) == contents(objects)


def test_what_is_there_already_is_success_and_adds_nothing(driver: Driver, listener: Listener) -> None:
    keys = make_keys(3)
    driver.store(keys[:2], make_objects(2, SIZE))
    result = driver.store(keys, make_objects(3, SIZE, fill=50))
    assert result.is_successful()
    assert result.bytes_transferred() == SIZE
    assert listener.stored == [(key, SIZE) for key in keys]
    loaded = make_objects(3, SIZE, fill=99)
    driver.load(keys, loaded)
    assert contents(loaded) == contents(make_objects(2, SIZE)) + contents(make_objects(3, SIZE, fill=50))[2:]


def test_a_key_that_is_not_there_costs_only_itself(driver: Driver, listener: Listener) -> None:
    keys = make_keys(3)
    driver.store([keys[0], keys[2]], make_objects(2, SIZE))
    assert driver.lookup(keys) == [0, 2]
    assert driver.load(keys, make_objects(3, SIZE)) == [0, 2]
    assert listener.accessed == [keys[0], keys[2]]


def test_usage_follows_stores_and_deletes_by_salt(driver: Driver, listener: Listener) -> None:
    salted, plain = make_keys(2, b"a", salt="tenant"), make_keys(1, b"b")
    driver.store([*salted, *plain], make_objects(3, SIZE))
    usage = driver.adapter.get_usage()
    assert usage.total_bytes_used == 3 * SIZE
    assert dict(usage.bytes_by_cache_salt) == {"tenant": 2 * SIZE, "": SIZE}
    assert usage.usage_fraction == -1.0
    driver.adapter.delete([*salted, *make_keys(1, b"never stored")])
    usage = driver.adapter.get_usage()
    assert (usage.total_bytes_used, dict(usage.bytes_by_cache_salt)) == (SIZE, {"": SIZE})
    assert listener.deleted == salted
    assert driver.lookup([*salted, *plain]) == [2]


def test_a_result_is_handed_out_once(adapter: L2AdapterInterface, driver: Driver) -> None:
    keys = make_keys(1)
    driver.store(keys, make_objects(1, SIZE))
    assert adapter.pop_completed_store_tasks() == {}
    task = adapter.submit_load_task(keys, make_objects(1, SIZE))
    results: list[object] = []

    def fetched() -> bool:
        result = adapter.query_load_result(task)
        if result is not None:
            results.append(result)
        return bool(results)

    eventually(fetched)
    assert adapter.query_load_result(task) is None
    assert adapter.query_lookup_and_lock_result(task) is None
    assert adapter.query_load_result(12345) is None


def test_tasks_of_several_threads_do_not_mix(driver: Driver) -> None:
    wrong: list[int] = []

    def work(number: int) -> None:
        keys = make_keys(4, b"thread%d" % number)
        own = Driver(driver.adapter)
        objects = make_objects(4, SIZE, fill=10 * number)
        task = driver.adapter.submit_store_task(keys, objects)
        eventually(lambda: collect().get(task) is not None)
        loaded = make_objects(4, SIZE, fill=200)
        task = own.adapter.submit_load_task(keys, loaded)
        eventually(lambda: own.adapter.query_load_result(task) is not None)
        if contents(loaded) != contents(objects):
            wrong.append(number)

    stores: dict[int, object] = {}
    lock = threading.Lock()

    def collect() -> dict[int, object]:
        with lock:
            stores.update(driver.adapter.pop_completed_store_tasks())
            return dict(stores)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_an_empty_batch_ends(driver: Driver) -> None:
    assert driver.store([], []).is_successful()
    assert driver.lookup([]) == []
    assert driver.load([], []) == []
    driver.adapter.submit_unlock([])
    driver.adapter.delete([])


# What LMCache's own adapter leaves open, or does not have.


@pytest.fixture
def plugin(sidecar: SidecarProcess) -> Iterator[Driver]:
    subject = make_adapter(plugin_spec(sidecar.cache_target))
    yield Driver(subject)
    subject.close()


def test_each_side_reads_what_the_other_wrote(plugin: Driver, store_path: Path) -> None:
    other = make_adapter({"type": "fs", "base_path": str(store_path)})
    keys, objects = make_keys(2), make_objects(2, SIZE, fill=3)
    plugin.store(keys[:1], objects[:1])
    Driver(other).store(keys[1:], objects[1:])
    for driver in (plugin, Driver(other)):
        loaded = make_objects(2, SIZE, fill=99)
        assert driver.lookup(keys) == [0, 1]
        assert driver.load(keys, loaded) == [0, 1]
        assert contents(loaded) == contents(objects)
    other.close()


def test_an_object_of_another_size_is_a_miss_and_spoils_nothing(plugin: Driver) -> None:
    keys = make_keys(3)
    plugin.store(keys, make_objects(3, SIZE))
    loaded = make_objects(3, SIZE - 1, fill=99)
    before = contents(loaded)
    assert plugin.load(keys, loaded) == []
    assert contents(loaded) == before


def test_unlocking_reaches_the_sidecar(plugin: Driver, sidecar: SidecarProcess) -> None:
    keys = make_keys(3)
    plugin.store(keys, make_objects(3, SIZE))
    plugin.lookup(keys)
    plugin.lookup(keys[:1])
    assert sidecar.metrics().value("kvchaos_locks") == 4
    plugin.adapter.submit_unlock([*keys, keys[0]])
    eventually(lambda: sidecar.metrics().value("kvchaos_locks") == 0)


def test_keys_are_listed_in_pages(plugin: Driver) -> None:
    keys = make_keys(5)
    plugin.store(keys, make_objects(5, SIZE))
    found, cursor = [], None
    while True:
        page = plugin.adapter.list_l2_keys("org/model", 2, cursor)
        found += page.entries
        cursor = page.next_page_token
        if cursor is None:
            break
    assert sorted(entry.key.to_object_key().chunk_hash for entry in found) == [k.chunk_hash for k in keys]
    assert {entry.size_bytes for entry in found} == {SIZE}
    with pytest.raises(ValueError, match="page_size"):
        plugin.adapter.list_l2_keys(page_size=0)
    with pytest.raises(ValueError, match="cursor"):
        plugin.adapter.list_l2_keys(cursor="never given")


def test_the_status_says_what_is_injected_and_how_it_is_connected(store_path: Path) -> None:
    faults = {"rate": 0.25, "seed": 7, "gap_indices": [3, 1], "gap_tail_ratios": [0.5]}
    with SidecarProcess({"type": "fs", "base_path": str(store_path)}, faults) as sidecar:
        adapter = make_adapter(plugin_spec(sidecar.cache_target))
        status = adapter.report_status()
        adapter.close()
    assert status["is_healthy"] is True
    assert status["type"] == "KVChaosL2Adapter"
    assert (status["transport"], status["backend"]) == ("handoff", "fs")
    assert "handoff.sock" in status["transport_reason"]
    reference = make_adapter(
        {"type": "fault_inject", "inner": {"type": "fs", "base_path": str(store_path)}, **faults}
    )
    expected = reference.report_status()["fault_inject"]
    reference.close()
    assert expected.items() <= status["fault_inject"].items()
    assert status["fault_inject"]["halted"] is False


@pytest.mark.parametrize(
    ("backend", "params", "capacity"),
    [
        ({"type": "memory", "capacity_bytes": 1 << 20}, {}, 1 << 20),
        ({"type": "memory", "capacity_bytes": 1 << 20}, {"max_capacity_gb": 0.5}, 1 << 29),
        ({"type": "memory", "capacity_bytes": 1 << 20}, {"max_capacity_gb": 0}, 1 << 20),
    ],
)
def test_capacity_is_what_the_settings_or_the_sidecar_say(
    backend: dict[str, object], params: dict[str, object], capacity: int
) -> None:
    with SidecarProcess(backend) as sidecar:
        adapter = make_adapter(plugin_spec(sidecar.cache_target, **params))
        assert adapter.supports_global_eviction
        Driver(adapter).store(make_keys(1), make_objects(1, SIZE))
        usage = adapter.get_usage()
        adapter.close()
    assert usage.total_capacity_bytes == capacity
    assert usage.usage_fraction == SIZE / capacity


def test_a_store_without_a_limit_asks_for_no_eviction(plugin: Driver) -> None:
    assert not plugin.adapter.supports_global_eviction


def test_a_full_store_fails_the_task_and_what_was_kept_is_told(store_path: Path) -> None:
    with SidecarProcess({"type": "memory", "capacity_bytes": 2 * SIZE}) as sidecar:
        adapter = make_adapter(plugin_spec(sidecar.cache_target))
        listener = Listener()
        adapter.register_listener(listener)
        driver, keys = Driver(adapter), make_keys(3)
        result = driver.store(keys, make_objects(3, SIZE))
        assert not result.is_successful()
        assert listener.stored == [(key, SIZE) for key in keys[:2]]
        assert driver.load(keys, make_objects(3, SIZE)) == [0, 1]
        assert adapter.report_status()["failed_keys"]["store"] == {"no_space": 1}
        adapter.delete(keys[:1])
        assert driver.store(keys, make_objects(3, SIZE)).is_successful() is False
        assert driver.lookup(keys) == [0, 1]
        adapter.close()


def test_a_listener_that_raises_costs_no_result(plugin: Driver) -> None:
    class Broken(Listener):
        def on_l2_keys_stored(self, keys: object, sizes: object) -> None:
            raise RuntimeError("broken listener")

        on_l2_keys_accessed = on_l2_keys_deleted = on_l2_keys_stored  # type: ignore[assignment]

    plugin.adapter.register_listener(Broken())
    keys = make_keys(2)
    assert plugin.store(keys, make_objects(2, SIZE)).is_successful()
    assert plugin.load(keys, make_objects(2, SIZE)) == [0, 1]
    plugin.adapter.delete(keys)
    assert plugin.lookup(keys) == []


def test_a_submit_never_raises_whatever_it_is_given(plugin: Driver) -> None:
    keys, objects = make_keys(2), make_objects(1, SIZE)
    assert not plugin.store(keys, objects).is_successful()
    assert plugin.load(keys, objects) == []
    assert not plugin.store(keys, [object(), object()]).is_successful()
    assert plugin.load(keys, [None, None]) == []
    assert plugin.lookup([object()]) == []
    assert plugin.lookup(make_keys(10_001)) == []
    plugin.adapter.submit_unlock([object()])
    plugin.adapter.delete([object()])
    assert plugin.store(make_keys(1), make_objects(1, SIZE)).is_successful()


def test_more_keys_than_a_batch_may_have_are_deleted_and_unlocked() -> None:
    with (
        tempfile.TemporaryDirectory(dir="/dev/shm") as memory,
        SidecarProcess({"type": "fs", "base_path": memory}) as sidecar,
    ):
        adapter = make_adapter(plugin_spec(sidecar.cache_target, timeout_s=90))
        driver, keys = Driver(adapter), make_keys(10_001)
        for batch in (keys[:10_000], keys[10_000:]):
            assert driver.store(batch, make_objects(len(batch), 8)).is_successful()
            driver.lookup(batch)
        adapter.submit_unlock(keys)
        eventually(lambda: sidecar.metrics().value("kvchaos_locks") == 0)
        adapter.delete(keys)
        assert adapter.get_usage().total_bytes_used == 0
        adapter.close()


def test_closing_twice_is_no_error_and_leaves_nothing_behind(sidecar: SidecarProcess) -> None:
    warm_up = make_adapter(plugin_spec(sidecar.cache_target))
    warm_up.close()
    before, others = open_descriptors(), set(threading.enumerate())
    adapter = make_adapter(plugin_spec(sidecar.cache_target))
    Driver(adapter).store(make_keys(2), make_objects(2, SIZE))
    adapter.close()
    adapter.close()
    eventually(lambda: len(open_descriptors()) <= len(before))
    eventually(lambda: sidecar.metrics().value("kvchaos_sessions") == 0)
    assert not [
        thread.name for thread in set(threading.enumerate()) - others if thread.name.startswith("kvchaos-")
    ]
