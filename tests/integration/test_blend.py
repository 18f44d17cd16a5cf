"""The blend worker on a real sidecar: recoveries, faults, a killed daemon, the served command."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from tests.harness.blend import CHUNK_TOKENS, CONFIGS, make_worker, prompt, random_model
from tests.harness.processes import ManagedProcess, free_port
from tests.harness.sidecar import SidecarProcess
from tests.harness.waiting import eventually

from kvchaos.client import L2Client
from kvchaos.v1 import blend_pb2 as pb
from kvchaos.v1.blend_pb2_grpc import BlendStub
from kvchaos_blend.cancel import CancelToken
from kvchaos_blend.chunks import chunk_hashes
from kvchaos_blend.errors import Cancelled
from kvchaos_blend.l2 import L2Store
from kvchaos_blend.plan import Policy
from kvchaos_blend.prefill import store_prompt
from kvchaos_blend.progress import ChunkSettled, Event, Phase, PhaseStarted
from kvchaos_blend.recover import RecoverRequest, recover
from kvchaos_blend.report import Outcome, RecoveryReport
from kvchaos_blend.worker import Worker

PROMPT = prompt(8 * CHUNK_TOKENS + 7)
SEGMENTED = Policy.SEGMENTED_PREFIX


@contextmanager
def worker_on(sidecar: SidecarProcess, handoff: bool = True, timeout_s: float = 30.0) -> Iterator[Worker]:
    """A worker on a small random model, whose prompt is in the sidecar's store."""
    with L2Client(sidecar.cache_target, "blend-test", handoff=handoff, timeout_s=timeout_s) as client:
        assert client.wait_connected(), client.cause
        worker = make_worker(random_model(CONFIGS["llama"]()), L2Store(client))
        report = store_prompt(worker, PROMPT)
        assert report.stored + report.present == 8
        yield worker


def sidecar_with(store_path: Path, **fault_inject: object) -> SidecarProcess:
    return SidecarProcess({"type": "fs", "base_path": str(store_path)}, fault_inject)


def verified(
    worker: Worker, policy: Policy, on_event: Callable[[Event], None] = lambda _: None
) -> RecoveryReport:
    report = recover(worker, RecoverRequest(PROMPT, policy, verify=True), on_event)
    assert report.verification is not None
    assert [gate for gate in report.verification.gates if not gate.passed] == []
    return report


def no_lock_is_left(sidecar: SidecarProcess) -> bool:
    return sidecar.metrics().value("kvchaos_locks") == 0


def stored_files(store_path: Path) -> list[Path]:
    """The files of the prompt's chunks, in order."""
    hashes = chunk_hashes(PROMPT, CHUNK_TOKENS)
    return [next(store_path.rglob(f"*{chunk_hash.hex()}*")) for chunk_hash in hashes]


@pytest.mark.parametrize("handoff", [True, False])
def test_a_gap_in_the_middle_under_both_policies(store_path: Path, handoff: bool) -> None:
    with sidecar_with(store_path, gap_tail_ratios=[0.5]) as sidecar, worker_on(sidecar, handoff) as worker:
        assert verified(worker, Policy.PREFIX).plan.kept_chunks == (0, 1, 2, 3)
        segmented = verified(worker, SEGMENTED)
        assert segmented.plan.kept_chunks == (0, 1, 2, 3, 5, 6, 7)
        assert segmented.chunk_outcomes[4] == "dropped"
        assert segmented.warnings == ()
        eventually(lambda: no_lock_is_left(sidecar))


def test_several_gaps_from_rate_and_seed(store_path: Path) -> None:
    with sidecar_with(store_path, rate=0.4, seed=11) as sidecar, worker_on(sidecar) as worker:
        first, second = verified(worker, SEGMENTED), verified(worker, SEGMENTED)
        dropped = first.chunk_outcomes.count("dropped")
        assert 2 <= dropped <= 7
        assert second.chunk_outcomes == first.chunk_outcomes
        assert verified(worker, Policy.FULL_PREFILL).tokens == first.tokens


def test_without_faults_everything_is_loaded(store_path: Path) -> None:
    with sidecar_with(store_path) as sidecar, worker_on(sidecar) as worker:
        report = verified(worker, SEGMENTED)
        assert report.plan.kept_chunks == tuple(range(8))
        assert report.loaded_bytes == sum(path.stat().st_size for path in stored_files(store_path))


def test_what_was_lost_or_spoilt_on_disk_is_healed(store_path: Path) -> None:
    with sidecar_with(store_path) as sidecar, worker_on(sidecar) as worker:
        files = stored_files(store_path)
        sound = [path.read_bytes() for path in files]
        files[1].unlink()
        files[3].write_bytes(b"\xff" * len(sound[3]))
        files[6].write_bytes(sound[6][:-1])
        report = recover(worker, RecoverRequest(PROMPT, SEGMENTED, heal=True, verify=True))
        assert [report.chunk_outcomes[chunk] for chunk in (1, 3, 6)] == [
            "not_found",
            "not_finite",
            "size_mismatch",
        ]
        assert report.healed_chunks == 3
        assert verified(worker, SEGMENTED).plan.kept_chunks == tuple(range(8))
        assert [path.stat().st_size for path in stored_files(store_path)] == list(map(len, sound))


