from kvchaos.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class OpenSessionRequest(_message.Message):
    __slots__ = ("client_name", "client_version", "protocol_version")
    CLIENT_NAME_FIELD_NUMBER: _ClassVar[int]
    CLIENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    client_name: str
    client_version: str
    protocol_version: int
    def __init__(self, client_name: _Optional[str] = ..., client_version: _Optional[str] = ..., protocol_version: _Optional[int] = ...) -> None: ...

class SessionEvent(_message.Message):
    __slots__ = ("opened", "fault_inject")
    OPENED_FIELD_NUMBER: _ClassVar[int]
    FAULT_INJECT_FIELD_NUMBER: _ClassVar[int]
    opened: SessionOpened
    fault_inject: _common_pb2.FaultInject
    def __init__(self, opened: _Optional[_Union[SessionOpened, _Mapping]] = ..., fault_inject: _Optional[_Union[_common_pb2.FaultInject, _Mapping]] = ...) -> None: ...

class SessionOpened(_message.Message):
    __slots__ = ("session_id", "handoff", "backend", "capacity_bytes", "fault_inject", "daemon_version", "piece_size_bytes", "grant_ttl_s", "protocol_version")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    HANDOFF_FIELD_NUMBER: _ClassVar[int]
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_BYTES_FIELD_NUMBER: _ClassVar[int]
    FAULT_INJECT_FIELD_NUMBER: _ClassVar[int]
    DAEMON_VERSION_FIELD_NUMBER: _ClassVar[int]
    PIECE_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    GRANT_TTL_S_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    handoff: HandoffOffer
    backend: str
    capacity_bytes: int
    fault_inject: _common_pb2.FaultInject
    daemon_version: str
    piece_size_bytes: int
    grant_ttl_s: float
    protocol_version: int
    def __init__(self, session_id: _Optional[str] = ..., handoff: _Optional[_Union[HandoffOffer, _Mapping]] = ..., backend: _Optional[str] = ..., capacity_bytes: _Optional[int] = ..., fault_inject: _Optional[_Union[_common_pb2.FaultInject, _Mapping]] = ..., daemon_version: _Optional[str] = ..., piece_size_bytes: _Optional[int] = ..., grant_ttl_s: _Optional[float] = ..., protocol_version: _Optional[int] = ...) -> None: ...

class HandoffOffer(_message.Message):
    __slots__ = ("socket_path", "token")
    SOCKET_PATH_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    socket_path: str
    token: bytes
    def __init__(self, socket_path: _Optional[str] = ..., token: _Optional[bytes] = ...) -> None: ...

class CloseSessionRequest(_message.Message):
    __slots__ = ("session_id",)
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    def __init__(self, session_id: _Optional[str] = ...) -> None: ...

class CloseSessionResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LookupAndLockRequest(_message.Message):
    __slots__ = ("session_id", "keys")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    keys: _common_pb2.KeyBatch
    def __init__(self, session_id: _Optional[str] = ..., keys: _Optional[_Union[_common_pb2.KeyBatch, _Mapping]] = ...) -> None: ...

class LookupAndLockResponse(_message.Message):
    __slots__ = ("results", "generation")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedScalarFieldContainer[_common_pb2.Result]
    generation: int
    def __init__(self, results: _Optional[_Iterable[_Union[_common_pb2.Result, str]]] = ..., generation: _Optional[int] = ...) -> None: ...

class UnlockRequest(_message.Message):
    __slots__ = ("session_id", "keys")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    keys: _common_pb2.KeyBatch
    def __init__(self, session_id: _Optional[str] = ..., keys: _Optional[_Union[_common_pb2.KeyBatch, _Mapping]] = ...) -> None: ...

class UnlockResponse(_message.Message):
    __slots__ = ("released",)
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    released: int
    def __init__(self, released: _Optional[int] = ...) -> None: ...

class Extents(_message.Message):
    __slots__ = ("position", "descriptor", "offset", "length")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTOR_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    position: _containers.RepeatedScalarFieldContainer[int]
    descriptor: _containers.RepeatedScalarFieldContainer[int]
    offset: _containers.RepeatedScalarFieldContainer[int]
    length: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, position: _Optional[_Iterable[int]] = ..., descriptor: _Optional[_Iterable[int]] = ..., offset: _Optional[_Iterable[int]] = ..., length: _Optional[_Iterable[int]] = ...) -> None: ...

