"""Recoveries from a store in memory, on small random models."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from tests.harness.blend import (
    CHUNK_TOKENS,
    CONFIGS,
    make_worker,
    partly_sliding_config,
    prompt,
    random_model,
    recurrent_config,
    sliding_config,
)

from kvchaos.errors import SidecarUnavailable
from kvchaos.keys import ObjectKey
from kvchaos.results import Result
from kvchaos_blend.cancel import CancelToken
from kvchaos_blend.chunks import chunk_hashes
from kvchaos_blend.errors import Cancelled, PoolFull, PromptError, StoreMismatch
from kvchaos_blend.memory_store import MemoryStore
from kvchaos_blend.plan import Action, Policy
from kvchaos_blend.prefill import store_prompt
from kvchaos_blend.progress import ChunkSettled, Event, LayerStarted, Phase, PhaseStarted, TokenMade
from kvchaos_blend.recover import RecoverRequest, recover
from kvchaos_blend.report import Outcome, RecoveryReport
from kvchaos_blend.verify import MIN_GREEDY_TOKENS
from kvchaos_blend.worker import Worker

PROMPT = prompt(5 * CHUNK_TOKENS + 7)
SEGMENTED = Policy.SEGMENTED_PREFIX


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    memory = MemoryStore()
    yield memory
    memory.close()


@pytest.fixture
def worker(store: MemoryStore) -> Worker:
    return stored_worker(store)


def stored_worker(store: MemoryStore, config: str = "llama", dtype: torch.dtype = torch.float32) -> Worker:
    worker = make_worker(random_model(CONFIGS[config](), dtype), store)
    assert store_prompt(worker, PROMPT).stored == 5
    return worker


def key_of(worker: Worker, chunk: int, token_ids: Sequence[int] = PROMPT, rank: int = 0) -> ObjectKey:
    hashes = chunk_hashes(token_ids, worker.key_space.chunk_tokens)
    return worker.key_space.keys([hashes[chunk]], rank)[0]


def lose(worker: Worker, store: MemoryStore, *chunks: int, result: Result = Result.DROPPED) -> None:
    for chunk in chunks:
        store.load_faults[key_of(worker, chunk)] = result


def verified(worker: Worker, policy: Policy = SEGMENTED, token_ids: Sequence[int] = PROMPT) -> RecoveryReport:
    report = recover(worker, RecoverRequest(tuple(token_ids), policy, verify=True))
    assert report.verification is not None
    assert [gate for gate in report.verification.gates if not gate.passed] == []
    assert report.outcome is Outcome.RECOVERED
    return report


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("config", CONFIGS)
def test_every_architecture_recovers_exactly(store: MemoryStore, config: str, dtype: torch.dtype) -> None:
    worker = stored_worker(store, config, dtype)
    lose(worker, store, 2)
    assert verified(worker, Policy.PREFIX).plan.kept_chunks == (0, 1)
    assert verified(worker, SEGMENTED).plan.kept_chunks == (0, 1, 3, 4)
    assert verified(worker, Policy.FULL_PREFILL).plan.kept_chunks == ()


@pytest.mark.parametrize(
    "lost", [(), (0,), (4,), (0, 4), (1, 3), (0, 1, 2, 3, 4)], ids=lambda lost: f"lost {list(lost)}"
)
@pytest.mark.parametrize("end", [0, 1, 7])
@pytest.mark.parametrize("policy", [Policy.PREFIX, SEGMENTED])
def test_every_pattern_of_gaps(
    store: MemoryStore, worker: Worker, policy: Policy, end: int, lost: tuple[int, ...]
) -> None:
    lose(worker, store, *lost)
    report = verified(worker, policy, PROMPT[: 5 * CHUNK_TOKENS + end])
    assert set(report.plan.kept_chunks).isdisjoint(lost)
    loaded = len(report.plan.kept_chunks) * CHUNK_TOKENS
    last_is_loaded = end == 0 and 4 in report.plan.kept_chunks
    assert report.tokens_saved == loaded - last_is_loaded


def test_the_report_says_what_became_of_every_token(store: MemoryStore, worker: Worker) -> None:
    lose(worker, store, 2)
    report = recover(worker, RecoverRequest(PROMPT, Policy.PREFIX))
    assert report.plan.tokens(Action.LOADED) == 2 * CHUNK_TOKENS
    assert report.plan.tokens(Action.RECOMPUTED) == CHUNK_TOKENS + 7
    assert report.plan.tokens(Action.DROPPED) == 2 * CHUNK_TOKENS
    assert report.chunk_outcomes == ("loaded", "loaded", "dropped", "unused", "unused")
    assert report.loaded_bytes == 2 * len(store.objects[key_of(worker, 0)])
    assert set(report.phase_s) >= {"hash", "lookup", "load", "scatter", "recompute", "unlock"}
    assert report.total_s >= sum(report.phase_s.values())


def test_a_chunk_that_was_never_stored_is_recomputed(store: MemoryStore, worker: Worker) -> None:
    del store.objects[key_of(worker, 3)]
    report = verified(worker)
    assert report.chunk_outcomes[3] == "not_found"
    assert report.plan.kept_chunks == (0, 1, 2, 4)


def test_all_gaps_are_computed_in_one_pass_while_the_tail_loads(store: MemoryStore, worker: Worker) -> None:
    lose(worker, store, 1, 2)
    gaps_are_computed = threading.Event()
    store.hold = lambda position: None if position == 0 else wait_for(gaps_are_computed)
    passes: list[int] = []

    def watch(event: Event) -> None:
        if isinstance(event, LayerStarted) and event.layer == 0:
            passes.append(event.tokens)
        if isinstance(event, LayerStarted) and event.layer == event.layers - 1:
            gaps_are_computed.set()

    report = recover(worker, RecoverRequest(PROMPT, SEGMENTED), watch)
    assert report.plan.kept_chunks == (0, 3, 4)
    assert passes == [2 * CHUNK_TOKENS, 7]


def test_what_comes_before_a_pass_would_be_over_is_waited_for_and_saves_that_pass(
    store: MemoryStore, worker: Worker
) -> None:
    lose(worker, store, 1, 3)
    worker.model.shortest_pass_s = 30.0
    passes = [
        event.tokens for event in events_of(worker) if isinstance(event, LayerStarted) and event.layer == 0
    ]
    assert passes == [2 * CHUNK_TOKENS + 7]
    assert verified(worker).plan.kept_chunks == (0, 2, 4)


def events_of(worker: Worker, policy: Policy = SEGMENTED) -> list[Event]:
    events: list[Event] = []
    recover(worker, RecoverRequest(PROMPT, policy), events.append)
    return events


def wait_for(event: threading.Event) -> None:
    assert event.wait(timeout=30), "the gap was not computed while the tail was still loading"


@pytest.mark.parametrize("chunk", [0, 2, 4])
def test_a_chunk_with_a_nan_is_recomputed(store: MemoryStore, worker: Worker, chunk: int) -> None:
    key = key_of(worker, chunk)
    store.objects[key] = store.objects[key][:-4] + b"\xff" * 4
    report = verified(worker)
    assert report.chunk_outcomes[chunk] == "not_finite"


def test_a_gap_that_shows_up_late_is_still_recomputed(store: MemoryStore, worker: Worker) -> None:
    lose(worker, store, 1)
    key = key_of(worker, 4)
    store.objects[key] = b"\xff" * len(store.objects[key])
    report = verified(worker)
    assert report.plan.kept_chunks == (0, 2, 3)


def test_one_chunk_of_a_wrong_size_is_recomputed(store: MemoryStore, worker: Worker) -> None:
    key = key_of(worker, 2)
    store.objects[key] = store.objects[key][:-1]
    assert verified(worker).chunk_outcomes[2] == "size_mismatch"


def test_a_store_of_another_shape_is_refused_before_anything_is_scattered(store: MemoryStore) -> None:
    worker = stored_worker(store, dtype=torch.bfloat16)
    wider = make_worker(random_model(CONFIGS["llama"](), torch.float32), store)
    wider.pool.pages.fill_(3.0)
    with pytest.raises(
        StoreMismatch,
        match=r"the 6144 bytes that a chunk of 16 tokens takes \(3 layers, 2 KV heads of 8, float32",
    ):
        recover(wider, RecoverRequest(PROMPT, SEGMENTED))
    assert torch.all(wider.pool.pages == 3.0)
    store.wait_until_idle()
    assert not store.locked
    assert verified(worker).plan.kept_chunks == (0, 1, 2, 3, 4)


def test_greedy_text_is_the_same_under_every_policy(store: MemoryStore, worker: Worker) -> None:
    lose(worker, store, 1, 3)
    made = {recover(worker, RecoverRequest(PROMPT, policy, new_tokens=40)).tokens for policy in Policy}
    assert len(made) == 1
    assert len(made.pop()) == 40


def test_healing_closes_the_gap(store: MemoryStore, worker: Worker) -> None:
    del store.objects[key_of(worker, 1)]
    damaged = key_of(worker, 3)
    store.objects[damaged] = b"\xff" * len(store.objects[damaged])
    report = recover(worker, RecoverRequest(PROMPT, SEGMENTED, heal=True, verify=True))
    assert report.healed_chunks == 2
    assert verified(worker).plan.kept_chunks == (0, 1, 2, 3, 4)


def test_without_healing_nothing_is_stored(store: MemoryStore, worker: Worker) -> None:
    del store.objects[key_of(worker, 1)]
    before = dict(store.objects)
    recover(worker, RecoverRequest(PROMPT, SEGMENTED))
    assert store.objects == before


def test_ranks_share_the_heads(store: MemoryStore) -> None:
    worker = make_worker(random_model(CONFIGS["llama"]()), store, ranks=2)
    store_prompt(worker, PROMPT)
    assert len(store.objects) == 2 * 5
    for rank in range(2):
        store.load_faults[key_of(worker, 2, rank=rank)] = Result.DROPPED
    assert verified(worker).plan.kept_chunks == (0, 1, 3, 4)


@pytest.mark.parametrize("at_lookup", [True, False])
def test_a_chunk_missing_on_one_rank_falls_back_to_prefix(store: MemoryStore, at_lookup: bool) -> None:
    worker = make_worker(random_model(CONFIGS["llama"]()), store, ranks=2)
    store_prompt(worker, PROMPT)
    key = key_of(worker, 2, rank=1)
    if at_lookup:
        del store.objects[key]
    else:
        store.load_faults[key] = Result.DROPPED
    report = verified(worker)
    assert report.plan.policy is Policy.PREFIX
    assert report.plan.kept_chunks == (0, 1)
    assert report.fallback_reason == "chunk 2 is missing on some of the 2 ranks"


@pytest.mark.parametrize("config", [sliding_config, partly_sliding_config])
def test_a_sliding_window_falls_back_to_prefix(store: MemoryStore, config: type) -> None:
    worker = make_worker(random_model(config(20)), store)
    store_prompt(worker, PROMPT)
    lose(worker, store, 2)
    report = verified(worker)
    assert report.plan.policy is Policy.PREFIX
    assert "sliding window of 20 tokens" in report.fallback_reason


def test_a_recurrent_model_prefills_in_full_and_says_why(store: MemoryStore) -> None:
    worker = make_worker(random_model(recurrent_config()), store)
    report = recover(worker, RecoverRequest(PROMPT, SEGMENTED, new_tokens=3))
    assert report.plan.policy is Policy.FULL_PREFILL
    assert "recurrent state" in report.fallback_reason
    assert len(report.tokens) == 3
    assert store.calls == []


def test_an_unreachable_store_costs_time_and_not_correctness(store: MemoryStore, worker: Worker) -> None:
    store.unreachable = True
    report = verified(worker)
    assert report.chunk_outcomes == ("unavailable",) * 5
    assert "lookup failed" in report.warnings[0]


def test_a_store_that_dies_in_mid_load_costs_time_and_not_correctness(
    store: MemoryStore, worker: Worker
) -> None:
    def die(position: int) -> None:
        if position == 2:
            store.unreachable = True
            raise SidecarUnavailable("connection lost")

    store.hold = die
    report = verified(worker)
    assert report.chunk_outcomes == ("loaded", "loaded", "unavailable", "unavailable", "unavailable")
    assert any("load failed" in warning for warning in report.warnings)
    assert any("locks were not given back" in warning for warning in report.warnings)


def test_two_recoveries_of_one_prompt_at_once(store: MemoryStore, worker: Worker) -> None:
    lose(worker, store, 2)
    both_loading = threading.Barrier(2, timeout=30)
    store.hold = lambda position: both_loading.wait() and None if position == 0 else None
    request = RecoverRequest(PROMPT, SEGMENTED, verify=True)
    with ThreadPoolExecutor(2) as threads:
        reports = list(threads.map(lambda _: recover(worker, request), range(2)))
    assert all(report.outcome is Outcome.RECOVERED for report in reports)
    assert reports[0].tokens == reports[1].tokens
    assert not store.locked
    assert worker.pool.free_blocks == worker.pool.total_blocks


@pytest.mark.parametrize(
    "phase", [Phase.LOOKUP, Phase.LOAD, Phase.SCATTER, Phase.RECOMPUTE, Phase.CONTINUE, Phase.HEAL]
)
def test_cancelling_in_any_phase_gives_everything_back(
    store: MemoryStore, worker: Worker, phase: Phase
) -> None:
    del store.objects[key_of(worker, 1)]
    cancel = CancelToken()

    def watch(event: Event) -> None:
        if event == PhaseStarted(phase):
            cancel.cancel("the caller hung up")

    with pytest.raises(Cancelled, match="the caller hung up"):
        recover(worker, RecoverRequest(PROMPT, SEGMENTED, new_tokens=3, heal=True), watch, cancel)
    store.wait_until_idle()
    assert not store.locked
    assert worker.pool.free_blocks == worker.pool.total_blocks


def test_a_verification_can_be_cancelled(store: MemoryStore, worker: Worker) -> None:
    cancel, made = CancelToken(), []

    def watch(event: Event) -> None:
        if isinstance(event, TokenMade):
            made.append(event.token)
            if len(made) == MIN_GREEDY_TOKENS:
                cancel.cancel("enough")

    with pytest.raises(Cancelled, match="enough"):
        recover(worker, RecoverRequest(PROMPT, SEGMENTED, verify=True), watch, cancel)
    assert worker.pool.free_blocks == worker.pool.total_blocks


def test_a_recurrent_models_prefill_can_be_cancelled(store: MemoryStore) -> None:
    worker = make_worker(random_model(recurrent_config()), store)
    cancel = CancelToken()
    with pytest.raises(Cancelled, match="enough"):
        recover(worker, RecoverRequest(PROMPT), lambda _: cancel.cancel("enough"), cancel)


def test_a_hanging_load_can_be_cancelled_and_its_locks_go_when_it_ends(
    store: MemoryStore, worker: Worker
) -> None:
    cancel, hang = CancelToken(), threading.Event()
    store.hold = lambda _: wait_for(hang)

    def watch(event: Event) -> None:
        if event == PhaseStarted(Phase.LOAD):
            threading.Timer(0.05, cancel.cancel, ["deadline"]).start()

    with pytest.raises(Cancelled):
        recover(worker, RecoverRequest(PROMPT, SEGMENTED), watch, cancel)
    assert store.locked
    hang.set()
    store.wait_until_idle()
    assert not store.locked


def test_an_unexpected_error_gives_the_locks_back(store: MemoryStore, worker: Worker) -> None:
    def fail(event: Event) -> None:
        if isinstance(event, ChunkSettled):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        recover(worker, RecoverRequest(PROMPT, SEGMENTED), fail)
    store.wait_until_idle()
    assert not store.locked


def test_host_memory_is_kept_unless_a_load_may_still_write_there(store: MemoryStore, worker: Worker) -> None:
    recover(worker, RecoverRequest(PROMPT, SEGMENTED))
    kept = worker.host_memory.take(1)
    assert kept.numel() == 5 * worker.pool.geometry.object_bytes(CHUNK_TOKENS, ranks=1)
    cancel, hang = CancelToken(), threading.Event()
    store.hold = lambda _: wait_for(hang)

    def watch(event: Event) -> None:
        if event == PhaseStarted(Phase.LOAD):
            threading.Timer(0.05, cancel.cancel, ["gave up"]).start()

    with pytest.raises(Cancelled):
        recover(worker, RecoverRequest(PROMPT, SEGMENTED), watch, cancel)
    assert worker.host_memory.take(1).numel() == 1
    hang.set()


def test_a_prompt_shorter_than_a_chunk_needs_no_store(store: MemoryStore, worker: Worker) -> None:
    store.calls.clear()
    assert verified(worker, token_ids=PROMPT[:5]).chunk_outcomes == ()
    assert store.calls == []


def test_an_empty_prompt_is_refused(worker: Worker) -> None:
    with pytest.raises(PromptError, match="the prompt is empty"):
        recover(worker, RecoverRequest(()))


def test_a_prompt_beyond_the_models_positions_is_refused(worker: Worker) -> None:
    with pytest.raises(PromptError, match="513 positions; the model has 512"):
        recover(worker, RecoverRequest(prompt(512), new_tokens=2))


def test_a_token_the_model_does_not_know_is_refused(worker: Worker) -> None:
    with pytest.raises(PromptError, match="token id 128 is not in the model's vocabulary of 128"):
        recover(worker, RecoverRequest((1, 128)))


def test_no_new_token_is_refused(worker: Worker) -> None:
    with pytest.raises(PromptError, match="at least the first one"):
        recover(worker, RecoverRequest((1,), new_tokens=0))


def test_a_pool_too_small_is_refused_and_nothing_is_locked(store: MemoryStore) -> None:
    worker = make_worker(random_model(CONFIGS["llama"]()), store, pool_tokens=40)
    with pytest.raises(PoolFull, match="raise --pool-tokens"):
        recover(worker, RecoverRequest(PROMPT))
    assert store.calls == []
