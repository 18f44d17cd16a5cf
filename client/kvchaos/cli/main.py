"""Entry of the ``kvchaos`` command: exit code 0 fine, 1 failed, 2 bad input."""

from __future__ import annotations

import os
import sys
from argparse import SUPPRESS, ArgumentParser
from collections.abc import Sequence
from typing import IO

from kvchaos import __version__
from kvchaos.cli import fleet
from kvchaos.cli.command import Command
from kvchaos.cli.commands import (
    catalogue,
    completion,
    drops,
    explain,
    get,
    halt,
    minimise,
    reload,
    replay,
    reset,
    resume,
    rules,
    status,
    validate,
    watch,
)
from kvchaos.cli.commands import set as set_
from kvchaos.cli.connection import add_connection_arguments, target_of
from kvchaos.cli.explained import explained
from kvchaos.cli.output import Output
from kvchaos.errors import ConfigError, InvalidKeyError, KVChaosError, RequestRefused

COMMANDS: Sequence[Command] = (
    status,
    get,
    set_,
    rules,
    reload,
    halt,
    resume,
    reset,
    explain,
    validate,
    catalogue,
    drops,
    watch,
    replay,
    minimise,
    completion,
)
FINE, FAILED, BAD_INPUT = 0, 1, 2


def run() -> None:
    """The console script."""
    sys.exit(main(sys.argv[1:], sys.stdout, sys.stderr))


def main(words: Sequence[str], stdout: IO[str], stderr: IO[str]) -> int:
    """Runs one command line and returns its exit code."""
    arguments = build_parser().parse_args(words)
    try:
        output = Output(stdout, getattr(arguments, "json", False))
        if hasattr(arguments, "targets"):
            return FINE if fleet.run(arguments, output) else FAILED
        if hasattr(arguments, "all_or_nothing"):
            raise ConfigError(["--all-or-nothing goes with --targets"])
        arguments.command.run(arguments, output)
    except KVChaosError as error:
        print(f"kvchaos: {explained(error, target_of(arguments))}", file=stderr)
        return BAD_INPUT if isinstance(error, ConfigError | InvalidKeyError | RequestRefused) else FAILED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stdout.fileno())
        return FAILED
    except KeyboardInterrupt:
        return FAILED
    return FINE


def build_parser() -> ArgumentParser:
    """The parser of the whole command line."""
    parser = ArgumentParser(prog="kvchaos", description="Controls the faults that a kvchaos sidecar injects.")
    parser.add_argument("--version", action="version", version=f"kvchaos {__version__}")
    _add_common_arguments(parser)
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        subparser = subparsers.add_parser(command.NAME, help=command.HELP, description=command.HELP)
        command.configure(subparser)
        _add_common_arguments(subparser)
        subparser.set_defaults(command=command)
    return parser


def _add_common_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", default=SUPPRESS, help="write JSON")
    add_connection_arguments(parser)