@pytest.mark.parametrize(
    "moment",
    [
        PhaseStarted(Phase.LOOKUP),
        PhaseStarted(Phase.LOAD),
        ChunkSettled(0, "loaded"),
        PhaseStarted(Phase.UNLOCK),
    ],
    ids=["lookup", "load", "first chunk", "unlock"],
)
def test_a_sidecar_killed_at_any_moment_costs_time_and_not_correctness(
    store_path: Path, moment: Event
) -> None:
    with sidecar_with(store_path, gap_tail_ratios=[0.5]) as sidecar, worker_on(sidecar) as worker:

        def kill(event: Event) -> None:
            if event == moment:
                sidecar.kill()

        report = verified(worker, SEGMENTED, kill)
        assert report.outcome is Outcome.RECOVERED
        assert report.warnings, "the report does not say what was lost"
        sidecar.restart()
        assert no_lock_is_left(sidecar)
        eventually(lambda: verified(worker, SEGMENTED).plan.kept_chunks == (0, 1, 2, 3, 5, 6, 7))


def test_cancelling_gives_the_locks_back(store_path: Path) -> None:
    with sidecar_with(store_path) as sidecar, worker_on(sidecar) as worker:
        cancel = CancelToken()

        def watch(event: Event) -> None:
            if isinstance(event, ChunkSettled):
                assert sidecar.metrics().value("kvchaos_locks") == 8
                cancel.cancel("enough")

        with pytest.raises(Cancelled, match="enough"):
            recover(worker, RecoverRequest(PROMPT, SEGMENTED), watch, cancel)
        eventually(lambda: no_lock_is_left(sidecar))


def test_two_recoveries_of_one_prompt_at_once(store_path: Path) -> None:
    with sidecar_with(store_path, gap_indices=[2]) as sidecar, worker_on(sidecar) as worker:
        reports: list[RecoveryReport] = []
        threads = [
            threading.Thread(target=lambda: reports.append(verified(worker, SEGMENTED))) for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [report.plan.kept_chunks for report in reports] == [(0, 1, 3, 4, 5, 6, 7)] * 2
        eventually(lambda: no_lock_is_left(sidecar))


class ServedWorker:
    """A real ``kvchaos-blend serve`` process."""

    def __init__(self, directory: Path, cache_target: str) -> None:
        model = directory / "model"
        random_model(CONFIGS["llama"]()).hf_model.save_pretrained(model)
        self.address = f"unix:{directory}/blend.sock"
        self.http = f"127.0.0.1:{free_port()}"
        self.process = ManagedProcess(
            [
                *command("serve", "--model", str(model), "--model-name", "test/tiny"),
                *("--chunk-tokens", str(CHUNK_TOKENS), "--threads", "1", "--target", cache_target),
                *("--listen", self.address, "--http", self.http, "--enable-segmented-prefix"),
            ],
            directory / "blend.log",
        )
        self.stub = BlendStub(grpc.insecure_channel(self.address))
        self.process.wait_until(self._answers, 60.0, "kvchaos-blend serve")

    def _answers(self) -> bool:
        try:
            return bool(self.stub.Status(pb.BlendStatusRequest(), timeout=2.0).store_connected)
        except grpc.RpcError:
            return False

    def metrics(self) -> str:
        with urllib.request.urlopen(f"http://{self.http}/metrics", timeout=5.0) as response:
            return str(response.read().decode())


def command(*words: str) -> list[str]:
    return [str(Path(sys.executable).parent / "kvchaos-blend"), *words]


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory whose path is short enough for a Unix socket."""
    path = Path(tempfile.mkdtemp(prefix="kvc-", dir="/tmp"))
    yield path
    shutil.rmtree(path)


@pytest.mark.slow
def test_the_served_worker_from_start_to_end(store_path: Path, directory: Path) -> None:
    with sidecar_with(store_path, gap_tail_ratios=[0.5]) as sidecar:
        served = ServedWorker(directory, sidecar.cache_target)
        try:
            wire = pb.Prompt(token_ids=pb.TokenIds(ids=PROMPT))
            assert served.stub.Store(pb.StoreRequest(prompt=wire)).stored == 8
            *_, last = served.stub.Recover(pb.RecoverRequest(prompt=wire, verify=True), timeout=60)
            assert last.report.recovered
            assert list(last.report.plan.kept_chunks) == [0, 1, 2, 3, 5, 6, 7]
            assert (
                'kvchaos_blend_recoveries_total{ending="recovered",policy="segmented_prefix"} 1.0'
                in served.metrics()
            )
        finally:
            code = served.process.stop()
        assert code == 0, served.process.log()
        assert "Traceback" not in served.process.log()


def blend(cache_target: str, model: Path, *words: str) -> subprocess.CompletedProcess[str]:
    shared = ["--model", str(model), "--target", cache_target, "--threads", "1"]
    shared += ["--chunk-tokens", str(CHUNK_TOKENS), "--random-tokens", "135"]
    name, *rest = words
    return subprocess.run(
        command(name, *rest, *shared), capture_output=True, text=True, timeout=100, check=False
    )


def run_json(*arguments: object) -> dict[str, object]:
    done = blend(*arguments, "--json")  # type: ignore[arg-type]
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.slow
def test_the_commands_store_recover_and_verify(store_path: Path, directory: Path) -> None:
    model = directory / "model"
    random_model(CONFIGS["qwen3"]()).hf_model.save_pretrained(model)
    with sidecar_with(store_path, gap_tail_ratios=[0.5]) as sidecar:
        assert run_json(sidecar.cache_target, model, "store")["stored"] == 8
        report = run_json(sidecar.cache_target, model, "recover", "--enable-segmented-prefix", "--verify")
        assert kept(report) == [0, 1, 2, 3, 5, 6, 7]
        assert kept(run_json(sidecar.cache_target, model, "recover")) == [0, 1, 2, 3]
        assert run_json(sidecar.cache_target, model, "verify")["same_tokens"] is True


def kept(report: dict[str, object]) -> Sequence[int]:
    plan = report["plan"]
    assert isinstance(plan, dict)
    return list(plan["kept_chunks"])
