"""Work without a daemon: done by the sidecar's package, when it is installed beside this one."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from kvchaos.errors import ConfigError
from kvchaos.keys import ObjectKey
from kvchaos.v1 import control_pb2

GROUP = "kvchaos.offline"


def explain(config: Path, keys: Sequence[ObjectKey]) -> control_pb2.ExplainResponse:
    """What the rules of a configuration file would do to a load of these keys. Raises ConfigError."""
    response: control_pb2.ExplainResponse = _provider("explain")(config, keys)
    return response


def validate(config: Path) -> control_pb2.GetConfigResponse:
    """The effective values of a configuration file. Raises ConfigError with every problem."""
    response: control_pb2.GetConfigResponse = _provider("validate")(config)
    return response


def _provider(name: str) -> Any:
    try:
        (found,) = entry_points(group=GROUP, name=name)
        return found.load()
    except (ValueError, ImportError) as error:
        reason = f" ({error})" if isinstance(error, ImportError) else ""
        needs = f"reading a configuration file needs the sidecar's packages{reason}"
        raise ConfigError([f'{needs}: pip install "kvchaos[sidecar]"']) from None
