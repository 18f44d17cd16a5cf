"""``kvchaos minimise``: which of the recorded faults does a failure need?"""

from __future__ import annotations

import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from kvchaos.cli.child import add_command_argument
from kvchaos.cli.connection import TARGET_VARIABLE, connect, target_of
from kvchaos.cli.ddmin import ddmin
from kvchaos.cli.output import Output
from kvchaos.cli.replaying import read_faults
from kvchaos.cli.trials import REPLAY_VARIABLE, OwnDaemon, RunningDaemon, Stage, Trials
from kvchaos.cli.values import positive_count, positive_seconds
from kvchaos.errors import ConfigError, ReplayFailed
from kvchaos.recordings.reader import RecordedFault, Recording, write_recording

NAME = "minimise"
HELP = "Run a failing command with fewer and fewer of the recorded faults, until none can be left out."


def configure(parser: ArgumentParser) -> None:
    """Adds the recording, the command and how it is run."""
    parser.add_argument(
        "--recording", type=Path, required=True, metavar="FILE", help="recording of a run that failed"
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="recording of nothing but the faults that are left, for kvchaos replay (default: FILE.minimal)",
    )
    parser.add_argument(
        "--repeat",
        type=positive_count,
        default=1,
        metavar="N",
        help="for a command that does not always fail: run it up to N times; one failure counts (default: 1)",
    )
    parser.add_argument(
        "--run-timeout",
        type=positive_seconds,
        metavar="DURATION",
        help="kill a run that takes longer, and count it as failed",
    )
    parser.add_argument(
        "--fresh",
        action="store_true",
        help="use no running daemon: COMMAND starts its own, kvchaos-sidecar --replay "
        f'"${REPLAY_VARIABLE}", so that every run begins with the same store',
    )
    parser.add_argument("--verbose", action="store_true", help="show what COMMAND writes")
    add_command_argument(parser, "+", "behind --: the command; an exit code other than 0 says that it fails")


def run(arguments: Namespace, output: Output) -> None:
    """Finds the faults, writes them and shows them."""
    recording = read_faults(arguments.recording)
    path = arguments.output or Path(f"{arguments.recording}.minimal")
    if not path.parent.is_dir():
        raise ConfigError([f"--output: cannot write {path}: {path.parent} is not a directory"])
    with ExitStack() as stack:
        stage: Stage = OwnDaemon()
        if not arguments.fresh:
            stage = RunningDaemon(stack.enter_context(connect(arguments)))
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kvchaos-")))
        search = _Search(recording, path, output)
        trials = Trials(
            recording,
            stage,
            arguments.child,
            {} if arguments.fresh else {TARGET_VARIABLE: target_of(arguments)},
            directory / "replay.jsonl",
            arguments.repeat,
            arguments.run_timeout,
            not arguments.verbose,
            search.tried,
        )
        left = search.run(trials)
    _show(left, recording, path, search.runs, output)


class _Search:
    """Keeps the smallest part that failed, also for when the search is broken off.

    Attributes:
        runs: of the command, so far.
    """

    def __init__(self, recording: Recording, path: Path, output: Output) -> None:
        self.runs = 0
        self._recording = recording
        self._path = path
        self._output = output
        self._smallest = len(recording.faults)

    def run(self, trials: Trials) -> Sequence[RecordedFault]:
        """The faults that are left."""
        faults = self._recording.faults
        if not trials.fails(faults):
            raise ReplayFailed(
                f"the command does not fail with all {len(faults)} recorded faults; "
                "if it does so only now and then, raise --repeat"
            )
        if trials.fails(()):
            raise ReplayFailed("the command fails without any fault; there is nothing to look for")
        left = ddmin(faults, trials.fails)
        _write(self._path, self._recording, left)
        return left

    def tried(self, runs: int, faults: Sequence[RecordedFault], failed: bool) -> None:
        """A part was tried."""
        self.runs += runs
        if not self._output.as_json:
            outcome = "fails" if failed else "passes"
            self._output.line(
                f"run {self.runs}: {len(faults)} of {len(self._recording.faults)} faults: {outcome}"
            )
        if failed and faults and len(faults) < self._smallest:
            self._smallest = len(faults)
            _write(self._path, self._recording, faults)


def _write(path: Path, recording: Recording, faults: Sequence[RecordedFault]) -> None:
    try:
        write_recording(path, recording, faults)
    except OSError as error:
        raise ConfigError([f"--output: cannot write {path}: {error.strerror}"]) from None


def _show(left: Sequence[RecordedFault], recording: Recording, path: Path, runs: int, output: Output) -> None:
    if output.as_json:
        output.json(
            {
                "faults": [str(fault) for fault in left],
                "recorded": len(recording.faults),
                "runs": runs,
                "output": str(path),
            }
        )
        return
    output.line()
    output.line(f"{len(left)} of {len(recording.faults)} faults are left, after {runs} runs:")
    for fault in left:
        output.line(f"  {fault}")
    output.line(f"written to {path}; kvchaos replay {path} injects them again")
