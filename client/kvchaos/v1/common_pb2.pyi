from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Result(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RESULT_UNSPECIFIED: _ClassVar[Result]
    RESULT_OK: _ClassVar[Result]
    RESULT_PRESENT: _ClassVar[Result]
    RESULT_NOT_FOUND: _ClassVar[Result]
    RESULT_DROPPED: _ClassVar[Result]
    RESULT_SIZE_MISMATCH: _ClassVar[Result]
    RESULT_IO_ERROR: _ClassVar[Result]
    RESULT_NO_SPACE: _ClassVar[Result]
    RESULT_UNAVAILABLE: _ClassVar[Result]
    RESULT_TIMED_OUT: _ClassVar[Result]
    RESULT_INVALID: _ClassVar[Result]

class Transport(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TRANSPORT_UNSPECIFIED: _ClassVar[Transport]
    TRANSPORT_HANDOFF: _ClassVar[Transport]
    TRANSPORT_INLINE: _ClassVar[Transport]
RESULT_UNSPECIFIED: Result
RESULT_OK: Result
RESULT_PRESENT: Result
RESULT_NOT_FOUND: Result
RESULT_DROPPED: Result
RESULT_SIZE_MISMATCH: Result
RESULT_IO_ERROR: Result
RESULT_NO_SPACE: Result
RESULT_UNAVAILABLE: Result
RESULT_TIMED_OUT: Result
RESULT_INVALID: Result
TRANSPORT_UNSPECIFIED: Transport
TRANSPORT_HANDOFF: Transport
TRANSPORT_INLINE: Transport

class KeyBatch(_message.Message):
    __slots__ = ("chunk_hash", "model_name", "kv_rank", "object_group_id", "cache_salt")
    CHUNK_HASH_FIELD_NUMBER: _ClassVar[int]
    MODEL_NAME_FIELD_NUMBER: _ClassVar[int]
    KV_RANK_FIELD_NUMBER: _ClassVar[int]
    OBJECT_GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    CACHE_SALT_FIELD_NUMBER: _ClassVar[int]
    chunk_hash: _containers.RepeatedScalarFieldContainer[bytes]
    model_name: _containers.RepeatedScalarFieldContainer[str]
    kv_rank: _containers.RepeatedScalarFieldContainer[int]
    object_group_id: _containers.RepeatedScalarFieldContainer[int]
    cache_salt: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, chunk_hash: _Optional[_Iterable[bytes]] = ..., model_name: _Optional[_Iterable[str]] = ..., kv_rank: _Optional[_Iterable[int]] = ..., object_group_id: _Optional[_Iterable[int]] = ..., cache_salt: _Optional[_Iterable[str]] = ...) -> None: ...

class Poison(_message.Message):
    __slots__ = ("kind", "fill")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        KIND_UNSPECIFIED: _ClassVar[Poison.Kind]
        KIND_NAN: _ClassVar[Poison.Kind]
        KIND_BYTE: _ClassVar[Poison.Kind]
        KIND_LEAVE: _ClassVar[Poison.Kind]
    KIND_UNSPECIFIED: Poison.Kind
    KIND_NAN: Poison.Kind
    KIND_BYTE: Poison.Kind
    KIND_LEAVE: Poison.Kind
    KIND_FIELD_NUMBER: _ClassVar[int]
    FILL_FIELD_NUMBER: _ClassVar[int]
    kind: Poison.Kind
    fill: int
    def __init__(self, kind: _Optional[_Union[Poison.Kind, str]] = ..., fill: _Optional[int] = ...) -> None: ...

class FaultInject(_message.Message):
    __slots__ = ("rate", "seed", "gap_indices", "gap_tail_ratios", "generation", "halted", "rules")
    RATE_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    GAP_INDICES_FIELD_NUMBER: _ClassVar[int]
    GAP_TAIL_RATIOS_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    HALTED_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    rate: float
    seed: int
    gap_indices: _containers.RepeatedScalarFieldContainer[int]
    gap_tail_ratios: _containers.RepeatedScalarFieldContainer[float]
    generation: int
    halted: bool
    rules: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, rate: _Optional[float] = ..., seed: _Optional[int] = ..., gap_indices: _Optional[_Iterable[int]] = ..., gap_tail_ratios: _Optional[_Iterable[float]] = ..., generation: _Optional[int] = ..., halted: bool = ..., rules: _Optional[_Iterable[str]] = ...) -> None: ...
