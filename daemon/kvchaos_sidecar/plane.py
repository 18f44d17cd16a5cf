"""The data plane: judges a batch, asks the backend, counts what came of it.

It knows neither gRPC nor sockets. A batch is judged once, so one generation of rules decides all of it.
Positions that a fault settles cost no backend I/O. What faults do at which stage of a call they say
themselves; here is only the order of the stages.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from kvchaos.keys import ObjectKey
from kvchaos.results import Result
from kvchaos_sidecar import outcome
from kvchaos_sidecar.altered import copy_head
from kvchaos_sidecar.backends.contract import Backend, BackendError, KeyPage, ReadLease, Usage, WriteLease
from kvchaos_sidecar.backends.slabs import SlabPool
from kvchaos_sidecar.batch import JudgedBatch
from kvchaos_sidecar.errors import InvalidRequest
from kvchaos_sidecar.faults.completion import Completion
from kvchaos_sidecar.faults.poison import Poison
from kvchaos_sidecar.metrics import Metrics
from kvchaos_sidecar.recording.tape import CommitNote, NoTape, Tape
from kvchaos_sidecar.rules.call import Call, Operation
from kvchaos_sidecar.rules.governor import FaultSnapshot
from kvchaos_sidecar.rules.verdict import Verdict
from kvchaos_sidecar.sessions.session import Session
from kvchaos_sidecar.sessions.tickets import LoadTicket, StoreTicket
from kvchaos_sidecar.world import Sessions, SessionWorld, StoreView

log = logging.getLogger(__name__)

AnswerT = TypeVar("AnswerT")
LeaseT = TypeVar("LeaseT", ReadLease, WriteLease)


DEFAULT_ALTERED_BYTES = 1 << 30


def _close_reads(leases: Sequence[ReadLease]) -> None:
    for lease in leases:
        lease.close()


def _nothing_to_give_back(leases: Sequence[object]) -> None:
    return


class Judge(Protocol):
    """Says what the rules do to a batch."""

    @property
    def generation(self) -> int:
        """Number of the rule set in force."""

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
    completion: Completion = field(default_factory=Completion)
    """How the result of a load reaches the cache server."""


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

    def __init__(
        self,
        backend: Backend,
        judge: Judge,
        recorder: Recorder,
        metrics: Metrics,
        altered_bytes: int = DEFAULT_ALTERED_BYTES,
        tape: Tape | None = None,
    ) -> None:
        """``altered_bytes``: memory for copies of objects whose bytes a fault has changed.
        ``tape``: what hears of every call; None when nothing does."""
        self._backend = backend
        self._rules = judge
        self._recorder = recorder
        self._metrics = metrics
        self._tape = tape or NoTape()
        self._store = StoreView(backend, SlabPool(altered_bytes, "kvchaos-altered"))
        self._unlocks: set[asyncio.Task[None]] = set()
        self._last_error = ""
        self.evaluated_total = 0
        self.fired_total = 0

    def follow(self, sessions: Sessions) -> None:
        """Says who keeps the sessions, for faults that end them."""
        self._store.sessions = sessions

    def close(self) -> None:
        """Frees the memory of altered copies."""
        self._store.slabs.close()

    async def connect(self, session: Session) -> None:
        """A session has been opened.

        Raises:
            InjectedFailure: a fault refuses it.
        """
        async with self._judged(session, Operation.CONNECT, (), ()) as batch:
            await batch.before()

    async def lookup(self, session: Session, keys: Sequence[ObjectKey]) -> Answer:
        """Which keys are present. Those are locked for the session."""
        async with self._judged(session, Operation.LOOKUP, keys, ()) as batch:
            await batch.before()
            asked = batch.open_positions()
            found = await self._lock(asked, batch.keys, keys)
            batch.take_answers(asked, [_presence(answer) for answer in found])
            locked = [position for position, answer in zip(asked, found, strict=True) if answer is True]
            try:
                await batch.after()
            except BaseException:
                self._give_back_unclaimed([keys[position] for position in locked])
                raise
            results = batch.results
            session.locks.acquire([keys[position] for position in locked if results[position] is Result.OK])
            self._give_back_unclaimed(
                [keys[position] for position in locked if results[position] is not Result.OK]
            )
        self._metrics.keys("lookup", results)
        return Answer(results, batch.generation)

    async def unlock(self, session: Session, keys: Sequence[ObjectKey]) -> int:
        """Takes back one lock per key. Returns how many there were."""
        async with self._judged(session, Operation.UNLOCK, keys, ()) as batch:
            await batch.before()
            return session.locks.release([keys[position] for position in batch.open_positions()])

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
            InjectedFailure: a fault fails the call.
        """
        self._metrics.load_batch(len(keys))
        async with self._judged(session, Operation.LOAD, keys, sizes, _close_reads) as batch:
            ticket.sequence = batch.call.sequence
            await batch.before()
            asked = batch.open_positions()
            wanted = [batch.keys[position] for position in asked]
            lengths = [sizes[position] for position in asked]
            answers = await self._ask(wanted, lambda: self._backend.open_reads(wanted, lengths))
            batch.take_answers(asked, answers)
            await batch.after()
            results = batch.results
            ticket.grant(batch.take_leases())
        session.loads.renew(ticket)
        self._metrics.keys("load", results)
        return Answer(results, batch.generation, batch.poison, batch.completion)

    async def prepare_store(
        self, session: Session, ticket: StoreTicket, keys: Sequence[ObjectKey], sizes: Sequence[int]
    ) -> Answer:
        """Makes room for the keys that are not there yet and grants it to the ticket.

        Raises:
            UnknownTicket: the client gave the request up meanwhile; nothing is held.
            InjectedFailure: a fault fails the call.
        """
        async with self._judged(session, Operation.STORE, keys, sizes, self._backend.discard) as batch:
            ticket.sequence = batch.call.sequence
            await batch.before()
            asked = batch.open_positions()
            wanted = [batch.keys[position] for position in asked]
            lengths = [sizes[position] for position in asked]
            answers = await self._ask(wanted, lambda: self._backend.open_writes(wanted, lengths))
            batch.take_answers(asked, answers)
            await batch.after()
            results = batch.results
            ticket.judged = batch.judged
            ticket.grant(batch.take_leases())
        session.stores.renew(ticket)
        self._metrics.keys("store", (result for result in results if result is not Result.OK))
        return Answer(results, batch.generation)

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
        self._backend.discard([grants[position] for position in ticket.failures])
        agreed = {
            position: ticket.agreed_length(position, length)
            for position, length in zip(grants, written, strict=True)
            if position not in ticket.failures
        }
        note = self._tape.committing(session.number, ticket.sequence, grants, written)
        try:
            leases = {place: grants[place] for place in agreed}
            results = await self._publish(session, ticket, leases, agreed, note)
            results |= ticket.failures
            ordered = [results[position] for position in grants]
            note.settled(ordered)
        finally:
            self._backend.discard([grants[position] for position in agreed])  # those that are left
            note.close()
        if self._metrics.backend_failed(ticket.failures.values()):
            outcome.note_failure()
        self._count_stored(ticket, list(grants.values()), ordered)
        return ordered

    async def delete(self, session: Session, keys: Sequence[ObjectKey]) -> Deletion:
        """Deletes the keys, locked or not."""
        async with self._judged(session, Operation.DELETE, keys, ()) as batch:
            await batch.before()
            asked = batch.open_positions()
            wanted = [keys[position] for position in asked]
            answers = await self._ask(wanted, lambda: self._backend.delete(wanted))
            batch.take_answers(
                asked, [answer if isinstance(answer, Result) else Result.OK for answer in answers]
            )
        freed = dict.fromkeys(range(len(keys)), 0)
        freed |= {
            position: answer
            for position, answer in zip(asked, answers, strict=True)
            if not isinstance(answer, Result)
        }
        self._metrics.keys("delete", batch.results)
        return Deletion(batch.results, list(freed.values()))

    async def list_keys(self, session: Session, model_name: str, page_size: int, cursor: str) -> KeyPage:
        """One page of the keys. Raises BackendError, and ValueError for a malformed cursor."""
        page = await self._backend.list_keys(model_name, page_size, cursor)
        keys = [key for key, _ in page.entries]
        async with self._judged(session, Operation.LIST, keys, [size for _, size in page.entries]) as batch:
            await batch.before()
            return KeyPage([page.entries[place] for place in batch.open_positions()], page.next_cursor)

    async def usage(self, session: Session) -> Usage:
        """What the store holds. Raises BackendError."""
        async with self._judged(session, Operation.USAGE, (), ()) as batch:
            await batch.before()
            usage = await self._store.usage()
            batch.usage_bytes = usage.total_bytes
            await batch.after()
        return usage if batch.usage_bytes == usage.total_bytes else _misreported(usage, batch.usage_bytes)

    def finish_load(self, session: Session, ticket: LoadTicket, failed: Sequence[int]) -> None:
        """Ends a load whose bytes have moved, but for the positions in ``failed``."""
        lengths = {position: lease.extent.length for position, lease in ticket.grants.items()}
        lost = lengths.keys() & set(failed)
        arrived = sum(length for position, length in lengths.items() if position not in lost)
        self._metrics.moved("load", ticket.transport, arrived, len(lost))
        self._tape.moved(session.number, ticket.sequence, failed)
        session.loads.end(ticket)

    @asynccontextmanager
    async def _judged(
        self,
        session: Session,
        operation: Operation,
        keys: Sequence[ObjectKey],
        sizes: Sequence[int],
        give_back: Callable[[Sequence[LeaseT]], None] = _nothing_to_give_back,
    ) -> AsyncIterator[JudgedBatch[LeaseT]]:
        """A call with what the rules decided about it. What it still owns at the end is given back."""
        session.calls += 1
        call = Call(
            operation, keys, sizes, session.client_name, session.short_id, session.number, session.calls
        )
        verdict = self._rules.judge(call)
        self._tape.judged(call, verdict)
        generation = self._rules.generation if verdict is None else verdict.generation
        strikes = () if verdict is None else verdict.strikes
        batch = JudgedBatch(call, strikes, generation, SessionWorld(self._store, session), give_back)
        if verdict is not None:
            self._count_verdict(call, verdict)
        if strikes:
            outcome.note_fault()
        for strike in strikes:
            strike.began(len(strike.positions))
        try:
            yield batch
            self._tape.settled(call, batch.results)
        except BaseException as error:
            self._tape.failed(call, error)
            raise
        finally:
            batch.close()
            for strike in strikes:
                strike.ended()

    async def _lock(
        self, asked: Sequence[int], store_keys: Sequence[ObjectKey], keys: Sequence[ObjectKey]
    ) -> Sequence[bool | Result]:
        """What the store says about each key. One that it knows by another name is not locked there."""
        wanted = [store_keys[position] for position in asked]
        if all(store_keys[position] == keys[position] for position in asked):
            return await self._ask(wanted, lambda: self._backend.lock(wanted))
        return await self._ask(wanted, lambda: self._backend.contains(wanted))

    def _give_back_unclaimed(self, keys: Sequence[ObjectKey]) -> None:
        if keys:
            self.give_back_locks(keys)

    async def _publish(
        self,
        session: Session,
        ticket: StoreTicket,
        leases: Mapping[int, WriteLease],
        agreed: Mapping[int, int],
        note: CommitNote,
    ) -> dict[int, Result]:
        """Publishes the leases. ``agreed``: bytes written, by position."""
        if ticket.judged is None:
            ordered = list(leases.values())
            answers = await self._ask(ordered, lambda: self._backend.publish(ordered, list(agreed.values())))
            return dict(zip(agreed, answers, strict=True))
        call, strikes = ticket.judged
        outcome.note_fault()
        batch: JudgedBatch[WriteLease] = JudgedBatch(
            call, strikes, 0, SessionWorld(self._store, session), self._backend.discard
        )
        batch.adopt(leases)
        await batch.before_publish()
        note.stored(batch.torn_bytes | dict.fromkeys(batch.withheld, 0))
        whole = [place for place in leases if place not in batch.torn_bytes | dict.fromkeys(batch.withheld)]
        kept = [leases[place] for place in whole]
        answers = await self._ask(
            kept, lambda: self._backend.publish(kept, [agreed[place] for place in whole])
        )
        results = dict.fromkeys(batch.withheld, Result.OK) | dict(zip(whole, answers, strict=True))
        for place in batch.torn_bytes.keys() - batch.withheld:
            results[place] = await self._publish_torn(leases[place], batch.torn_bytes[place])
        batch.conclude(results)
        await batch.after_publish()
        return {place: batch.result(place) for place in leases}

    async def _publish_torn(self, lease: WriteLease, size: int) -> Result:
        """Publishes the first ``size`` bytes of what was written."""
        (room,) = await self._ask([lease.key], lambda: self._backend.open_writes([lease.key], [size]))
        if isinstance(room, Result):
            return room
        try:
            await asyncio.to_thread(copy_head, lease.extent, room.extent)
            (result,) = await self._ask([room], lambda: self._backend.publish([room], [size]))
        finally:
            self._backend.discard([room])
        return result

    def _count_verdict(self, call: Call, verdict: Verdict) -> None:
        hits = sum(len(strike.positions) for strike in verdict.strikes)
        self.evaluated_total += sum(verdict.evaluated.values())
        self.fired_total += hits
        self._metrics.judged(verdict)
        if hits:
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
            outcome.note_failure()
            self._warn_once(str(error))
            failures = [error.result] * len(items)
            self._metrics.backend_failed(failures)
            return failures
        self._last_error = ""
        if self._metrics.backend_failed(answers):
            outcome.note_failure()
        return answers

    def _warn_once(self, message: str) -> None:
        if message != self._last_error:
            log.warning("the backend failed a call: %s", message)
            self._last_error = message


def _presence(answer: bool | Result) -> Result:
    if isinstance(answer, Result):
        return answer
    return Result.OK if answer else Result.NOT_FOUND


def _misreported(usage: Usage, total_bytes: int) -> Usage:
    """Another total, and every salt's part changed as much."""
    by_salt = {
        salt: changed
        for salt, held in usage.bytes_by_cache_salt.items()
        if (changed := held * total_bytes // max(1, usage.total_bytes))
    }
    return Usage(total_bytes, usage.capacity_bytes, by_salt)
