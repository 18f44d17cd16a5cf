"""The command reference, from the parsers of the commands."""

from __future__ import annotations

import importlib.util
from argparse import SUPPRESS, Action, ArgumentParser, HelpFormatter, _HelpAction, _SubParsersAction
from collections.abc import Iterator
from functools import partial
from importlib.metadata import entry_points
from typing import Any

from docs.generate.markdown import block, code, sentence, table, target, text

_WIDTH = 88


def command_reference() -> str:
    """A section for each command of this distribution, and for each of its subcommands."""
    return "".join(_sections(parser, "##") for parser in _parsers())


def _parsers() -> Iterator[ArgumentParser]:
    for script in sorted(entry_points(group="console_scripts"), key=lambda script: script.name):
        if script.name.startswith("kvchaos") and importlib.util.find_spec(script.module) is not None:
            yield importlib.import_module(script.module).build_parser()


def _sections(parser: ArgumentParser, level: str, shared: frozenset[str] = frozenset()) -> str:
    parser.formatter_class = partial(HelpFormatter, width=_WIDTH)
    usage = parser.format_usage().replace("usage: ", "").replace("\n" + " " * len("usage: "), "\n")
    anchor = "command-" + parser.prog.replace(" ", "-")
    subparsers = _subparsers(parser)
    actions = [action for action in _described(parser) if _name(action) not in shared]
    own = frozenset(map(_name, actions))
    return "".join(
        (
            f"{target(anchor)}{level} {code(parser.prog)}\n\n",
            f"{text(parser.description or '')}\n\n",
            block(usage, "text"),
            table(("Argument", "Meaning"), [_row(action) for action in actions]) if actions else "",
            *(_sections(subparser, f"{level}#", own) for subparser in subparsers),
        )
    )


def _subparsers(parser: ArgumentParser) -> list[ArgumentParser]:
    return [
        subparser
        for action in parser._actions
        if isinstance(action, _SubParsersAction)
        for subparser in action.choices.values()
    ]


def _described(parser: ArgumentParser) -> Iterator[Action]:
    for action in parser._actions:
        if not isinstance(action, _HelpAction | _SubParsersAction) and action.help != SUPPRESS:
            yield action


def _name(action: Action) -> str:
    if action.option_strings:
        return ", ".join(action.option_strings)
    return str(action.metavar or action.dest)


def _row(action: Action) -> tuple[str, str]:
    value = "" if action.nargs == 0 or not action.option_strings else f" {_value_of(action)}"
    help_text = (action.help or "") % {"default": action.default, "prog": "", "dest": action.dest}
    return code(f"{_name(action)}{value}"), sentence(help_text)


def _value_of(action: Action) -> str:
    if action.choices is not None:
        return "{" + ",".join(map(str, action.choices)) + "}"
    metavar: Any = action.metavar or action.dest.upper()
    return str(metavar)
