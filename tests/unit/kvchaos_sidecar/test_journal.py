import asyncio

from kvchaos.keys import ObjectKey
from kvchaos_sidecar.clock import ManualClock
from kvchaos_sidecar.faults.drop import Drop
from kvchaos_sidecar.journal import Journal, Watcher
from kvchaos_sidecar.rules.call import Call, Operation
from kvchaos_sidecar.rules.strike import Strike
from kvchaos_sidecar.rules.verdict import Verdict

CALL = Call(
    Operation.LOAD,
    [ObjectKey(bytes([number]) * 32, "model", 0) for number in range(8)],
    client_name="lmcache@host",
    session="abcd1234",
)


def verdict(*hits: tuple[int, str]) -> Verdict:
    if not hits:
        return Verdict(3, {"fault_inject": 8}, [])
    positions, reasons = zip(*hits, strict=True)
    return Verdict(3, {"fault_inject": 8}, [Strike("fault_inject", Drop(), positions, reasons)])


def fill(journal: Journal, count: int) -> None:
    for _ in range(count):
        journal.record(CALL, verdict((0, "rate")))


async def take(watcher: Watcher, count: int) -> list[tuple[int, int]]:
    seen = [await anext(watcher) for _ in range(count)]
    return [(watched.event.sequence, watched.missed) for watched in seen]


def test_a_verdict_becomes_one_event_for_each_reason() -> None:
    journal = Journal(ManualClock(epoch_s=1000.0))
    journal.record(CALL, verdict((0, "rate"), (2, "index"), (5, "rate"), (6, "rate"), (7, "rate")))
    index, rate = journal.recent()
    assert (index.reason, index.positions) == ("index", (2,))
    assert (rate.reason, rate.positions) == ("rate", (0, 5, 6, 7))
    assert rate.sample_keys == ("000000000000", "050505050505", "060606060606")
    assert (rate.time, rate.session, rate.client_name) == (1000.0, "abcd1234", "lmcache@host")
    assert (rate.rule, rate.fault, rate.operation, rate.batch_size) == ("fault_inject", "drop", "load", 8)
    assert (index.sequence, rate.sequence, rate.generation) == (1, 2, 3)


def test_a_call_without_keys_has_an_event_without_sample_keys() -> None:
    journal = Journal(ManualClock())
    journal.record(Call(Operation.USAGE, ()), verdict((0, "match")))
    (event,) = journal.recent()
    assert (event.operation, event.positions, event.sample_keys) == ("usage", (0,), ())


def test_what_is_not_an_injected_fault_is_noted_too() -> None:
    journal = Journal(ManualClock())
    journal.note("halted")
    journal.note("capped", rule="a", call=CALL, count=3)
    assert [(event.reason, event.rule, event.operation) for event in journal.recent()] == [
        ("halted", "", ""),
        ("capped", "a", "load"),
    ]


def test_a_verdict_without_hits_leaves_no_event() -> None:
    journal = Journal(ManualClock())
    journal.record(CALL, verdict())
    assert journal.recent() == ()


def test_the_ring_keeps_the_newest_and_counts_what_it_forgot() -> None:
    journal = Journal(ManualClock(), capacity=3)
    fill(journal, 5)
    assert [event.sequence for event in journal.recent()] == [3, 4, 5]
    assert [event.sequence for event in journal.recent(2)] == [4, 5]
    assert [event.sequence for event in journal.recent(9)] == [3, 4, 5]
    assert journal.forgotten == 2


def test_every_watcher_sees_every_event_from_its_start() -> None:
    async def scenario() -> None:
        journal = Journal(ManualClock())
        fill(journal, 1)
        with journal.watch() as first:
            fill(journal, 1)
            with journal.watch() as second:
                fill(journal, 1)
                assert await take(first, 2) == [(2, 0), (3, 0)]
                assert await take(second, 1) == [(3, 0)]

    asyncio.run(scenario())


def test_a_watcher_that_is_behind_is_told_how_many_events_it_missed() -> None:
    async def scenario() -> None:
        journal = Journal(ManualClock(), watcher_capacity=2)
        with journal.watch() as slow, journal.watch() as quick:
            fill(journal, 2)
            assert await take(quick, 2) == [(1, 0), (2, 0)]
            fill(journal, 2)
            assert await take(quick, 2) == [(3, 0), (4, 0)]
            assert await take(slow, 2) == [(1, 0), (2, 0)]
            fill(journal, 1)
            assert await take(slow, 1) == [(5, 2)]

    asyncio.run(scenario())


def test_a_watcher_that_has_left_costs_nothing() -> None:
    async def scenario() -> None:
        journal = Journal(ManualClock())
        with journal.watch() as watcher:
            pass
        fill(journal, 1)
        with journal.watch() as other:
            fill(journal, 1)
            assert await take(other, 1) == [(2, 0)]
        waiting = asyncio.ensure_future(take(watcher, 1))
        await asyncio.sleep(0)
        assert not waiting.done()
        waiting.cancel()

    asyncio.run(scenario())
