"""The Blend service over a real gRPC connection, on a store in memory."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import grpc
import pytest
import torch
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from prometheus_client import CollectorRegistry
from tests.harness.blend import CHUNK_TOKENS, CONFIGS, make_worker, prompt, random_model, recurrent_config

from kvchaos.results import Result
from kvchaos.v1 import blend_pb2 as pb
from kvchaos.v1.blend_pb2_grpc import BlendStub
from kvchaos_blend.chunks import chunk_hashes
from kvchaos_blend.memory_store import MemoryStore
from kvchaos_blend.metrics import BlendMetrics
from kvchaos_blend.plan import Policy
from kvchaos_blend.rpc.server import SERVICE_NAME, start_server
from kvchaos_blend.rpc.service import BlendService, StoreState, cancelled_with
from kvchaos_blend.worker import Worker

PROMPT = prompt(5 * CHUNK_TOKENS + 7)
WIRE_PROMPT = pb.Prompt(token_ids=pb.TokenIds(ids=PROMPT))
SEGMENTED = pb.RECOVERY_POLICY_SEGMENTED_PREFIX
MAX_RUNNING = 2


class Served:
    """A worker behind a listener, and a stub to call it."""

    def __init__(self, worker: Worker, store: MemoryStore, default_policy: Policy = Policy.PREFIX) -> None:
        self.store, self.worker = store, worker
        self.metrics = BlendMetrics(CollectorRegistry(), "0", "m", "sdpa")
        self.service = BlendService(
            worker,
            self.metrics,
            default_policy,
            lambda: StoreState(True, "in memory"),
            datetime(2030, 1, 2, tzinfo=UTC),
            MAX_RUNNING,
        )
        self.directory = Path(tempfile.mkdtemp(dir="/tmp"))
        address = f"unix:{self.directory}/blend.sock"
        self.server = start_server(self.service, address, MAX_RUNNING)
        self.channel = grpc.insecure_channel(address)
        self.stub = BlendStub(self.channel)

    def close(self) -> None:
        self.channel.close()
        self.server.stop(grace=0).wait()
        assert self.service.wait_until_idle(30)
        self.store.close()
        shutil.rmtree(self.directory)

    def recover(self, **fields: object) -> list[pb.RecoverEvent]:
        request = pb.RecoverRequest(**{"prompt": WIRE_PROMPT, "policy": SEGMENTED, **fields})  # type: ignore[arg-type]
        return list(self.stub.Recover(request, timeout=60))

    def lose(self, chunk: int) -> None:
        key = self.worker.key_space.keys([chunk_hashes(PROMPT, CHUNK_TOKENS)[chunk]], rank=0)[0]
        self.store.load_faults[key] = Result.DROPPED

    def hang_loads(self) -> threading.Event:
        """From now on no byte is delivered until the event is set."""
        released = threading.Event()

        def hold(_position: int) -> None:
            released.wait(30)

        self.store.hold = hold
        return released

    def counted(self, policy: str, ending: str) -> float | None:
        labels = {"policy": policy, "ending": ending}
        return self.metrics.registry.get_sample_value("kvchaos_blend_recoveries_total", labels)


@pytest.fixture
def served() -> Iterator[Served]:
    store = MemoryStore()
    one = Served(make_worker(random_model(CONFIGS["llama"]()), store), store)
    assert one.stub.Store(pb.StoreRequest(prompt=WIRE_PROMPT)).stored == 5
    yield one
    one.close()


def code_of(call: Callable[[], object]) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as failed:
        call()
    return failed.value.code(), failed.value.details()  # type: ignore[attr-defined]


def test_a_recovery_streams_its_progress_and_ends_with_the_report(served: Served) -> None:
    served.lose(2)
    *progress, last = served.recover(new_tokens=3, verify=True)
    report = last.report
    assert report.recovered
    assert list(report.plan.kept_chunks) == [0, 1, 3, 4]
    assert (report.plan.tokens_loaded, report.plan.tokens_recomputed) == (4 * CHUNK_TOKENS, CHUNK_TOKENS + 7)
    assert list(report.chunk_outcomes) == ["loaded", "loaded", "dropped", "loaded", "loaded"]
    assert report.verification.passed
    assert len(report.verification.layers) == 3
    kinds = {event.WhichOneof("event") for event in progress}
    assert kinds == {"phase", "chunk", "plan", "layer", "token"}
    phases = [event.phase for event in progress if event.WhichOneof("event") == "phase"]
    assert [phase for phase in phases if phase != "verify"][:4] == ["hash", "lookup", "load", "scatter"]
    assert [event.token for event in progress if event.WhichOneof("event") == "token"] == list(report.tokens)
    assert report.total.ToTimedelta() >= max(phase.time.ToTimedelta() for phase in report.phases)
    assert served.counted("segmented_prefix", "recovered") == 1


def test_the_workers_own_policy_is_the_default(served: Served) -> None:
    report = served.recover(policy=pb.RECOVERY_POLICY_UNSPECIFIED)[-1].report
    assert report.asked_policy == pb.RECOVERY_POLICY_PREFIX


def test_storing_twice_finds_what_is_there(served: Served) -> None:
    response = served.stub.Store(pb.StoreRequest(prompt=WIRE_PROMPT))
    assert (response.chunks, response.stored, response.present) == (5, 0, 5)


def test_a_plan_needs_no_store(served: Served) -> None:
    calls = list(served.store.calls)
    request = pb.PlanRequest(prompt_tokens=80, missing_chunks=[2], policy=SEGMENTED)
    assert list(served.stub.Plan(request).plan.kept_chunks) == [0, 1, 3, 4]
    assert served.store.calls == calls


def test_status_says_what_runs_here(served: Served) -> None:
    status = served.stub.Status(pb.BlendStatusRequest())
    assert status.architecture == "llama"
    assert status.geometry == "3 layers, 2 KV heads of 8, float32"
    assert (status.attention, status.device) == ("sdpa", "cpu")
    assert status.attention_reason == "the test wants it"
    assert (status.pool_blocks, status.pool_free_blocks, status.block_tokens) == (256, 256, 4)
    assert status.started_at.ToDatetime(UTC) == datetime(2030, 1, 2, tzinfo=UTC)
    assert (status.store_connected, status.store_detail) == (True, "in memory")


@pytest.mark.parametrize(
    ("request_fields", "code", "text"),
    [
        ({"prompt": pb.Prompt()}, grpc.StatusCode.INVALID_ARGUMENT, "set prompt.token_ids or prompt.text"),
        ({"prompt": pb.Prompt(token_ids=pb.TokenIds())}, grpc.StatusCode.INVALID_ARGUMENT, "prompt is empty"),
        (
            {"prompt": pb.Prompt(token_ids=pb.TokenIds(ids=prompt(513)))},
            grpc.StatusCode.INVALID_ARGUMENT,
            "the model has 512",
        ),
        ({"policy": 99}, grpc.StatusCode.INVALID_ARGUMENT, "unknown policy 99"),
        ({"prompt": pb.Prompt(text="x")}, grpc.StatusCode.FAILED_PRECONDITION, "has no tokenizer"),
    ],
)
def test_a_bad_request_is_refused_with_the_reason(
    served: Served, request_fields: dict[str, object], code: grpc.StatusCode, text: str
) -> None:
    found, details = code_of(lambda: served.recover(**request_fields))
    assert found is code
    assert text in details


def test_a_plan_for_a_chunk_that_is_not_there_is_refused(served: Served) -> None:
    request = pb.PlanRequest(prompt_tokens=80, missing_chunks=[5])
    code, details = code_of(lambda: served.stub.Plan(request))
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert "missing chunk 5" in details


def test_a_store_of_another_shape_is_a_failed_precondition() -> None:
    store = MemoryStore()
    narrow = make_worker(random_model(CONFIGS["llama"](), torch.bfloat16), store)
    first = Served(narrow, store)
    first.stub.Store(pb.StoreRequest(prompt=WIRE_PROMPT))
    wide = Served(make_worker(random_model(CONFIGS["llama"]()), store), store)
    code, details = code_of(wide.recover)
    assert code is grpc.StatusCode.FAILED_PRECONDITION
    assert "another size" in details
    assert wide.counted("segmented_prefix", "refused") == 1
    wide.close()
    first.close()


def test_a_recurrent_model_cannot_store() -> None:
    store = MemoryStore()
    one = Served(make_worker(random_model(recurrent_config()), store), store)
    code, details = code_of(lambda: one.stub.Store(pb.StoreRequest(prompt=WIRE_PROMPT)))
    assert code is grpc.StatusCode.FAILED_PRECONDITION
    assert "recurrent state" in details
    one.close()


def test_a_full_pool_is_exhausted() -> None:
    store = MemoryStore()
    one = Served(make_worker(random_model(CONFIGS["llama"]()), store, pool_tokens=20), store)
    code, details = code_of(one.recover)
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "raise --pool-tokens" in details
    one.close()


@pytest.mark.parametrize("leaves", ["by hanging up", "by its deadline"])
def test_a_caller_who_leaves_ends_the_recovery_and_frees_every_lock(served: Served, leaves: str) -> None:
    hang = served.hang_loads()
    timeout_s = 0.3 if leaves == "by its deadline" else 60
    call = served.stub.Recover(pb.RecoverRequest(prompt=WIRE_PROMPT, policy=SEGMENTED), timeout=timeout_s)
    if leaves == "by hanging up":
        assert next(call).phase
        call.cancel()
    code, _ = code_of(lambda: list(call))
    assert code in (grpc.StatusCode.CANCELLED, grpc.StatusCode.DEADLINE_EXCEEDED)
    assert served.service.wait_until_idle(30)
    hang.set()
    served.store.wait_until_idle()
    assert not served.store.locked
    assert served.worker.pool.free_blocks == served.worker.pool.total_blocks


def test_a_caller_who_left_before_the_call_began_is_noticed() -> None:
    class EndedContext:
        def add_callback(self, callback: Callable[[], None]) -> bool:
            return False

    with cancelled_with(EndedContext()) as cancel:  # type: ignore[arg-type]
        assert cancel.is_set


def test_status_and_health_answer_while_all_turns_are_taken(served: Served) -> None:
    hang = served.hang_loads()
    request = pb.RecoverRequest(prompt=WIRE_PROMPT, policy=SEGMENTED)
    calls = [served.stub.Recover(request, timeout=60) for _ in range(MAX_RUNNING)]
    for call in calls:
        next(call)
    assert served.stub.Status(pb.BlendStatusRequest(), timeout=10).running == MAX_RUNNING
    code, details = code_of(served.recover)
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "2 requests are running" in details
    health = health_pb2_grpc.HealthStub(served.channel)
    answer = health.Check(health_pb2.HealthCheckRequest(service=SERVICE_NAME), timeout=10)
    assert answer.status == health_pb2.HealthCheckResponse.SERVING
    hang.set()
    assert all(list(call)[-1].report.recovered for call in calls)


def test_reflection_knows_the_service(served: Served) -> None:
    assert SERVICE_NAME in ProtoReflectionDescriptorDatabase(served.channel).get_services()
