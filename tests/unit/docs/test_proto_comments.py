"""The proto files are the reference of the protocol: whatever is on the wire says what it means."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import grpc_tools
import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet
from grpc_tools import protoc

PROTO = Path(__file__).resolve().parents[3] / "proto"
WELL_KNOWN = Path(grpc_tools.__file__).parent / "_proto"

Place = tuple[int, ...]
"""Where a definition is in its file: field numbers of descriptor.proto, and indices."""

MESSAGES, ENUMS, SERVICES = 4, 5, 6
FIELDS = VALUES = METHODS = 2
NESTED = 3


def described(path: Path, directory: Path) -> FileDescriptorProto:
    """The file's descriptor, with its comments."""
    output = directory / "descriptors"
    options = ["--include_source_info", f"--descriptor_set_out={output}"]
    assert (
        protoc.main(["protoc", f"-I{path.parent}", f"-I{PROTO}", f"-I{WELL_KNOWN}", *options, str(path)]) == 0
    )
    (file,) = FileDescriptorSet.FromString(output.read_bytes()).file
    return file


def definitions(file: FileDescriptorProto) -> Iterator[tuple[str, Place]]:
    """Every field, value, service and method."""
    for index, message in enumerate(file.message_type):
        yield from _fields(message, (MESSAGES, index), message.name)
    for index, enum in enumerate(file.enum_type):
        for number, value in enumerate(enum.value):
            yield f"{enum.name}.{value.name}", (ENUMS, index, VALUES, number)
    for index, service in enumerate(file.service):
        yield service.name, (SERVICES, index)
        for number, method in enumerate(service.method):
            yield f"{service.name}.{method.name}", (SERVICES, index, METHODS, number)


def _fields(message: DescriptorProto, place: Place, name: str) -> Iterator[tuple[str, Place]]:
    for index, field in enumerate(message.field):
        yield f"{name}.{field.name}", (*place, FIELDS, index)
    for index, nested in enumerate(message.nested_type):
        if not nested.options.map_entry:
            yield from _fields(nested, (*place, NESTED, index), f"{name}.{nested.name}")


def uncommented(file: FileDescriptorProto) -> list[str]:
    comments = {tuple(part.path): part.leading_comments.strip() for part in file.source_code_info.location}
    return [name for name, place in definitions(file) if not comments.get(place)]


@pytest.mark.parametrize("path", sorted(PROTO.rglob("*.proto")), ids=lambda path: path.name)
def test_everything_on_the_wire_has_a_comment(path: Path, tmp_path: Path) -> None:
    file = described(path, tmp_path)
    assert len(list(definitions(file))) > 0
    assert uncommented(file) == []


def test_what_has_no_comment_is_found(tmp_path: Path) -> None:
    path = tmp_path / "bare.proto"
    path.write_text(
        'syntax = "proto3";\n'
        "// Said.\nservice Served { rpc Call(Outer) returns (Outer); }\n"
        "message Outer {\n  // Said.\n  bool said = 1;\n  bool unsaid = 2;\n"
        "  message Inner { bool unsaid = 1; }\n}\n"
        "enum Kind {\n  KIND_UNSAID = 0;\n}\n"
    )
    assert uncommented(described(path, tmp_path)) == [
        "Outer.unsaid",
        "Outer.Inner.unsaid",
        "Kind.KIND_UNSAID",
        "Served.Call",
    ]
