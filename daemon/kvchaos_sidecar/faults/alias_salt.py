"""Alias salt: keys of one tenant are taken for those of another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from kvchaos.keys import MAX_SALT_CHARS
from kvchaos_sidecar.faults.contract import Fault, Selected
from kvchaos_sidecar.rules.call import Operation

if TYPE_CHECKING:
    from kvchaos_sidecar.faults.batch import Batch


class AliasSalt(Fault):
    """Asks the store under another `cache_salt`. On store and lookup or load alike, tenants share objects.

    The key is not locked in the store, which knows it by another name.
    """

    kind = "alias_salt"
    operations = frozenset({Operation.STORE, Operation.LOOKUP, Operation.LOAD})

    to: Annotated[str, Field(max_length=MAX_SALT_CHARS, pattern=r"^[^@/\\\x00]*$")] = ""
    """The salt that is used instead. Left out: the salt is stripped."""

    async def before(self, selected: Selected, batch: Batch) -> None:
        for position in selected.positions:
            batch.keys[position] = batch.keys[position]._replace(cache_salt=self.to)
