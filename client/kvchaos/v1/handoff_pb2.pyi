from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ClientPacket(_message.Message):
    __slots__ = ("hello", "release")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    release: Release
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., release: _Optional[_Union[Release, _Mapping]] = ...) -> None: ...

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

class DaemonPacket(_message.Message):
    __slots__ = ("welcome", "descriptors")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTORS_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    descriptors: Descriptors
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., descriptors: _Optional[_Union[Descriptors, _Mapping]] = ...) -> None: ...

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
