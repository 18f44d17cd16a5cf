"""The API reference, from the proto files and their comments."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import grpc_tools
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    ServiceDescriptorProto,
)
from grpc_tools import protoc

from docs.generate.markdown import code, table, target, text

PROTO = Path(__file__).resolve().parents[2] / "proto"
_WELL_KNOWN = Path(grpc_tools.__file__).parent / "_proto"
_PACKAGE = "kvchaos.v1."

Place = tuple[int, ...]
"""Where a definition is in its file: numbers of fields and indices, as protoc counts them."""

_MESSAGES, _ENUMS, _SERVICES, _SYNTAX_PACKAGE = 4, 5, 6, 2
_MESSAGE_FIELDS, _NESTED_MESSAGES, _NESTED_ENUMS = 2, 3, 4
_METHODS = _VALUES = 2


def read_protocol() -> Protocol:
    """What the proto files say, with their comments. Raises RuntimeError when protoc refuses them."""
    with tempfile.TemporaryDirectory() as directory:
        output = Path(directory) / "kvchaos.binpb"
        names = sorted(str(path) for path in PROTO.rglob("*.proto"))
        roots = [f"-I{PROTO}", f"-I{_WELL_KNOWN}"]
        options = ["--include_source_info", f"--descriptor_set_out={output}"]
        if protoc.main(["protoc", *roots, *options, *names]):
            raise RuntimeError(f"protoc cannot read {PROTO}")
        return Protocol(FileDescriptorSet.FromString(output.read_bytes()).file)


class Protocol:
    """The files of the protocol."""

    def __init__(self, files: Sequence[FileDescriptorProto]) -> None:
        self._files = {Path(file.name).stem: file for file in files}

    def reference(self, wanted: Callable[[str], bool]) -> str:
        """Sections for the files whose name, without ``.proto``, is wanted: services first, then messages."""
        return "".join(_FilePage(file).text() for name, file in sorted(self._files.items()) if wanted(name))


class _FilePage:
    """The sections of one file."""

    def __init__(self, file: FileDescriptorProto) -> None:
        self._file = file
        self._comments = {
            tuple(location.path): location.leading_comments for location in file.source_code_info.location
        }

    def text(self) -> str:
        """The file's Markdown."""
        file = self._file
        services = [self._service((_SERVICES, index), item) for index, item in enumerate(file.service)]
        messages = [
            section
            for index, item in enumerate(file.message_type)
            for section in self._message((_MESSAGES, index), item, "")
        ]
        enums = [self._enum((_ENUMS, index), item, "") for index, item in enumerate(file.enum_type)]
        title = f"## {code(Path(file.name).name)}\n\n{self._comment((_SYNTAX_PACKAGE,))}\n\n"
        return title + "".join([*services, *messages, *enums])

    def _service(self, place: Place, service: ServiceDescriptorProto) -> str:
        rows = [
            (
                code(method.name),
                _stream(method.client_streaming) + _link(method.input_type),
                _stream(method.server_streaming) + _link(method.output_type),
                self._comment((*place, _METHODS, index)),
            )
            for index, method in enumerate(service.method)
        ]
        return self._heading(service.name, place) + table(
            ("Call", "Request", "Response", "What it does"), rows
        )

    def _message(self, place: Place, message: DescriptorProto, owner: str) -> Iterator[str]:
        name = f"{owner}{message.name}"
        rows = [
            (code(item.name), _field_type(item, message), self._comment((*place, _MESSAGE_FIELDS, index)))
            for index, item in enumerate(message.field)
        ]
        yield self._heading(name, place)
        yield table(("Field", "Type", "Meaning"), rows) if rows else "No fields.\n\n"
        for index, enum in enumerate(message.enum_type):
            yield self._enum((*place, _NESTED_ENUMS, index), enum, f"{name}.")
        for index, nested in enumerate(message.nested_type):
            if not nested.options.map_entry:
                yield from self._message((*place, _NESTED_MESSAGES, index), nested, f"{name}.")

    def _enum(self, place: Place, enum: EnumDescriptorProto, owner: str) -> str:
        rows = [
            (code(value.name), str(value.number), self._comment((*place, _VALUES, index)))
            for index, value in enumerate(enum.value)
        ]
        return self._heading(f"{owner}{enum.name}", place) + table(("Value", "Number", "Meaning"), rows)

    def _heading(self, name: str, place: Place) -> str:
        return f"{target(_anchor(name))}### {name}\n\n{self._comment(place)}\n\n"

    def _comment(self, place: Place) -> str:
        return text(self._comments.get(place, ""))


def _field_type(item: FieldDescriptorProto, message: DescriptorProto) -> str:
    for nested in message.nested_type:
        if nested.options.map_entry and item.type_name.endswith(f".{message.name}.{nested.name}"):
            key, value = nested.field
            return f"map of {_scalar(key)} to {_scalar(value)}"
    if item.label == FieldDescriptorProto.LABEL_REPEATED:
        return f"repeated {_scalar(item)}"
    return f"optional {_scalar(item)}" if item.proto3_optional else _scalar(item)


def _scalar(item: FieldDescriptorProto) -> str:
    if item.type_name:
        return _link(item.type_name)
    return code(FieldDescriptorProto.Type.Name(item.type).removeprefix("TYPE_").lower())


def _link(type_name: str) -> str:
    name = type_name.removeprefix(".")
    if not name.startswith(_PACKAGE):
        return code(name)
    short = name.removeprefix(_PACKAGE)
    return f"[{short}](#{_anchor(short)})"


def _stream(streaming: bool) -> str:
    return "stream of " if streaming else ""


def _anchor(name: str) -> str:
    return f"{_PACKAGE}{name}".lower()
