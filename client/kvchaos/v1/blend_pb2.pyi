import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RecoveryPolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RECOVERY_POLICY_UNSPECIFIED: _ClassVar[RecoveryPolicy]
    RECOVERY_POLICY_FULL_PREFILL: _ClassVar[RecoveryPolicy]
    RECOVERY_POLICY_PREFIX: _ClassVar[RecoveryPolicy]
    RECOVERY_POLICY_SEGMENTED_PREFIX: _ClassVar[RecoveryPolicy]

class SegmentAction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SEGMENT_ACTION_UNSPECIFIED: _ClassVar[SegmentAction]
    SEGMENT_ACTION_LOADED: _ClassVar[SegmentAction]
    SEGMENT_ACTION_RECOMPUTED: _ClassVar[SegmentAction]
    SEGMENT_ACTION_DROPPED: _ClassVar[SegmentAction]
RECOVERY_POLICY_UNSPECIFIED: RecoveryPolicy
RECOVERY_POLICY_FULL_PREFILL: RecoveryPolicy
RECOVERY_POLICY_PREFIX: RecoveryPolicy
RECOVERY_POLICY_SEGMENTED_PREFIX: RecoveryPolicy
SEGMENT_ACTION_UNSPECIFIED: SegmentAction
SEGMENT_ACTION_LOADED: SegmentAction
SEGMENT_ACTION_RECOMPUTED: SegmentAction
SEGMENT_ACTION_DROPPED: SegmentAction

class Prompt(_message.Message):
    __slots__ = ("token_ids", "text")
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    token_ids: TokenIds
    text: str
    def __init__(self, token_ids: _Optional[_Union[TokenIds, _Mapping]] = ..., text: _Optional[str] = ...) -> None: ...

class TokenIds(_message.Message):
    __slots__ = ("ids",)
    IDS_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, ids: _Optional[_Iterable[int]] = ...) -> None: ...

class StoreRequest(_message.Message):
    __slots__ = ("prompt",)
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    prompt: Prompt
    def __init__(self, prompt: _Optional[_Union[Prompt, _Mapping]] = ...) -> None: ...

