"""A fault: what happens to the keys that a rule selects. Each kind is one small file in this package."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol

from kvchaos_sidecar.config.fields import Part
from kvchaos_sidecar.rules.call import Operation

if TYPE_CHECKING:
    from kvchaos_sidecar.faults.batch import Batch


class Selected(Protocol):
    """The positions of a batch that a rule has selected."""

    @property
    def positions(self) -> Sequence[int]:
        """Ascending."""

    def chance(self, index: int) -> float:
        """A number in [0, 1) for ``positions[index]``, the same for the same seed and traffic."""


class Fault(Part):
    """Settings of one kind of fault, and what it does at each stage of a call.

    A stage that a fault does not name stays as it is. Within a stage the faults of a batch act one after the
    other, in the order of their rules. Between calls a fault may keep what it needs in private attributes; it
    belongs to one rule.
    """

    kind: ClassVar[str]
    """The name in rule files, metrics and logs."""
    operations: ClassVar[frozenset[Operation]]
    """The calls that it can strike."""

    async def before(self, selected: Selected, batch: Batch) -> None:
        """The store has not been asked yet."""

    async def after(self, selected: Selected, batch: Batch) -> None:
        """The store has answered; the client has not heard of it yet."""

    async def before_publish(self, selected: Selected, batch: Batch) -> None:
        """Store: the client has written its bytes; nobody can see them yet."""

    async def after_publish(self, selected: Selected, batch: Batch) -> None:
        """Store: the objects can be seen; the client has not heard of it yet."""
