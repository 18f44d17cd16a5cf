"""Runs a command that a user has given, to see how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from contextlib import suppress

from kvchaos.errors import ConfigError

TIMED_OUT = -1
"""Stands for an exit code, which is never negative here: the command took too long and was killed."""
_SIGNAL_BASE = 128


def add_command_argument(parser: ArgumentParser, nargs: str, help_text: str) -> None:
    """Adds the words behind ``--``."""
    parser.add_argument("child", nargs=nargs, metavar="COMMAND", help=help_text)


def run_child(
    words: Sequence[str], variables: Mapping[str, str], timeout_s: float | None = None, silent: bool = False
) -> int:
    """The exit code of the command, or 128 and the signal that ended it; TIMED_OUT when it took too long.

    The command, and what it has started in its process group, is over when this returns.

    Args:
        words: program and arguments.
        variables: laid over the environment.
        timeout_s: when it is killed; None for never.
        silent: whether its output is thrown away.

    Raises:
        ConfigError: it cannot be started.
    """
    sink = subprocess.DEVNULL if silent else None
    try:
        process = subprocess.Popen(
            words, env={**os.environ, **variables}, stdout=sink, stderr=sink, start_new_session=True
        )
    except OSError as error:
        raise ConfigError([f"cannot run {words[0]}: {error.strerror}"]) from None
    try:
        code = process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return TIMED_OUT
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return _SIGNAL_BASE - code if code < 0 else code
