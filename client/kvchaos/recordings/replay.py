"""From recorded faults to the rules that inject them again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from kvchaos.recordings.reader import RecordedFault

PREFIX = "replay."
"""How the names of such rules begin; in log, status and metrics this is the mark of a replay."""

_MAX_NAME_CHARS = 63


def replay_rules(faults: Sequence[RecordedFault], sessions_before: int = 0) -> list[dict[str, Any]]:
    """One rule for each rule of the recording and each fault that it had, in the order of their first hits.

    ``sessions_before``: how many sessions the daemon has opened already; the recording's first session is the
    one after those.
    """
    groups: dict[tuple[str, str], list[RecordedFault]] = {}
    for found in faults:
        groups.setdefault((found.rule, found.fault), []).append(found)
    names = _names([rule for rule, _ in groups])
    return [
        {
            "name": name,
            "match": {"op": sorted({found.operation for found in group})},
            "select": {"recorded": _calls(group, sessions_before)},
            "fault": json.loads(fault),
        }
        for name, ((_, fault), group) in zip(names, groups.items(), strict=True)
    ]


def _calls(faults: Sequence[RecordedFault], sessions_before: int) -> list[Mapping[str, Any]]:
    calls: dict[tuple[int, str, str, int], list[RecordedFault]] = {}
    for found in faults:
        calls.setdefault(found.call, []).append(found)
    return [
        {
            "session": session + sessions_before,
            "op": operation,
            "batch": batch,
            "nth": nth,
            "places": [found.place for found in group],
            "chances": [found.chance for found in group],
        }
        for (session, operation, batch, nth), group in calls.items()
    ]


def _names(rules: Sequence[str]) -> list[str]:
    """A name for each, no two alike."""
    names: list[str] = []
    for rule in rules:
        plain = rule.removeprefix(PREFIX)
        name, number = f"{PREFIX}{plain}"[:_MAX_NAME_CHARS], 1
        while name in names:
            number += 1
            ending = f".{number}"
            name = f"{PREFIX}{plain}"[: _MAX_NAME_CHARS - len(ending)] + ending
        names.append(name)
    return names
