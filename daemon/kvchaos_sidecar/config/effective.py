"""The effective configuration: every field with its value, where it comes from and when it ends.

Layers, each over the one before: default, file, argument, runtime.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kvchaos_sidecar.config.load import Configuration
from kvchaos_sidecar.config.problems import is_secret

MASK = "***"

_URL_CREDENTIALS = re.compile(r"://[^/?#\s]*@")


class Source(StrEnum):
    """Which layer a value comes from."""

    DEFAULT = "default"
    FILE = "file"
    ARGUMENT = "argument"
    RUNTIME = "runtime"


@dataclass(frozen=True, slots=True)
class RuntimeValue:
    """A value laid over the document's until reset, restart or the end of its time to live."""

    value: Any
    ends_at: float = math.inf
    """Monotonic reading of the clock at which it ends."""


@dataclass(frozen=True, slots=True)
class EffectiveField:
    """One field of the configuration in force."""

    path: str
    """For example ``fault_inject.rate``."""
    value: Any
    """As in the file; secrets are masked."""
    source: Source
    ends_at: float = math.inf
    """As :attr:`RuntimeValue.ends_at`."""


def effective_fields(
    configuration: Configuration, runtime_faults: Mapping[str, RuntimeValue]
) -> Sequence[EffectiveField]:
    """Every field of the document, in its order. ``runtime_faults`` lies over ``fault_inject``."""
    runtime = {f"fault_inject.{name}": held for name, held in runtime_faults.items()}
    file, arguments = _paths_of(configuration.file), _paths_of(configuration.arguments)
    fields = []
    for path, value in _leaves(configuration.document.model_dump(mode="json", by_alias=True)):
        held = runtime.get(path)
        if held is not None:
            fields.append(EffectiveField(path, held.value, Source.RUNTIME, held.ends_at))
        elif path in arguments:
            fields.append(EffectiveField(path, value, Source.ARGUMENT))
        else:
            fields.append(EffectiveField(path, value, Source.FILE if path in file else Source.DEFAULT))
    return fields


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The fields that hold no further fields, secrets masked."""
    if isinstance(value, Mapping) and value and path != "fault_inject.poison":
        for key, held in value.items():
            yield from _leaves(held, f"{path}.{key}" if path else key)
    else:
        yield path, _masked(path.rpartition(".")[2], value)


def _masked(name: str, value: Any) -> Any:
    """A value without secrets: those in fields of a telling name, and those in URLs."""
    if value and is_secret(name):
        return MASK
    if isinstance(value, str):
        return _URL_CREDENTIALS.sub(f"://{MASK}@", value)
    if isinstance(value, Mapping):
        return {key: _masked(key, held) for key, held in value.items()}
    if isinstance(value, list):
        return [_masked(name, held) for held in value]
    return value


def _paths_of(layer: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(path for path, _ in _leaves(layer))
