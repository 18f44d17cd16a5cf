"""What the ``kvchaos`` command does without a daemon (entry points ``kvchaos.offline``)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kvchaos.keys import ObjectKey
from kvchaos.v1 import control_pb2
from kvchaos_sidecar.clock import SystemClock
from kvchaos_sidecar.config.effective import effective_fields
from kvchaos_sidecar.config.load import load
from kvchaos_sidecar.rpc.control_messages import explained_to_wire, field_to_wire
from kvchaos_sidecar.rules.call import Call, Operation
from kvchaos_sidecar.rules.governor import Governor

GENERATION = 1
"""What a daemon that has just been started with the file would say."""


def explain(config: Path, keys: Sequence[ObjectKey]) -> control_pb2.ExplainResponse:
    """Which positions of a load of ``keys`` the rules of a file would hit, and why. Raises ConfigError."""
    governor = Governor(load(config).document, SystemClock())
    _, hits = governor.explain(Call(Operation.LOAD, keys))
    return control_pb2.ExplainResponse(generation=GENERATION, positions=explained_to_wire(hits))


def validate(config: Path) -> control_pb2.GetConfigResponse:
    """The effective values of a file. Raises ConfigError with every problem."""
    fields = effective_fields(load(config), {})
    return control_pb2.GetConfigResponse(
        fields=[field_to_wire(field) for field in fields], generation=GENERATION
    )
