"""The kinds of values in the document, each with its checks, its text form and its JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, WithJsonSchema

from kvchaos.durations import PATTERN, format_duration, parse_duration
from kvchaos_sidecar.config.addresses import TcpAddress, UnixAddress, parse_address
from kvchaos_sidecar.config.bounds import Between
from kvchaos_sidecar.config.problems import shown
from kvchaos_sidecar.faults.poison import Poison, PoisonKind

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

T = TypeVar("T")


def _address(value: object) -> object:
    if isinstance(value, UnixAddress | TcpAddress):
        return value
    if not isinstance(value, str):
        raise ValueError(f"{shown(value)} is not text; write 'unix:/absolute/path' or 'HOST:PORT'")
    return parse_address(value)


def _tcp_address(value: object) -> object:
    address = _address(value)
    if isinstance(address, UnixAddress):
        raise ValueError(f"'{address}' is a Unix socket; write HOST:PORT, for example 127.0.0.1:9464")
    return address


def _handoff_address(value: object) -> object:
    if value is None or value == "":
        return None
    address = _address(value)
    if isinstance(address, TcpAddress):
        raise ValueError(
            f"'{address}' is TCP; descriptors pass only over a Unix socket, write unix:/absolute/path"
        )
    return address


def _duration(value: object) -> object:
    if isinstance(value, bool | int | float):
        raise ValueError(f"{value!r} has no unit; write for example '{value}s'")
    return parse_duration(value) if isinstance(value, str) else value


def _poison(value: object) -> object:
    if isinstance(value, Poison):
        return value
    if value in ("nan", "leave"):
        return Poison(PoisonKind(value))
    fill = value.get("byte") if isinstance(value, Mapping) and set(value) == {"byte"} else None
    if type(fill) is int and 0 <= fill <= 255:
        return Poison(PoisonKind.BYTE, fill)
    raise ValueError(
        f"{shown(value)} is not a poison; write nan, leave or {{byte: 0}} with a byte from 0 to 255"
    )


def poison_text(poison: Poison) -> object:
    """A poison as a file writes it."""
    return {"byte": poison.fill} if poison.kind is PoisonKind.BYTE else poison.kind.value


def _tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


def _one_or_more(value: object) -> object:
    return tuple(value) if isinstance(value, list | tuple) else (value,)


_ADDRESS_TEXT = PlainSerializer(lambda address: str(address or ""), return_type=str)

AddressField = Annotated[
    UnixAddress | TcpAddress,
    BeforeValidator(_address),
    _ADDRESS_TEXT,
    WithJsonSchema({"type": "string", "examples": ["unix:/run/kvchaos/cache.sock", "127.0.0.1:9465"]}),
]
TcpAddressField = Annotated[
    TcpAddress,
    BeforeValidator(_tcp_address),
    _ADDRESS_TEXT,
    WithJsonSchema({"type": "string", "examples": ["127.0.0.1:9464"]}),
]
HandoffAddressField = Annotated[
    UnixAddress | None,
    BeforeValidator(_handoff_address),
    _ADDRESS_TEXT,
    WithJsonSchema({"type": "string", "examples": ["", "unix:/run/kvchaos/handoff.sock"]}),
]
DurationField = Annotated[
    timedelta,
    BeforeValidator(_duration),
    PlainSerializer(format_duration),
    WithJsonSchema({"type": "string", "pattern": PATTERN, "examples": ["300ms", "5m", "1h30m"]}),
]
PoisonField = Annotated[
    Poison,
    BeforeValidator(_poison),
    PlainSerializer(poison_text),
    WithJsonSchema(
        {
            "oneOf": [
                {"enum": ["nan", "leave"]},
                {
                    "type": "object",
                    "properties": {"byte": {"type": "integer", "minimum": 0, "maximum": 255}},
                    "required": ["byte"],
                    "additionalProperties": False,
                },
            ]
        }
    ),
]
ListOf = Annotated[tuple[T, ...], BeforeValidator(_tuple)]
OneOrMore = Annotated[tuple[T, ...], BeforeValidator(_one_or_more), Field(min_length=1)]
"""A list, or its only element."""
Port = Annotated[int, Between(1, 65535)]
Int64 = Annotated[int, Between(INT64_MIN, INT64_MAX)]
Count = Annotated[int, Between(0, INT64_MAX)]
PositiveCount = Annotated[int, Between(1, INT64_MAX)]
Ratio = Annotated[float, Between(0, 1)]
Text = Annotated[str, Field(min_length=1)]


class Part(BaseModel):
    """A part of the document: frozen, strict, and without unknown keys."""

    model_config = ConfigDict(
        frozen=True, strict=True, extra="forbid", use_attribute_docstrings=True, hide_input_in_errors=True
    )
