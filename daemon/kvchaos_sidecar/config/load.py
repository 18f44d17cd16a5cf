"""From text to a checked Document, with every problem named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from kvchaos.errors import ConfigError
from kvchaos_sidecar.config.problems import problems_of, shown
from kvchaos_sidecar.config.schema import Document, FaultInject
from kvchaos_sidecar.config.yaml_text import MAX_BYTES, parse_yaml

MINIMAL = "version: 1\nbackend: {type: fs, base_path: /data/l2}"


@dataclass(frozen=True, slots=True)
class Configuration:
    """A checked document and the layers that it was made of."""

    document: Document
    path: Path | None = None
    """The file, when there is one."""
    content: bytes = b""
    """The file's bytes."""
    file: Mapping[str, Any] = field(default_factory=dict)
    """What the file says."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """What the command line says; it wins over the file."""


def load(path: Path | None, arguments: Mapping[str, Any] | None = None) -> Configuration:
    """Reads the file, lays ``arguments`` (part of a document) over it and checks the whole.

    Raises:
        ConfigError: the file cannot be read or the document is wrong.
    """
    if path is None:
        return Configuration(validate(arguments or {}), arguments=arguments or {})
    return compose(path, read(path), arguments or {})


def read(path: Path) -> bytes:
    """The bytes of a configuration file. Raises ConfigError when it cannot be read."""
    try:
        with path.open("rb") as stream:
            return stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError([f"cannot be read: {error.strerror}"], str(path)) from None


def compose(path: Path, content: bytes, arguments: Mapping[str, Any]) -> Configuration:
    """The configuration that a file's content and ``arguments`` make. Raises ConfigError."""
    try:
        file = _as_mapping(parse_yaml(content))
        document = validate(merge(file, arguments))
    except ConfigError as error:
        raise ConfigError(error.problems, str(path)) from None
    return Configuration(document, path, content, file, arguments)


def parse_document(text: str, source: str = "") -> Document:
    """The document that a YAML text writes out.

    Raises:
        ConfigError: every problem, each with its place; ``source`` says where the text came from.
    """
    try:
        return validate(_as_mapping(parse_yaml(text.encode())))
    except ConfigError as error:
        raise ConfigError(error.problems, source) from None


def validate(mapping: Mapping[str, Any]) -> Document:
    """Checks a whole document. Raises ConfigError with every problem."""
    try:
        return Document.model_validate(dict(mapping))
    except ValidationError as error:
        raise ConfigError(problems_of(error, Document)) from None


def validate_fault_inject(mapping: Mapping[str, Any]) -> FaultInject:
    """Checks the values of a ``fault_inject`` part alone. Raises ConfigError with every problem."""
    try:
        return FaultInject.model_validate(dict(mapping))
    except ValidationError as error:
        raise ConfigError(problems_of(error, FaultInject)) from None


def merge(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Both mappings, part by part; where both have a value, ``over`` wins.

    A backend is taken whole, because the parts of two kinds of backend do not go together.
    """
    merged = dict(under)
    for name, value in over.items():
        beneath = merged.get(name)
        both = isinstance(beneath, Mapping) and isinstance(value, Mapping) and name != "backend"
        merged[name] = merge(beneath, value) if both else value  # type: ignore[arg-type]
    return merged


def _as_mapping(value: object) -> dict[str, Any]:
    if value is None:
        raise ConfigError([f"empty; the least that it needs is:\n{MINIMAL}"])
    if not isinstance(value, dict):
        raise ConfigError([f"the top level is {shown(value)}; it must be a mapping such as:\n{MINIMAL}"])
    return value
