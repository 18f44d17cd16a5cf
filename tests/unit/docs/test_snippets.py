"""What the pages tell to write or to type is accepted by the code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.docs.pages import DOCS, Block, blocks, command_lines

from kvchaos.cli.main import build_parser as kvchaos_parser
from kvchaos.lmcache.config import KVChaosL2AdapterConfig
from kvchaos_sidecar.config.l2_adapter import arguments_from_spec
from kvchaos_sidecar.config.load import merge, parse_document, validate
from kvchaos_sidecar.config.yaml_text import parse_yaml
from kvchaos_sidecar.main import build_parser as sidecar_parser

LEAST = {"version": 1, "environment": "docs", "backend": {"type": "fs", "base_path": "/data/l2"}}
PAGES_WITH_OTHER_YAML = {
    DOCS / f"{name}.md" for name in ("deployment", "dashboards", "benchmarks", "performance")
}
"""Compose files, charts and the like; of these only whole documents of the sidecar are checked."""

YAML = [
    block
    for block in blocks("yaml")
    if block.page not in PAGES_WITH_OTHER_YAML or block.text.startswith("version: 1\n")
]
COMMANDS = [(block, words) for block in blocks("sh") for words in command_lines(block) if words]


def value_of(option: str, words: list[str]) -> str | None:
    return words[words.index(option) + 1] if option in words else None


def check_adapter(spec: dict[str, Any]) -> None:
    """A spec that the cache server is given."""
    assert spec["type"] == "plugin"
    assert (spec["module_path"], spec["class_name"]) == ("kvchaos.lmcache", "KVChaosL2Adapter")
    KVChaosL2AdapterConfig.from_dict(spec["adapter_params"])


@pytest.mark.parametrize("block", YAML, ids=str)
def test_yaml_is_a_configuration_or_a_part_of_one(block: Block) -> None:
    if block.text.startswith("version:"):
        parse_document(block.text, str(block))
    else:
        part = parse_yaml(block.text.encode())
        assert isinstance(part, dict)
        validate(merge(LEAST, part))


@pytest.mark.parametrize("block", blocks("json"), ids=str)
def test_json_is_an_adapter_spec(block: Block) -> None:
    check_adapter(json.loads(block.text))


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_python_compiles(block: Block) -> None:
    if "    ...\n" not in block.text and not block.text.startswith("case "):
        compile(block.text, str(block), "exec")


@pytest.mark.parametrize(("block", "words"), COMMANDS, ids=lambda part: str(part)[:60])
def test_commands_are_accepted(block: Block, words: list[str]) -> None:
    name = Path(words[0]).name
    spec = value_of("--l2-adapter", words)
    if name == "kvchaos":
        kvchaos_parser().parse_args(words[1:])
    elif name == "kvchaos-sidecar":
        sidecar_parser().parse_args(words[1:])
        if spec is not None:
            validate(arguments_from_spec(spec))
    elif name == "lmcache" and spec is not None:
        check_adapter(json.loads(spec))


def test_there_is_something_to_check() -> None:
    assert len(YAML) >= 5
    assert {"kvchaos", "kvchaos-sidecar", "lmcache", "make"} <= {words[0] for _, words in COMMANDS}
