"""An adapter's JSON spec, read as LMCache reads it; what only its storage manager could honour is refused."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lmcache.v1.distributed.l2_adapters.config import (
    get_l2_adapter_config_class,
    get_registered_l2_adapter_types,
    parse_args_to_l2_adapters_config,
)

from kvchaos.errors import ConfigError

PLACE = "backend.inner"
"""Where the spec is in the configuration document."""

_WRAPPERS = ("fault_inject",)
"""Adapters with an ``inner`` of their own, where LMCache ignores what its storage manager reads elsewhere."""
_READ_PERSIST = ("nixl_store_dynamic", "raw_block")
"""Adapters that look at ``persist_enabled``; raw_block refuses false by itself."""
_NEED_THE_SERVERS_MEMORY = ("p2p",)
_REGISTER_MEMORY = ("nixl_store", "nixl_store_dynamic", "nixl_native", "mooncake_store", "plugin")
"""Adapters that are made with a description of memory that they may register; any plugin may be one."""
_DEFAULT_TAG = "_default"
_ELSEWHERE = "set it on the kvchaos plugin's own spec in the cache server, where LMCache applies it"


@dataclass(frozen=True, slots=True)
class HostedSpec:
    """A checked spec."""

    type_name: str
    config: Any
    """An instance of LMCache's L2AdapterConfigBase, as ``--l2-adapter`` would make it."""
    registers_memory: bool
    """Whether the adapter works only in memory that it knows from the start."""


def parse_spec(spec: Mapping[str, Any]) -> HostedSpec:
    """The spec as LMCache's own configuration.

    Raises:
        ConfigError: every problem, each with its place.
    """
    _check_type(spec.get("type"))
    problems = list(_refusals(spec, PLACE))
    if problems:
        raise ConfigError(problems)
    try:
        parsed = parse_args_to_l2_adapters_config(Namespace(l2_adapter=[json.dumps(spec)]))
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        raise ConfigError([f"{PLACE} ({spec['type']}): {error.__cause__ or error}"]) from error
    return HostedSpec(spec["type"], parsed.adapters[0], _registers_memory(spec))


def _check_type(type_name: object) -> None:
    if not isinstance(type_name, str):
        raise ConfigError(
            [f"{PLACE}: needs a string 'type', the name of an LMCache adapter, not {type_name!r}"]
        )
    try:
        get_l2_adapter_config_class(type_name)
    except (ValueError, ImportError) as error:
        known = ", ".join(get_registered_l2_adapter_types())
        raise ConfigError(
            [
                f"{PLACE}.type: {type_name!r} is not registered in the installed LMCache. Registered are: "
                f"{known} (an adapter whose own dependencies are missing is not)"
            ]
        ) from error


def _refusals(spec: Mapping[str, Any], place: str) -> Iterator[str]:
    type_name = spec["type"]
    if type_name in _NEED_THE_SERVERS_MEMORY:
        yield f"{place}.type: {type_name} reads and writes the cache server's own memory; run it there"
    if spec.get("serde") is not None:
        yield f"{place}.serde: needs the cache server's memory; {_ELSEWHERE}"
    if spec.get("affinity_tag", _DEFAULT_TAG) != _DEFAULT_TAG:
        yield f"{place}.affinity_tag: names a memory of the cache server; {_ELSEWHERE}"
    if spec.get("shared", False):
        yield f"{place}.shared: marks the cache server's events; {_ELSEWHERE}"
    if not spec.get("persist_enabled", True) and type_name not in _READ_PERSIST:
        yield f"{place}.persist_enabled: {type_name} ignores false and keeps what it has stored; remove it"
    yield from _eviction_refusals(spec.get("eviction"), place)
    if type_name in _WRAPPERS:
        yield from _nested_refusals(spec.get("inner"), place)


def _eviction_refusals(eviction: Any, place: str) -> Iterator[str]:
    if eviction is None:
        return
    if not isinstance(eviction, Mapping):
        yield f"{place}.eviction: {eviction!r} is not a mapping; write eviction_policy: LRU in it"
    elif eviction.get("eviction_policy") == "IsolatedLRU":
        yield (
            f"{place}.eviction.eviction_policy: IsolatedLRU needs quotas, which are set in the cache server; "
            f"{_ELSEWHERE}"
        )


def _nested_refusals(inner: Any, outer_place: str) -> Iterator[str]:
    if not isinstance(inner, Mapping) or not isinstance(inner.get("type"), str):
        return  # from_dict says so
    place = f"{outer_place}.inner"
    if inner.get("eviction") is not None:
        yield f"{place}.eviction: LMCache ignores it there; write it one level up, in {outer_place}"
    yield from _refusals({k: v for k, v in inner.items() if k != "eviction"}, place)


def _registers_memory(spec: Mapping[str, Any]) -> bool:
    if spec["type"] in _WRAPPERS:
        return _registers_memory(spec["inner"])
    return spec["type"] in _REGISTER_MEMORY
