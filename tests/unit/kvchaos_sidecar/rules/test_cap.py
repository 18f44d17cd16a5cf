from collections.abc import Sequence

from kvchaos.keys import ObjectKey
from kvchaos_sidecar.clock import ManualClock
from kvchaos_sidecar.config.safety import Cap
from kvchaos_sidecar.faults.drop import Drop
from kvchaos_sidecar.rules.call import Call, Operation
from kvchaos_sidecar.rules.cap import Capper
from kvchaos_sidecar.rules.strike import Strike
from kvchaos_sidecar.rules.verdict import Verdict

CALL = Call(Operation.LOAD, [ObjectKey(bytes([number]), "m", 0) for number in range(8)])


def verdict(**hits: Sequence[int]) -> Verdict:
    strikes = [
        Strike(rule, Drop(), positions, ["match"] * len(positions))
        for rule, positions in hits.items()
        if positions
    ]
    return Verdict(1, {}, strikes)


def test_without_a_limit_everything_happens() -> None:
    found = Capper(Cap(), ManualClock()).limit(CALL, verdict(a=range(8)))
    assert (len(found.verdict.hits), found.capped) == (8, {})


def test_the_later_rules_and_positions_are_spared_first() -> None:
    found = Capper(Cap(faults_per_second=5), ManualClock()).limit(
        CALL, verdict(a=[0, 1, 2], b=[3, 4, 5], c=[6])
    )
    assert [(hit.rule, hit.position) for hit in found.verdict.hits] == [
        ("a", 0), ("a", 1), ("a", 2), ("b", 3), ("b", 4),
    ]  # fmt: skip
    assert found.capped == {"b": 1, "c": 1}


def test_what_a_second_allows_comes_back_with_time_and_not_more() -> None:
    clock = ManualClock()
    capper = Capper(Cap(faults_per_second=4), clock)
    counts = []
    for pause in (0.0, 0.0, 0.5, 60.0):
        clock.advance(pause)
        counts.append(len(capper.limit(CALL, verdict(a=range(8))).verdict.hits))
    assert counts == [4, 0, 2, 4]


def test_a_share_is_of_the_keys_of_the_last_ten_seconds_hit_or_not() -> None:
    clock = ManualClock()
    capper = Capper(Cap(share_of_keys=0.25), clock)
    counts = []
    for hits in (range(8), range(8), (), (), range(8)):
        counts.append(len(capper.limit(CALL, verdict(a=hits)).verdict.hits))
        clock.advance(1.0)
    assert counts == [2, 2, 0, 0, 6]
    for _ in range(4):
        capper.limit(CALL, verdict())
    clock.advance(20.0)
    assert len(capper.limit(CALL, verdict(a=range(8))).verdict.hits) == 2
