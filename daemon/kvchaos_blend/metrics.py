"""What the worker counts. Names start with ``kvchaos_blend_``; labels are bounded and never hold a key."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info

from kvchaos.results import Result
from kvchaos_blend.loader import LOADED, NOT_FINITE, NOT_LOOKED_UP, UNUSED
from kvchaos_blend.plan import Action, Policy
from kvchaos_blend.progress import Phase
from kvchaos_blend.report import Outcome, RecoveryReport, StoreReport

ENDINGS = (*(outcome.value for outcome in Outcome), "refused", "cancelled", "failed")
CHUNK_OUTCOMES = (LOADED, UNUSED, NOT_FINITE, NOT_LOOKED_UP, *(result.label for result in Result))

_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class BlendMetrics:
    """All metrics of one worker, in the registry that it is given.

    Label values that are known beforehand exist from the start. Methods may be called from any thread.
    """

    def __init__(self, registry: CollectorRegistry, version: str, model: str, attention: str) -> None:
        self.registry = registry
        self._recoveries = Counter(
            "kvchaos_blend_recoveries_total",
            "Recoveries ended, by the policy asked for.",
            ["policy", "ending"],
            registry=registry,
        )
        self._fallbacks = Counter(
            "kvchaos_blend_fallbacks_total",
            "Recoveries for which the policy asked for was not exact.",
            ["asked", "used"],
            registry=registry,
        )
        self._tokens = Counter(
            "kvchaos_blend_prompt_tokens_total",
            "Prompt tokens, by the policy in effect and what became of them.",
            ["policy", "action"],
            registry=registry,
        )
        self._chunks = Counter(
            "kvchaos_blend_chunks_total",
            "Full chunks, by what became of them.",
            ["outcome"],
            registry=registry,
        )
        self._bytes = Counter(
            "kvchaos_blend_bytes_total", "Bytes of chunks that moved.", ["op"], registry=registry
        )
        self._saved = Counter(
            "kvchaos_blend_saved_tokens_total",
            "Prompt tokens that did not have to be computed, by the policy in effect.",
            ["policy"],
            registry=registry,
        )
        self._made = Counter("kvchaos_blend_made_tokens_total", "Tokens made.", registry=registry)
        self._healed = Counter("kvchaos_blend_healed_chunks_total", "Chunks stored back.", registry=registry)
        self._gates = Counter(
            "kvchaos_blend_gates_total", "Verification gates.", ["gate", "result"], registry=registry
        )
        self._phases = Histogram(
            "kvchaos_blend_phase_seconds",
            "Time by the policy in effect and the phase of a recovery.",
            ["policy", "phase"],
            buckets=_BUCKETS_S,
            registry=registry,
        )
        self._stores = Counter(
            "kvchaos_blend_stored_chunks_total",
            "Chunks of stored prompts, by what became of them.",
            ["outcome"],
            registry=registry,
        )
        self._running = Gauge("kvchaos_blend_running", "Recoveries and stores going on.", registry=registry)
        self._free = Gauge("kvchaos_blend_pool_free_blocks", "Free blocks of the KV pool.", registry=registry)
        self._total = Gauge("kvchaos_blend_pool_blocks", "Blocks of the KV pool.", registry=registry)
        self._connected = Gauge(
            "kvchaos_blend_store_connected", "1 while a session with the sidecar is open.", registry=registry
        )
        Info("kvchaos_blend_build", "What runs here.", registry=registry).info(
            {"version": version, "model": model, "attention": attention}
        )
        self._name_known_labels()

    def _name_known_labels(self) -> None:
        for policy in Policy:
            for ending in ENDINGS:
                self._recoveries.labels(policy.value, ending)
            for action in Action:
                self._tokens.labels(policy.value, action.value)
            self._saved.labels(policy.value)
            for phase in Phase:
                self._phases.labels(policy.value, phase.value)
        for outcome in CHUNK_OUTCOMES:
            self._chunks.labels(outcome)
        for operation in ("load", "store"):
            self._bytes.labels(operation)

    def recovered(self, report: RecoveryReport) -> None:
        """A recovery came to its end and gave a report."""
        policy = report.plan.policy.value
        self._recoveries.labels(report.asked_policy.value, report.outcome.value).inc()
        if report.fallback_reason:
            self._fallbacks.labels(report.asked_policy.value, policy).inc()
        for action in Action:
            self._tokens.labels(policy, action.value).inc(report.plan.tokens(action))
        self._saved.labels(policy).inc(report.tokens_saved)
        for outcome, count in Tally(report.chunk_outcomes).items():
            self._chunks.labels(outcome).inc(count)
        self._bytes.labels("load").inc(report.loaded_bytes)
        self._made.inc(len(report.tokens))
        self._healed.inc(report.healed_chunks)
        for phase, seconds in report.phase_s.items():
            self._phases.labels(policy, phase).observe(seconds)
        for gate in report.verification.gates if report.verification else ():
            self._gates.labels(gate.name, "passed" if gate.passed else "failed").inc()

    def ended_without_report(self, policy: Policy, ending: str) -> None:
        """A recovery was refused, cancelled or failed."""
        self._recoveries.labels(policy.value, ending).inc()

    def stored(self, report: StoreReport) -> None:
        """A prompt was stored."""
        self._stores.labels("stored").inc(report.stored)
        self._stores.labels("present").inc(report.present)
        for reason, count in report.failed.items():
            self._stores.labels(reason).inc(count)
        self._bytes.labels("store").inc(report.stored_bytes)

    def read_state_from(
        self,
        running: Callable[[], float],
        free_blocks: Callable[[], float],
        total_blocks: int,
        connected: Callable[[], bool],
    ) -> None:
        """Where the gauges of the present state come from."""
        self._running.set_function(running)
        self._free.set_function(free_blocks)
        self._total.set(total_blocks)
        self._connected.set_function(lambda: float(connected()))
