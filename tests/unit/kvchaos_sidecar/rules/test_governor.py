import logging
from datetime import timedelta

import pytest

from kvchaos.errors import ConfigError
from kvchaos.keys import ObjectKey
from kvchaos_sidecar.clock import ManualClock
from kvchaos_sidecar.config.load import parse_document
from kvchaos_sidecar.config.schema import Document
from kvchaos_sidecar.rules.call import Call, Operation
from kvchaos_sidecar.rules.governor import FaultSnapshot, Governor

CALL = Call(Operation.LOAD, [ObjectKey(bytes([number]) * 32, "model", 0) for number in range(8)])


def document(faults: str = "{}") -> Document:
    return parse_document(f"version: 1\nbackend: {{type: fs, base_path: /data}}\nfault_inject: {faults}")


def dropped(governor: Governor) -> list[int]:
    verdict = governor.judge(CALL)
    return [hit.position for hit in verdict.hits] if verdict else []


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def governor(clock: ManualClock) -> Governor:
    return Governor(document("{rate: 0.25, gap_indices: [5, 1, 5]}"), clock)


def test_it_starts_with_the_documents_values_as_generation_1(governor: Governor) -> None:
    snapshot = governor.snapshot()
    assert (snapshot.rate, snapshot.gap_indices, snapshot.generation) == (0.25, (1, 5), 1)
    assert (snapshot.armed, snapshot.halted) == (True, False)


def test_a_runtime_value_lies_over_the_document_until_reset(governor: Governor) -> None:
    assert governor.set_faults(rate=0.0, gap_indices=[], gap_tail_ratios=[0.5])
    assert dropped(governor) == [4]
    assert governor.snapshot().generation == 2
    assert governor.reset()
    assert governor.snapshot().rate == 0.25
    assert not governor.reset()


def test_values_that_are_in_force_already_change_nothing(governor: Governor) -> None:
    assert governor.set_faults(seed=7)
    assert not governor.set_faults(seed=7)
    assert governor.snapshot().generation == 2
    assert not governor.apply_document(document("{rate: 0.25, gap_indices: [5, 1, 5]}"))
    assert governor.snapshot().generation == 2


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"rate": 1.5}, "rate: 1.5 is not in [0, 1]"),
        ({"rate": float("nan")}, "rate: nan is not in [0, 1]"),
        ({"seed": 2**63}, f"seed: {2**63} is not in"),
        ({"gap_indices": [2, -1]}, "gap_indices[1]: -1 is not in"),
        ({"gap_tail_ratios": [-0.1]}, "gap_tail_ratios[0]: -0.1 is not in [0, 1]"),
        ({"rate": 0.5, "time_to_live": timedelta(0)}, "time_to_live: 0s is not between"),
        ({"rate": 0.5, "time_to_live": timedelta(days=4000)}, "time_to_live: "),
    ],
)
def test_a_bad_value_is_named_and_nothing_changes(governor: Governor, values: dict, problem: str) -> None:
    before = governor.snapshot()
    with pytest.raises(ConfigError) as caught:
        governor.set_faults(**{"seed": 3, **values})
    assert str(caught.value).startswith(problem)
    assert governor.snapshot() == before
    assert governor.runtime_values() == {}


def test_a_time_to_live_ends_without_anybody_calling_expire(governor: Governor, clock: ManualClock) -> None:
    governor.set_faults(rate=0.0, gap_indices=[2], time_to_live=timedelta(seconds=5))
    clock.advance(4.99)
    assert dropped(governor) == [2]
    clock.advance(0.01)
    assert governor.snapshot().gap_indices == (1, 5)
    assert {1, 5} <= set(dropped(governor))
    assert governor.runtime_values() == {}


