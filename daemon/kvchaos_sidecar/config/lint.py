"""What is allowed in a rule and yet cannot be meant: a rule that can never fire."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvchaos_sidecar.config.rule import Match, Rule
from kvchaos_sidecar.rules.call import KEYLESS, Operation

SIZED = frozenset({Operation.STORE, Operation.LOAD, Operation.LIST})
"""Calls that carry the sizes of objects."""

_MODEL_FORBIDDEN = "@\0"
_SALT_FORBIDDEN = "@/\\\0"


def warnings_of(rules: Sequence[Rule]) -> list[str]:
    """One line for each reason why a rule can never fire, with its place."""
    return [f"rules[{place}].{line}" for place, rule in enumerate(rules) for line in _of_rule(rule)]


def _of_rule(rule: Rule) -> Iterator[str]:
    for line in _of_match(rule.match):
        yield f"match.{line}"
    select = rule.select
    if select.rate == 0 and not select.gap_indices and not select.gap_tail_ratios:
        yield "select.rate: 0 selects nothing; raise it, or disable the rule"


def _of_match(match: Match) -> Iterator[str]:
    operations = frozenset(match.op)
    if match.names_keys and operations <= KEYLESS:
        yield f"op: {' and '.join(sorted(operations))} has no keys, so that the rest never matches"
    if match.object_size is not None and not operations & SIZED:
        yield f"object_size: {' and '.join(sorted(operations))} carries no sizes, so that it never matches"
    for pattern in match.model or ():
        if any(character in pattern for character in _MODEL_FORBIDDEN):
            yield f"model: {pattern!r} never matches; a model name has no '@' and no NUL"
    for salt in match.cache_salt or ():
        if any(character in salt for character in _SALT_FORBIDDEN):
            yield f"cache_salt: {salt!r} never matches; a salt has no '@', '/', '\\' and NUL"
    yield from _of_positions(match)


def _of_positions(match: Match) -> Iterator[str]:
    largest = match.batch_size.max if match.batch_size else None
    if largest is None:
        return
    if largest == 0:
        yield "batch_size: a batch of 0 keys has nothing to hit"
    for span in match.position or ():
        if span.first >= largest:
            yield f"position: {span.first} is beyond every batch of at most {largest} keys"
