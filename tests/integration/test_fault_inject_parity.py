"""LMCache's own fault_inject tests, against the plugin and a running sidecar, and side by side with it."""

import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from lmcache.v1.distributed.api import ObjectKey
from tests.harness.lmcache import plugin_spec
from tests.harness.plugin import Driver, contents, make_adapter, make_keys, make_objects
from tests.harness.shared import shared_file
from tests.harness.sidecar import SidecarProcess
from tests.harness.waiting import eventually

from kvchaos.control import ControlClient

SIZE = 512
NO_FAULTS: dict[str, Any] = {"rate": 0.0, "seed": 0, "gap_indices": [], "gap_tail_ratios": []}


class Bench:
    """A plugin, the sidecar it talks to, and the sidecar's directory."""

    def __init__(self, sidecar: SidecarProcess, control: ControlClient, base_path: Path) -> None:
        self.sidecar = sidecar
        self.control = control
        self.base_path = base_path
        self.adapter = make_adapter(plugin_spec(sidecar.cache_target))
        self.driver = Driver(self.adapter)

    def inject(self, **faults: Any) -> None:
        """Puts faults in force, and the others out of it."""
        self.control.set_faults(**{**NO_FAULTS, **faults})

    def stored(self, count: int, prefix: bytes) -> list[ObjectKey]:
        """Keys that are there."""
        keys = make_keys(count, prefix)
        assert self.driver.store(keys, make_objects(count, SIZE)).is_successful()
        return keys

    def dropped(self, keys: Sequence[ObjectKey]) -> list[int]:
        """The positions that lookup finds and load does not."""
        found = self.driver.lookup(keys)
        assert found == list(range(len(keys)))
        loaded = self.driver.load(keys, make_objects(len(keys), SIZE, fill=99))
        self.adapter.submit_unlock(list(keys))
        return sorted(set(found) - set(loaded))


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    base_path = tmp_path_factory.mktemp("store")
    with (
        SidecarProcess({"type": "fs", "base_path": str(base_path)}) as sidecar,
        ControlClient(sidecar.control_target) as control,
    ):
        bench = Bench(sidecar, control, base_path)
        yield bench
        bench.adapter.close()


@pytest.fixture
def bench(running: Bench) -> Bench:
    running.inject()
    return running


def reference(bench: Bench, **faults: Any) -> Driver:
    """LMCache's own fault_inject adapter on the sidecar's directory."""
    inner = {"type": "fs", "base_path": str(bench.base_path)}
    return Driver(make_adapter({"type": "fault_inject", "inner": inner, **NO_FAULTS, **faults}))


def test_rate_zero_is_pass_through(bench: Bench) -> None:
    keys, objects = bench.stored(16, b"zero"), make_objects(16, SIZE, fill=99)
    assert bench.driver.load(keys, objects) == list(range(16))
    assert contents(objects) == contents(make_objects(16, SIZE))


def test_a_load_gap_is_cleared_while_lookup_is_intact(bench: Bench) -> None:
    keys = bench.stored(5, b"gap")
    bench.inject(gap_indices=[2])
    assert bench.driver.lookup(keys) == [0, 1, 2, 3, 4]
    assert bench.driver.load(keys, make_objects(5, SIZE)) == [0, 1, 3, 4]


def test_several_gaps_and_gaps_beyond_the_batch(bench: Bench) -> None:
    keys = bench.stored(6, b"gaps")
    bench.inject(gap_indices=[1, 4, 6, 4000])
    assert bench.dropped(keys) == [1, 4]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 9, 33])
@pytest.mark.parametrize("ratio", [0.0, 0.25, 0.5, 0.75, 1.0])
def test_a_tail_ratio_scales_with_the_batch(bench: Bench, count: int, ratio: float) -> None:
    keys = bench.stored(count, b"ratio%d" % count)
    bench.inject(gap_tail_ratios=[ratio])
    assert bench.dropped(keys) == [round((1 - ratio) * (count - 1))]


def test_the_end_points_are_the_last_and_the_first(bench: Bench) -> None:
    keys = bench.stored(7, b"ends")
    bench.inject(gap_tail_ratios=[0.0])
    assert bench.dropped(keys) == [6]
    bench.inject(gap_tail_ratios=[1.0])
    assert bench.dropped(keys) == [0]
    bench.inject(gap_tail_ratios=[0.0, 0.5, 1.0])
    assert bench.dropped(keys) == [0, 3, 6]


def test_the_same_seed_drops_the_same_keys_in_every_instance(bench: Bench, tmp_path: Path) -> None:
    keys = bench.stored(200, b"seed")
    bench.inject(rate=0.3, seed=42)
    first = bench.dropped(keys)
    assert first == bench.dropped(keys)
    with SidecarProcess(
        {"type": "fs", "base_path": str(bench.base_path)}, {"rate": 0.3, "seed": 42}
    ) as other_sidecar:
        other = make_adapter(plugin_spec(other_sidecar.cache_target, handoff=False))
        loaded = Driver(other).load(keys, make_objects(200, SIZE))
        other.close()
    assert sorted(set(range(200)) - set(loaded)) == first
    bench.inject(rate=0.3, seed=43)
    assert bench.dropped(keys) != first


