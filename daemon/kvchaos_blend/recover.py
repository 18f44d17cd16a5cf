"""Recovers a prompt's KV from a store that may have lost some of its chunks, and makes the next tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import torch

from kvchaos.results import Result
from kvchaos_blend.cancel import CancelToken
from kvchaos_blend.chunks import chunk_hashes
from kvchaos_blend.exactness import decide, decide_on_partial, why_uncacheable
from kvchaos_blend.lease import Lease
from kvchaos_blend.loader import LOADED, NOT_FINITE, NOT_LOOKED_UP, ChunkLoader
from kvchaos_blend.plan import Plan, Policy, Run, make_plan, merge, subtract
from kvchaos_blend.pool import BlockTable
from kvchaos_blend.progress import LayerStarted, OnEvent, Phase, Planned, Stopwatch, TokenMade
from kvchaos_blend.publish import Published, publish
from kvchaos_blend.report import Outcome, RecoveryReport, Verification
from kvchaos_blend.verify import CANARY_TOKENS, MIN_GREEDY_TOKENS, Delivered, Evidence
from kvchaos_blend.worker import Worker

_BAD_OBJECTS = frozenset({NOT_FINITE, Result.SIZE_MISMATCH.label, Result.IO_ERROR.label})
"""Outcomes that blame the stored object itself: healing replaces it."""


@dataclass(frozen=True, slots=True)
class RecoverRequest:
    """What to recover and how."""

    token_ids: tuple[int, ...]
    policy: Policy = Policy.PREFIX
    new_tokens: int = 1
    """Tokens to make, the first one included."""
    heal: bool = False
    """Store recomputed chunks back."""
    verify: bool = False
    """Compare with a full prefill, layer by layer. Makes at least 32 tokens."""

    @property
    def made_tokens(self) -> int:
        """How many tokens are made."""
        return max(self.new_tokens, MIN_GREEDY_TOKENS) if self.verify else self.new_tokens


def recover(
    worker: Worker,
    request: RecoverRequest,
    on_event: OnEvent = lambda _: None,
    cancel: CancelToken | None = None,
) -> RecoveryReport:
    """Recovers the prompt. Every lock taken in the store is given back, however it ends.

    Raises:
        PromptError: the prompt cannot be used.
        PoolFull: it does not fit in the pool now.
        StoreMismatch: the store's objects are not this model's chunks.
        Cancelled: the token was set.
    """
    worker.check_prompt(request.token_ids, request.made_tokens)
    cancel = cancel or CancelToken()
    if worker.model.traits.recurrent:
        return _prefill_alone(worker, request, on_event, cancel)
    with ExitStack() as held:
        table = held.enter_context(worker.pool.lend(len(request.token_ids) + request.made_tokens - 1))
        canary = held.enter_context(worker.pool.lend(CANARY_TOKENS)) if request.verify else None
        lease = Lease(worker.store)
        held.callback(lease.release_soon)
        recovery = _Recovery(worker, request, table, canary, lease, on_event, cancel)
        held.callback(recovery.close)
        return recovery.run()


class _Recovery:
    """One recovery under way."""

    def __init__(
        self,
        worker: Worker,
        request: RecoverRequest,
        table: BlockTable,
        canary: BlockTable | None,
        lease: Lease,
        on_event: OnEvent,
        cancel: CancelToken,
    ) -> None:
        self._worker = worker
        self._request = request
        self._prompt_tokens = len(request.token_ids)
        self._chunk_tokens = worker.key_space.chunk_tokens
        self._table = table
        self._canary = canary
        self._lease = lease
        self._on_event = on_event
        self._cancel = cancel
        self._stopwatch = Stopwatch(worker.clock, on_event, worker.settle)
        with self._stopwatch.phase(Phase.HASH):
            self._hashes = chunk_hashes(request.token_ids, self._chunk_tokens)
        self._loader = ChunkLoader(worker, self._hashes, table, lease, self._stopwatch, on_event, cancel)
        self._decision = decide(request.policy, worker.model.traits, self._prompt_tokens)
        self._computed: tuple[Run, ...] = ()
        self._tokens: list[int] = []

    def close(self) -> None:
        """Gives host memory back."""
        self._loader.close()

    def run(self) -> RecoveryReport:
        """All phases in order."""
        if self._canary is not None:
            with self._stopwatch.phase(Phase.VERIFY):
                self._worker.verifier.arm(self._worker.pool, self._table, self._canary)
        self._start_loading()
        self._compute_gaps()
        plan = self._finish_prompt()
        warnings = self._release_locks()
        self._continue()
        verification = self._verify(plan)
        healed = self._heal(verification)
        return self._report(plan, [*self._loader.warnings, *warnings], verification, healed)

    def _start_loading(self) -> None:
        if self._decision.policy is Policy.FULL_PREFILL or not self._hashes:
            return
        with self._stopwatch.phase(Phase.LOOKUP):
            self._loader.lookup()
        with self._stopwatch.phase(Phase.LOAD):
            self._loader.start(self._plan().kept_chunks)

    def _compute_gaps(self) -> None:
        """One pass over every gap with something kept after it; what lies behind the last still loads.

        When that has come before one pass more would be over, the gaps are left to the pass that ends the
        prompt: it costs less than a pass of its own.
        """
        filled = False
        while not filled:
            plan = self._plan()
            gaps = [run for run in plan.computed_runs if run.end < self._prompt_tokens]
            until = gaps[-1].end // self._chunk_tokens if gaps else 0
            filled = self._loader.fill(plan.kept_chunks, until)
        self._on_event(Planned(plan))
        if gaps and not self._loader.is_over_within(self._worker.model.shortest_pass_s):
            with self._stopwatch.phase(Phase.RECOMPUTE):
                self._compute(gaps, want_logits=False)
            self._computed = merge(gaps)

    def _finish_prompt(self) -> Plan:
        """The rest of the prompt, with gaps that showed up late, and its last token in any case."""
        filled = False
        while not filled:
            plan = self._plan()
            filled = self._loader.fill(plan.kept_chunks, len(self._hashes))
        self._on_event(Planned(plan))
        pending = subtract(plan.computed_runs, self._computed)
        last = Run(self._prompt_tokens - 1, self._prompt_tokens)
        runs = merge([*subtract(pending, [last]), last])
        with self._stopwatch.phase(Phase.RECOMPUTE if pending else Phase.LAST_TOKEN):
            self._choose(self._compute(runs, want_logits=True))
        self._computed = merge([*subtract(self._computed, runs), *runs])
        return plan

    def _continue(self) -> None:
        with self._stopwatch.phase(Phase.CONTINUE):
            while len(self._tokens) < self._request.made_tokens:
                end = self._prompt_tokens + len(self._tokens)
                self._choose(self._compute([Run(end - 1, end)], want_logits=True))

    def _plan(self) -> Plan:
        """The plan, as far as is known now."""
        ranks = self._worker.key_space.ranks
        lowered = decide_on_partial(self._decision.policy, self._loader.partial, ranks)
        if lowered.reason:
            self._decision = lowered
        return make_plan(self._loader.found, self._prompt_tokens, self._chunk_tokens, self._decision.policy)

    def _compute(self, runs: Sequence[Run], want_logits: bool) -> torch.Tensor | None:
        tokens = sum(run.tokens for run in runs)
        layers = self._worker.pool.geometry.layers

        def checkpoint(layer: int) -> None:
            self._cancel.check()
            self._on_event(LayerStarted(layer, layers, tokens))

        token_ids = [*self._request.token_ids, *self._tokens]
        model, pool, clock = self._worker.model, self._worker.pool, self._worker.clock
        began_s = clock()
        logits = model.compute(token_ids, runs, pool, self._table, checkpoint, want_logits)
        self._worker.settle()
        model.note_pass(clock() - began_s)
        return logits

    def _choose(self, logits: torch.Tensor | None) -> None:
        if logits is None:
            raise RuntimeError("a pass for the next token gave no logits")
        self._tokens.append(int(logits.argmax()))
        self._on_event(TokenMade(self._tokens[-1]))

    def _release_locks(self) -> list[str]:
        with self._stopwatch.phase(Phase.LOAD):
            self._loader.settle()
        with self._stopwatch.phase(Phase.UNLOCK):
            failure = self._lease.release()
        return [f"locks were not given back by hand and end with the session: {failure}"] if failure else []

    def _verify(self, plan: Plan) -> Verification | None:
        if self._canary is None:
            return None
        evidence = Evidence(
            token_ids=self._request.token_ids,
            computed=self._computed,
            delivered=tuple(self._delivered(plan)),
            tokens=tuple(self._tokens),
            table=self._table,
            canary=self._canary,
        )
        with self._stopwatch.phase(Phase.VERIFY):
            return self._worker.verifier.check(self._worker.pool, evidence, self._cancel.check)

    def _delivered(self, plan: Plan) -> Iterator[Delivered]:
        for chunk in plan.kept_chunks:
            for run in subtract([self._loader.run_of(chunk)], self._computed):
                yield Delivered(run, self._loader.delivered(chunk))

    def _heal(self, verification: Verification | None) -> Published | None:
        lost = [chunk for chunk, found in enumerate(self._loader.found) if not found]
        trusted = verification is None or verification.passed
        if not (self._request.heal and lost and trusted) or why_uncacheable(
            self._worker.model.traits, self._prompt_tokens
        ):
            return None
        bad = [chunk for chunk in lost if self._loader.outcomes[chunk] in _BAD_OBJECTS]
        with self._stopwatch.phase(Phase.HEAL):
            return publish(self._worker, self._hashes, self._table, lost, self._cancel, replace=bad)

    def _report(
        self, plan: Plan, warnings: list[str], verification: Verification | None, healed: Published | None
    ) -> RecoveryReport:
        geometry, ranks = self._worker.pool.geometry, self._worker.key_space.ranks
        passed = verification is None or verification.passed
        if healed is not None and healed.failed:
            warnings.append(f"chunks not healed: {healed.failed}")
        return RecoveryReport(
            outcome=Outcome.RECOVERED if passed else Outcome.VERIFICATION_FAILED,
            asked_policy=self._request.policy,
            plan=plan,
            fallback_reason=self._decision.reason,
            chunk_outcomes=tuple(outcome or LOADED for outcome in self._loader.outcomes),
            computed_tokens=sum(run.tokens for run in self._computed),
            loaded_bytes=len(plan.kept_chunks) * geometry.object_bytes(self._chunk_tokens, ranks) * ranks,
            first_token=self._tokens[0],
            tokens=tuple(self._tokens),
            text=self._worker.model.decode(self._tokens),
            attention=self._worker.model.attention.name,
            phase_s=self._stopwatch.by_name(),
            load_span_s=self._loader.load_span_s,
            total_s=self._stopwatch.total_s,
            warnings=tuple(warnings),
            healed_chunks=healed.stored if healed else 0,
            verification=verification,
        )


def _prefill_alone(
    worker: Worker, request: RecoverRequest, on_event: OnEvent, cancel: CancelToken
) -> RecoveryReport:
    """Full prefill by the model itself, for one whose state the pool cannot hold."""
    stopwatch = Stopwatch(worker.clock, on_event, worker.settle)
    prompt_tokens, chunk_tokens = len(request.token_ids), worker.key_space.chunk_tokens
    chunks = prompt_tokens // chunk_tokens
    decision = decide(request.policy, worker.model.traits, prompt_tokens)
    with stopwatch.phase(Phase.RECOMPUTE):
        tokens = worker.model.compute_alone(request.token_ids, request.new_tokens, cancel.check)
    return RecoveryReport(
        outcome=Outcome.RECOVERED,
        asked_policy=request.policy,
        plan=make_plan([False] * chunks, prompt_tokens, chunk_tokens, Policy.FULL_PREFILL),
        fallback_reason=decision.reason,
        chunk_outcomes=(NOT_LOOKED_UP,) * chunks,
        computed_tokens=prompt_tokens,
        loaded_bytes=0,
        first_token=tokens[0],
        tokens=tokens,
        text=worker.model.decode(tokens),
        attention="the model's own",
        phase_s=stopwatch.by_name(),
        load_span_s=0.0,
        total_s=stopwatch.total_s,
        warnings=("nothing to verify: the model itself did a full prefill",) if request.verify else (),
    )