class LoadRequest(_message.Message):
    __slots__ = ("session_id", "request_id", "keys", "size_bytes", "transport")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    TRANSPORT_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    request_id: int
    keys: _common_pb2.KeyBatch
    size_bytes: _containers.RepeatedScalarFieldContainer[int]
    transport: _common_pb2.Transport
    def __init__(self, session_id: _Optional[str] = ..., request_id: _Optional[int] = ..., keys: _Optional[_Union[_common_pb2.KeyBatch, _Mapping]] = ..., size_bytes: _Optional[_Iterable[int]] = ..., transport: _Optional[_Union[_common_pb2.Transport, str]] = ...) -> None: ...

class LoadResponse(_message.Message):
    __slots__ = ("results", "extents", "descriptor_count", "poison", "generation", "completion")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    EXTENTS_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTOR_COUNT_FIELD_NUMBER: _ClassVar[int]
    POISON_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedScalarFieldContainer[_common_pb2.Result]
    extents: Extents
    descriptor_count: int
    poison: _common_pb2.Poison
    generation: int
    completion: Completion
    def __init__(self, results: _Optional[_Iterable[_Union[_common_pb2.Result, str]]] = ..., extents: _Optional[_Union[Extents, _Mapping]] = ..., descriptor_count: _Optional[int] = ..., poison: _Optional[_Union[_common_pb2.Poison, _Mapping]] = ..., generation: _Optional[int] = ..., completion: _Optional[_Union[Completion, _Mapping]] = ...) -> None: ...

class Completion(_message.Message):
    __slots__ = ("late_s", "twice", "exchanged")
    LATE_S_FIELD_NUMBER: _ClassVar[int]
    TWICE_FIELD_NUMBER: _ClassVar[int]
    EXCHANGED_FIELD_NUMBER: _ClassVar[int]
    late_s: float
    twice: bool
    exchanged: bool
    def __init__(self, late_s: _Optional[float] = ..., twice: bool = ..., exchanged: bool = ...) -> None: ...

class ReadExtentsRequest(_message.Message):
    __slots__ = ("session_id", "request_id")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    request_id: int
    def __init__(self, session_id: _Optional[str] = ..., request_id: _Optional[int] = ...) -> None: ...

class Piece(_message.Message):
    __slots__ = ("position", "data", "last", "failure")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    position: int
    data: bytes
    last: bool
    failure: _common_pb2.Result
    def __init__(self, position: _Optional[int] = ..., data: _Optional[bytes] = ..., last: bool = ..., failure: _Optional[_Union[_common_pb2.Result, str]] = ...) -> None: ...

class PrepareStoreRequest(_message.Message):
    __slots__ = ("session_id", "request_id", "keys", "size_bytes", "transport")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    TRANSPORT_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    request_id: int
    keys: _common_pb2.KeyBatch
    size_bytes: _containers.RepeatedScalarFieldContainer[int]
    transport: _common_pb2.Transport
    def __init__(self, session_id: _Optional[str] = ..., request_id: _Optional[int] = ..., keys: _Optional[_Union[_common_pb2.KeyBatch, _Mapping]] = ..., size_bytes: _Optional[_Iterable[int]] = ..., transport: _Optional[_Union[_common_pb2.Transport, str]] = ...) -> None: ...

class PrepareStoreResponse(_message.Message):
    __slots__ = ("results", "extents", "descriptor_count", "generation")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    EXTENTS_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTOR_COUNT_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedScalarFieldContainer[_common_pb2.Result]
    extents: Extents
    descriptor_count: int
    generation: int
    def __init__(self, results: _Optional[_Iterable[_Union[_common_pb2.Result, str]]] = ..., extents: _Optional[_Union[Extents, _Mapping]] = ..., descriptor_count: _Optional[int] = ..., generation: _Optional[int] = ...) -> None: ...

