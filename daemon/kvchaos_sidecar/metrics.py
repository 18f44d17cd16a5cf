"""What the daemon counts. Names start with ``kvchaos_``; labels are bounded and never hold a key."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Sequence
from itertools import product

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
)

from kvchaos.results import Result
from kvchaos_sidecar.metric_children import MetricChildren
from kvchaos_sidecar.outcome import Outcome
from kvchaos_sidecar.rule_series import RuleSeries
from kvchaos_sidecar.rules.governor import FaultSnapshot
from kvchaos_sidecar.rules.verdict import Verdict
from kvchaos_sidecar.sessions.session import EndReason

MOVING_OPERATIONS = ("load", "store")
KEY_OPERATIONS = ("store", "lookup", "load", "delete")
REQUEST_OPERATIONS = (
    "open_session",
    "close_session",
    "lookup",
    "unlock",
    "load",
    "read_extents",
    "prepare_store",
    "write_extents",
    "commit_store",
    "delete",
    "list",
    "usage",
    "status",
)
TIMED_OPERATIONS = tuple(operation for operation in REQUEST_OPERATIONS if operation != "open_session")
"""Those that end by themselves."""
TRANSPORTS = ("handoff", "inline")
DROP_REASONS = ("rate", "index", "tail_ratio")
FAILURES = (
    Result.IO_ERROR,
    Result.NO_SPACE,
    Result.UNAVAILABLE,
    Result.TIMED_OUT,
    Result.INVALID,
)
FAULT_INJECT_RULE = "fault_inject"

_DURATION_BUCKETS_S = (
    0.0001, 0.0003, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip
_BATCH_BUCKETS = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 10_000)


class Metrics:
    """All metrics of one daemon, in the registry that it is given.

    Label values that are known beforehand exist from the start, so that a counter that never moved reads 0.
    Methods may be called from any thread.
    """

    def __init__(self, registry: CollectorRegistry, backend: str, version: str) -> None:
        self.registry = registry
        self._backend = backend
        self._define_traffic(registry)
        self._define_faults(registry)
        self._define_state(registry)
        Info("kvchaos_build", "What runs here.", registry=registry).info(
            {"version": version, "backend": backend}
        )
        ProcessCollector(registry=registry)

    def _define_traffic(self, registry: CollectorRegistry) -> None:
        self._requests = MetricChildren(
            Counter("kvchaos_requests_total", "Calls answered.", ["op", "result_code"], registry=registry),
            product(REQUEST_OPERATIONS, ("ok",)),
        )
        self._durations = MetricChildren(
            Histogram(
                "kvchaos_request_duration_seconds",
                "Time from the first to the last byte of a call, without open_session, by how it came out.",
                ["op", "outcome"],
                buckets=_DURATION_BUCKETS_S,
                registry=registry,
            ),
            product(TIMED_OPERATIONS, Outcome),
        )
        self._load_keys = Histogram(
            "kvchaos_load_keys", "Keys in one load batch.", buckets=_BATCH_BUCKETS, registry=registry
        )
        self._keys = MetricChildren(
            Counter(
                "kvchaos_keys_total",
                "Keys answered, by what became of them.",
                ["op", "result"],
                registry=registry,
            ),
            product(KEY_OPERATIONS, (result.label for result in Result)),
        )
        self._bytes = MetricChildren(
            Counter(
                "kvchaos_bytes_total", "Bytes of objects that moved.", ["op", "transport"], registry=registry
            ),
            product(MOVING_OPERATIONS, TRANSPORTS),
        )
        self._transfer_failures = MetricChildren(
            Counter(
                "kvchaos_transfer_failures_total",
                "Granted objects whose bytes did not arrive whole.",
                ["op", "transport"],
                registry=registry,
            ),
            product(MOVING_OPERATIONS, TRANSPORTS),
        )
        self._backend_errors = Counter(
            "kvchaos_backend_errors_total",
            "Keys that the backend failed.",
            ["backend", "result"],
            registry=registry,
        )
        for failure in FAILURES:
            self._backend_errors.labels(self._backend, failure.label)

    def _define_faults(self, registry: CollectorRegistry) -> None:
        self._evaluated = Counter(
            "kvchaos_rule_evaluated_total", "Keys a rule looked at.", ["rule"], registry=registry
        )
        self._fired = Counter(
            "kvchaos_rule_fired_total",
            "Keys a rule changed the fate of.",
            ["rule", "reason", "fault"],
            registry=registry,
        )
        self._drops = Counter(
            "kvchaos_drops_total", "Keys dropped on purpose.", ["rule", "reason"], registry=registry
        )
        self._generation = Gauge("kvchaos_generation", "Number of the rule set in force.", registry=registry)
        self._halted = Gauge("kvchaos_halted", "1 while injection is halted.", registry=registry)
        self._active = Gauge(
            "kvchaos_injection_active", "1 while a fault is armed and not halted.", registry=registry
        )
        self._capped = Counter(
            "kvchaos_rule_capped_total", "Keys that the cap spared.", ["rule"], registry=registry
        )
        self._expired = Counter(
            "kvchaos_expired_total", "Runtime changes whose time to live ended.", registry=registry
        )
        self._halts = Counter("kvchaos_halts_total", "Times injection was halted.", registry=registry)
        self._tripped = Counter(
            "kvchaos_stop_conditions_tripped_total",
            "Times a stop condition halted injection.",
            ["condition"],
            registry=registry,
        )
        self._production_allowed = Gauge(
            "kvchaos_production_allowed",
            "1 when the configuration lets faults be armed in production.",
            registry=registry,
        )
        self._reloads = Counter(
            "kvchaos_reloads_total", "Readings of the configuration file.", ["result"], registry=registry
        )
        self._rule_series = RuleSeries(self._evaluated, self._fired, self._drops, self._capped)
        self._evaluated.labels(FAULT_INJECT_RULE)
        for reason in DROP_REASONS:
            self._fired.labels(FAULT_INJECT_RULE, reason, "drop")
            self._drops.labels(FAULT_INJECT_RULE, reason)
        for result in ("applied", "refused"):
            self._reloads.labels(result)

    def _define_state(self, registry: CollectorRegistry) -> None:
        self._sessions = Gauge("kvchaos_sessions", "Open sessions.", registry=registry)
        self._locks = Gauge("kvchaos_locks", "Locks held by sessions.", registry=registry)
        self._grants = Gauge("kvchaos_grants", "Objects granted and not yet given back.", registry=registry)
        self._held = Gauge("kvchaos_held_calls", "Calls that a fault keeps waiting.", registry=registry)
        self._sessions_ended = Counter(
            "kvchaos_sessions_ended_total", "Sessions ended.", ["reason"], registry=registry
        )
        self._lock_expirations = Counter(
            "kvchaos_lock_expirations_total", "Locks that ran out.", registry=registry
        )
        self._grant_expirations = Counter(
            "kvchaos_grant_expirations_total", "Grants that ran out.", registry=registry
        )
        self._handoff_refusals = Counter(
            "kvchaos_handoff_refusals_total", "Handoff connections refused.", registry=registry
        )
        self._recording_lost = Counter(
            "kvchaos_recording_lost_total",
            "Events that the recording lacks, because its disk was slow or full.",
            registry=registry,
        )
        self._backend_up = Gauge(
            "kvchaos_backend_up", "1 while the backend answers.", ["backend"], registry=registry
        )
        self._backend_up.labels(self._backend)
        for reason in EndReason:
            self._sessions_ended.labels(reason.value)

    def answered(self, operation: str, code: str) -> None:
        """One call was answered with a gRPC status."""
        self._requests[operation, code].inc()

    def recording_lost(self, events: int) -> None:
        """So many events were not recorded."""
        self._recording_lost.inc(events)

    def took(self, operation: str, outcome: Outcome, seconds: float) -> None:
        """One call took so long."""
        self._durations[operation, outcome].observe(seconds)

    def load_batch(self, keys: int) -> None:
        """A load of so many keys came in."""
        self._load_keys.observe(keys)

    def keys(self, operation: str, results: Iterable[Result]) -> None:
        """What became of the keys of one batch."""
        for result, count in Tally(results).items():
            self._keys[operation, result.label].inc(count)

    def backend_failed(self, answers: Iterable[object]) -> bool:
        """Counts the failures in what the backend answered for the keys of one batch. True when there are."""
        failures = Tally(answer for answer in answers if answer in FAILURES)
        for answer, count in failures.items():
            if isinstance(answer, Result):
                self._backend_errors.labels(self._backend, answer.label).inc(count)
        return bool(failures)

    def moved(self, operation: str, transport: str, size_bytes: int, failed: int = 0) -> None:
        """So many bytes of objects arrived; so many objects did not."""
        self._bytes[operation, transport].inc(size_bytes)
        self._transfer_failures[operation, transport].inc(failed)

    def judged(self, verdict: Verdict) -> None:
        """Rules looked at a batch."""
        for rule, count in verdict.evaluated.items():
            self._evaluated.labels(rule).inc(count)
        if not verdict.strikes:
            return
        fired = Tally(
            (strike.rule, reason, strike.fault.kind)
            for strike in verdict.strikes
            for reason in strike.reasons
        )
        for (rule, reason, fault), count in fired.items():
            self._fired.labels(rule, reason, fault).inc(count)
            if fault == "drop":
                self._drops.labels(rule, reason).inc(count)

    def capped(self, rule: str, keys: int) -> None:
        """The cap spared keys that a rule would have hit."""
        self._capped.labels(rule).inc(keys)

    def expired(self, changes: int) -> None:
        """Runtime changes ended by themselves."""
        self._expired.inc(changes)

    def has_stop_condition(self, name: str) -> None:
        """A stop condition is watched; its counter reads 0 from now on."""
        self._tripped.labels(name)

    def stop_condition_tripped(self, name: str) -> None:
        """A stop condition halts injection."""
        self._tripped.labels(name).inc()

    def halted(self) -> None:
        """Injection was halted."""
        self._halts.inc()

    def faults_changed(self, snapshot: FaultSnapshot) -> None:
        """Other faults are in force."""
        armed = is_armed(snapshot)
        self._generation.set(snapshot.generation)
        self._halted.set(snapshot.halted)
        self._production_allowed.set(snapshot.production_allowed)
        self._rule_series.keep(snapshot.rules)
        self._active.set(armed and not snapshot.halted)

    def reloaded(self, applied: bool) -> None:
        """The configuration file was read again."""
        self._reloads.labels("applied" if applied else "refused").inc()

    def session_ended(self, reason: EndReason) -> None:
        """A session ended."""
        self._sessions_ended.labels(reason.value).inc()

    def locks_expired(self, count: int) -> None:
        """Locks ran out."""
        self._lock_expirations.inc(count)

    def grants_expired(self, count: int) -> None:
        """Grants ran out."""
        self._grant_expirations.inc(count)

    def handoff_refused(self) -> None:
        """A handoff connection was refused."""
        self._handoff_refusals.inc()

    def backend_answers(self, up: bool) -> None:
        """The backend was probed."""
        self._backend_up.labels(self._backend).set(up)

    def read_state_from(
        self,
        sessions: Callable[[], float],
        locks: Callable[[], float],
        grants: Callable[[], float],
        held: Callable[[], float],
    ) -> None:
        """Where the gauges of the present state come from. Called from the thread that serves /metrics."""
        self._sessions.set_function(sessions)
        self._locks.set_function(locks)
        self._grants.set_function(grants)
        self._held.set_function(held)


def is_armed(snapshot: FaultSnapshot) -> bool:
    """Whether some fault could fire if injection is not halted."""
    classic: Sequence[object] = (snapshot.rate, snapshot.gap_indices, snapshot.gap_tail_ratios)
    return any(classic) or bool(snapshot.rules)
