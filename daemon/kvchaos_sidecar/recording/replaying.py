"""The rules that inject the faults of a recording again."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from kvchaos.errors import ConfigError
from kvchaos.recordings.reader import read_recording
from kvchaos.recordings.replay import replay_rules
from kvchaos_sidecar.config.problems import problems_of
from kvchaos_sidecar.config.rule import Rule
from kvchaos_sidecar.config.rule_file import RuleFile

log = logging.getLogger(__name__)


def rules_of_recording(path: Path) -> Sequence[Rule]:
    """The rules, for a daemon that has opened no session yet.

    Raises:
        ConfigError: the file is not a recording, or is cut off.
    """
    recording = read_recording(path)
    nothing = () if recording.faults else ("there are no faults in it",)
    for warning in (*nothing, *recording.warnings):
        log.warning("replaying %s: %s", path, warning)
    try:
        return RuleFile.model_validate({"rules": replay_rules(recording.faults)}).rules
    except ValidationError as error:
        raise ConfigError(problems_of(error, RuleFile), str(path)) from None
