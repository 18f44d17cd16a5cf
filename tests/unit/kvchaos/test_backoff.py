import random

from kvchaos.backoff import Backoff


def test_delays_double_up_to_their_bound_and_stay_above_half_of_it() -> None:
    backoff = Backoff(first_s=1.0, max_s=8.0)
    chance = random.Random(1)
    for failures, bound in [(1, 1.0), (2, 2.0), (3, 4.0), (4, 8.0), (5, 8.0), (10_000, 8.0)]:
        assert bound / 2 <= backoff.delay_s(failures, chance) <= bound


def test_the_same_chance_gives_the_same_delays() -> None:
    delays = [[Backoff().delay_s(n, random.Random(7)) for n in range(1, 9)] for _ in range(2)]
    assert delays[0] == delays[1]


def test_clients_that_fail_together_do_not_come_back_together() -> None:
    assert len({Backoff().delay_s(3, random.Random(seed)) for seed in range(10)}) == 10
