"""Runs a command again and again, each time with another part of the recorded faults."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from kvchaos.cli.child import run_child
from kvchaos.cli.replaying import armed
from kvchaos.control import ControlClient
from kvchaos.recordings.reader import RecordedFault, Recording, write_recording

REPLAY_VARIABLE = "KVCHAOS_REPLAY"
"""Names, for the command, the file with the faults of this run."""

Progress = Callable[[int, Sequence[RecordedFault], bool], None]
"""Told the number of runs so far, the faults of the last ones, and whether the command failed."""


class Stage(ABC):
    """Where the faults of a run are injected."""

    @abstractmethod
    def set_up(self, faults: Sequence[RecordedFault]) -> AbstractContextManager[None]:
        """Injects them for as long as the context lasts."""


class RunningDaemon(Stage):
    """A daemon that is there already, through its control service."""

    def __init__(self, client: ControlClient) -> None:
        self._client = client

    def set_up(self, faults: Sequence[RecordedFault]) -> AbstractContextManager[None]:
        return armed(self._client, faults)


class OwnDaemon(Stage):
    """The command starts a daemon by itself, with --replay "$KVCHAOS_REPLAY"."""

    def set_up(self, faults: Sequence[RecordedFault]) -> AbstractContextManager[None]:
        return nullcontext()


@dataclass(frozen=True)
class Trials:
    """How a part of the faults is tried."""

    recording: Recording
    stage: Stage
    command: Sequence[str]
    variables: Mapping[str, str]
    replay_path: Path
    """Is written anew for each part."""
    repeat: int
    """Runs after which a command that has not failed is taken not to."""
    timeout_s: float | None
    """A run that takes longer has failed."""
    silent: bool
    progress: Progress

    def fails(self, faults: Sequence[RecordedFault]) -> bool:
        """Whether the command fails with these faults in any of its runs."""
        write_recording(self.replay_path, self.recording, faults)
        runs, failed = 1, self._run(faults)
        while not failed and runs < self.repeat:
            runs, failed = runs + 1, self._run(faults)
        self.progress(runs, faults, failed)
        return failed

    def _run(self, faults: Sequence[RecordedFault]) -> bool:
        variables = {**self.variables, REPLAY_VARIABLE: str(self.replay_path)}
        with self.stage.set_up(faults):
            return run_child(self.command, variables, self.timeout_s, self.silent) != 0