class StoreResponse(_message.Message):
    __slots__ = ("prompt_tokens", "chunks", "stored", "present", "failed", "stored_bytes", "phases", "total")
    class FailedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    STORED_FIELD_NUMBER: _ClassVar[int]
    PRESENT_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    STORED_BYTES_FIELD_NUMBER: _ClassVar[int]
    PHASES_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    prompt_tokens: int
    chunks: int
    stored: int
    present: int
    failed: _containers.ScalarMap[str, int]
    stored_bytes: int
    phases: _containers.RepeatedCompositeFieldContainer[PhaseTime]
    total: _duration_pb2.Duration
    def __init__(self, prompt_tokens: _Optional[int] = ..., chunks: _Optional[int] = ..., stored: _Optional[int] = ..., present: _Optional[int] = ..., failed: _Optional[_Mapping[str, int]] = ..., stored_bytes: _Optional[int] = ..., phases: _Optional[_Iterable[_Union[PhaseTime, _Mapping]]] = ..., total: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class PlanRequest(_message.Message):
    __slots__ = ("prompt_tokens", "missing_chunks", "policy")
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MISSING_CHUNKS_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    prompt_tokens: int
    missing_chunks: _containers.RepeatedScalarFieldContainer[int]
    policy: RecoveryPolicy
    def __init__(self, prompt_tokens: _Optional[int] = ..., missing_chunks: _Optional[_Iterable[int]] = ..., policy: _Optional[_Union[RecoveryPolicy, str]] = ...) -> None: ...

class PlanResponse(_message.Message):
    __slots__ = ("plan",)
    PLAN_FIELD_NUMBER: _ClassVar[int]
    plan: RecoveryPlan
    def __init__(self, plan: _Optional[_Union[RecoveryPlan, _Mapping]] = ...) -> None: ...

class RecoveryPlan(_message.Message):
    __slots__ = ("policy", "prompt_tokens", "chunk_tokens", "segments", "kept_chunks", "tokens_loaded", "tokens_recomputed", "tokens_dropped")
    POLICY_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CHUNK_TOKENS_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    KEPT_CHUNKS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_LOADED_FIELD_NUMBER: _ClassVar[int]
    TOKENS_RECOMPUTED_FIELD_NUMBER: _ClassVar[int]
    TOKENS_DROPPED_FIELD_NUMBER: _ClassVar[int]
    policy: RecoveryPolicy
    prompt_tokens: int
    chunk_tokens: int
    segments: _containers.RepeatedCompositeFieldContainer[Segment]
    kept_chunks: _containers.RepeatedScalarFieldContainer[int]
    tokens_loaded: int
    tokens_recomputed: int
    tokens_dropped: int
    def __init__(self, policy: _Optional[_Union[RecoveryPolicy, str]] = ..., prompt_tokens: _Optional[int] = ..., chunk_tokens: _Optional[int] = ..., segments: _Optional[_Iterable[_Union[Segment, _Mapping]]] = ..., kept_chunks: _Optional[_Iterable[int]] = ..., tokens_loaded: _Optional[int] = ..., tokens_recomputed: _Optional[int] = ..., tokens_dropped: _Optional[int] = ...) -> None: ...

class Segment(_message.Message):
    __slots__ = ("action", "start", "end")
    ACTION_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    action: SegmentAction
    start: int
    end: int
    def __init__(self, action: _Optional[_Union[SegmentAction, str]] = ..., start: _Optional[int] = ..., end: _Optional[int] = ...) -> None: ...

class RecoverRequest(_message.Message):
    __slots__ = ("prompt", "policy", "new_tokens", "heal", "verify")
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    NEW_TOKENS_FIELD_NUMBER: _ClassVar[int]
    HEAL_FIELD_NUMBER: _ClassVar[int]
    VERIFY_FIELD_NUMBER: _ClassVar[int]
    prompt: Prompt
    policy: RecoveryPolicy
    new_tokens: int
    heal: bool
    verify: bool
    def __init__(self, prompt: _Optional[_Union[Prompt, _Mapping]] = ..., policy: _Optional[_Union[RecoveryPolicy, str]] = ..., new_tokens: _Optional[int] = ..., heal: bool = ..., verify: bool = ...) -> None: ...

class RecoverEvent(_message.Message):
    __slots__ = ("phase", "chunk", "plan", "layer", "token", "report")
    PHASE_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    LAYER_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    phase: str
    chunk: ChunkSettled
    plan: RecoveryPlan
    layer: LayerStarted
    token: int
    report: RecoveryReport
    def __init__(self, phase: _Optional[str] = ..., chunk: _Optional[_Union[ChunkSettled, _Mapping]] = ..., plan: _Optional[_Union[RecoveryPlan, _Mapping]] = ..., layer: _Optional[_Union[LayerStarted, _Mapping]] = ..., token: _Optional[int] = ..., report: _Optional[_Union[RecoveryReport, _Mapping]] = ...) -> None: ...

class ChunkSettled(_message.Message):
    __slots__ = ("chunk", "outcome")
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    chunk: int
    outcome: str
    def __init__(self, chunk: _Optional[int] = ..., outcome: _Optional[str] = ...) -> None: ...

class LayerStarted(_message.Message):
    __slots__ = ("layer", "layers", "tokens")
    LAYER_FIELD_NUMBER: _ClassVar[int]
    LAYERS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    layer: int
    layers: int
    tokens: int
    def __init__(self, layer: _Optional[int] = ..., layers: _Optional[int] = ..., tokens: _Optional[int] = ...) -> None: ...

class PhaseTime(_message.Message):
    __slots__ = ("phase", "time")
    PHASE_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    phase: str
    time: _duration_pb2.Duration
    def __init__(self, phase: _Optional[str] = ..., time: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class RecoveryReport(_message.Message):
    __slots__ = ("recovered", "asked_policy", "plan", "fallback_reason", "chunk_outcomes", "loaded_bytes", "tokens", "text", "attention", "phases", "load_span", "total", "warnings", "healed_chunks", "verification", "tokens_saved")
    RECOVERED_FIELD_NUMBER: _ClassVar[int]
    ASKED_POLICY_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    FALLBACK_REASON_FIELD_NUMBER: _ClassVar[int]
    CHUNK_OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    LOADED_BYTES_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    ATTENTION_FIELD_NUMBER: _ClassVar[int]
    PHASES_FIELD_NUMBER: _ClassVar[int]
    LOAD_SPAN_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    HEALED_CHUNKS_FIELD_NUMBER: _ClassVar[int]
    VERIFICATION_FIELD_NUMBER: _ClassVar[int]
    TOKENS_SAVED_FIELD_NUMBER: _ClassVar[int]
    recovered: bool
    asked_policy: RecoveryPolicy
    plan: RecoveryPlan
    fallback_reason: str
    chunk_outcomes: _containers.RepeatedScalarFieldContainer[str]
    loaded_bytes: int
    tokens: _containers.RepeatedScalarFieldContainer[int]
    text: str
    attention: str
    phases: _containers.RepeatedCompositeFieldContainer[PhaseTime]
    load_span: _duration_pb2.Duration
    total: _duration_pb2.Duration
    warnings: _containers.RepeatedScalarFieldContainer[str]
    healed_chunks: int
    verification: Verification
    tokens_saved: int
    def __init__(self, recovered: bool = ..., asked_policy: _Optional[_Union[RecoveryPolicy, str]] = ..., plan: _Optional[_Union[RecoveryPlan, _Mapping]] = ..., fallback_reason: _Optional[str] = ..., chunk_outcomes: _Optional[_Iterable[str]] = ..., loaded_bytes: _Optional[int] = ..., tokens: _Optional[_Iterable[int]] = ..., text: _Optional[str] = ..., attention: _Optional[str] = ..., phases: _Optional[_Iterable[_Union[PhaseTime, _Mapping]]] = ..., load_span: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., total: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., warnings: _Optional[_Iterable[str]] = ..., healed_chunks: _Optional[int] = ..., verification: _Optional[_Union[Verification, _Mapping]] = ..., tokens_saved: _Optional[int] = ...) -> None: ...

class Verification(_message.Message):
    __slots__ = ("passed", "gates", "layers")
    PASSED_FIELD_NUMBER: _ClassVar[int]
    GATES_FIELD_NUMBER: _ClassVar[int]
    LAYERS_FIELD_NUMBER: _ClassVar[int]
    passed: bool
    gates: _containers.RepeatedCompositeFieldContainer[Gate]
    layers: _containers.RepeatedCompositeFieldContainer[LayerError]
    def __init__(self, passed: bool = ..., gates: _Optional[_Iterable[_Union[Gate, _Mapping]]] = ..., layers: _Optional[_Iterable[_Union[LayerError, _Mapping]]] = ...) -> None: ...

class Gate(_message.Message):
    __slots__ = ("name", "passed", "measured", "limit", "detail")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PASSED_FIELD_NUMBER: _ClassVar[int]
    MEASURED_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    name: str
    passed: bool
    measured: float
    limit: float
    detail: str
    def __init__(self, name: _Optional[str] = ..., passed: bool = ..., measured: _Optional[float] = ..., limit: _Optional[float] = ..., detail: _Optional[str] = ...) -> None: ...

class LayerError(_message.Message):
    __slots__ = ("layer", "key", "value")
    LAYER_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    layer: int
    key: float
    value: float
    def __init__(self, layer: _Optional[int] = ..., key: _Optional[float] = ..., value: _Optional[float] = ...) -> None: ...

class BlendStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class BlendStatusResponse(_message.Message):
    __slots__ = ("worker_version", "started_at", "model", "architecture", "geometry", "device", "attention", "max_positions", "key_model_name", "chunk_tokens", "ranks", "default_policy", "pool_blocks", "pool_free_blocks", "block_tokens", "running", "store_connected", "store_detail", "attention_reason")
    WORKER_VERSION_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    ARCHITECTURE_FIELD_NUMBER: _ClassVar[int]
    GEOMETRY_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    ATTENTION_FIELD_NUMBER: _ClassVar[int]
    MAX_POSITIONS_FIELD_NUMBER: _ClassVar[int]
    KEY_MODEL_NAME_FIELD_NUMBER: _ClassVar[int]
    CHUNK_TOKENS_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_POLICY_FIELD_NUMBER: _ClassVar[int]
    POOL_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    POOL_FREE_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    BLOCK_TOKENS_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    STORE_CONNECTED_FIELD_NUMBER: _ClassVar[int]
    STORE_DETAIL_FIELD_NUMBER: _ClassVar[int]
    ATTENTION_REASON_FIELD_NUMBER: _ClassVar[int]
    worker_version: str
    started_at: _timestamp_pb2.Timestamp
    model: str
    architecture: str
    geometry: str
    device: str
    attention: str
    max_positions: int
    key_model_name: str
    chunk_tokens: int
    ranks: int
    default_policy: RecoveryPolicy
    pool_blocks: int
    pool_free_blocks: int
    block_tokens: int
    running: int
    store_connected: bool
    store_detail: str
    attention_reason: str
    def __init__(self, worker_version: _Optional[str] = ..., started_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., model: _Optional[str] = ..., architecture: _Optional[str] = ..., geometry: _Optional[str] = ..., device: _Optional[str] = ..., attention: _Optional[str] = ..., max_positions: _Optional[int] = ..., key_model_name: _Optional[str] = ..., chunk_tokens: _Optional[int] = ..., ranks: _Optional[int] = ..., default_policy: _Optional[_Union[RecoveryPolicy, str]] = ..., pool_blocks: _Optional[int] = ..., pool_free_blocks: _Optional[int] = ..., block_tokens: _Optional[int] = ..., running: _Optional[int] = ..., store_connected: bool = ..., store_detail: _Optional[str] = ..., attention_reason: _Optional[str] = ...) -> None: ...
