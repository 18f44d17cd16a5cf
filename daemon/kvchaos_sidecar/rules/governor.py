"""Which rules are in force now: the document's, changed at runtime, or none while halted.

One thread makes changes (the daemon's event loop); any thread may judge. A change replaces one reference, so
that judging takes no lock and a batch sees one rule set.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from kvchaos.durations import MAX_DURATION
from kvchaos.errors import ConfigError
from kvchaos_sidecar.clock import Clock
from kvchaos_sidecar.config.effective import RuntimeValue
from kvchaos_sidecar.config.load import validate_fault_inject
from kvchaos_sidecar.config.rule import Rule
from kvchaos_sidecar.config.schema import Document, FaultInject
from kvchaos_sidecar.faults.poison import Poison
from kvchaos_sidecar.rules.call import Call
from kvchaos_sidecar.rules.cap import Capper
from kvchaos_sidecar.rules.past import RuntimeState
from kvchaos_sidecar.rules.rulebook import Listed, Rulebook
from kvchaos_sidecar.rules.ruleset import RuleSet, Slot
from kvchaos_sidecar.rules.verdict import Hit, Verdict

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FaultSnapshot:
    """The faults in force at one moment."""

    rate: float
    seed: int
    gap_indices: Sequence[int]
    """Ascending, without repeats."""
    gap_tail_ratios: Sequence[float]
    poison: Poison
    generation: int
    """Number of the rule set."""
    halted: bool
    """True: the values above are configured but not applied."""
    halt_reason: str
    rules: Sequence[str]
    """Names of the further rules, in the order of evaluation."""
    environment: str
    production_allowed: bool
    """Whether the configuration lets faults be armed in production."""

    @property
    def armed(self) -> bool:
        """Whether some rule could hit something if not halted."""
        return bool(self.rate or self.gap_indices or self.gap_tail_ratios or self.rules)


@dataclass(frozen=True, slots=True)
class _Epoch:
    """A rule set and what follows it when its first runtime value ends."""

    rules: RuleSet
    ends_at: float = math.inf
    successor: _Epoch | None = None


class Governor:
    """Holds the rules in force and changes them, whole."""

    def __init__(self, document: Document, clock: Clock) -> None:
        """Starts with the rules of ``document`` as generation 1."""
        self._clock = clock
        self._document = document
        self._base = document.fault_inject
        self._book = Rulebook(clock)
        self._book.put_document(document.rules)
        self._capper = Capper(document.safety.cap, clock)
        self._on_capped: Callable[[Call, Mapping[str, int]], None] = lambda call, capped: None
        self._on_expired: Callable[[Sequence[str]], None] = lambda names: None
        self._runtime: dict[str, RuntimeValue] = {}
        self._generation = 0
        self._epoch = self._plan(None, {})
        self._halt_reason: str | None = None
        self._subscribers: list[Callable[[FaultSnapshot], None]] = []

    @property
    def generation(self) -> int:
        """Number of the rule set in force. Any thread may ask."""
        return self._current().rules.generation

    def judge(self, call: Call) -> Verdict | None:
        """What happens to a batch; None when halted or when no rule looks at such keys.

        A verdict without hits says that rules looked and none fired. Any thread may call this; it waits for
        nothing.
        """
        if self._halt_reason is not None:
            return None
        verdict = self._current().rules.judge(call)
        if verdict is None or not (verdict.strikes or self._document.safety.cap.share_of_keys):
            return verdict
        limited = self._capper.limit(call, verdict)
        if limited.capped:
            self._on_capped(call, limited.capped)
        return limited.verdict

    def explain(self, call: Call) -> tuple[int, Sequence[Hit]]:
        """The generation, and every reason for every position that it would hit if not halted."""
        rules = self._current().rules
        return rules.generation, rules.explain(call)

    def snapshot(self) -> FaultSnapshot:
        """The faults in force. Any thread may call this."""
        rules = self._current().rules
        faults = rules.fault_inject
        return FaultSnapshot(
            rate=faults.rate,
            seed=faults.seed,
            gap_indices=rules.gap_indices,
            gap_tail_ratios=faults.gap_tail_ratios,
            poison=faults.poison,
            generation=rules.generation,
            halted=self._halt_reason is not None,
            halt_reason=self._halt_reason or "",
            rules=self._names_in_force(rules.slots),
            environment=self._document.environment,
            production_allowed=self._document.safety.allow_production,
        )

    def runtime_values(self) -> Mapping[str, RuntimeValue]:
        """The runtime values in force, by field of ``fault_inject``."""
        now = self._clock.monotonic()
        return {name: held for name, held in self._runtime.items() if held.ends_at > now}

    def apply_document(self, document: Document) -> bool:
        """Puts another document's rules under the runtime changes. True when other faults are in force."""
        self.expire()
        if document.safety.cap != self._document.safety.cap:
            self._capper = Capper(document.safety.cap, self._clock)
        self._document = document
        self._base = document.fault_inject
        self._book.put_document(document.rules)
        return self._replan()

    def rules(self) -> Sequence[Listed]:
        """Every further rule, in order, disabled ones too."""
        return self._book.listing()

    def add_rules(self, rules: Sequence[Rule], time_to_live: timedelta | None = None) -> bool:
        """Adds rules behind those in force, all or none.

        Raises:
            ConfigError: a name is taken, or rules may not be armed here. Nothing has changed.
        """
        self._require_permission(rules=True)
        ends_at = self._end_of(time_to_live)
        self.expire()
        self._book.add(rules, ends_at)
        return self._replan()

    def remove_rule(self, name: str) -> bool:
        """Removes a rule that was added at runtime. Raises ConfigError when it was not."""
        self.expire()
        self._book.remove(name)
        return self._replan()

    def switch_rule(self, name: str, on: bool, time_to_live: timedelta | None = None) -> bool:
        """Enables or disables a rule. Raises ConfigError when there is none, or it may not be armed here."""
        if on:
            self._require_permission(rules=True)
        ends_at = self._end_of(time_to_live)
        self.expire()
        self._book.switch(name, on, ends_at)
        return self._replan()

    def on_expired(self, callback: Callable[[Sequence[str]], None]) -> None:
        """Whom to tell the names of runtime changes whose time is over."""
        self._on_expired = callback

    def on_capped(self, callback: Callable[[Call, Mapping[str, int]], None]) -> None:
        """Whom to tell how many keys the cap spared, by rule."""
        self._on_capped = callback

    def set_faults(
        self,
        *,
        rate: float | None = None,
        seed: int | None = None,
        gap_indices: Sequence[int] | None = None,
        gap_tail_ratios: Sequence[float] | None = None,
        time_to_live: timedelta | None = None,
    ) -> bool:
        """Lays values over the document's; None leaves a field alone. True when that changed anything.

        Raises:
            ConfigError: a value or the time to live is out of range. Nothing has changed.
        """
        given = {
            "rate": rate,
            "seed": seed,
            "gap_indices": None if gap_indices is None else list(gap_indices),
            "gap_tail_ratios": None if gap_tail_ratios is None else list(gap_tail_ratios),
        }
        named = {name: value for name, value in given.items() if value is not None}
        checked = validate_fault_inject(named)
        if checked.arms:
            self._require_permission(rules=False)
        ends_at = self._end_of(time_to_live)
        self.expire()
        before = self._runtime
        self._runtime = before | {name: RuntimeValue(getattr(checked, name), ends_at) for name in named}
        return self._replan() or self._runtime != before

    def reset(self) -> bool:
        """Drops every runtime value. Does not resume a halt. True when there was one."""
        self.expire()
        had_values = self._book.reset() or bool(self._runtime)
        self._runtime = {}
        self._replan()
        return had_values

    def expire(self) -> bool:
        """Forgets the runtime changes whose time is over and tells the subscribers. True when there was one.

        They stop having an effect at their end, with or without this.
        """
        ended = [
            *sorted(self._runtime.keys() - self.runtime_values().keys()),
            *self._book.expire(self._clock.monotonic()),
        ]
        if not ended:
            return False
        log.info("runtime changes ended: %s", ", ".join(ended))
        self._runtime = dict(self.runtime_values())
        before, self._epoch = self._epoch, self._plan(self._current().rules, self._runtime)
        self._on_expired(ended)
        if self._epoch.rules is not before.rules:
            self._notify()
        return True

    def halt(self, reason: str = "") -> bool:
        """Stops all injection at once until :meth:`resume`, reloads or not. False when halted already."""
        if self._halt_reason is not None:
            return False
        self._halt_reason = reason
        self._notify()
        return True

    def resume(self) -> bool:
        """Ends a halt. False when there is none."""
        if self._halt_reason is None:
            return False
        self._halt_reason = None
        self._notify()
        return True

    def state(self) -> RuntimeState:
        """What lies over the document now, for :meth:`restore`."""
        return RuntimeState(self.runtime_values(), self._book.added, self._book.switched, self._halt_reason)

    def restore(self, state: RuntimeState) -> bool:
        """Puts back what lay over the document. What would have ended meanwhile ends at once. True when that
        changed anything."""
        before = self.state()
        self._runtime = dict(state.values)
        self._book.restore(state.added, state.switched)
        self._halt_reason = state.halt_reason
        if not self._replan() and before.halt_reason != state.halt_reason:
            self._notify()
        self.expire()
        return self.state() != before

    def subscribe(self, callback: Callable[[FaultSnapshot], None]) -> Callable[[], None]:
        """Calls ``callback`` after every change of what is in force. Returns what ends the subscription."""
        self._subscribers.append(callback)
        return lambda: self._subscribers.remove(callback)

    def _current(self) -> _Epoch:
        epoch = self._epoch
        while epoch.successor is not None and epoch.ends_at <= self._clock.monotonic():
            epoch = epoch.successor
        return epoch

    def _replan(self) -> bool:
        before, self._epoch = self._epoch, self._plan(self._current().rules, self._runtime)
        changed = self._epoch.rules is not before.rules
        if changed:
            self._notify()
        return changed

    def _plan(self, before: RuleSet | None, runtime: Mapping[str, RuntimeValue]) -> _Epoch:
        return self._plan_from(before, runtime, self._book.slots())

    def _plan_from(
        self, before: RuleSet | None, runtime: Mapping[str, RuntimeValue], slots: tuple[Slot, ...]
    ) -> _Epoch:
        faults = self._base.model_copy(update={name: held.value for name, held in runtime.items()})
        unchanged = before and before.fault_inject == faults and before.slots == slots
        rules = before if before and unchanged else self._number(faults, slots)
        ends_at = min((held.ends_at for held in runtime.values()), default=math.inf)
        if math.isinf(ends_at):
            return _Epoch(rules)
        remaining = {name: held for name, held in runtime.items() if held.ends_at > ends_at}
        return _Epoch(rules, ends_at, self._plan_from(rules, remaining, slots))

    def _number(self, faults: FaultInject, slots: Sequence[Slot]) -> RuleSet:
        self._generation += 1
        return RuleSet(self._generation, faults, slots, self._clock)

    def _names_in_force(self, slots: Sequence[Slot]) -> tuple[str, ...]:
        now = self._clock.monotonic()
        return tuple(slot.rule.name for slot in slots if slot.begins <= now < slot.ends)

    def _require_permission(self, rules: bool) -> None:
        refusal = self._document.refusal_to_arm(rules)
        if refusal:
            raise ConfigError([refusal])

    def _end_of(self, time_to_live: timedelta | None) -> float:
        if time_to_live is None:
            return math.inf
        if not timedelta(0) < time_to_live <= MAX_DURATION:
            raise ConfigError(
                [f"time_to_live: {time_to_live.total_seconds():g}s is not between 1us and 3650d"]
            )
        return self._clock.monotonic() + time_to_live.total_seconds()

    def _notify(self) -> None:
        snapshot = self.snapshot()
        for callback in tuple(self._subscribers):
            try:
                callback(snapshot)
            except Exception:
                log.exception("a subscriber failed on generation %d", snapshot.generation)
