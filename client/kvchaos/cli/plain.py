"""Messages as plain values for JSON: numbers stay numbers, moments are ISO 8601, enums their names."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp


def plain(message: Message) -> dict[str, Any]:
    """Every field by its name; None for a message that is not set."""
    return {field.name: _field(message, field) for field in message.DESCRIPTOR.fields}


def iso(moment: Timestamp) -> str:
    """A moment in UTC, to the millisecond; empty when it is not set."""
    if not moment.seconds:
        return ""
    start = datetime(1970, 1, 1, tzinfo=UTC)
    when = start + timedelta(seconds=moment.seconds, microseconds=moment.nanos // 1000)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _field(message: Message, field: Any) -> Any:
    value = getattr(message, field.name)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_value(item, field) for item in value]
    if isinstance(value, Message) and not message.HasField(field.name):
        return None
    return _value(value, field)


def _value(value: Any, field: Any) -> Any:
    if isinstance(value, Timestamp):
        return iso(value)
    if isinstance(value, Message):
        return plain(value)
    if field.enum_type is not None:
        return field.enum_type.values_by_number[value].name.rpartition("_")[2].lower()
    return value
