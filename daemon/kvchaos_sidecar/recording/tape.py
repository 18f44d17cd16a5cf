"""What the data plane tells of its calls, and the tape that nobody listens to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from kvchaos.results import Result
from kvchaos_sidecar.backends.contract import WriteLease
from kvchaos_sidecar.rules.call import Call
from kvchaos_sidecar.rules.verdict import Verdict


class CommitNote(Protocol):
    """One store that is being committed. What is noted is kept when :meth:`close` is called, once."""

    def stored(self, lengths: Mapping[int, int]) -> None:
        """Positions of which not what was written is published, but so many of its first bytes."""

    def settled(self, results: Sequence[Result]) -> None:
        """What became of each grant, in order."""

    def close(self) -> None:
        """The commit is over. Without results, it failed."""


class Tape(Protocol):
    """Hears of every call. Never waits, and never fails."""

    def judged(self, call: Call, verdict: Verdict | None) -> None:
        """A call begins, and the rules have decided."""

    def settled(self, call: Call, results: Sequence[Result]) -> None:
        """A call ends; ``results`` are empty where its answer has none for each key."""

    def failed(self, call: Call, error: BaseException) -> None:
        """A call fails, or is given up."""

    def moved(self, session_number: int, sequence: int, failed: Sequence[int]) -> None:
        """The bytes of a load have moved, but for positions in ``failed``. ``sequence``: that of the load."""

    def committing(
        self, session_number: int, sequence: int, grants: Mapping[int, WriteLease], written: Sequence[int]
    ) -> CommitNote:
        """A store is about to be published. ``sequence``: that of the call that prepared it."""


class _NoNote:
    """Forgets."""

    def stored(self, lengths: Mapping[int, int]) -> None:
        return

    def settled(self, results: Sequence[Result]) -> None:
        return

    def close(self) -> None:
        return


_NO_NOTE = _NoNote()


class NoTape:
    """Keeps nothing, when nothing is recorded."""

    def judged(self, call: Call, verdict: Verdict | None) -> None:
        """Forgets."""

    def settled(self, call: Call, results: Sequence[Result]) -> None:
        """Forgets."""

    def failed(self, call: Call, error: BaseException) -> None:
        """Forgets."""

    def moved(self, session_number: int, sequence: int, failed: Sequence[int]) -> None:
        """Forgets."""

    def committing(
        self, session_number: int, sequence: int, grants: Mapping[int, WriteLease], written: Sequence[int]
    ) -> CommitNote:
        """Forgets."""
        return _NO_NOTE
