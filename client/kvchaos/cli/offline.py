"""Work without a daemon: done by the sidecar's package, when it is installed beside this one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from kvchaos.cli.suggest import nearest
from kvchaos.errors import ConfigError
from kvchaos.v1 import control_pb2

GROUP = "kvchaos.offline"


def explain(config: Path, request: control_pb2.ExplainRequest) -> control_pb2.ExplainResponse:
    """What the rules of a configuration file would do to a call. Raises ConfigError."""
    response: control_pb2.ExplainResponse = _provider("explain")(config, request)
    return response


def validate(config: Path) -> control_pb2.GetConfigResponse:
    """The effective values of a configuration file. Raises ConfigError with every problem."""
    response: control_pb2.GetConfigResponse = _provider("validate")(config)
    return response


def catalogue() -> Sequence[Mapping[str, Any]]:
    """The ready rule files: id, title, does, seen, reports, expected, and their text. Raises ConfigError."""
    found: Sequence[Mapping[str, Any]] = _provider("catalogue")()
    return found


def catalogue_entry(identifier: str) -> Mapping[str, Any]:
    """One of them. Raises ConfigError, with the nearest, when there is none of that id."""
    entries = {str(entry["id"]).lower(): entry for entry in catalogue()}
    entry = entries.get(identifier.lower())
    if entry is None:
        known = [str(entry["id"]) for entry in entries.values()]
        raise ConfigError([f"{identifier!r} is not in the catalogue; {nearest(identifier, known)}"])
    return entry


def _provider(name: str) -> Any:
    try:
        (found,) = entry_points(group=GROUP, name=name)
        return found.load()
    except (ValueError, ImportError) as error:
        reason = f" ({error})" if isinstance(error, ImportError) else ""
        needs = f"reading a configuration file needs the sidecar's packages{reason}"
        raise ConfigError([f'{needs}: pip install "kvchaos[sidecar]"']) from None
