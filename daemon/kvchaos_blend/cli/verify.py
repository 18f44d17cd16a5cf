"""``verify``: recover one prompt under every policy, hold each to the gates, and compare the answers."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import replace

from rich.console import Group, RenderableType
from rich.text import Text

from kvchaos_blend.cli.command import FAILED, FINE
from kvchaos_blend.cli.output import add_output_arguments, write
from kvchaos_blend.cli.prompts import add_prompt_arguments, read_prompt
from kvchaos_blend.cli.recover import live_view
from kvchaos_blend.cli.setup import add_worker_arguments, open_worker
from kvchaos_blend.plan import Policy
from kvchaos_blend.recover import RecoverRequest, recover
from kvchaos_blend.render import comparison, gates_table, legend, prompt_row
from kvchaos_blend.report import Outcome, RecoveryReport
from kvchaos_blend.verify import MIN_GREEDY_TOKENS, Verifier

NAME = "verify"
HELP = "recover a prompt under every policy and hold each result to a full prefill"


def configure(parser: ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_prompt_arguments(parser)
    parser.add_argument(
        "--new-tokens",
        type=int,
        default=MIN_GREEDY_TOKENS,
        metavar="N",
        help=f"tokens to make and compare, at least {MIN_GREEDY_TOKENS} (default: {MIN_GREEDY_TOKENS})",
    )
    add_output_arguments(parser)
    add_worker_arguments(parser)


def run(arguments: Namespace) -> int:
    """Recovers three times, and writes the reports. Fails when a gate does or the answers differ."""
    with open_worker(arguments) as (worker, client):
        verifier = Verifier(worker.model, arguments.chunk_tokens, keep_last=True)
        worker = replace(worker, verifier=verifier)
        token_ids = read_prompt(arguments, worker.model)
        client.wait_connected()
        reports = []
        for policy in Policy:
            request = RecoverRequest(token_ids, policy, arguments.new_tokens, verify=True)
            with live_view(len(token_ids) // arguments.chunk_tokens, quiet=arguments.json) as on_event:
                reports.append(recover(worker, request, on_event))
    same = len({report.tokens for report in reports}) == 1
    document = {"same_tokens": same, "recoveries": [report.to_json() for report in reports]}
    write(arguments, document, _view(reports, same))
    return FINE if all(report.outcome is Outcome.RECOVERED for report in reports) else FAILED


def _view(reports: list[RecoveryReport], same: bool) -> Group:
    parts: list[RenderableType] = []
    for report in reports:
        parts += [Text(report.plan.policy.value, style="bold"), prompt_row(report.plan)]
        if report.verification is not None:
            parts.append(gates_table(report.verification))
    verdict = "the same tokens under every policy" if same else "tokens differ between policies"
    return Group(*parts, legend(), comparison(reports), Text(verdict, style="green" if same else "yellow"))
