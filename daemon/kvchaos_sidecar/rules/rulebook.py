"""The further rules: those of the document, those added at runtime, and which are switched on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from math import inf

from kvchaos.errors import ConfigError
from kvchaos_sidecar.clock import Clock
from kvchaos_sidecar.config.rule import Rule
from kvchaos_sidecar.rules.field_rule import FieldRule
from kvchaos_sidecar.rules.replay_rule import ReplayRule
from kvchaos_sidecar.rules.ruleset import Slot

MAX_RUNTIME_RULES = 1000


@dataclass(frozen=True, slots=True)
class Added:
    """A rule that was added at runtime."""

    rule: Rule
    ends_at: float


@dataclass(frozen=True, slots=True)
class Switched:
    """A rule was switched on or off at runtime."""

    on: bool
    ends_at: float


@dataclass(frozen=True, slots=True)
class Listed:
    """One rule as an operator sees it."""

    rule: Rule
    armed: FieldRule | None
    """With its counts; None while it is disabled."""
    source: str
    """"file" or "runtime"."""
    state: str
    """"armed", "waiting", "over" or "disabled"."""
    ends_at: float
    """Reading of the clock at which a change that was made at runtime ends; infinite for none."""


class Rulebook:
    """Keeps rules armed across changes of others: a rule that stays the same keeps its times and counts."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._document: tuple[Rule, ...] = ()
        self._added: dict[str, Added] = {}
        self._switched: dict[str, Switched] = {}
        self._armed: dict[str, FieldRule] = {}
        self._nothing_ends_before = inf

    @property
    def added(self) -> Mapping[str, Added]:
        """The rules that were added at runtime, as they are now."""
        return dict(self._added)

    @property
    def switched(self) -> Mapping[str, Switched]:
        """The rules that were switched at runtime, as they are now."""
        return dict(self._switched)

    def restore(self, added: Mapping[str, Added], switched: Mapping[str, Switched]) -> None:
        """Puts back what was changed at runtime. What has a name of the document's rules is left out."""
        taken = {rule.name for rule in self._document}
        self._added = {name: held for name, held in added.items() if name not in taken}
        self._switched = {name: held for name, held in switched.items() if name in self._names()}
        self._find_next_end()

    def put_document(self, rules: Sequence[Rule]) -> None:
        """Replaces the document's rules. One that has the name of a rule added at runtime takes its place."""
        self._document = tuple(rules)
        for rule in rules:
            self._added.pop(rule.name, None)
        self._switched = {name: held for name, held in self._switched.items() if name in self._names()}

    def add(self, rules: Sequence[Rule], ends_at: float) -> None:
        """Adds rules behind the others, all or none.

        Raises:
            ConfigError: a name is taken, or there are too many.
        """
        taken = [
            f"rules[{place}].name: {rule.name!r} is in force already; choose another name or remove it first"
            for place, rule in enumerate(rules)
            if rule.name in self._names()
        ]
        if taken:
            raise ConfigError(taken)
        if len(self._added) + len(rules) > MAX_RUNTIME_RULES:
            raise ConfigError(
                [f"more than {MAX_RUNTIME_RULES} rules at runtime; remove some, or use the file"]
            )
        self._added |= {rule.name: Added(rule, ends_at) for rule in rules}
        self._find_next_end()

    def remove(self, name: str) -> None:
        """Removes a rule that was added at runtime. Raises ConfigError when it was not."""
        self._require(name)
        if name not in self._added:
            raise ConfigError([f"{name}: comes from the file; disable it, or remove it there"])
        del self._added[name]
        self._switched.pop(name, None)

    def switch(self, name: str, on: bool, ends_at: float) -> None:
        """Switches a rule on or off. Raises ConfigError when there is no rule of that name."""
        self._require(name)
        self._switched[name] = Switched(on, ends_at)
        self._find_next_end()

    def reset(self) -> bool:
        """Drops every change that was made at runtime. True when there was one."""
        changed = bool(self._added or self._switched)
        self._added, self._switched = {}, {}
        return changed

    def expire(self, now: float) -> Sequence[str]:
        """Forgets changes whose time is over. Returns the names of their rules. O(1) when there are none."""
        if now < self._nothing_ends_before:
            return ()
        added = [name for name, held in self._added.items() if held.ends_at <= now]
        switched = [name for name, held in self._switched.items() if held.ends_at <= now]
        for name in added:
            del self._added[name]
            self._switched.pop(name, None)
        for name in switched:
            self._switched.pop(name, None)
        self._find_next_end()
        return [*added, *switched]

    def slots(self) -> tuple[Slot, ...]:
        """The rules to evaluate, in order: the document's, then the added ones."""
        slots = []
        for rule, _, ends_at in self._all():
            switched = self._switched.get(rule.name)
            begins, ends = _times(rule.enabled, switched, ends_at)
            if begins < ends:
                slots.append(Slot(self._arm(rule), begins, ends))
        self._armed = {slot.rule.name: self._armed[slot.rule.name] for slot in slots}
        return tuple(slots)

    def listing(self) -> Sequence[Listed]:
        """Every rule, in order, disabled ones too."""
        now = self._clock.monotonic()
        return [self._listed(rule, source, ends_at, now) for rule, source, ends_at in self._all()]

    def _find_next_end(self) -> None:
        changes: tuple[Added | Switched, ...] = (*self._added.values(), *self._switched.values())
        self._nothing_ends_before = min((held.ends_at for held in changes), default=inf)

    def _listed(self, rule: Rule, source: str, ends_at: float, now: float) -> Listed:
        switched = self._switched.get(rule.name)
        begins, ends = _times(rule.enabled, switched, ends_at)
        armed = self._armed.get(rule.name) if begins <= now < ends else None
        next_end = min(ends_at, switched.ends_at if switched else inf)
        return Listed(rule, armed, source, armed.state if armed else "disabled", next_end)

    def _all(self) -> Iterator[tuple[Rule, str, float]]:
        for rule in self._document:
            yield rule, "file", inf
        for held in self._added.values():
            yield held.rule, "runtime", held.ends_at

    def _names(self) -> list[str]:
        return [*(rule.name for rule in self._document), *self._added]

    def _require(self, name: str) -> None:
        names = self._names()
        if name not in names:
            nearest = get_close_matches(name, names, n=1)
            known = f"did you mean {nearest[0]}?" if nearest else f"rules are {', '.join(names) or 'none'}"
            raise ConfigError([f"{name}: there is no such rule; {known}"])

    def _arm(self, rule: Rule) -> FieldRule:
        armed = self._armed.get(rule.name)
        if armed is None or armed.settings != rule:
            kind = ReplayRule if rule.select.recorded else FieldRule
            armed = self._armed[rule.name] = kind(rule, self._clock)
        return armed


def _times(enabled: bool, switched: Switched | None, ends_at: float) -> tuple[float, float]:
    """From when until when a rule counts."""
    if switched is None:
        return (-inf, ends_at) if enabled else (inf, inf)
    if switched.on:
        return -inf, ends_at if enabled else min(switched.ends_at, ends_at)
    return switched.ends_at if enabled else inf, ends_at