class WritePiece(_message.Message):
    __slots__ = ("session_id", "request_id", "position", "offset", "data")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    request_id: int
    position: int
    offset: int
    data: bytes
    def __init__(self, session_id: _Optional[str] = ..., request_id: _Optional[int] = ..., position: _Optional[int] = ..., offset: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class WriteExtentsResponse(_message.Message):
    __slots__ = ("written_bytes",)
    WRITTEN_BYTES_FIELD_NUMBER: _ClassVar[int]
    written_bytes: int
    def __init__(self, written_bytes: _Optional[int] = ...) -> None: ...

class CommitStoreRequest(_message.Message):
    __slots__ = ("session_id", "request_id", "written_bytes")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_BYTES_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    request_id: int
    written_bytes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, session_id: _Optional[str] = ..., request_id: _Optional[int] = ..., written_bytes: _Optional[_Iterable[int]] = ...) -> None: ...

class CommitStoreResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedScalarFieldContainer[_common_pb2.Result]
    def __init__(self, results: _Optional[_Iterable[_Union[_common_pb2.Result, str]]] = ...) -> None: ...

class DeleteRequest(_message.Message):
    __slots__ = ("session_id", "keys")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    keys: _common_pb2.KeyBatch
    def __init__(self, session_id: _Optional[str] = ..., keys: _Optional[_Union[_common_pb2.KeyBatch, _Mapping]] = ...) -> None: ...

class DeleteResponse(_message.Message):
    __slots__ = ("results", "freed_bytes")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    FREED_BYTES_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedScalarFieldContainer[_common_pb2.Result]
    freed_bytes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, results: _Optional[_Iterable[_Union[_common_pb2.Result, str]]] = ..., freed_bytes: _Optional[_Iterable[int]] = ...) -> None: ...

class ListKeysRequest(_message.Message):
    __slots__ = ("session_id", "model_name", "page_size", "cursor")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    MODEL_NAME_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    model_name: str
    page_size: int
    cursor: str
    def __init__(self, session_id: _Optional[str] = ..., model_name: _Optional[str] = ..., page_size: _Optional[int] = ..., cursor: _Optional[str] = ...) -> None: ...

class ListKeysResponse(_message.Message):
    __slots__ = ("keys", "size_bytes", "next_cursor")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    keys: _common_pb2.KeyBatch
    size_bytes: _containers.RepeatedScalarFieldContainer[int]
    next_cursor: str
    def __init__(self, keys: _Optional[_Union[_common_pb2.KeyBatch, _Mapping]] = ..., size_bytes: _Optional[_Iterable[int]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class GetUsageRequest(_message.Message):
    __slots__ = ("session_id",)
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    def __init__(self, session_id: _Optional[str] = ...) -> None: ...

class GetUsageResponse(_message.Message):
    __slots__ = ("total_bytes", "capacity_bytes", "bytes_by_cache_salt")
    class BytesByCacheSaltEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_BYTES_FIELD_NUMBER: _ClassVar[int]
    BYTES_BY_CACHE_SALT_FIELD_NUMBER: _ClassVar[int]
    total_bytes: int
    capacity_bytes: int
    bytes_by_cache_salt: _containers.ScalarMap[str, int]
    def __init__(self, total_bytes: _Optional[int] = ..., capacity_bytes: _Optional[int] = ..., bytes_by_cache_salt: _Optional[_Mapping[str, int]] = ...) -> None: ...

class GetCacheStatusRequest(_message.Message):
    __slots__ = ("session_id",)
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    def __init__(self, session_id: _Optional[str] = ...) -> None: ...

class GetCacheStatusResponse(_message.Message):
    __slots__ = ("healthy", "detail", "backend", "fault_inject", "locks", "grants")
    HEALTHY_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    FAULT_INJECT_FIELD_NUMBER: _ClassVar[int]
    LOCKS_FIELD_NUMBER: _ClassVar[int]
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    healthy: bool
    detail: str
    backend: str
    fault_inject: _common_pb2.FaultInject
    locks: int
    grants: int
    def __init__(self, healthy: bool = ..., detail: _Optional[str] = ..., backend: _Optional[str] = ..., fault_inject: _Optional[_Union[_common_pb2.FaultInject, _Mapping]] = ..., locks: _Optional[int] = ..., grants: _Optional[int] = ...) -> None: ...