def test_each_value_has_its_own_time_to_live(governor: Governor, clock: ManualClock) -> None:
    governor.set_faults(rate=0.0)
    governor.set_faults(gap_indices=[2], time_to_live=timedelta(seconds=10))
    governor.set_faults(gap_tail_ratios=[0.0], time_to_live=timedelta(seconds=5))
    seen = [dropped(governor)]
    for _ in range(2):
        clock.advance(5)
        seen.append(dropped(governor))
    assert seen == [[2, 7], [2], [1, 5]]
    assert list(governor.runtime_values()) == ["rate"]


def test_generations_only_grow_also_across_ends(governor: Governor, clock: ManualClock) -> None:
    generations = [governor.snapshot().generation]
    governor.set_faults(seed=1, time_to_live=timedelta(seconds=5))
    generations.append(governor.snapshot().generation)
    clock.advance(5)
    generations.append(governor.snapshot().generation)
    governor.set_faults(seed=2)
    generations.append(governor.snapshot().generation)
    assert generations == sorted(set(generations))


def test_the_end_of_a_value_is_announced_once(governor: Governor, clock: ManualClock) -> None:
    seen: list[FaultSnapshot] = []
    governor.subscribe(seen.append)
    governor.set_faults(seed=1, time_to_live=timedelta(seconds=5))
    assert not governor.expire()
    clock.advance(5)
    assert governor.expire()
    assert not governor.expire()
    assert [snapshot.seed for snapshot in seen] == [1, 0]


def test_a_reload_under_a_runtime_value_shows_after_the_reset(governor: Governor) -> None:
    governor.set_faults(rate=0.5)
    assert governor.apply_document(document("{rate: 0.75, seed: 4}"))
    assert (governor.snapshot().rate, governor.snapshot().seed) == (0.5, 4)
    governor.reset()
    assert governor.snapshot().rate == 0.75


def test_halt_stops_everything_until_resume_whatever_is_loaded_or_reset(governor: Governor) -> None:
    assert governor.halt("too much")
    assert not governor.halt("again")
    assert governor.judge(CALL) is None
    governor.apply_document(document("{rate: 1}"))
    governor.set_faults(seed=4)
    governor.reset()
    assert governor.judge(CALL) is None
    assert (governor.snapshot().halted, governor.snapshot().halt_reason) == (True, "too much")
    assert governor.resume()
    assert not governor.resume()
    assert len(dropped(governor)) == 8
    assert governor.snapshot().halt_reason == ""


def test_explaining_ignores_the_halt(governor: Governor) -> None:
    governor.set_faults(rate=0.0, gap_indices=[3])
    governor.halt()
    generation, hits = governor.explain(CALL)
    assert (generation, [hit.position for hit in hits]) == (2, [3])


def test_subscribers_hear_of_changes_until_they_leave(governor: Governor) -> None:
    seen: list[FaultSnapshot] = []
    leave = governor.subscribe(seen.append)
    governor.set_faults(seed=1)
    governor.set_faults(seed=1)
    governor.halt()
    governor.halt()
    leave()
    governor.resume()
    assert [(snapshot.generation, snapshot.halted) for snapshot in seen] == [(2, False), (2, True)]


def test_a_subscriber_that_fails_stops_neither_the_change_nor_the_others(
    governor: Governor, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(snapshot: FaultSnapshot) -> None:
        raise RuntimeError("broken subscriber")

    seen: list[FaultSnapshot] = []
    governor.subscribe(fail)
    governor.subscribe(seen.append)
    with caplog.at_level(logging.ERROR):
        governor.halt()
    assert governor.snapshot().halted
    assert len(seen) == 1
    assert "broken subscriber" in caplog.text


def test_rate_0_and_nothing_else_is_not_judged_at_all(clock: ManualClock) -> None:
    assert Governor(document("{rate: 0, seed: 5}"), clock).judge(CALL) is None


def test_the_same_document_and_traffic_give_the_same_faults(clock: ManualClock) -> None:
    first, second = (Governor(document("{rate: 0.5, seed: 11}"), clock) for _ in range(2))
    assert dropped(first) == dropped(second)
    assert dropped(first) == dropped(first)
