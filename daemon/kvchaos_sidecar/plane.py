"""The data plane: judges a batch, asks the backend, counts what came of it.

It knows neither gRPC nor sockets. A batch is judged once, so one generation of rules decides all of it.
Positions that a fault settles cost no backend I/O.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from kvchaos.keys import ObjectKey
from kvchaos.results import Result
from kvchaos_sidecar.backends.contract import Backend, BackendError, KeyPage, ReadLease, Usage, WriteLease
from kvchaos_sidecar.errors import InvalidRequest
from kvchaos_sidecar.faults.drop import Poison
from kvchaos_sidecar.faults.plan import BatchPlan
from kvchaos_sidecar.metrics import Metrics
from kvchaos_sidecar.rules.governor import FaultSnapshot
from kvchaos_sidecar.rules.verdict import Call, Operation, Verdict
from kvchaos_sidecar.sessions.session import Session
from kvchaos_sidecar.sessions.tickets import LoadTicket, StoreTicket

log = logging.getLogger(__name__)

AnswerT = TypeVar("AnswerT")
LeaseT = TypeVar("LeaseT", ReadLease, WriteLease)


class Judge(Protocol):
    """Says what the rules do to a batch."""

    def judge(self, call: Call) -> Verdict | None:
        """None when no rule looks at such calls."""

    def snapshot(self) -> FaultSnapshot:
        """The faults in force."""


class Recorder(Protocol):
    """Remembers injected faults."""

    def record(self, call: Call, verdict: Verdict) -> None:
        """Takes the hits of one batch."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of the keys of one batch."""

    results: Sequence[Result]
    generation: int
    """Number of the rule set that judged it."""
    poison: Poison = field(default_factory=Poison)
    """For the destinations of dropped keys."""


@dataclass(frozen=True, slots=True)
class Deletion:
    """What a delete did."""

    results: Sequence[Result]
    freed_bytes: Sequence[int]


