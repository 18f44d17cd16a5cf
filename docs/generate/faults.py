"""One page for each kind of fault, from its class and from the catalogue."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from docs.generate.markdown import block, code, table, text
from kvchaos_sidecar.catalogue import entries
from kvchaos_sidecar.config.rule import Rule
from kvchaos_sidecar.config.rule_file import parse_rules
from kvchaos_sidecar.faults.contract import Fault
from kvchaos_sidecar.faults.registry import KINDS

_SOME_BYTES = 1000


def fault_pages() -> Mapping[str, str]:
    """The pages, by kind."""
    uses = list(_uses())
    return {
        kind.kind: _page(kind, [use for use in uses if use[1].fault.chosen.kind == kind.kind])
        for kind in KINDS
    }


def _uses() -> Iterator[tuple[str, Rule]]:
    """Every rule of the catalogue, with the entry that it is from."""
    for entry in entries():
        for rule in parse_rules(entry["text"]).rules:
            yield entry["id"], rule


def _page(fault: type[Fault], uses: list[tuple[str, Rule]]) -> str:
    summary = inspect.getdoc(sys.modules[fault.__module__]) or ""
    strikes = ", ".join(code(operation.value) for operation in sorted(fault.operations))
    example = uses[0][1] if uses else _example(fault)
    used = f"In the [catalogue](../catalogue.md): {', '.join(dict.fromkeys(entry for entry, _ in uses))}.\n\n"
    return (
        f"# {fault.kind}\n\n{text(summary)}\n\n{_paragraphs(fault)}"
        f"It strikes {strikes}.\n\n{_settings(fault)}"
        f"{block(_as_yaml(example), 'yaml')}{used if uses else ''}"
    )


def _paragraphs(fault: type[Fault]) -> str:
    paragraphs = (inspect.getdoc(fault) or "").split("\n\n")
    return "".join(f"{text(paragraph)}\n\n" for paragraph in paragraphs)


def _settings(fault: type[Fault]) -> str:
    schema = fault.model_json_schema()
    rows = [
        (code(name), _default(field, name in schema.get("required", ())), text(field.get("description", "")))
        for name, field in schema.get("properties", {}).items()
    ]
    return table(("Setting", "Default", "Meaning"), rows) if rows else "It has no settings.\n\n"


def _default(field: Mapping[str, Any], required: bool) -> str:
    if required:
        return "required"
    default = field.get("default")
    return "none" if default is None else code(json.dumps(default))


def _example(fault: type[Fault]) -> Rule:
    operation = min(fault.operations)
    required = fault.model_json_schema().get("required", ())
    settings = {fault.kind: dict.fromkeys(required, _SOME_BYTES)}
    return Rule.model_validate({"name": "example", "match": {"op": operation.value}, "fault": settings})


def _as_yaml(rule: Rule) -> str:
    written = rule.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return yaml.safe_dump({"rules": [written]}, sort_keys=False, default_flow_style=False)
