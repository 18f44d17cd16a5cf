"""``store``: prefill one prompt and put its chunks into the store."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from kvchaos_blend.cli.command import FAILED, FINE
from kvchaos_blend.cli.output import add_output_arguments, write
from kvchaos_blend.cli.prompts import add_prompt_arguments, read_prompt
from kvchaos_blend.cli.setup import add_worker_arguments, open_worker
from kvchaos_blend.prefill import store_prompt
from kvchaos_blend.render import store_view

NAME = "store"
HELP = "prefill a prompt and put its chunks into the store"


def configure(parser: ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_prompt_arguments(parser)
    add_output_arguments(parser)
    add_worker_arguments(parser)


def run(arguments: Namespace) -> int:
    """Stores, and writes the report."""
    with open_worker(arguments) as (worker, client):
        token_ids = read_prompt(arguments, worker.model)
        client.wait_connected()
        report = store_prompt(worker, token_ids)
    write(arguments, report.to_json(), store_view(report))
    return FAILED if report.failed else FINE
