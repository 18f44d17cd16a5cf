"""Bounds the series of rules: those of rules that are gone do not stay for ever."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import Counter

MAX_GONE = 100
"""Rules that are gone and still have series, so that their last counts can be scraped."""


class RuleSeries:
    """The counters whose first label is a rule. Belongs to the event loop's thread."""

    def __init__(self, *counters: Counter) -> None:
        self._counters = counters
        self._known: dict[str, None] = {}
        self._gone: dict[str, None] = {}

    def keep(self, rules: Iterable[str]) -> None:
        """These rules are in force now. Of those that were before, the newest keep their series."""
        now = dict.fromkeys(rules)
        self._gone = {name: None for name in (*self._gone, *self._known) if name not in now}
        self._known = now
        while len(self._gone) > MAX_GONE:
            name = next(iter(self._gone))
            del self._gone[name]
            for counter in self._counters:
                _forget(counter, name)


def _forget(counter: Counter, rule: str) -> None:
    """Removes every series of a rule."""
    place = counter._labelnames.index("rule")
    for labels in list(counter._metrics):
        if labels[place] == rule:
            counter.remove(*labels)
