"""Rules on their own: what is added at runtime, and the files of the catalogue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from kvchaos.errors import ConfigError
from kvchaos_sidecar.config.fields import ListOf, Part, Text
from kvchaos_sidecar.config.load import read
from kvchaos_sidecar.config.problems import problems_of, shown
from kvchaos_sidecar.config.rule import RulesField
from kvchaos_sidecar.config.schema import Document
from kvchaos_sidecar.config.yaml_text import parse_yaml

_OF_A_DOCUMENT = frozenset(Document.model_fields) - {"rules"}
EXAMPLE = "rules:\n- {name: gap, match: {op: load, position: 4}, fault: drop}"


class About(Part):
    """What a rule file is for."""

    id: Text
    """Its number in the table of faults, for example `F1`."""
    title: Text
    """The fault in a few words."""
    does: Text
    """What its rules do."""
    seen: Text
    """What was seen in the field."""
    reports: ListOf[Text]
    """Public reports, as `repository#number`."""
    expected: Text
    """What a correct cache server does."""


class RuleFile(Part):
    """Rules, and what they are for."""

    about: About | None = None
    """What they are for."""
    rules: RulesField
    """The rules, in the order in which they apply."""


def parse_rules(text: str, source: str = "") -> RuleFile:
    """The rules that a YAML text writes out: a rule, a list of rules or a mapping with ``rules``.

    Raises:
        ConfigError: every problem, each with its place; ``source`` says where the text came from.
    """
    try:
        return RuleFile.model_validate(_as_file(parse_yaml(text.encode())))
    except ValidationError as error:
        raise ConfigError(problems_of(error, RuleFile), source) from None
    except ConfigError as error:
        raise ConfigError(error.problems, source) from None


def rule_file(path: Path) -> RuleFile | None:
    """What a file of rules alone says; None when the file is a whole document, or not readable as either.

    Raises:
        ConfigError: it is a file of rules with mistakes.
    """
    content = read(path)
    try:
        value = parse_yaml(content)
    except ConfigError:
        return None
    alone = isinstance(value, list) or (isinstance(value, dict) and not value.keys() & _OF_A_DOCUMENT)
    return parse_rules(content.decode(), str(path)) if alone and value else None


def _as_file(value: object) -> dict[str, Any]:
    if isinstance(value, list):
        return {"rules": value}
    if isinstance(value, dict):
        return value if "rules" in value or "name" not in value else {"rules": [value]}
    found = "empty" if value is None else shown(value)
    raise ConfigError([f"{found}; write rules, for example:\n{EXAMPLE}"])
