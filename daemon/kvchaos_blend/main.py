"""Entry of the ``kvchaos-blend`` command: exit code 0 fine, 1 failed, 2 bad input."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Sequence

from kvchaos import __version__
from kvchaos.errors import ConfigError, InvalidKeyError, KVChaosError
from kvchaos_blend.cli import plan, recover, serve, store, verify
from kvchaos_blend.cli.command import BAD_INPUT, FAILED, Command
from kvchaos_blend.errors import ModelError, PromptError

COMMANDS: Sequence[Command] = (serve, recover, store, verify, plan)


def run(words: Sequence[str] | None = None) -> int:
    """The console script. Returns the exit code."""
    arguments = build_parser().parse_args(words)
    try:
        return int(arguments.command.run(arguments))
    except (ConfigError, InvalidKeyError, PromptError, ModelError, ValueError, OSError) as error:
        return _fail(error, BAD_INPUT)
    except KVChaosError as error:
        return _fail(error, FAILED)
    except KeyboardInterrupt:
        return FAILED


def build_parser() -> ArgumentParser:
    """The parser of the whole command line."""
    parser = ArgumentParser(
        prog="kvchaos-blend",
        description="Recovers a prompt's KV from a store that has lost some of its chunks.",
    )
    parser.add_argument("--version", action="version", version=f"kvchaos-blend {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        subparser = subparsers.add_parser(command.NAME, help=command.HELP, description=command.HELP)
        command.configure(subparser)
        subparser.set_defaults(command=command)
    return parser


def _fail(error: Exception, code: int) -> int:
    print(f"kvchaos-blend: {error}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(run())
