"""Adapter specs: read as LMCache reads them; every key is honoured or refused, none ignored."""

from __future__ import annotations

from typing import Any

import pytest

from kvchaos.errors import ConfigError
from kvchaos_sidecar.backends.lmcache.spec import parse_spec

FS = {"type": "fs", "base_path": "/l2"}
MOCK = {"type": "mock", "max_size_gb": 1, "mock_bandwidth_gb": 1}


def problems(spec: dict[str, Any]) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse_spec(spec)
    return list(caught.value.problems)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({}, ["backend.inner: needs a string 'type'"]),
        ({"type": 1}, ["backend.inner: needs a string 'type'"]),
        ({"type": "no_such"}, ["backend.inner.type: 'no_such' is not registered", "fs_native", "resp"]),
        ({"type": "fs"}, ["backend.inner (fs): base_path must be a non-empty string"]),
        ({"type": "fs", "base_path": "/l2", "use_odirect": 1}, ["(fs): use_odirect must be a boolean"]),
        ({"type": "resp", "host": "h", "port": "x"}, ["(resp): port must be a positive integer"]),
        ({**FS, "serde": {"type": "fp8"}}, ["backend.inner.serde: ", "plugin's own spec"]),
        ({**FS, "affinity_tag": "fast"}, ["backend.inner.affinity_tag: ", "plugin's own spec"]),
        ({**FS, "shared": True}, ["backend.inner.shared: ", "plugin's own spec"]),
        ({**FS, "persist_enabled": False}, ["backend.inner.persist_enabled: fs ignores false"]),
        ({**MOCK, "eviction": "LRU"}, ["backend.inner.eviction: 'LRU' is not a mapping"]),
        ({**MOCK, "eviction": {"eviction_policy": "FIFO"}}, ["(mock): ", "eviction_policy must be"]),
        (
            {**MOCK, "eviction": {"eviction_policy": "IsolatedLRU"}},
            ["eviction_policy: IsolatedLRU needs quotas"],
        ),
        ({**MOCK, "eviction": {"eviction_policy": "LRU", "eviction_ratio": "x"}}, ["(mock): ", "'x'"]),
        ({"type": "p2p"}, ["backend.inner.type: p2p reads and writes the cache server's own memory"]),
        ({"type": "fault_inject"}, ["(fault_inject): 'inner' must be an adapter spec"]),
        ({"type": "fault_inject", "inner": {"type": "no_such"}}, ["(fault_inject): ", "no_such"]),
        ({"type": "fault_inject", "inner": FS, "rate": 2}, ["(fault_inject): rate must be"]),
        (
            {"type": "fault_inject", "inner": {**FS, "serde": {"type": "fp8"}}},
            ["backend.inner.inner.serde: "],
        ),
        (
            {"type": "fault_inject", "inner": {**FS, "persist_enabled": False}},
            ["backend.inner.inner.persist_enabled: fs"],
        ),
        (
            {"type": "fault_inject", "inner": {**MOCK, "eviction": {"eviction_policy": "LRU"}}},
            ["backend.inner.inner.eviction: LMCache ignores it there", "in backend.inner"],
        ),
        ({"type": "fault_inject", "inner": FS, "persist_enabled": False}, ["fault_inject ignores false"]),
    ],
)
def test_what_is_wrong_is_refused_with_its_place(spec: dict[str, Any], said: list[str]) -> None:
    (problem,) = problems(spec)
    for part in said:
        assert part in problem


def test_all_that_is_refused_is_named_at_once() -> None:
    assert len(problems({**FS, "serde": {"type": "fp8"}, "shared": True, "affinity_tag": "x"})) == 3


def test_a_spec_becomes_lmcaches_own_configuration() -> None:
    parsed = parse_spec({**MOCK, "eviction": {"eviction_policy": "LRU", "trigger_watermark": 0.5}})
    assert parsed.type_name == "mock"
    assert parsed.config.max_size_gb == 1
    assert parsed.config.eviction_config.trigger_watermark == 0.5
    assert parsed.config.eviction_config.eviction_ratio == 0.2
    assert not parsed.registers_memory


@pytest.mark.parametrize(
    "spec",
    [
        FS,
        {**FS, "persist_enabled": True, "affinity_tag": "_default", "shared": False, "serde": None},
        {"type": "fs_native", "base_path": "/l2", "num_workers": 2, "use_odirect": True},
        {"type": "resp", "host": "localhost", "port": 6379, "username": "u", "password": "p"},
        {"type": "fault_inject", "inner": {"type": "fault_inject", "inner": FS, "rate": 0.5}},
    ],
)
def test_what_lmcache_takes_is_taken(spec: dict[str, Any]) -> None:
    assert parse_spec(spec).type_name == spec["type"]


def test_adapters_that_register_memory_are_known_through_wrappers() -> None:
    plugin = {"type": "plugin", "module_path": "m", "class_name": "C"}
    assert parse_spec(plugin).registers_memory
    assert parse_spec({"type": "fault_inject", "inner": plugin}).registers_memory
