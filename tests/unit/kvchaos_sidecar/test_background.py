import asyncio

import pytest

from kvchaos_sidecar.background import Background, every


def test_closing_ends_what_still_runs() -> None:
    async def scenario() -> None:
        background, ended = Background(), asyncio.Event()

        async def work() -> None:
            try:
                await asyncio.sleep(3600)
            finally:
                ended.set()

        background.spawn("work", work())
        await asyncio.sleep(0)
        await background.close()
        assert ended.is_set()

    asyncio.run(scenario())


def test_a_task_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        background = Background()

        async def work() -> None:
            raise ValueError("broken")

        background.spawn("the-worker", work())
        await asyncio.sleep(0)
        await background.close()

    asyncio.run(scenario())
    assert "the-worker" in caplog.text
    assert "broken" in caplog.text


def test_periodic_work_goes_on_after_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        third = asyncio.Event()
        runs = 0

        async def work() -> None:
            nonlocal runs
            runs += 1
            if runs == 1:
                raise ValueError("broken once")
            if runs == 3:
                third.set()

        background = Background()
        background.spawn("periodic", every(0.0, work))
        await third.wait()
        await background.close()

    asyncio.run(scenario())
    assert "broken once" in caplog.text
