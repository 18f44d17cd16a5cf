"""YAML text to plain values, with the surprises of YAML refused.

Scalars follow YAML 1.2's core schema (`yes` is text, `1e-3` a number, `1:30` text). Tags, anchors, aliases,
several documents and repeated keys are errors that name their line.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

import yaml

from kvchaos.errors import ConfigError

MAX_BYTES = 1 << 20
"""No configuration file may be larger."""

_MAX_DEPTH = 32
_SUPPORTED = "this file supports plain YAML without tags, anchors, aliases and further documents"


def parse_yaml(data: bytes) -> object:
    """The one document in ``data``; None when it is empty.

    Raises:
        ConfigError: not UTF-8, too large, not YAML, or YAML that is refused. Names the line.
    """
    text = _decode(data)
    try:
        _refuse_surprises(text)
        return yaml.load(text, Loader=_Loader)  # noqa: S506 (a SafeLoader)
    except yaml.MarkedYAMLError as error:
        raise ConfigError([_describe(error)]) from None
    except yaml.YAMLError as error:
        raise ConfigError([f"not YAML: {' '.join(str(error).split())}"]) from None
    except ConfigError:
        raise
    except ValueError:
        raise ConfigError(["a number has too many digits to be read"]) from None


def _decode(data: bytes) -> str:
    if len(data) > MAX_BYTES:
        raise ConfigError([f"larger than the limit of {MAX_BYTES} bytes; this is not a configuration file"])
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(
            [f"not UTF-8 text (byte 0x{data[error.start]:02x} at offset {error.start}); save it as UTF-8"]
        ) from None


def _refuse_surprises(text: str) -> None:
    depth = documents = 0
    for event in yaml.parse(text, Loader=_Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        documents += isinstance(event, yaml.DocumentStartEvent)
        found = _surprise_in(event, depth, documents)
        if found:
            raise ConfigError([f"{_line_of(event.start_mark)}: {found}; {_SUPPORTED}"])


def _surprise_in(event: yaml.Event, depth: int, documents: int) -> str | None:
    if documents > 1:
        return "a second document begins"
    if depth > _MAX_DEPTH:
        return f"nested more than {_MAX_DEPTH} levels deep"
    if isinstance(event, yaml.AliasEvent):
        return f"alias *{event.anchor}"
    if isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent):
        if event.anchor is not None:
            return f"anchor &{event.anchor}"
        if event.tag is not None:
            return f"tag {event.tag}"
    return None


def _line_of(mark: Any) -> str:
    return f"line {mark.line + 1}"


def _describe(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    context = f" {error.context}" if error.context else ""
    return f"{place}{error.problem}{context}"


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    yaml_implicit_resolvers: ClassVar[dict[str, list[tuple[str, re.Pattern[str]]]]] = {}

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise ConfigError([f"{_line_of(key_node.start_mark)}: the key {key!r} is not text"])
            if key in mapping:
                raise ConfigError([f"{_line_of(key_node.start_mark)}: the key {key} is there twice"])
            mapping[key] = self.construct_object(value_node, deep=True)
        return mapping

    def construct_yaml_map(self, node: yaml.MappingNode) -> dict[str, Any]:
        return self.construct_mapping(node)


_Loader.add_constructor("tag:yaml.org,2002:map", _Loader.construct_yaml_map)
for _tag, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ("~", "n", "N", "")),
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)|0x[0-9a-fA-F]+", "-+0123456789"),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("float", r"[-+]?[0-9]+[eE][-+]?[0-9]+", "-+0123456789"),
    ("float", r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", "-+."),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_pattern})$"), list(_first))
