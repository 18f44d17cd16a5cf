"""The demo's end: a real model recovers a prompt whose chunks the sidecar drops.

SmolLM2 with its real weights, on the CPU; the prompt is this project's licence and a question about it.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from rich.console import Console
from rich.live import Live
from tests.harness.blend import smollm2_gguf
from tests.harness.processes import ProcessFailed
from tests.harness.sidecar import SidecarProcess

from kvchaos.client import L2Client
from kvchaos.control import ControlClient
from kvchaos_blend.attention.sdpa_gaps import SdpaGaps
from kvchaos_blend.chunks import KeySpace
from kvchaos_blend.l2 import L2Store
from kvchaos_blend.loading import load
from kvchaos_blend.model import CausalModel
from kvchaos_blend.plan import Policy
from kvchaos_blend.pool import KVPool
from kvchaos_blend.prefill import store_prompt
from kvchaos_blend.recover import RecoverRequest, recover
from kvchaos_blend.render import LiveView, comparison, gates_table, legend, prompt_row, store_view
from kvchaos_blend.report import Outcome, RecoveryReport
from kvchaos_blend.scatter import HostMemory
from kvchaos_blend.verify import Verifier
from kvchaos_blend.worker import Worker

LICENCE = Path(__file__).resolve().parents[2] / "LICENSE"
QUESTION = "\n\nQuestion: What is the name of this license?\nAnswer:"
NEW_TOKENS = 32
RATE, SEED = 0.3, 32
"""Drops two of the prompt's chunks, apart from each other."""


class Failed(Exception):
    """A recovery did not give what a full prefill gives."""


def main() -> int:
    """Runs the demo. 0 when every recovery passed its gates and all gave the same answer."""
    console = Console(highlight=False)
    began_s = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="kvchaos-demo-") as store:
            _run(console, store)
    except (Failed, ProcessFailed, FileNotFoundError) as error:
        console.print(f"failed: {error}", style="bold red")
        return 1
    console.print(f"done in {time.monotonic() - began_s:.0f} s")
    return 0


def _run(console: Console, store: str) -> None:
    console.print("starting a sidecar (fs backend), gap_tail_ratios [0.5] ...")
    with (
        SidecarProcess({"type": "fs", "base_path": store}, {"gap_tail_ratios": [0.5]}) as sidecar,
        ControlClient(sidecar.control_target) as control,
        _worker(console, sidecar) as worker,
    ):
        token_ids = tuple(worker.model.encode(LICENCE.read_text() + QUESTION))
        console.print(f"storing a prompt of {len(token_ids)} tokens through the sidecar ...")
        console.print(store_view(store_prompt(worker, token_ids)))
        full = _recover(console, worker, RecoverRequest(token_ids, Policy.FULL_PREFILL, NEW_TOKENS))
        one_gap = _both_policies(console, worker, token_ids)
        console.print(comparison([full, *one_gap]))
        console.print(f"\nthe same prompt, drops by rate {RATE} and seed {SEED} ...")
        control.set_faults(gap_tail_ratios=[], rate=RATE, seed=SEED)
        several = _both_policies(console, worker, token_ids)
        console.print(comparison([full, *several]))
        _require_one_answer([full, *one_gap, *several])
        console.print(f"every recovery answers, as a full prefill does: {full.text!r}", style="green")


def _both_policies(console: Console, worker: Worker, token_ids: tuple[int, ...]) -> list[RecoveryReport]:
    policies = (Policy.PREFIX, Policy.SEGMENTED_PREFIX)
    return [
        _recover(console, worker, RecoverRequest(token_ids, policy, NEW_TOKENS, verify=True))
        for policy in policies
    ]


def _recover(console: Console, worker: Worker, request: RecoverRequest) -> RecoveryReport:
    view = LiveView(len(request.token_ids) // worker.key_space.chunk_tokens)
    with Live(view, console=console, transient=True, refresh_per_second=10):
        report = recover(worker, request, view)
    console.print(report.plan.policy.value, style="bold")
    console.print(prompt_row(report.plan))
    if report.verification is not None:
        console.print(gates_table(report.verification))
        console.print(legend())
    if report.outcome is not Outcome.RECOVERED:
        raise Failed(f"policy {report.plan.policy.value} failed its verification")
    return report


def _require_one_answer(reports: list[RecoveryReport]) -> None:
    answers = {report.tokens for report in reports}
    if len(answers) != 1:
        raise Failed(f"the recoveries gave {len(answers)} different answers")


@contextmanager
def _worker(console: Console, sidecar: SidecarProcess) -> Iterator[Worker]:
    console.print("loading SmolLM2-135M-Instruct ...")
    device = torch.device("cpu")
    model = CausalModel(load(str(smollm2_gguf()), torch.float32, device), SdpaGaps())
    with L2Client(sidecar.cache_target, f"kvchaos-demo:{os.getpid()}", timeout_s=60.0) as client:
        client.wait_connected()
        key_space = KeySpace("HuggingFaceTB/SmolLM2-135M-Instruct")
        yield Worker(
            model=model,
            pool=KVPool(model.geometry, 4096, device),
            store=L2Store(client),
            key_space=key_space,
            verifier=Verifier(model, key_space.chunk_tokens, keep_last=True),
            host_memory=HostMemory(pinned=False),
            clock=time.perf_counter,
        )


if __name__ == "__main__":
    sys.exit(main())
