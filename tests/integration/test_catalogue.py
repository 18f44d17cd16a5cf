"""Every entry of the catalogue, injected by a real sidecar and seen by LMCache's side of the real plugin.

Each scenario returns what was observed, in one sentence, and the metric that proves it. Together they are the
table in docs/faults/catalogue.md; ``KVCHAOS_WRITE_TABLE=1`` writes it anew.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from lmcache.v1.distributed.api import ObjectKey
from tests.harness.field import SIZE, Field, filled
from tests.harness.plugin import contents, make_keys, make_objects

from kvchaos_sidecar.catalogue import entries

PAGE = Path(__file__).parents[2] / "docs" / "faults" / "catalogue.md"


class Seen(NamedTuple):
    """What a scenario observed."""

    at_the_server: str
    metric: str


def f1(field: Field) -> Seen:
    keys = field.stored(32)
    field.arm("F1")
    assert len(field.driver.lookup(keys)) == 32
    arrived, buffers = field.load(keys)
    dropped = sorted(set(range(32)) - set(arrived))
    assert dropped
    assert all(buffers[place] == filled(0xFF) for place in dropped)
    assert all(buffers[place] == filled(place + 1) for place in arrived)
    field.unlock(keys)
    field.is_at_rest()
    drops = field.metric("kvchaos_drops_total", rule="f1-load-fails")
    assert drops == len(dropped)
    return Seen(
        f"lookup 32 of 32; load {len(arrived)} of 32, the other buffers poisoned; no lock left",
        f'kvchaos_drops_total{{rule="f1-load-fails"}} {drops}',
    )


def f2(field: Field) -> Seen:
    keys = field.stored(8)
    field.arm("F2")
    arrived, buffers = field.load(keys)
    assert arrived == [0, 1, 2, 3, 4, 6]
    assert buffers[5] == buffers[7] == filled(0xAA)
    failed = field.metric("kvchaos_keys_total", op="load", result="io_error")
    assert failed == 2
    return Seen(
        "load 6 of 8, positions 5 and 7 fail, their buffers untouched",
        f'kvchaos_keys_total{{op="load",result="io_error"}} {failed}',
    )


def f3(field: Field) -> Seen:
    field.arm("F3")
    keys = field.stored(16)
    torn = field.fired("f3-torn-store")
    assert torn
    assert len(field.driver.lookup(keys)) == 16
    arrived, buffers = field.load(keys)
    assert len(arrived) == 16 - torn
    assert all(buffers[place] == filled(0xAA) for place in set(range(16)) - set(arrived))
    mismatches = field.metric("kvchaos_keys_total", op="load", result="size_mismatch")
    assert mismatches == torn
    return Seen(
        f"store acknowledged, lookup 16 of 16; load {len(arrived)} of 16, the short ones are misses",
        f'kvchaos_keys_total{{op="load",result="size_mismatch"}} {mismatches}',
    )


def f4(field: Field) -> Seen:
    keys = field.stored(16)
    field.arm("F4")
    arrived, buffers = field.load(keys)
    fired = field.fired("f4-oversized")
    assert fired == 16 - len(arrived) > 0
    for place, buffer in enumerate(buffers):
        assert buffer == (filled(place + 1) if place in arrived else filled(0xAA))
    return Seen(
        f"load {len(arrived)} of 16, the long ones are rejected, every neighbouring byte intact",
        f'kvchaos_rule_fired_total{{rule="f4-oversized"}} {fired}',
    )


def f5(field: Field) -> Seen:
    keys = field.stored(32)
    field.arm("F5")
    arrived, first = field.load(keys)
    assert arrived == list(range(32))
    assert (first[0], first[1]) == (filled(2), filled(1))
    flipped = [place for place in range(2, 32) if first[place] != filled(place + 1)]
    assert len(flipped) == field.fired("f5-flipped-bit") > 0
    field.driver.adapter.delete(keys)
    field.stored(32, fill=101, keys=keys)
    _, second = field.load(keys)
    older = [place for place in range(2, 32) if second[place] == first[place]]
    assert older
    return Seen(
        f"load 32 of 32 each time: 2 exchanged, {len(flipped)} with a wrong bit, "
        f"{len(older)} with what they held before; only a checksum of the content can tell",
        f'kvchaos_rule_fired_total{{rule="f5-flipped-bit"}} {len(flipped)}',
    )


def f6(field: Field) -> Seen:
    keys = field.stored(4)
    field.arm("F6")
    found = [field.load(keys)[0] for _ in range(4)]
    assert found == [[0, 1, 2, 3], [0, 1, 2, 3], [], [0, 1, 2, 3]]
    field.is_at_rest()
    fired = field.fired("f6-black-hole")
    assert fired == 4
    return Seen(
        "the third load fails at the plugin's deadline, the others serve 4 of 4; nothing is left in flight",
        f'kvchaos_rule_fired_total{{rule="f6-black-hole"}} {fired}',
    )


def f7(field: Field) -> Seen:
    keys = field.stored(2)
    field.arm("F7")
    stores = [field.driver.store(make_keys(1, bytes([n])), make_objects(1, SIZE)) for n in (1, 2, 3)]
    assert [store.is_successful() for store in stores] == [True, False, True]
    assert len(field.driver.lookup(keys)) == 2
    assert [field.load(keys)[0] for _ in range(3)] == [[0, 1], [], [0, 1]]
    field.unlock(keys)
    field.is_at_rest()
    refused = field.metric("kvchaos_requests_total", op="load", result_code="unavailable")
    assert refused == 1
    return Seen(
        "the second store and the second load fail at once, those around them are served; nothing is left",
        f'kvchaos_requests_total{{op="load",result_code="unavailable"}} {refused}',
    )


def f8(field: Field) -> Seen:
    keys = field.stored(4)
    field.arm("F8")
    assert [field.load(keys)[0] for _ in range(5)] == [[0, 1, 2, 3]] * 5
    slow = field.metric("kvchaos_request_duration_seconds_count", op="load") - field.metric(
        "kvchaos_request_duration_seconds_bucket", op="load", le="0.25"
    )
    assert slow >= 1
    assert (field.fired("f8-slow-tail"), field.fired("f8-narrow")) == (4, 20)
    return Seen(
        "5 of 5 loads serve 4 of 4; the fifth takes more than 250 ms",
        'kvchaos_rule_fired_total{rule="f8-slow-tail"} 4',
    )


def f9(field: Field) -> Seen:
    keys, missing = field.stored(2), make_keys(2, b"missing")
    query = field.driver.adapter.query_load_result
    field.arm("F9")
    late, held = field.submit_load(keys)
    field.settles("the bytes of the late load", lambda: contents(held)[0] == filled(1))
    assert query(late) is None
    assert field.result(late) == [0, 1]
    twice, _second = field.submit_load(keys)
    assert field.result(twice) == [0, 1]
    assert query(twice) is not None
    assert query(twice) is None
    present, _third = field.submit_load(keys)
    field.settles("the third load", lambda: field.fired("f9-exchanged") == 2)
    absent, _fourth = field.submit_load(missing)
    assert (field.result(present), field.result(absent)) == ([], [0, 1])
    return Seen(
        "a result comes after its bytes; one is handed out twice; a load of 2 present keys reads as 0 of 2 "
        "and one of 2 missing keys as 2 of 2",
        f'kvchaos_rule_fired_total{{rule="f9-exchanged"}} {field.fired("f9-exchanged")}',
    )


def f10(field: Field) -> Seen:
    field.arm("F10")
    keys = make_keys(4)
    assert not field.driver.store(keys, make_objects(4, SIZE, 1)).is_successful()
    field.disarm()
    assert field.driver.lookup(keys) == [0, 3]
    arrived, buffers = field.load(keys)
    assert arrived == [0, 3]
    assert (buffers[0], buffers[3]) == (filled(1), filled(4))
    kept = field.metric("kvchaos_rule_fired_total", rule="f10-kept-and-refused")
    return Seen(
        "the store of 4 fails; lookup then finds the first, whole, and the last, not the acknowledged one",
        f'kvchaos_rule_fired_total{{rule="f10-kept-and-refused"}} {kept}',
    )


def f11(field: Field) -> Seen:
    keys = field.stored(2)
    field.arm("F11")
    results = [field.driver.store(make_keys(2, bytes([n])), make_objects(2, SIZE)) for n in (1, 2, 3)]
    assert not any(result.is_successful() for result in results)
    assert field.load(keys)[0] == [0, 1]
    assert field.driver.adapter.report_status()["failed_keys"]["store"] == {"invalid": 6}
    failed = field.metric("kvchaos_keys_total", op="store", result="invalid")
    assert failed == 6
    return Seen(
        "3 of 3 stores fail and are counted with their cause in the plugin's status; loads go on",
        f'kvchaos_keys_total{{op="store",result="invalid"}} {failed}',
    )


def f12(field: Field) -> Seen:
    field.arm("F12")
    keys = make_keys(16)
    assert not field.driver.store(keys, make_objects(16, SIZE, 1)).is_successful()
    held = field.driver.lookup(keys)
    assert held == list(range(65536 // SIZE))
    usage = field.driver.adapter.get_usage().total_bytes_used
    assert usage == len(held) * SIZE // 2
    assert field.load(keys[:4])[0] == [0, 1, 2, 3]
    field.driver.adapter.delete(keys[:2])
    assert field.driver.store(keys[14:], make_objects(2, SIZE, 15)).is_successful()
    refused = field.metric("kvchaos_keys_total", op="store", result="no_space")
    return Seen(
        f"{len(held)} of 16 objects fit, then ENOSPC; usage says {usage} bytes, half; loads go on; "
        "after 2 deletes 2 fit",
        f'kvchaos_keys_total{{op="store",result="no_space"}} {refused}',
    )


def f13(field: Field) -> Seen:
    keys = field.stored(8)
    field.arm("F13")
    assert len(field.driver.lookup(keys)) == 8
    arrived, _ = field.load(keys)
    assert arrived == list(range(7))
    field.unlock(keys)
    field.is_at_rest()
    missing = field.metric("kvchaos_keys_total", op="load", result="not_found")
    assert missing == 1
    return Seen(
        "lookup 8 of 8; load 7 of 8, the last one is a miss; no lock left",
        f'kvchaos_keys_total{{op="load",result="not_found"}} {missing}',
    )


def f14(field: Field) -> Seen:
    keys = field.stored(4)
    field.arm("F14")
    for _ in range(2):
        assert len(field.driver.lookup(keys)) == 4
        field.unlock(keys)
    field.settles(
        "both unlocks", lambda: field.metric("kvchaos_requests_total", op="unlock", result_code="ok") == 2
    )
    field.is_at_rest(locks=4)
    return Seen(
        "2 lookups of 4 keys and 2 unlocks leave 4 locks until they expire",
        f"kvchaos_locks {field.metric('kvchaos_locks')}",
    )


def f15(field: Field) -> Seen:
    keys = field.stored(2)
    field.arm("F15")
    tries = []
    for _ in range(4):
        assert len(field.driver.lookup(keys)) == 2
        tries.append(len(field.load(keys)[0]))
    assert tries == [0, 0, 0, 2]
    missing = field.metric("kvchaos_keys_total", op="load", result="not_found")
    assert missing == 6
    return Seen(
        "lookup 2 of 2 four times; 3 loads find nothing, the fourth serves 2 of 2",
        f'kvchaos_keys_total{{op="load",result="not_found"}} {missing}',
    )


def f16(field: Field) -> Seen:
    keys = field.stored(2)
    field.arm("F16")
    assert [field.load(keys)[0] for _ in range(3)] == [[0, 1], [0, 1], []]
    field.settles(
        "the refusals",
        lambda: field.metric("kvchaos_requests_total", op="open_session", result_code="unavailable") == 3,
    )
    field.settles("the adapter to be connected again", field.healthy)
    assert field.load(keys)[0] == [0, 1]
    field.is_at_rest()
    resets = field.metric("kvchaos_sessions_ended_total", reason="reset")
    return Seen(
        "the third load fails with its connection, 3 attempts to connect are refused, then 2 of 2 again",
        f'kvchaos_sessions_ended_total{{reason="reset"}} {resets}',
    )


def f17(field: Field) -> Seen:
    keys = field.stored(4)
    before = field.driver.adapter.get_usage().total_bytes_used
    field.arm("F17")
    assert len(field.driver.lookup(keys)) == 4
    assert field.driver.lookup(keys) == []
    field.settles("the adapter to be connected again", field.healthy)
    after = field.driver.adapter.get_usage().total_bytes_used
    assert (before, after) == (4 * SIZE, 0)
    assert field.load(keys)[0] == [0, 1, 2, 3]
    field.is_at_rest()
    return Seen(
        f"locks and usage are gone ({before} bytes, then {after}); the objects are served, 4 of 4",
        f'kvchaos_rule_fired_total{{rule="f17-restart"}} {field.fired("f17-restart")}',
    )


def f18(field: Field) -> Seen:
    healthy, lagging = (
        [ObjectKey(key.chunk_hash, key.model_name, rank, 0, "") for key in make_keys(4)]
        for rank in (0x02010200, 0x02010201)
    )
    field.stored(4, keys=healthy)
    field.stored(4, keys=lagging)
    field.arm("F18")
    assert (len(field.driver.lookup(healthy)), len(field.driver.lookup(lagging))) == (4, 0)
    assert (len(field.load(healthy)[0]), len(field.load(lagging)[0])) == (4, 0)
    hidden = field.fired("f18-one-rank-misses")
    return Seen(
        "rank 0: lookup and load 4 of 4; rank 1: 0 of 4",
        f'kvchaos_rule_fired_total{{rule="f18-one-rank-misses"}} {hidden}',
    )


def f19(field: Field) -> Seen:
    keys = [
        ObjectKey(key.chunk_hash, key.model_name, key.kv_rank, group, "")
        for key in make_keys(4)
        for group in (0, 1)
    ]
    field.stored(8, keys=keys)
    field.arm("F19")
    assert len(field.driver.lookup(keys)) == 8
    arrived, _ = field.load(keys)
    assert arrived == [0, 2, 4, 6]
    fired = field.fired("f19-group-missing")
    return Seen(
        "lookup 8 of 8; load finds the 4 of group 0 and none of group 1",
        f'kvchaos_rule_fired_total{{rule="f19-group-missing"}} {fired}',
    )


def f20(field: Field) -> Seen:
    mine, theirs = make_keys(2, salt="tenant-a"), make_keys(2, salt="tenant-b")
    field.arm("F20")
    field.stored(2, keys=mine)
    assert len(field.driver.lookup(theirs)) == 2
    arrived, buffers = field.load(theirs)
    assert (arrived, buffers) == ([0, 1], [filled(1), filled(2)])
    field.disarm()
    assert field.driver.lookup(theirs) == []
    fired = field.metric("kvchaos_rule_fired_total", rule="f20-salt-stripped")
    return Seen(
        "what tenant-a stored is found and served under tenant-b's salt, 2 of 2",
        f'kvchaos_rule_fired_total{{rule="f20-salt-stripped"}} {fired}',
    )


def f21(field: Field) -> Seen:
    keys = field.stored(8)
    field.arm("F21")
    found = field.driver.lookup(keys)
    assert found == [2, 3, 4, 5, 6, 7]
    assert field.metric("kvchaos_locks") == 6
    field.unlock([keys[place] for place in found])
    field.is_at_rest()
    return Seen(
        "lookup finds positions 2 to 7 of 8 and locks 6; no lock left after unlock",
        f'kvchaos_rule_fired_total{{rule="f21-head-hidden"}} {field.fired("f21-head-hidden")}',
    )


SCENARIOS: Mapping[str, Callable[[Field], Seen]] = {
    f"F{number}": scenario
    for number, scenario in enumerate(
        (f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21), 1
    )
}


@pytest.fixture
def field(tmp_path: Path) -> Iterator[Field]:
    with Field(tmp_path) as ready:
        yield ready


def test_every_entry_has_a_scenario() -> None:
    assert [entry["id"] for entry in entries()] == list(SCENARIOS)


@pytest.mark.parametrize("identifier", SCENARIOS)
def test_an_entry_does_what_the_table_says(field: Field, identifier: str) -> None:
    (entry,) = [entry for entry in entries() if entry["id"] == identifier]
    seen = SCENARIOS[identifier](field)
    row = f"| {identifier} | {entry['title']} | {entry['does']} | {seen.at_the_server} | `{seen.metric}` |"
    if os.environ.get("KVCHAOS_WRITE_TABLE"):
        PAGE.write_text(
            re.sub(rf"^\| {identifier} \|.*$", lambda _: row, PAGE.read_text(), flags=re.MULTILINE)
        )
    assert row in PAGE.read_text().splitlines()
