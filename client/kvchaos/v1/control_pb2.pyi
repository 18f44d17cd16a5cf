import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from kvchaos.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetStatusResponse(_message.Message):
    __slots__ = ("daemon_version", "started_at", "warning", "fault_inject", "backend", "sessions", "config_path", "reload_error", "evaluated_total", "fired_total", "environment", "production_allowed", "halt_reason", "sessions_opened")
    DAEMON_VERSION_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    WARNING_FIELD_NUMBER: _ClassVar[int]
    FAULT_INJECT_FIELD_NUMBER: _ClassVar[int]
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    CONFIG_PATH_FIELD_NUMBER: _ClassVar[int]
    RELOAD_ERROR_FIELD_NUMBER: _ClassVar[int]
    EVALUATED_TOTAL_FIELD_NUMBER: _ClassVar[int]
    FIRED_TOTAL_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    PRODUCTION_ALLOWED_FIELD_NUMBER: _ClassVar[int]
    HALT_REASON_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_OPENED_FIELD_NUMBER: _ClassVar[int]
    daemon_version: str
    started_at: _timestamp_pb2.Timestamp
    warning: str
    fault_inject: _common_pb2.FaultInject
    backend: BackendStatus
    sessions: _containers.RepeatedCompositeFieldContainer[SessionStatus]
    config_path: str
    reload_error: str
    evaluated_total: int
    fired_total: int
    environment: str
    production_allowed: bool
    halt_reason: str
    sessions_opened: int
    def __init__(self, daemon_version: _Optional[str] = ..., started_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., warning: _Optional[str] = ..., fault_inject: _Optional[_Union[_common_pb2.FaultInject, _Mapping]] = ..., backend: _Optional[_Union[BackendStatus, _Mapping]] = ..., sessions: _Optional[_Iterable[_Union[SessionStatus, _Mapping]]] = ..., config_path: _Optional[str] = ..., reload_error: _Optional[str] = ..., evaluated_total: _Optional[int] = ..., fired_total: _Optional[int] = ..., environment: _Optional[str] = ..., production_allowed: bool = ..., halt_reason: _Optional[str] = ..., sessions_opened: _Optional[int] = ...) -> None: ...

class BackendStatus(_message.Message):
    __slots__ = ("type", "description", "healthy", "detail", "total_bytes", "capacity_bytes")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    HEALTHY_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_BYTES_FIELD_NUMBER: _ClassVar[int]
    type: str
    description: str
    healthy: bool
    detail: str
    total_bytes: int
    capacity_bytes: int
    def __init__(self, type: _Optional[str] = ..., description: _Optional[str] = ..., healthy: bool = ..., detail: _Optional[str] = ..., total_bytes: _Optional[int] = ..., capacity_bytes: _Optional[int] = ...) -> None: ...

class SessionStatus(_message.Message):
    __slots__ = ("client_name", "short_id", "opened_at", "transport", "locks", "grants", "uid")
    CLIENT_NAME_FIELD_NUMBER: _ClassVar[int]
    SHORT_ID_FIELD_NUMBER: _ClassVar[int]
    OPENED_AT_FIELD_NUMBER: _ClassVar[int]
    TRANSPORT_FIELD_NUMBER: _ClassVar[int]
    LOCKS_FIELD_NUMBER: _ClassVar[int]
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    client_name: str
    short_id: str
    opened_at: _timestamp_pb2.Timestamp
    transport: _common_pb2.Transport
    locks: int
    grants: int
    uid: int
    def __init__(self, client_name: _Optional[str] = ..., short_id: _Optional[str] = ..., opened_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., transport: _Optional[_Union[_common_pb2.Transport, str]] = ..., locks: _Optional[int] = ..., grants: _Optional[int] = ..., uid: _Optional[int] = ...) -> None: ...

class GetConfigRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetConfigResponse(_message.Message):
    __slots__ = ("fields", "generation", "warnings")
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    fields: _containers.RepeatedCompositeFieldContainer[ConfigField]
    generation: int
    warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, fields: _Optional[_Iterable[_Union[ConfigField, _Mapping]]] = ..., generation: _Optional[int] = ..., warnings: _Optional[_Iterable[str]] = ...) -> None: ...

