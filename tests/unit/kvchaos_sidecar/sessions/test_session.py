import asyncio

from kvchaos_sidecar.clock import ManualClock
from kvchaos_sidecar.sessions.session import EndReason, Session, SessionLimits


def test_news_wakes_the_one_who_waits_once() -> None:
    async def scenario() -> None:
        session = Session("a", ManualClock(), SessionLimits(1.0, 1.0, 100), lambda keys: None)
        session.notify()
        session.notify()
        await session.wait_for_news()
        waiting = asyncio.create_task(session.wait_for_news())
        await asyncio.sleep(0)
        assert not waiting.done()
        session.end(EndReason.DRAINED)
        await waiting

    asyncio.run(scenario())