class DataPlane:
    """Carries out the calls of the L2 interface for sessions.

    Attributes:
        evaluated_total: keys that rules looked at since start.
        fired_total: keys that a rule changed the fate of since start.
    """

    def __init__(self, backend: Backend, judge: Judge, recorder: Recorder, metrics: Metrics) -> None:
        self._backend = backend
        self._rules = judge
        self._recorder = recorder
        self._metrics = metrics
        self._unlocks: set[asyncio.Task[None]] = set()
        self._last_error = ""
        self.evaluated_total = 0
        self.fired_total = 0

    async def lookup(self, session: Session, keys: Sequence[ObjectKey]) -> Answer:
        """Which keys are present. Those are locked for the session."""
        generation = self._rules.snapshot().generation
        answers = await self._ask(keys, lambda: self._backend.lock(keys))
        results = [_presence(answer) for answer in answers]
        session.locks.acquire([key for key, result in zip(keys, results, strict=True) if result is Result.OK])
        self._metrics.keys("lookup", results)
        return Answer(results, generation)

    def unlock(self, session: Session, keys: Sequence[ObjectKey]) -> int:
        """Takes back one lock per key. Returns how many there were."""
        return session.locks.release(keys)

    def give_back_locks(self, keys: Sequence[ObjectKey]) -> None:
        """Tells the store about locks that ended, beside the traffic: nobody waits for it."""
        task = asyncio.create_task(self._backend.unlock(keys))
        self._unlocks.add(task)
        task.add_done_callback(self._unlocks.discard)

    async def settle(self, timeout_s: float) -> None:
        """Waits until the store has been told about every lock that ended, or time is up."""
        if self._unlocks:
            await asyncio.wait(self._unlocks, timeout=timeout_s)

    async def load(
        self, session: Session, ticket: LoadTicket, keys: Sequence[ObjectKey], sizes: Sequence[int]
    ) -> Answer:
        """Opens what may be read and grants it to the ticket.

        Raises:
            UnknownTicket: the client gave the request up meanwhile; nothing is held.
        """
        self._metrics.load_batch(len(keys))
        generation, plan = self._judge(session, Operation.LOAD, keys, sizes)
        asked = plan.open_positions()
        wanted = [keys[position] for position in asked]
        lengths = [sizes[position] for position in asked]
        answers = await self._ask(wanted, lambda: self._backend.open_reads(wanted, lengths))
        results, leases = _sort_out(asked, answers, plan.settled)
        ticket.grant(leases)
        session.loads.renew(ticket)
        self._metrics.keys("load", results)
        return Answer(results, generation, plan.poison)

    async def prepare_store(
        self, session: Session, ticket: StoreTicket, keys: Sequence[ObjectKey], sizes: Sequence[int]
    ) -> Answer:
        """Makes room for the keys that are not there yet and grants it to the ticket.

        Raises:
            UnknownTicket: the client gave the request up meanwhile; nothing is held.
        """
        generation = self._rules.snapshot().generation
        answers = await self._ask(keys, lambda: self._backend.open_writes(keys, sizes))
        results, leases = _sort_out(range(len(keys)), answers, {})
        ticket.grant(leases)
        session.stores.renew(ticket)
        self._metrics.keys("store", (result for result in results if result is not Result.OK))
        return Answer(results, generation)

    async def commit_store(
        self, session: Session, ticket: StoreTicket, written: Sequence[int]
    ) -> Sequence[Result]:
        """Publishes what was written and ends the ticket. One result for each grant, in their order.

        Raises:
            InvalidRequest: ``written`` has not one entry for each grant; nothing has changed.
            TicketInUse: bytes are still being written; nothing has changed.
        """
        if len(written) != len(ticket.grants):
            raise InvalidRequest(
                f"written_bytes has {len(written)} entries; expected {len(ticket.grants)}, one for each grant"
            )
        grants = ticket.take()
        session.stores.forget(ticket)
        results = dict(ticket.failures)
        self._backend.discard([grants[position] for position in ticket.failures])
        agreed = {
            position: ticket.agreed_length(position, length)
            for position, length in zip(grants, written, strict=True)
            if position not in results
        }
        leases = [grants[position] for position in agreed]
        try:
            answers = await self._ask(leases, lambda: self._backend.publish(leases, list(agreed.values())))
        finally:
            self._backend.discard(leases)  # those that a failed or cancelled call has left
        results |= zip(agreed, answers, strict=True)
        ordered = [results[position] for position in grants]
        self._count_stored(ticket, list(grants.values()), ordered)
        return ordered

    async def delete(self, keys: Sequence[ObjectKey]) -> Deletion:
        """Deletes the keys, locked or not."""
        answers = await self._ask(keys, lambda: self._backend.delete(keys))
        results = [answer if isinstance(answer, Result) else Result.OK for answer in answers]
        freed = [0 if isinstance(answer, Result) else answer for answer in answers]
        self._metrics.keys("delete", results)
        return Deletion(results, freed)

    async def list_keys(self, model_name: str, page_size: int, cursor: str) -> KeyPage:
        """One page of the keys. Raises BackendError, and ValueError for a malformed cursor."""
        return await self._backend.list_keys(model_name, page_size, cursor)

    async def usage(self) -> Usage:
        """What the store holds. Raises BackendError."""
        return await self._backend.usage()

    def finish_load(self, session: Session, ticket: LoadTicket, failed: Sequence[int]) -> None:
        """Ends a load whose bytes have moved, but for the positions in ``failed``."""
        lengths = {position: lease.extent.length for position, lease in ticket.grants.items()}
        lost = lengths.keys() & set(failed)
        arrived = sum(length for position, length in lengths.items() if position not in lost)
        self._metrics.moved("load", ticket.transport, arrived, len(lost))
        session.loads.end(ticket)

    def _judge(
        self, session: Session, operation: Operation, keys: Sequence[ObjectKey], sizes: Sequence[int]
    ) -> tuple[int, BatchPlan]:
        plan = BatchPlan(len(keys))
        call = Call(operation, keys, sizes, session.client_name, session.short_id)
        verdict = self._rules.judge(call)
        if verdict is None:
            return self._rules.snapshot().generation, plan
        for hit in verdict.hits:
            hit.fault.apply(hit.position, plan)
        self._count_verdict(call, verdict)
        return verdict.generation, plan

    def _count_verdict(self, call: Call, verdict: Verdict) -> None:
        self.evaluated_total += sum(verdict.evaluated.values())
        self.fired_total += len(verdict.hits)
        self._metrics.judged(verdict)
        if verdict.hits:
            self._recorder.record(call, verdict)

    def _count_stored(
        self, ticket: StoreTicket, leases: Sequence[WriteLease], results: Sequence[Result]
    ) -> None:
        stored = [
            lease.extent.length
            for lease, result in zip(leases, results, strict=True)
            if result in (Result.OK, Result.PRESENT)
        ]
        self._metrics.keys("store", results)
        self._metrics.moved("store", ticket.transport, sum(stored), len(results) - len(stored))

    async def _ask(
        self, items: Sequence[object], call: Callable[[], Awaitable[Sequence[AnswerT]]]
    ) -> Sequence[AnswerT | Result]:
        """The backend's answer for each item; a failure of the whole call becomes the result of each."""
        if not items:
            return []
        try:
            answers = await call()
        except BackendError as error:
            self._warn_once(str(error))
            return [error.result] * len(items)
        self._last_error = ""
        return answers

    def _warn_once(self, message: str) -> None:
        if message != self._last_error:
            log.warning("the backend failed a call: %s", message)
            self._last_error = message


def _presence(answer: bool | Result) -> Result:
    if isinstance(answer, Result):
        return answer
    return Result.OK if answer else Result.NOT_FOUND


def _sort_out(
    asked: Sequence[int], answers: Sequence[LeaseT | Result], settled: Mapping[int, Result]
) -> tuple[list[Result], dict[int, LeaseT]]:
    """The results of a whole batch in order, and the leases by position."""
    results = [Result.OK] * (len(asked) + len(settled))
    leases: dict[int, LeaseT] = {}
    for position, result in settled.items():
        results[position] = result
    for position, answer in zip(asked, answers, strict=True):
        if isinstance(answer, Result):
            results[position] = answer
        else:
            leases[position] = answer
    return results, leases
