"""The configuration reference, from the JSON Schema of the configuration file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from docs.generate.markdown import code, table, target, text
from kvchaos_sidecar.config.schema import RELOADABLE, json_schema

_REFERENCE = "#/$defs/"

Schema = Mapping[str, Any]


def configuration_reference() -> str:
    """A section for the document and for each of its parts."""
    schema = json_schema()
    schema = _with_values_inline(schema, schema["$defs"])
    sections = [_section("The document", schema, _described(schema["properties"], schema["$defs"]))]
    for name, field in schema["properties"].items():
        sections += _part_sections(name, field, schema["$defs"])
    return "".join(sections)


def _with_values_inline(node: Any, definitions: Schema) -> Any:
    """The schema with what only names a value, such as a choice, written where it is used."""
    if isinstance(node, list):
        return [_with_values_inline(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    named = definitions.get(str(node.get("$ref", "")).removeprefix(_REFERENCE), {})
    if "$ref" in node and named.get("type") != "object":
        return {**named, **{key: held for key, held in node.items() if key != "$ref"}}
    return {key: _with_values_inline(held, definitions) for key, held in node.items()}


def _described(properties: Schema, definitions: Schema) -> Schema:
    """The fields; one that only refers to a part takes its description from there."""
    return {
        name: {"description": definitions[field["$ref"].removeprefix(_REFERENCE)]["description"], **field}
        if "$ref" in field
        else field
        for name, field in properties.items()
    }


def _part_sections(path: str, field: Schema, definitions: Schema) -> Iterator[str]:
    """The sections of the objects that a field holds, and of those that these hold."""
    for name, constant in _objects_in(field):
        definition = definitions[name]
        title = f"{path}, type: {constant}" if constant else path
        yield _section(title, definition, definition["properties"])
        for inner, held in definition["properties"].items():
            yield from _part_sections(f"{path}.{inner}", held, definitions)


def _objects_in(field: Schema) -> Iterator[tuple[str, str]]:
    """Names of the definitions that a field refers to, each with its ``type`` where that decides."""
    if "$ref" in field:
        yield field["$ref"].removeprefix(_REFERENCE), ""
    if "items" in field:
        yield from _objects_in(field["items"])
    by_type = field.get("discriminator", {}).get("mapping", {})
    constants = {reference.removeprefix(_REFERENCE): constant for constant, reference in by_type.items()}
    for option in (*field.get("oneOf", ()), *field.get("anyOf", ())):
        for name, constant in _objects_in(option):
            yield name, constants.get(name, constant)


def _section(title: str, definition: Schema, properties: Schema) -> str:
    required = definition.get("required", ())
    rows = [_row(title, name, field, name in required) for name, field in properties.items()]
    heading = title if title[0].isupper() else code(title)
    introduction = text(definition.get("description", ""))
    fields = table(("Field", "Type", "Default", "Meaning"), rows) if rows else "It has no settings.\n\n"
    return f"{target(_anchor(title))}## {heading}\n\n{introduction}\n\n{fields}"


def _row(owner: str, name: str, field: Schema, required: bool) -> tuple[str, str, str, str]:
    top_level = owner[0].isupper()
    meaning = text(field.get("description", ""))
    if top_level and name in RELOADABLE:
        meaning += " May change while the daemon runs."
    path = name if top_level else f"{owner.partition(',')[0]}.{name}"
    return code(name), _type(field, path), _default(field, required), meaning


def _default(field: Schema, required: bool) -> str:
    if required:
        return "required"
    default = field.get("default")
    if default is None:
        return "none"
    return "as\u00a0below" if isinstance(default, dict) else code(json.dumps(default))


def _type(field: Schema, path: str) -> str:
    if "$ref" in field:
        return f"[{path}](#{_anchor(path)})"
    if "discriminator" in field:
        links = (
            f"[{constant}](#{_anchor(f'{path}, type: {constant}')})"
            for constant in field["discriminator"]["mapping"]
        )
        return f"one of {', '.join(links)}"
    if "anyOf" in field:
        return " or ".join(_type(option, path) for option in field["anyOf"] if option.get("type") != "null")
    if "oneOf" in field:
        return " or ".join(_type(option, path) for option in field["oneOf"])
    if "const" in field:
        return code(json.dumps(field["const"]))
    if "enum" in field:
        return " or ".join(code(json.dumps(choice)) for choice in field["enum"])
    return _plain_type(field, path)


def _plain_type(field: Schema, path: str) -> str:
    kind = field["type"]
    if kind == "array":
        return f"list of {_type(field['items'], path)}"
    if kind == "object" and "properties" in field:
        return code(
            "{" + ", ".join(f"{name}: {held['type']}" for name, held in field["properties"].items()) + "}"
        )
    if kind in ("integer", "number"):
        return f"{kind}{_range(field)}"
    shown_by_default = bool(field.get("default"))
    examples = [code(example) for example in field.get("examples", ()) if example and not shown_by_default]
    return f"{kind}, such as {', '.join(examples)}" if examples else str(kind)


def _range(field: Schema) -> str:
    if "minimum" not in field:
        return ""
    if field["minimum"] == field["maximum"]:
        return f" {field['minimum']}"
    return f" in \\[{_number(field['minimum'])}, {_number(field['maximum'])}\\]"


def _number(number: int) -> str:
    powers = {2**63 - 1: "2⁶³-1", -(2**63): "-2⁶³", 2**32 - 2: "2³²-2"}
    return powers.get(number, f"{number:,}")


def _anchor(title: str) -> str:
    return "config-" + re.sub(r"[^a-z0-9_]+", "-", title.lower())
