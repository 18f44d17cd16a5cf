"""What a Load or a PrepareStore was granted, until its descriptors have been sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from kvchaos_sidecar.sessions.tickets import Ticket

ResponseT = TypeVar("ResponseT")


class Granted(Generic[ResponseT]):
    """A response whose descriptors have to reach the client no later than it does.

    Attributes:
        response: what the client is told.
        descriptors: what it is given. They stay open, whatever becomes of the ticket, until
            :meth:`being_sent` is over.
    """

    def __init__(self, response: ResponseT, ticket: Ticket[Any], descriptors: Sequence[int]) -> None:
        """Raises UnknownTicket when the ticket has ended."""
        self.response = response
        self.descriptors = descriptors
        self._ticket = ticket
        if descriptors:
            ticket.pin()

    @property
    def request_id(self) -> int:
        """Names the descriptors."""
        return self._ticket.request_id

    @contextmanager
    def being_sent(self) -> Iterator[None]:
        """Surrounds the sending. When that fails, what was granted is given back."""
        try:
            yield
        except BaseException:
            self._ticket.end()
            raise
        finally:
            if self.descriptors:
                self._ticket.unpin()
