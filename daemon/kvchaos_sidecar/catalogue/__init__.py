"""Ready rule files for faults that L2 stores have shown in the field, one for each row of the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from kvchaos_sidecar.config.rule_file import parse_rules


def entries() -> Sequence[Mapping[str, Any]]:
    """Every file, in the order of the numbers: what it says about itself, and its text."""
    paths = [path for path in files(__name__).iterdir() if path.name.endswith(".yaml")]
    found = [_entry(path.name, path.read_text()) for path in paths]
    return sorted(found, key=lambda entry: int(entry["id"][1:]))


def _entry(name: str, text: str) -> Mapping[str, Any]:
    about = parse_rules(text, name).about
    if about is None:
        raise ValueError(f"{name} does not say what it is about")
    return {**about.model_dump(mode="json"), "text": text}
