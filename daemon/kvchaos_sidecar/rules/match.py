"""Which keys of which calls a rule looks at."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import translate

from kvchaos.keys import ObjectKey
from kvchaos_sidecar.config.rule import Match, PositionRange
from kvchaos_sidecar.rules.call import Call
from kvchaos_sidecar.rules.rule import Identity


class Matcher:
    """A :class:`Match` made ready.

    What the keys of one prompt share is asked once for all of them (:meth:`concerns`), the rest for each
    batch and key.
    """

    def __init__(self, match: Match) -> None:
        self._model = _patterns(match.model)
        self._client = _patterns(match.client)
        self._salts = _set(match.cache_salt)
        self._ranks = _set(match.kv_rank)
        self._groups = _set(match.object_group_id)
        self._prefixes = match.key_prefix
        self._ranges = match.position
        self._batch_size = match.batch_size
        self._object_size = match.object_size
        self._names_keys = match.names_keys

    def concerns(self, client_name: str, identity: Identity | None) -> bool:
        """Whether it looks at keys of this identity (None: a call without keys) from this client at all."""
        if self._client is not None and not self._client.fullmatch(client_name):
            return False
        if identity is None:
            return not self._names_keys
        model, rank, group, salt = identity
        return (
            (self._model is None or self._model.fullmatch(model) is not None)
            and (self._salts is None or salt in self._salts)
            and (self._ranks is None or rank in self._ranks)
            and (self._groups is None or group in self._groups)
        )

    def positions(self, call: Call, positions: Sequence[int]) -> Sequence[int]:
        """Those of ``positions`` that it looks at. Their identity has been asked about before."""
        size = len(call.positions)
        if self._batch_size is not None and size not in self._batch_size:
            return ()
        if self._ranges is not None:
            wanted = set().union(*(_within(span, size) for span in self._ranges))
            positions = [position for position in positions if position in wanted]
        if self._prefixes is not None:
            positions = [position for position in positions if self._has_prefix(call.keys[position])]
        if self._object_size is not None:
            sizes = call.sizes
            positions = [position for position in positions if sizes and sizes[position] in self._object_size]
        return positions

    def _has_prefix(self, key: ObjectKey) -> bool:
        return key.chunk_hash.startswith(self._prefixes or ())


def _within(span: PositionRange, batch_size: int) -> range:
    first = span.first if span.first >= 0 else max(0, batch_size + span.first)
    last = span.last if span.last >= 0 else batch_size + span.last
    return range(first, min(last, batch_size - 1) + 1)


def _patterns(globs: Sequence[str] | None) -> re.Pattern[str] | None:
    return None if globs is None else re.compile("|".join(map(translate, globs)))


def _set(values: Sequence[object] | None) -> frozenset[object] | None:
    return None if values is None else frozenset(values)
