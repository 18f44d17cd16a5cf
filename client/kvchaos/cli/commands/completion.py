"""``kvchaos completion``: what a shell needs to complete the command's words."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace, _SubParsersAction
from collections.abc import Iterator, Mapping, Sequence

from kvchaos.cli.output import Output

NAME = "completion"
HELP = (
    'Write the completion script of a shell: eval "$(kvchaos completion bash)"; '
    "in fish: kvchaos completion fish | source."
)
SHELLS = ("bash", "zsh", "fish")

_SCRIPT = """\
_kvchaos() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} words
  if [ "$COMP_CWORD" -eq 1 ]; then
    words="{commands}"
  else
    case ${{COMP_WORDS[1]}} in
{cases}
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _kvchaos kvchaos
"""


_FISH_COMMANDS = "complete -c kvchaos -f -n __fish_use_subcommand -a '{commands}'"
_FISH_WORDS = "complete -c kvchaos -n '__fish_seen_subcommand_from {command}' -a '{words}'"
_FISH_OPTION = "complete -c kvchaos -n '__fish_seen_subcommand_from {command}' -l {option}"


def configure(parser: ArgumentParser) -> None:
    """Adds the shell."""
    parser.add_argument("shell", choices=SHELLS, help="the shell")


def run(arguments: Namespace, output: Output) -> None:
    """Writes the script."""
    from kvchaos.cli.main import build_parser

    words = words_by_command(build_parser())
    output.line(_fish(words) if arguments.shell == "fish" else _bash(words, arguments.shell == "zsh"))


def _bash(words: Mapping[str, Sequence[str]], in_zsh: bool) -> str:
    cases = "\n".join(f'      {command}) words="{" ".join(known)}" ;;' for command, known in words.items())
    script = _SCRIPT.format(commands=" ".join(words), cases=cases)
    prefix = "autoload -U +X bashcompinit && bashcompinit\n" if in_zsh else ""
    return (prefix + script).rstrip()


def _fish(words: Mapping[str, Sequence[str]]) -> str:
    lines = [_FISH_COMMANDS.format(commands=" ".join(words))]
    for command, known in words.items():
        options = [word.removeprefix("--") for word in known if word.startswith("--")]
        choices = [word for word in known if not word.startswith("--")]
        lines += [_FISH_OPTION.format(command=command, option=option) for option in options]
        lines += [_FISH_WORDS.format(command=command, words=" ".join(choices))] if choices else []
    return "\n".join(lines)


def words_by_command(parser: ArgumentParser) -> Mapping[str, Sequence[str]]:
    """The options and choices of every subcommand."""
    return {name: sorted(_words(subparser)) for name, subparser in _subparsers(parser)}


def _subparsers(parser: ArgumentParser) -> Iterator[tuple[str, ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, _SubParsersAction):
            yield from action.choices.items()


def _words(parser: ArgumentParser) -> set[str]:
    words: set[str] = set()
    for action in parser._actions:
        words.update(option for option in action.option_strings if option.startswith("--"))
        words.update(map(str, action.choices or ()))
    return words
