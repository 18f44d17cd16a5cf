from kvchaos.results import Result
from kvchaos_sidecar.faults.drop import Drop, Poison, PoisonKind
from kvchaos_sidecar.faults.plan import BatchPlan


def test_an_untouched_plan_asks_the_backend_for_every_position() -> None:
    assert list(BatchPlan(3).open_positions()) == [0, 1, 2]


def test_a_dropped_position_is_settled_and_not_asked_for() -> None:
    plan = BatchPlan(3)
    Drop(Poison(PoisonKind.BYTE, 7)).apply(1, plan)
    assert plan.settled == {1: Result.DROPPED}
    assert list(plan.open_positions()) == [0, 2]
    assert plan.poison == Poison(PoisonKind.BYTE, 7)


def test_the_first_fault_to_settle_a_position_wins() -> None:
    plan = BatchPlan(1)
    plan.settle(0, Result.IO_ERROR)
    plan.settle(0, Result.DROPPED)
    assert plan.settled == {0: Result.IO_ERROR}
