"""``recover``: recover one prompt and say what it took."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.live import Live

from kvchaos_blend.cli.command import FAILED, FINE
from kvchaos_blend.cli.output import add_output_arguments, write
from kvchaos_blend.cli.prompts import add_prompt_arguments, read_prompt
from kvchaos_blend.cli.setup import add_policy_arguments, add_worker_arguments, open_worker
from kvchaos_blend.plot import save_plot
from kvchaos_blend.progress import OnEvent
from kvchaos_blend.recover import RecoverRequest, recover
from kvchaos_blend.render import LiveView, recovery_view
from kvchaos_blend.report import Outcome

NAME = "recover"
HELP = "recover a prompt whose chunks have gaps, and make the next tokens"


def configure(parser: ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_prompt_arguments(parser)
    add_policy_arguments(parser)
    parser.add_argument("--new-tokens", type=int, default=1, metavar="N", help="tokens to make (default: 1)")
    parser.add_argument("--heal", action="store_true", help="store recomputed chunks back")
    parser.add_argument("--verify", action="store_true", help="compare with a full prefill, layer by layer")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the report (png, svg, pdf)")
    add_output_arguments(parser)
    add_worker_arguments(parser)


def run(arguments: Namespace) -> int:
    """Recovers, and writes the report."""
    with open_worker(arguments) as (worker, client):
        token_ids = read_prompt(arguments, worker.model)
        client.wait_connected()
        request = RecoverRequest(
            token_ids, arguments.policy, arguments.new_tokens, heal=arguments.heal, verify=arguments.verify
        )
        with live_view(len(token_ids) // arguments.chunk_tokens, quiet=arguments.json) as on_event:
            report = recover(worker, request, on_event)
    if arguments.plot is not None:
        save_plot(report, arguments.plot)
    write(arguments, report.to_json(), recovery_view(report))
    return FINE if report.outcome is Outcome.RECOVERED else FAILED


@contextmanager
def live_view(chunks: int, quiet: bool) -> Iterator[OnEvent]:
    """Shows the recovery while it goes on, on a terminal; elsewhere nothing."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda _: None
        return
    view = LiveView(chunks)
    with Live(view, console=console, transient=True, refresh_per_second=10):
        yield view
