"""Injects recorded faults through a daemon's control service, and tells what came of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from kvchaos.control import ControlClient
from kvchaos.errors import ConfigError
from kvchaos.recordings.reader import RecordedFault, Recording, read_recording
from kvchaos.recordings.replay import PREFIX, replay_rules
from kvchaos.v1 import control_pb2

MAX_TEXT_BYTES = 1 << 20
"""What a daemon takes as the text of rules."""


def read_faults(path: Path) -> Recording:
    """A recording with faults. Raises ConfigError when there are none, or the file is wrong."""
    recording = read_recording(path)
    if not recording.faults:
        raise ConfigError(["there are no faults in it to replay"], str(path))
    return recording


def arm(
    client: ControlClient, faults: Sequence[RecordedFault], time_to_live: timedelta | None = None
) -> control_pb2.ChangeResponse:
    """Adds the rules of a replay for the sessions that are opened from now on.

    Raises:
        ConfigError: there are too many faults for one change.
        SidecarError: the daemon refuses, for example because a replay is in force.
    """
    rules = replay_rules(faults, client.get_status().sessions_opened)
    text = json.dumps({"rules": rules}, separators=(",", ":"))
    if len(text) > MAX_TEXT_BYTES:
        raise ConfigError(
            [f"{len(faults)} faults are more than a running daemon takes; start one with --replay FILE"]
        )
    return client.add_rules(text, time_to_live)


@contextmanager
def armed(client: ControlClient, faults: Sequence[RecordedFault]) -> Iterator[None]:
    """Replays the faults for as long as the context lasts. No faults, no rules."""
    if not faults:
        yield
        return
    arm(client, faults)
    try:
        yield
    finally:
        disarm(client)


def disarm(client: ControlClient) -> None:
    """Removes every rule of a replay that was added at runtime."""
    for rule in replayed(client):
        if rule.source == "runtime":
            client.remove_rule(rule.name)


def replayed(client: ControlClient) -> list[control_pb2.RuleStatus]:
    """The rules of a replay, with what they have hit and what they await."""
    return [rule for rule in client.list_rules().rules if rule.name.startswith(PREFIX)]