class ConfigField(_message.Message):
    __slots__ = ("path", "value_json", "source", "expires_at")
    PATH_FIELD_NUMBER: _ClassVar[int]
    VALUE_JSON_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    path: str
    value_json: str
    source: str
    expires_at: _timestamp_pb2.Timestamp
    def __init__(self, path: _Optional[str] = ..., value_json: _Optional[str] = ..., source: _Optional[str] = ..., expires_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class SetFaultsRequest(_message.Message):
    __slots__ = ("rate", "seed", "gap_indices", "gap_tail_ratios", "time_to_live")
    RATE_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    GAP_INDICES_FIELD_NUMBER: _ClassVar[int]
    GAP_TAIL_RATIOS_FIELD_NUMBER: _ClassVar[int]
    TIME_TO_LIVE_FIELD_NUMBER: _ClassVar[int]
    rate: float
    seed: int
    gap_indices: Positions
    gap_tail_ratios: Ratios
    time_to_live: _duration_pb2.Duration
    def __init__(self, rate: _Optional[float] = ..., seed: _Optional[int] = ..., gap_indices: _Optional[_Union[Positions, _Mapping]] = ..., gap_tail_ratios: _Optional[_Union[Ratios, _Mapping]] = ..., time_to_live: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Positions(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, values: _Optional[_Iterable[int]] = ...) -> None: ...

class Ratios(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, values: _Optional[_Iterable[float]] = ...) -> None: ...

class ListRulesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListRulesResponse(_message.Message):
    __slots__ = ("rules", "halted")
    RULES_FIELD_NUMBER: _ClassVar[int]
    HALTED_FIELD_NUMBER: _ClassVar[int]
    rules: _containers.RepeatedCompositeFieldContainer[RuleStatus]
    halted: bool
    def __init__(self, rules: _Optional[_Iterable[_Union[RuleStatus, _Mapping]]] = ..., halted: bool = ...) -> None: ...

class RuleStatus(_message.Message):
    __slots__ = ("name", "source", "state", "operations", "fault", "definition_json", "evaluated", "fired", "expires_at", "awaited", "awaited_calls")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    FAULT_FIELD_NUMBER: _ClassVar[int]
    DEFINITION_JSON_FIELD_NUMBER: _ClassVar[int]
    EVALUATED_FIELD_NUMBER: _ClassVar[int]
    FIRED_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    AWAITED_FIELD_NUMBER: _ClassVar[int]
    AWAITED_CALLS_FIELD_NUMBER: _ClassVar[int]
    name: str
    source: str
    state: str
    operations: _containers.RepeatedScalarFieldContainer[str]
    fault: str
    definition_json: str
    evaluated: int
    fired: int
    expires_at: _timestamp_pb2.Timestamp
    awaited: int
    awaited_calls: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., source: _Optional[str] = ..., state: _Optional[str] = ..., operations: _Optional[_Iterable[str]] = ..., fault: _Optional[str] = ..., definition_json: _Optional[str] = ..., evaluated: _Optional[int] = ..., fired: _Optional[int] = ..., expires_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., awaited: _Optional[int] = ..., awaited_calls: _Optional[_Iterable[str]] = ...) -> None: ...

class AddRulesRequest(_message.Message):
    __slots__ = ("yaml", "time_to_live")
    YAML_FIELD_NUMBER: _ClassVar[int]
    TIME_TO_LIVE_FIELD_NUMBER: _ClassVar[int]
    yaml: str
    time_to_live: _duration_pb2.Duration
    def __init__(self, yaml: _Optional[str] = ..., time_to_live: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class RemoveRuleRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class SwitchRuleRequest(_message.Message):
    __slots__ = ("name", "enabled", "time_to_live")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ENABLED_FIELD_NUMBER: _ClassVar[int]
    TIME_TO_LIVE_FIELD_NUMBER: _ClassVar[int]
    name: str
    enabled: bool
    time_to_live: _duration_pb2.Duration
    def __init__(self, name: _Optional[str] = ..., enabled: bool = ..., time_to_live: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ResetRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReloadRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class HaltRequest(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class ResumeRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class UndoRequest(_message.Message):
    __slots__ = ("change",)
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    change: int
    def __init__(self, change: _Optional[int] = ...) -> None: ...

class ChangeResponse(_message.Message):
    __slots__ = ("fault_inject", "changed", "warnings", "change")
    FAULT_INJECT_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    fault_inject: _common_pb2.FaultInject
    changed: bool
    warnings: _containers.RepeatedScalarFieldContainer[str]
    change: int
    def __init__(self, fault_inject: _Optional[_Union[_common_pb2.FaultInject, _Mapping]] = ..., changed: bool = ..., warnings: _Optional[_Iterable[str]] = ..., change: _Optional[int] = ...) -> None: ...

class ExplainRequest(_message.Message):
    __slots__ = ("keys", "operation", "size_bytes", "client_name")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    CLIENT_NAME_FIELD_NUMBER: _ClassVar[int]
    keys: _common_pb2.KeyBatch
    operation: str
    size_bytes: _containers.RepeatedScalarFieldContainer[int]
    client_name: str
    def __init__(self, keys: _Optional[_Union[_common_pb2.KeyBatch, _Mapping]] = ..., operation: _Optional[str] = ..., size_bytes: _Optional[_Iterable[int]] = ..., client_name: _Optional[str] = ...) -> None: ...

class ExplainResponse(_message.Message):
    __slots__ = ("generation", "positions", "halted")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    HALTED_FIELD_NUMBER: _ClassVar[int]
    generation: int
    positions: _containers.RepeatedCompositeFieldContainer[ExplainedPosition]
    halted: bool
    def __init__(self, generation: _Optional[int] = ..., positions: _Optional[_Iterable[_Union[ExplainedPosition, _Mapping]]] = ..., halted: bool = ...) -> None: ...

class ExplainedPosition(_message.Message):
    __slots__ = ("position", "hits")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    HITS_FIELD_NUMBER: _ClassVar[int]
    position: int
    hits: _containers.RepeatedCompositeFieldContainer[ExplainedHit]
    def __init__(self, position: _Optional[int] = ..., hits: _Optional[_Iterable[_Union[ExplainedHit, _Mapping]]] = ...) -> None: ...

class ExplainedHit(_message.Message):
    __slots__ = ("rule", "reason", "fault", "detail")
    RULE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    FAULT_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    rule: str
    reason: str
    fault: str
    detail: str
    def __init__(self, rule: _Optional[str] = ..., reason: _Optional[str] = ..., fault: _Optional[str] = ..., detail: _Optional[str] = ...) -> None: ...

class ListDropsRequest(_message.Message):
    __slots__ = ("limit",)
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    limit: int
    def __init__(self, limit: _Optional[int] = ...) -> None: ...

class ListDropsResponse(_message.Message):
    __slots__ = ("events", "forgotten")
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    FORGOTTEN_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[DropEvent]
    forgotten: int
    def __init__(self, events: _Optional[_Iterable[_Union[DropEvent, _Mapping]]] = ..., forgotten: _Optional[int] = ...) -> None: ...

class WatchDropsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WatchDropsResponse(_message.Message):
    __slots__ = ("event", "missed")
    EVENT_FIELD_NUMBER: _ClassVar[int]
    MISSED_FIELD_NUMBER: _ClassVar[int]
    event: DropEvent
    missed: int
    def __init__(self, event: _Optional[_Union[DropEvent, _Mapping]] = ..., missed: _Optional[int] = ...) -> None: ...

class DropEvent(_message.Message):
    __slots__ = ("sequence", "time", "session", "client_name", "rule", "reason", "fault", "operation", "batch_size", "positions", "sample_keys", "generation")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    CLIENT_NAME_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    FAULT_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_KEYS_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    time: _timestamp_pb2.Timestamp
    session: str
    client_name: str
    rule: str
    reason: str
    fault: str
    operation: str
    batch_size: int
    positions: _containers.RepeatedScalarFieldContainer[int]
    sample_keys: _containers.RepeatedScalarFieldContainer[str]
    generation: int
    def __init__(self, sequence: _Optional[int] = ..., time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., session: _Optional[str] = ..., client_name: _Optional[str] = ..., rule: _Optional[str] = ..., reason: _Optional[str] = ..., fault: _Optional[str] = ..., operation: _Optional[str] = ..., batch_size: _Optional[int] = ..., positions: _Optional[_Iterable[int]] = ..., sample_keys: _Optional[_Iterable[str]] = ..., generation: _Optional[int] = ...) -> None: ...
