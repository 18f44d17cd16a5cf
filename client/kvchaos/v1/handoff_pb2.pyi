from kvchaos.v1 import cache_pb2 as _cache_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ClientPacket(_message.Message):
    __slots__ = ("hello", "release", "call", "cancel")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    release: Release
    call: Call
    cancel: Cancel
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., release: _Optional[_Union[Release, _Mapping]] = ..., call: _Optional[_Union[Call, _Mapping]] = ..., cancel: _Optional[_Union[Cancel, _Mapping]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("session_id", "token")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    token: bytes
    def __init__(self, session_id: _Optional[str] = ..., token: _Optional[bytes] = ...) -> None: ...

class Release(_message.Message):
    __slots__ = ("request_id", "failed_position")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    FAILED_POSITION_FIELD_NUMBER: _ClassVar[int]
    request_id: int
    failed_position: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, request_id: _Optional[int] = ..., failed_position: _Optional[_Iterable[int]] = ...) -> None: ...

class Call(_message.Message):
    __slots__ = ("call_id", "lookup_and_lock", "unlock", "load", "prepare_store", "commit_store")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    LOOKUP_AND_LOCK_FIELD_NUMBER: _ClassVar[int]
    UNLOCK_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    PREPARE_STORE_FIELD_NUMBER: _ClassVar[int]
    COMMIT_STORE_FIELD_NUMBER: _ClassVar[int]
    call_id: int
    lookup_and_lock: _cache_pb2.LookupAndLockRequest
    unlock: _cache_pb2.UnlockRequest
    load: _cache_pb2.LoadRequest
    prepare_store: _cache_pb2.PrepareStoreRequest
    commit_store: _cache_pb2.CommitStoreRequest
    def __init__(self, call_id: _Optional[int] = ..., lookup_and_lock: _Optional[_Union[_cache_pb2.LookupAndLockRequest, _Mapping]] = ..., unlock: _Optional[_Union[_cache_pb2.UnlockRequest, _Mapping]] = ..., load: _Optional[_Union[_cache_pb2.LoadRequest, _Mapping]] = ..., prepare_store: _Optional[_Union[_cache_pb2.PrepareStoreRequest, _Mapping]] = ..., commit_store: _Optional[_Union[_cache_pb2.CommitStoreRequest, _Mapping]] = ...) -> None: ...

class Cancel(_message.Message):
    __slots__ = ("call_id",)
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    call_id: int
    def __init__(self, call_id: _Optional[int] = ...) -> None: ...

class DaemonPacket(_message.Message):
    __slots__ = ("welcome", "descriptors", "answer")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTORS_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    descriptors: Descriptors
    answer: Answer
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., descriptors: _Optional[_Union[Descriptors, _Mapping]] = ..., answer: _Optional[_Union[Answer, _Mapping]] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("accepted", "refusal")
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    accepted: bool
    refusal: str
    def __init__(self, accepted: bool = ..., refusal: _Optional[str] = ...) -> None: ...

class Descriptors(_message.Message):
    __slots__ = ("request_id", "first_index")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_INDEX_FIELD_NUMBER: _ClassVar[int]
    request_id: int
    first_index: int
    def __init__(self, request_id: _Optional[int] = ..., first_index: _Optional[int] = ...) -> None: ...

class Answer(_message.Message):
    __slots__ = ("call_id", "descriptors", "lookup_and_lock", "unlock", "load", "prepare_store", "commit_store", "failure")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTORS_FIELD_NUMBER: _ClassVar[int]
    LOOKUP_AND_LOCK_FIELD_NUMBER: _ClassVar[int]
    UNLOCK_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    PREPARE_STORE_FIELD_NUMBER: _ClassVar[int]
    COMMIT_STORE_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    call_id: int
    descriptors: Descriptors
    lookup_and_lock: _cache_pb2.LookupAndLockResponse
    unlock: _cache_pb2.UnlockResponse
    load: _cache_pb2.LoadResponse
    prepare_store: _cache_pb2.PrepareStoreResponse
    commit_store: _cache_pb2.CommitStoreResponse
    failure: Failure
    def __init__(self, call_id: _Optional[int] = ..., descriptors: _Optional[_Union[Descriptors, _Mapping]] = ..., lookup_and_lock: _Optional[_Union[_cache_pb2.LookupAndLockResponse, _Mapping]] = ..., unlock: _Optional[_Union[_cache_pb2.UnlockResponse, _Mapping]] = ..., load: _Optional[_Union[_cache_pb2.LoadResponse, _Mapping]] = ..., prepare_store: _Optional[_Union[_cache_pb2.PrepareStoreResponse, _Mapping]] = ..., commit_store: _Optional[_Union[_cache_pb2.CommitStoreResponse, _Mapping]] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ...) -> None: ...

class Failure(_message.Message):
    __slots__ = ("status_code", "message")
    STATUS_CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    status_code: int
    message: str
    def __init__(self, status_code: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...
