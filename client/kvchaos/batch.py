"""What a load and a store have in common while they are under way."""

from __future__ import annotations

import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future

from kvchaos.deadline import Deadline
from kvchaos.errors import KVChaosError, SidecarError, SidecarUnavailable
from kvchaos.results import Result
from kvchaos.routes import open_route
from kvchaos.session import Session
from kvchaos.workers import Workers

logger = logging.getLogger(__name__)


class BatchInFlight(ABC):
    """A batch of keys and buffers, from its request to its future."""

    def __init__(
        self, session: Session, workers: Workers, buffers: Sequence[memoryview], deadline: Deadline
    ) -> None:
        self.session = session
        self.buffers = buffers
        self.deadline = deadline
        self.request_id = session.next_request_id()
        self.route = open_route(session, workers, self.request_id, len(buffers), deadline)
        self.future: Future[list[Result]] = Future()
        self.future.set_running_or_notify_cancel()
        self._workers = workers

    @abstractmethod
    def abandon(self) -> None:
        """Gives back what the daemon may have granted. Called when the batch fails as a whole."""

    def size_column(self) -> list[int]:
        """The buffers' sizes, once where they are all equal."""
        sizes = [buffer.nbytes for buffer in self.buffers]
        return sizes[:1] if sizes.count(sizes[0]) == len(sizes) else sizes

    def on_worker(self, step: Callable[[], None]) -> None:
        """Goes on with ``step`` on a worker thread.

        Raises:
            SidecarUnavailable: the client is closed.
        """

        def guarded() -> None:
            with self.ending_on_error():
                step()

        if not self._workers.submit(guarded):
            raise SidecarUnavailable("the client is closed")

    @contextlib.contextmanager
    def ending_on_error(self) -> Iterator[None]:
        """Whatever goes wrong in the block ends the batch."""
        try:
            yield
        except KVChaosError as error:
            self._fail(error)
        except Exception as error:
            logger.exception("a batch ended with an unexpected error")
            self._fail(SidecarError(f"unexpected error: {error}"))

    def _fail(self, error: KVChaosError) -> None:
        if not self.future.done():
            self.abandon()
            self.future.set_exception(error)
