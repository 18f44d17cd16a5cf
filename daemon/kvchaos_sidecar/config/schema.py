"""The sidecar's configuration document, version 1.

Everything is frozen, strict and refuses unknown keys. :mod:`kvchaos_sidecar.config.load` turns YAML into a
Document and pydantic's errors into messages for a person.
"""

from __future__ import annotations

import os.path
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, JsonValue, SecretStr, field_validator, model_validator
from pydantic.json_schema import GenerateJsonSchema

from kvchaos.durations import format_duration
from kvchaos_sidecar.config.addresses import TcpAddress, UnixAddress
from kvchaos_sidecar.config.bounds import Between
from kvchaos_sidecar.config.fields import (
    INT64_MAX,
    AddressField,
    Count,
    DurationField,
    HandoffAddressField,
    Int64,
    ListOf,
    Part,
    PoisonField,
    Port,
    PositiveCount,
    Ratio,
    TcpAddressField,
    Text,
    poison_text,
)
from kvchaos_sidecar.config.rule import RulesField
from kvchaos_sidecar.config.safety import Safety
from kvchaos_sidecar.faults.poison import Poison

RELOADABLE = frozenset({"fault_inject", "rules", "safety"})
"""Parts of the document that may change while the daemon runs."""

PRODUCTION = ("production", "prod")
"""Names of an environment where nothing is armed without an explicit flag."""


class Tls(Part):
    """Certificate of the gRPC listeners."""

    certificate: Text
    """Path of the certificate chain in PEM."""
    key: Text
    """Path of the private key in PEM."""


class Listen(Part):
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


class Handoff(Part):
    """Who may receive descriptors."""

    allow_uids: ListOf[Annotated[int, Between(0, 2**32 - 2)]] = ()
    """User ids of client processes. Empty: the daemon's own user and root."""


class FsBackend(Part):
    """A directory with the files of LMCache's fs and fs_native adapters."""

    type: Literal["fs"]
    base_path: Text
    """The directory."""


class MemoryBackend(Part):
    """The daemon's own memory; gone when it ends."""

    type: Literal["memory"]
    capacity_bytes: PositiveCount
    """Bytes of objects it may hold."""


class RedisBackend(Part):
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


class LMCacheBackend(Part):
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


class FaultInject(Part):
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

    @property
    def arms(self) -> bool:
        """Whether it can drop anything."""
        return bool(self.rate or self.gap_indices or self.gap_tail_ratios)


class Limits(Part):
    """Bounds on what clients can hold."""

    lock_ttl: DurationField = timedelta(minutes=10)
    """A lock that is neither used nor released ends after this."""
    grant_ttl: DurationField = timedelta(seconds=60)
    """A grant that is neither used nor released ends after this."""
    staging_bytes: PositiveCount = 1 << 30
    """Memory for objects on their way between a client and a store that has no files."""
    max_sessions: Annotated[int, Between(1, 65536)] = 1024
    """Cache servers connected at the same time."""
    session_grants: Annotated[int, Between(1, 1_000_000)] = 65_536
    """Objects that one cache server may have been granted and not given back. What goes beyond is refused."""


class Recording(Part):
    """A file with every call, what the rules did to it and what became of it. Without payload."""

    path: str = ""
    """The file, as JSON lines. Empty: nothing is recorded. A file that is there is moved to `PATH.1`."""
    max_bytes: Annotated[int, Between(16 << 20, INT64_MAX)] = 256 << 20
    """Size at which the file is moved to `PATH.1`, and that one to `PATH.2`."""
    files: PositiveCount = 4
    """How many files there are at most; the oldest is deleted."""


class Document(Part):
    """Configuration of the kvchaos sidecar."""

    version: Annotated[int, Between(1, 1)]
    """Version of this format."""
    listen: Listen = Listen()
    """Where the daemon listens."""
    handoff: Handoff = Handoff()
    """Who may receive descriptors."""
    backend: Backend
    """The store behind the proxy."""
    environment: str = ""
    """Name of the environment, for example `staging`. Rules are armed only where it is named; in `production`
    nothing is armed unless `safety.allow_production` says so."""
    fault_inject: FaultInject = FaultInject()
    """LMCache's faults, with its names and meaning."""
    rules: RulesField = ()
    """Further rules, in the order in which they apply, after fault_inject."""
    safety: Safety = Safety()
    """What keeps injection within bounds."""
    limits: Limits = Limits()
    """Bounds on what clients can hold."""
    recording: Recording = Recording()
    """Where a run is recorded, for judging it afterwards and for replaying its faults."""

    @model_validator(mode="after")
    def _may_be_armed_here(self) -> Document:
        refusal = self.refusal_to_arm(rules=bool(self.rules))
        if refusal and (self.rules or self.fault_inject.arms):
            raise ValueError(refusal)
        return self

    def refusal_to_arm(self, rules: bool) -> str:
        """Why faults may not be armed here; empty when they may. ``rules``: other than fault_inject."""
        if self.environment.lower() in PRODUCTION and not self.safety.allow_production:
            return (
                f"environment: faults are not armed in {self.environment!r}; "
                "set safety.allow_production: true if that is really meant"
            )
        if rules and not self.environment:
            return (
                "environment: missing; rules are armed only where it is named, for example environment: lab"
            )
        return ""


class _FileSchema(GenerateJsonSchema):
    """Writes defaults as a file would."""

    def encode_default(self, dft: Any) -> Any:
        match dft:
            case UnixAddress() | TcpAddress():
                return str(dft)
            case timedelta():
                return format_duration(dft)
            case Poison():
                return poison_text(dft)
            case BaseModel():
                return dft.model_dump(mode="json")
        return super().encode_default(dft)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a configuration file, for editors."""
    schema = Document.model_json_schema(mode="validation", schema_generator=_FileSchema)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
