"""``plan``: what a policy makes of a prompt with given gaps, without model, store or daemon."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from rich.console import Group

from kvchaos_blend.chunks import DEFAULT_CHUNK_TOKENS
from kvchaos_blend.cli.command import FINE
from kvchaos_blend.cli.output import add_output_arguments, write
from kvchaos_blend.cli.setup import add_policy_arguments
from kvchaos_blend.plan import plan_for_missing
from kvchaos_blend.render import legend, plan_table, prompt_row
from kvchaos_blend.report import plan_to_json

NAME = "plan"
HELP = "say what would be loaded, recomputed and dropped; needs neither model nor store"


def configure(parser: ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("--prompt-tokens", type=int, required=True, metavar="N", help="length of the prompt")
    parser.add_argument(
        "--missing", type=int, action="append", default=[], metavar="CHUNK", help="a missing chunk; repeat"
    )
    parser.add_argument(
        "--chunk-tokens",
        type=int,
        default=DEFAULT_CHUNK_TOKENS,
        metavar="N",
        help=f"tokens in a chunk (default: {DEFAULT_CHUNK_TOKENS})",
    )
    add_policy_arguments(parser)
    add_output_arguments(parser)


def run(arguments: Namespace) -> int:
    """Plans, and writes the plan."""
    plan = plan_for_missing(
        arguments.prompt_tokens, arguments.chunk_tokens, arguments.missing, arguments.policy
    )
    write(arguments, plan_to_json(plan), Group(prompt_row(plan), legend(), plan_table(plan)))
    return FINE