def test_what_is_dropped_is_within_tolerance_of_the_rate(bench: Bench) -> None:
    keys = bench.stored(4000, b"rate")
    for rate in (0.1, 0.5):
        bench.inject(rate=rate, seed=1)
        assert abs(len(bench.dropped(keys)) / len(keys) - rate) < 0.03
    bench.inject(rate=1.0)
    assert bench.dropped(keys) == list(range(4000))


def test_a_dropped_key_is_dropped_at_every_position(bench: Bench) -> None:
    keys = bench.stored(100, b"order")
    bench.inject(rate=0.2, seed=5)
    dropped = {keys[place] for place in bench.dropped(keys)}
    shuffled = random.Random(1).sample(keys, len(keys))
    assert {shuffled[place] for place in bench.dropped(shuffled)} == dropped


def test_only_loads_fail(bench: Bench) -> None:
    bench.inject(rate=1.0)
    keys = make_keys(3, b"only")
    before = bench.adapter.get_usage().total_bytes_used
    assert bench.driver.store(keys, make_objects(3, SIZE)).is_successful()
    assert bench.driver.lookup(keys) == [0, 1, 2]
    assert bench.adapter.get_usage().total_bytes_used == before + 3 * SIZE
    bench.adapter.submit_unlock(keys)
    bench.adapter.delete(keys)
    assert bench.driver.lookup(keys) == []
    assert bench.adapter.get_usage().total_bytes_used == before


def test_the_status_follows_what_is_in_force(bench: Bench) -> None:
    bench.inject(rate=0.5, seed=9, gap_indices=[4, 2], gap_tail_ratios=[0.25])
    expected = reference(bench, rate=0.5, seed=9, gap_indices=[4, 2], gap_tail_ratios=[0.25])
    theirs = expected.adapter.report_status()["fault_inject"]
    expected.adapter.close()
    eventually(lambda: theirs.items() <= bench.adapter.report_status()["fault_inject"].items())
    bench.control.halt("test")
    eventually(lambda: bench.adapter.report_status()["fault_inject"]["halted"])
    keys = bench.stored(5, b"halt")
    assert bench.dropped(keys) == []
    bench.control.resume()
    eventually(lambda: not bench.adapter.report_status()["fault_inject"]["halted"])
    assert bench.dropped(keys) != []


FAULTS = [
    {},
    {"rate": 0.35, "seed": 11},
    {"gap_indices": [0, 3, 19, 20, 500]},
    {"gap_tail_ratios": [0.0, 0.1, 0.5, 0.9]},
    {"rate": 0.1, "seed": -3, "gap_indices": [7], "gap_tail_ratios": [0.33]},
    {"rate": 1.0},
    {"rate": 1e-9},
]


@pytest.mark.parametrize("faults", FAULTS, ids=json.dumps)
@pytest.mark.parametrize("count", [1, 2, 20])
def test_it_serves_what_lmcache_serves_on_the_same_directory(
    bench: Bench, faults: dict[str, Any], count: int
) -> None:
    keys = bench.stored(count, b"side by side %d" % count)
    asked = [*keys, *make_keys(2, b"never stored")]
    bench.inject(**faults)
    theirs = reference(bench, **faults)
    ours_loaded, theirs_loaded = (make_objects(len(asked), SIZE, fill=99) for _ in range(2))
    assert bench.driver.lookup(asked) == theirs.lookup(asked)
    served = bench.driver.load(asked, ours_loaded)
    assert served == theirs.load(asked, theirs_loaded)
    theirs.adapter.close()
    ours, lmcaches = contents(ours_loaded), contents(theirs_loaded)
    assert [ours[place] for place in served] == [lmcaches[place] for place in served]
    dropped = set(range(count)) - set(served)
    assert all(ours[place] == b"\xff" * SIZE for place in dropped)


def test_the_drop_vectors_hold_through_the_plugin() -> None:
    cases = json.loads(shared_file("cases/lmcache_drop_vectors.json").read_text())["cases"]
    assert cases
    with (
        SidecarProcess({"type": "memory", "capacity_bytes": 1 << 26}) as sidecar,
        ControlClient(sidecar.control_target) as control,
    ):
        adapter = make_adapter(plugin_spec(sidecar.cache_target, handoff=False))
        driver = Driver(adapter)
        for case in cases:
            control.set_faults(**case["fault_inject"])
            keys = [
                ObjectKey(**{**key, "chunk_hash": bytes.fromhex(key["chunk_hash"])}) for key in case["keys"]
            ]
            if not keys:
                continue
            assert driver.store(keys, make_objects(len(keys), 8)).is_successful()
            loaded = driver.load(keys, make_objects(len(keys), 8))
            assert sorted(set(range(len(keys))) - set(loaded)) == case["dropped"], case["fault_inject"]
        adapter.close()
