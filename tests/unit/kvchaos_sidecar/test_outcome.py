import asyncio

from kvchaos_sidecar import outcome
from kvchaos_sidecar.outcome import Outcome


def test_what_a_rule_struck_stays_faulted() -> None:
    outcome.begin()
    assert outcome.noted() is Outcome.SERVED
    outcome.note_failure()
    assert outcome.noted() is Outcome.FAILED
    outcome.note_fault()
    outcome.note_failure()
    assert outcome.noted() is Outcome.FAULTED
    outcome.begin()
    assert outcome.noted() is Outcome.SERVED


def test_calls_that_run_beside_each_other_do_not_mix() -> None:
    async def call(is_struck: bool) -> Outcome:
        outcome.begin()
        await asyncio.sleep(0)
        if is_struck:
            outcome.note_fault()
        await asyncio.sleep(0)
        return outcome.noted()

    async def both() -> list[Outcome]:
        return await asyncio.gather(call(True), call(False))

    assert asyncio.run(both()) == [Outcome.FAULTED, Outcome.SERVED]
