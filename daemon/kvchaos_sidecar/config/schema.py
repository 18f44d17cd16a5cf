"""The sidecar's configuration document, version 1.

Everything is frozen, strict and refuses unknown keys. :mod:`kvchaos_sidecar.config.load` turns YAML into a
Document and pydantic's errors into messages for a person.
"""

from __future__ import annotations

import os.path
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    PlainSerializer,
    SecretStr,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic.json_schema import GenerateJsonSchema

from kvchaos.durations import PATTERN, format_duration, parse_duration
from kvchaos_sidecar.config.addresses import TcpAddress, UnixAddress, parse_address
from kvchaos_sidecar.config.bounds import Between
from kvchaos_sidecar.config.problems import shown
from kvchaos_sidecar.faults.drop import Poison, PoisonKind

RELOADABLE = frozenset({"fault_inject"})
"""Parts of the document that may change while the daemon runs."""

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


def _poison_text(poison: Poison) -> object:
    return {"byte": poison.fill} if poison.kind is PoisonKind.BYTE else poison.kind.value


def _tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


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
    PlainSerializer(_poison_text),
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
Port = Annotated[int, Between(1, 65535)]
Int64 = Annotated[int, Between(INT64_MIN, INT64_MAX)]
Count = Annotated[int, Between(0, INT64_MAX)]
PositiveCount = Annotated[int, Between(1, INT64_MAX)]
Ratio = Annotated[float, Between(0, 1)]
Text = Annotated[str, Field(min_length=1)]


class _Part(BaseModel):
    model_config = ConfigDict(
        frozen=True, strict=True, extra="forbid", use_attribute_docstrings=True, hide_input_in_errors=True
    )


class Tls(_Part):
    """Certificate of the gRPC listeners."""

    certificate: Text
    """Path of the certificate chain in PEM."""
    key: Text
    """Path of the private key in PEM."""


class Listen(_Part):
    """Where the daemon listens. An address is `unix:PATH` or `HOST:PORT`."""

    cache: AddressField = UnixAddress("/run/kvchaos/cache.sock")
    """The data plane: cache servers connect here."""
    control: AddressField = UnixAddress("/run/kvchaos/control.sock")
    """The control plane: the kvchaos command connects here."""
    http: TcpAddressField = TcpAddress("127.0.0.1", 9464)
    """/metrics, /healthz and /readyz, without TLS and token. HOST:PORT only."""
    handoff: HandoffAddressField = None
    """The socket for descriptor passing, `unix:PATH`. Empty: `handoff.sock` beside the cache socket when that
    is a Unix socket, else none."""
    tls: Tls | None = None
    """TLS for both gRPC listeners. Needed, with token_file, on an address that is not loopback."""
    token_file: Text | None = None
    """Path of a file with the token that clients of a TCP listener must send."""

    @model_validator(mode="after")
    def _remote_listeners_are_guarded(self) -> Listen:
        missing = [name for name in ("tls", "token_file") if getattr(self, name) is None]
        remote = [name for name in ("cache", "control") if not getattr(self, name).is_local]
        if remote and missing:
            places = " and ".join(f"{name} ({getattr(self, name)})" for name in remote)
            raise ValueError(
                f"{places} can be reached from other hosts: set {' and '.join(missing)}, "
                "or listen on 127.0.0.1 or a Unix socket"
            )
        return self

    @property
    def handoff_path(self) -> str | None:
        """Path of the socket for descriptor passing; None when it is not offered."""
        if self.handoff is not None:
            return self.handoff.path
        if isinstance(self.cache, UnixAddress):
            return os.path.join(os.path.dirname(self.cache.path), "handoff.sock")
        return None


class Handoff(_Part):
    """Who may receive descriptors."""

    allow_uids: ListOf[Annotated[int, Between(0, 2**32 - 2)]] = ()
    """User ids of client processes. Empty: the daemon's own user and root."""


class FsBackend(_Part):
    """A directory with the files of LMCache's fs and fs_native adapters."""

    type: Literal["fs"]
    base_path: Text
    """The directory."""


class MemoryBackend(_Part):
    """The daemon's own memory; gone when it ends."""

    type: Literal["memory"]
    capacity_bytes: PositiveCount
    """Bytes of objects it may hold."""


class RedisBackend(_Part):
    """A Redis or Valkey server, with the keys and values of LMCache's resp adapter."""

    type: Literal["redis"]
    host: Text = "127.0.0.1"
    """Name or address of the server."""
    port: Port = 6379
    """Its TCP port."""
    username: str = ""
    """User name; empty for none."""
    password: SecretStr = SecretStr("")
    """Password; empty for none."""
    db: Annotated[int, Between(0, 65535)] = 0
    """Number of the logical database."""
    capacity_bytes: Count = 0
    """Bytes the store is taken to hold, for usage and eviction; 0 for no limit."""


class LMCacheBackend(_Part):
    """Any adapter that is registered in an installed LMCache."""

    type: Literal["lmcache"]
    inner: dict[str, JsonValue]
    """The adapter's own spec, verbatim, with its `type`."""

    @field_validator("inner")
    @classmethod
    def _inner_has_a_type(cls, value: dict[str, JsonValue]) -> dict[str, JsonValue]:
        if not isinstance(value.get("type"), str):
            raise ValueError("needs a string 'type', the name of an LMCache adapter, for example fs_native")
        return value


Backend = Annotated[FsBackend | MemoryBackend | RedisBackend | LMCacheBackend, Field(discriminator="type")]


class FaultInject(_Part):
    """LMCache's fault_inject: keys whose load fails although lookup reports them present."""

    rate: Ratio = 0.0
    """Share of keys dropped, by a seeded hash of the key."""
    seed: Int64 = 0
    """Seed of that hash."""
    gap_indices: ListOf[Count] = ()
    """Positions in a load batch that are always dropped, from the head."""
    gap_tail_ratios: ListOf[Ratio] = ()
    """Positions always dropped, as distance from the tail over batch length: 0 last, 0.5 middle, 1 first."""
    poison: PoisonField = Poison()
    """What the destination of a dropped key is filled with."""


class Limits(_Part):
    """Bounds on what clients can hold."""

    lock_ttl: DurationField = timedelta(minutes=10)
    """A lock that is neither used nor released ends after this."""
    grant_ttl: DurationField = timedelta(seconds=60)
    """A grant that is neither used nor released ends after this."""
    staging_bytes: PositiveCount = 1 << 30
    """Memory for objects on their way between a client and a store that has no files."""
    max_sessions: Annotated[int, Between(1, 65536)] = 1024
    """Cache servers connected at the same time."""


class Document(_Part):
    """Configuration of the kvchaos sidecar."""

    version: Annotated[int, Between(1, 1)]
    """Version of this format."""
    listen: Listen = Listen()
    """Where the daemon listens."""
    handoff: Handoff = Handoff()
    """Who may receive descriptors."""
    backend: Backend
    """The store behind the proxy."""
    fault_inject: FaultInject = FaultInject()
    """LMCache's faults, with its names and meaning."""
    limits: Limits = Limits()
    """Bounds on what clients can hold."""


class _FileSchema(GenerateJsonSchema):
    """Writes defaults as a file would."""

    def encode_default(self, dft: Any) -> Any:
        match dft:
            case UnixAddress() | TcpAddress():
                return str(dft)
            case timedelta():
                return format_duration(dft)
            case Poison():
                return _poison_text(dft)
            case BaseModel():
                return dft.model_dump(mode="json")
        return super().encode_default(dft)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a configuration file, for editors."""
    schema = Document.model_json_schema(mode="validation", schema_generator=_FileSchema)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
