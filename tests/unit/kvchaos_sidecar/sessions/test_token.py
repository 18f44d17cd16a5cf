from kvchaos_sidecar.clock import ManualClock
from kvchaos_sidecar.sessions.token import HandoffToken


def test_a_token_is_good_once() -> None:
    token = HandoffToken(ManualClock())
    assert token.redeem(token.value)
    assert not token.redeem(token.value)


def test_a_wrong_token_does_not_spend_the_right_one() -> None:
    token = HandoffToken(ManualClock())
    assert not token.redeem(token.value[:-1])
    assert not token.redeem(b"")
    assert token.redeem(token.value)


def test_a_token_is_good_until_its_time_is_over() -> None:
    clock = ManualClock()
    early, late = HandoffToken(clock, 10.0), HandoffToken(clock, 10.0)
    clock.advance(9.5)
    assert early.redeem(early.value)
    clock.advance(0.5)
    assert not late.redeem(late.value)


def test_tokens_differ() -> None:
    clock = ManualClock()
    assert len({HandoffToken(clock).value for _ in range(100)}) == 100
