"""What the ``kvchaos`` command does without a daemon (entry points ``kvchaos.offline``)."""

from __future__ import annotations

from pathlib import Path

from kvchaos.errors import ConfigError
from kvchaos.v1 import control_pb2
from kvchaos_sidecar.app import make_backend
from kvchaos_sidecar.clock import SystemClock
from kvchaos_sidecar.config.effective import effective_fields
from kvchaos_sidecar.config.lint import warnings_of
from kvchaos_sidecar.config.load import load
from kvchaos_sidecar.config.rule_file import rule_file
from kvchaos_sidecar.errors import InvalidRequest
from kvchaos_sidecar.rpc.control_messages import call_from_wire, explained_to_wire, field_to_wire
from kvchaos_sidecar.rules.governor import Governor

GENERATION = 1
"""What a daemon that has just been started with the file would say."""


def explain(config: Path, request: control_pb2.ExplainRequest) -> control_pb2.ExplainResponse:
    """Which positions of a call the rules of a file would hit, and why. Raises ConfigError."""
    governor = Governor(load(config).document, SystemClock())
    try:
        call = call_from_wire(request)
    except InvalidRequest as error:
        raise ConfigError([str(error)]) from None
    _, hits = governor.explain(call)
    return control_pb2.ExplainResponse(generation=GENERATION, positions=explained_to_wire(hits))


def validate(config: Path) -> control_pb2.GetConfigResponse:
    """The effective values of a configuration file, or that a file of rules alone is right.

    Raises:
        ConfigError: with every problem.
    """
    file = rule_file(config)
    if file is not None:
        return control_pb2.GetConfigResponse(warnings=warnings_of(file.rules))
    configuration = load(config)
    try:
        make_backend(configuration.document)  # an LMCache adapter's settings are known to LMCache alone
    except ConfigError as error:
        raise ConfigError(error.problems, str(config)) from None
    fields = effective_fields(configuration, {})
    return control_pb2.GetConfigResponse(
        fields=[field_to_wire(field) for field in fields],
        generation=GENERATION,
        warnings=warnings_of(configuration.document.rules),
    )
