import logging

import pytest

from kvchaos.errors import DeadlineExceeded, SidecarUnavailable
from kvchaos.keys import ObjectKey
from kvchaos.lmcache.trouble import TroubleLog
from kvchaos.results import Result

KEYS = [ObjectKey(bytes([number]) * 32, "model", 1) for number in range(5)]
FULL = [Result.OK] + [Result.NO_SPACE] * 4


@pytest.fixture
def trouble(caplog: pytest.LogCaptureFixture) -> TroubleLog:
    caplog.set_level(logging.WARNING)
    return TroubleLog(logging.getLogger("trouble under test"))


def test_trouble_is_told_when_it_begins_with_ratio_and_a_few_keys(
    trouble: TroubleLog, caplog: pytest.LogCaptureFixture
) -> None:
    trouble.answered("store", KEYS, FULL)
    trouble.answered("store", KEYS, FULL)
    (message,) = caplog.messages
    assert "store failed for 4 of 5 keys: no_space" in message
    assert "010101010101, 020202020202, 030303030303" in message
    assert "040404040404" not in message
    assert trouble.counts == {"store": {"no_space": 8}}


def test_trouble_that_begins_again_is_told_again(
    trouble: TroubleLog, caplog: pytest.LogCaptureFixture
) -> None:
    trouble.answered("store", KEYS, FULL)
    trouble.answered("store", KEYS, [Result.OK] * 5)
    trouble.answered("store", KEYS, FULL)
    assert len(caplog.messages) == 2


def test_another_operation_does_not_end_it(trouble: TroubleLog, caplog: pytest.LogCaptureFixture) -> None:
    trouble.answered("store", KEYS, FULL)
    trouble.answered("load", KEYS, [Result.OK] * 5)
    trouble.answered("store", KEYS, FULL)
    assert len(caplog.messages) == 1


def test_misses_and_drops_are_counted_but_no_trouble(
    trouble: TroubleLog, caplog: pytest.LogCaptureFixture
) -> None:
    trouble.answered("load", KEYS[:3], [Result.NOT_FOUND, Result.DROPPED, Result.PRESENT])
    assert caplog.messages == []
    assert trouble.counts == {"load": {"not_found": 1, "dropped": 1}}


def test_silence_is_told_once_for_all_operations_until_an_answer(
    trouble: TroubleLog, caplog: pytest.LogCaptureFixture
) -> None:
    silence = DeadlineExceeded("no answer within 1 s")
    trouble.failed("lookup", KEYS, silence)
    trouble.failed("load", KEYS, silence)
    assert len(caplog.messages) == 1
    trouble.answered("lookup", KEYS, [Result.OK] * 5)
    trouble.failed("load", KEYS, silence)
    assert len(caplog.messages) == 2
    assert trouble.counts == {"lookup": {"DeadlineExceeded": 5}, "load": {"DeadlineExceeded": 10}}


def test_a_lost_connection_is_counted_and_told_elsewhere(
    trouble: TroubleLog, caplog: pytest.LogCaptureFixture
) -> None:
    trouble.failed("load", KEYS, SidecarUnavailable("gone"))
    assert caplog.messages == []
    assert trouble.counts == {"load": {"unavailable": 5}}
