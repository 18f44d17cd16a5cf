"""What becomes of each stretch of a prompt: loaded, recomputed or dropped. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import groupby
from typing import NamedTuple


class Policy(Enum):
    """What to keep of a found-set with gaps."""

    FULL_PREFILL = "full"
    """Nothing: compute the whole prompt. The baseline, and the last resort."""
    PREFIX = "prefix"
    """Everything before the first gap; drop what was found after it."""
    SEGMENTED_PREFIX = "segmented_prefix"
    """Everything found; recompute only the gaps."""

    @classmethod
    def parse(cls, name: str) -> Policy:
        """Raises ValueError that lists the known names."""
        try:
            return cls(name)
        except ValueError:
            known = ", ".join(policy.value for policy in cls)
            raise ValueError(f"unknown policy {name!r}; known: {known}") from None


class Action(Enum):
    """What becomes of a segment."""

    LOADED = "loaded"
    RECOMPUTED = "recomputed"
    """It was not found, or has no key."""
    DROPPED = "dropped"
    """It was found and is recomputed all the same, because of the policy."""


class Run(NamedTuple):
    """A stretch of consecutive token positions, ``start`` to ``end - 1``."""

    start: int
    end: int

    @property
    def tokens(self) -> int:
        """Its length in tokens."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Segment:
    """A run whose tokens share one fate."""

    action: Action
    run: Run


@dataclass(frozen=True, slots=True)
class Plan:
    """What becomes of a prompt under one policy."""

    policy: Policy
    prompt_tokens: int
    chunk_tokens: int
    segments: tuple[Segment, ...]
    """Non-empty, in order, without holes; neighbours differ in their action."""
    kept_chunks: tuple[int, ...]
    """Positions of the chunks whose loaded KV is used."""

    @property
    def computed_runs(self) -> tuple[Run, ...]:
        """Everything to compute, with neighbours merged. Empty when every token was loaded."""
        computed = [segment.run for segment in self.segments if segment.action is not Action.LOADED]
        return merge(computed)

    def tokens(self, action: Action) -> int:
        """Tokens with that fate."""
        return sum(segment.run.tokens for segment in self.segments if segment.action is action)


def make_plan(found: Sequence[bool], prompt_tokens: int, chunk_tokens: int, policy: Policy) -> Plan:
    """The plan for a prompt whose full chunks were ``found`` or not.

    What lies behind the last full chunk has no key and is recomputed.
    """
    kept = _kept(found, policy)
    fates = [_fate(is_found, chunk in kept) for chunk, is_found in enumerate(found)]
    pieces = [
        Segment(fate, Run(chunk * chunk_tokens, (chunk + 1) * chunk_tokens))
        for chunk, fate in enumerate(fates)
    ]
    if len(found) * chunk_tokens < prompt_tokens:
        pieces.append(Segment(Action.RECOMPUTED, Run(len(found) * chunk_tokens, prompt_tokens)))
    return Plan(policy, prompt_tokens, chunk_tokens, _join(pieces), tuple(sorted(kept)))


def plan_for_missing(prompt_tokens: int, chunk_tokens: int, missing: Sequence[int], policy: Policy) -> Plan:
    """The plan for a prompt all of whose full chunks but ``missing`` are found.

    Raises:
        ValueError: a length below 1, or a chunk that the prompt does not have.
    """
    if prompt_tokens < 1 or chunk_tokens < 1:
        raise ValueError(
            f"prompt of {prompt_tokens} tokens in chunks of {chunk_tokens}: both must be at least 1"
        )
    chunks = prompt_tokens // chunk_tokens
    outside = next((chunk for chunk in missing if not 0 <= chunk < chunks), None)
    if outside is not None:
        raise ValueError(f"missing chunk {outside} is not one of the prompt's {chunks} full chunks")
    return make_plan([chunk not in missing for chunk in range(chunks)], prompt_tokens, chunk_tokens, policy)


def merge(runs: Sequence[Run]) -> tuple[Run, ...]:
    """The runs, in order, with those that touch joined."""
    merged: list[Run] = []
    for run in sorted(runs):
        if merged and merged[-1].end == run.start:
            merged[-1] = Run(merged[-1].start, run.end)
        else:
            merged.append(run)
    return tuple(merged)


def subtract(runs: Sequence[Run], taken: Sequence[Run]) -> tuple[Run, ...]:
    """What is left of ``runs`` without the positions in ``taken``."""
    left = list(runs)
    for hole in taken:
        left = [
            piece
            for run in left
            for piece in (Run(run.start, min(run.end, hole.start)), Run(max(run.start, hole.end), run.end))
        ]
        left = [run for run in left if run.tokens > 0]
    return merge(left)


def _kept(found: Sequence[bool], policy: Policy) -> frozenset[int]:
    if policy is Policy.FULL_PREFILL:
        return frozenset()
    if policy is Policy.SEGMENTED_PREFIX:
        return frozenset(chunk for chunk, is_found in enumerate(found) if is_found)
    first_gap = next((chunk for chunk, is_found in enumerate(found) if not is_found), len(found))
    return frozenset(range(first_gap))


def _fate(is_found: bool, is_kept: bool) -> Action:
    if is_kept:
        return Action.LOADED
    return Action.DROPPED if is_found else Action.RECOMPUTED


def _join(pieces: Sequence[Segment]) -> tuple[Segment, ...]:
    joined = []
    for action, group in groupby(pieces, key=lambda piece: piece.action):
        members = list(group)
        joined.append(Segment(action, Run(members[0].run.start, members[-1].run.end)))
    return tuple(joined)
