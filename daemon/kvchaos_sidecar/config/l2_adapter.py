"""LMCache's own adapter spec (``--l2-adapter JSON``) as a part of the configuration document.

The inner adapter is hosted verbatim, also where kvchaos has a backend of the same name: the options of
the two differ, and the spec asks for LMCache's adapter.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kvchaos.errors import ConfigError
from kvchaos_sidecar.config.load import validate_fault_inject
from kvchaos_sidecar.config.problems import shown, suggestion

ARGUMENT = "--l2-adapter"

_FAULT_FIELDS = ("rate", "seed", "gap_indices", "gap_tail_ratios")
_OUTER_FIELDS = ("eviction", "persist_enabled", "serde", "affinity_tag", "shared")
"""What LMCache's storage manager reads around any adapter; nothing manages the sidecar's outer adapter."""


def arguments_from_spec(text: str) -> dict[str, Any]:
    """The part of a document that an adapter spec stands for, checked as LMCache checks it.

    A spec of type ``fault_inject`` gives the backend (its ``inner``) and the faults; any other spec gives
    the backend. Stricter than LMCache: unknown keys and a boolean rate are refused.

    Raises:
        ConfigError: every problem, each with its place.
    """
    spec = _parse(text)
    if spec.get("type") != "fault_inject":
        _refuse([*_type_problems(spec, "")])
        return _document_part(spec, {})
    faults = {name: spec[name] for name in _FAULT_FIELDS if name in spec}
    inner = spec.get("inner")
    _refuse([*_type_problems(inner, "inner"), *_unknown_keys(spec), *_fault_problems(faults)])
    return _document_part(inner, faults)


def _document_part(inner: Any, faults: Mapping[str, Any]) -> dict[str, Any]:
    return {"version": 1, "backend": {"type": "lmcache", "inner": inner}, "fault_inject": dict(faults)}


def _parse(text: str) -> dict[str, Any]:
    try:
        spec = json.loads(text, object_pairs_hook=_without_repeats)
    except ConfigError:
        raise
    except (ValueError, RecursionError) as error:
        raise ConfigError([f"not JSON: {error}"], ARGUMENT) from None
    if not isinstance(spec, dict):
        raise ConfigError([f"{shown(spec)} is not a JSON object with a 'type'"], ARGUMENT)
    return spec


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ConfigError([f"the key {repeated} is there twice"], ARGUMENT)
    return mapping


def _type_problems(spec: Any, place: str) -> list[str]:
    prefix = f"{place}: " if place else ""
    if not isinstance(spec, dict):
        found = "missing" if spec is None else f"{shown(spec)} is not an adapter spec"
        return [f'{prefix}{found}; write {{"type": "fs_native", "base_path": "/data/l2"}} or the like']
    if not isinstance(spec.get("type"), str):
        return [f"{prefix}an adapter spec needs a string 'type', for example fs_native"]
    return []


def _unknown_keys(spec: Mapping[str, Any]) -> list[str]:
    known = ("type", "inner", *_FAULT_FIELDS)
    unknown = [name for name in spec if name not in known]
    return [
        f"{name}: belongs into 'inner', or into the cache server's own spec of the kvchaos plugin"
        if name in _OUTER_FIELDS
        else f"{name}: unknown key; {suggestion(name, known)}"
        for name in unknown
    ]


def _fault_problems(faults: Mapping[str, Any]) -> list[str]:
    try:
        validate_fault_inject(faults)
    except ConfigError as error:
        return list(error.problems)
    return []


def _refuse(problems: list[str]) -> None:
    if problems:
        raise ConfigError(problems, ARGUMENT)
