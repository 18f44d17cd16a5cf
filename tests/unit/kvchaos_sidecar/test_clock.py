import pytest

from kvchaos_sidecar.clock import ManualClock, SystemClock


def test_a_manual_clock_moves_only_when_told() -> None:
    clock = ManualClock(epoch_s=100.0)
    assert (clock.monotonic(), clock.time()) == (0.0, 100.0)
    clock.advance(2.5)
    assert (clock.monotonic(), clock.time()) == (2.5, 102.5)


def test_a_manual_clock_does_not_go_back() -> None:
    with pytest.raises(ValueError, match="cannot go back"):
        ManualClock().advance(-1)


def test_the_systems_clock_does_not_go_back() -> None:
    clock = SystemClock()
    assert clock.monotonic() <= clock.monotonic()
    assert clock.time() > 1_700_000_000
