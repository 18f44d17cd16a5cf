"""What each fault does at which stage of a call, over real memory."""

import asyncio
import os
from collections.abc import Coroutine, Sequence
from math import inf, isinf
from typing import Any

import pytest
from tests.harness.judged_batch import NotedWorld, judged_batch

from kvchaos.results import Result
from kvchaos_sidecar.backends.contract import ReadLease
from kvchaos_sidecar.batch import JudgedBatch
from kvchaos_sidecar.errors import InjectedFailure
from kvchaos_sidecar.faults.completion import Completion
from kvchaos_sidecar.faults.contract import Fault
from kvchaos_sidecar.faults.poison import Poison, PoisonKind
from kvchaos_sidecar.faults.registry import FAULTS
from kvchaos_sidecar.rules.call import Operation

DATA = [bytes([65 + number]) * 16 for number in range(4)]


def fault(kind: str, **settings: Any) -> Fault:
    return FAULTS[kind].model_validate(settings)


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


async def loaded(
    kind: Fault, positions: Sequence[int], world: NotedWorld, data: Sequence[bytes] = DATA
) -> JudgedBatch[ReadLease]:
    """A load of four objects on which the fault strikes, up to its answer."""
    batch = judged_batch([kind], {0: positions}, world=world, sizes=[len(DATA[0])] * 4)
    await batch.before()
    asked = batch.open_positions()
    batch.take_answers(asked, [world.lease(data[position]) for position in asked])
    await batch.after()
    return batch


def contents(leases: dict[int, ReadLease]) -> dict[int, bytes]:
    return {
        position: os.pread(lease.extent.descriptor, lease.extent.length, lease.extent.offset)
        for position, lease in leases.items()
    }


@pytest.mark.parametrize(
    ("kind", "result"),
    [
        (fault("drop"), Result.DROPPED),
        (fault("error"), Result.IO_ERROR),
        (fault("error", cause="not_found"), Result.NOT_FOUND),
        (fault("error", cause="timed_out"), Result.TIMED_OUT),
        (fault("error", cause="short_read"), Result.IO_ERROR),
        (fault("error", cause="unavailable"), Result.UNAVAILABLE),
        (fault("hide"), Result.NOT_FOUND),
        (fault("errno", code="ENOSPC"), Result.NO_SPACE),
        (fault("errno", code="EINVAL"), Result.INVALID),
        (fault("errno", code="EIO"), Result.IO_ERROR),
        (fault("lose"), Result.OK),
    ],
    ids=lambda value: getattr(value, "kind", str(value)),
)
def test_a_result_is_settled_without_asking_the_store_and_beside_it_nothing_changes(
    kind: Fault, result: Result
) -> None:
    async def scenario() -> None:
        batch = judged_batch([kind], {0: [1, 3]})
        await batch.before()
        assert list(batch.open_positions()) == [0, 2]
        batch.take_answers([0, 2], [Result.PRESENT, Result.PRESENT])
        assert batch.results == [Result.PRESENT, result, Result.PRESENT, result]

    run(scenario())


def test_the_first_rule_to_settle_a_position_wins_and_a_drop_brings_its_poison() -> None:
    async def scenario() -> None:
        poison = Poison(PoisonKind.BYTE, 7)
        kinds = [fault("error", cause="not_found"), fault("drop", poison={"byte": 7})]
        batch = judged_batch(kinds, {0: [0, 1], 1: [1, 2]})
        await batch.before()
        batch.take_answers([3], [Result.OK])
        assert batch.results == [Result.NOT_FOUND, Result.NOT_FOUND, Result.DROPPED, Result.OK]
        assert batch.poison == poison

    run(scenario())


def test_altered_bytes_are_a_copy_and_both_are_given_back() -> None:
    async def scenario() -> None:
        world = NotedWorld()
        batch = await loaded(fault("flip_bits", offset=3, mask=0x81), [1], world)
        leases = batch.take_leases()
        found = contents(leases)
        assert found[1] == DATA[1][:3] + bytes([DATA[1][3] ^ 0x81]) + DATA[1][4:]
        assert (found[0], found[2], found[3]) == (DATA[0], DATA[2], DATA[3])
        for lease in leases.values():
            lease.close()
        assert world.slabs.used_bytes == 0

    run(scenario())


def test_a_batch_that_is_given_up_gives_back_what_it_owns() -> None:
    async def scenario() -> None:
        world = NotedWorld()
        batch = await loaded(fault("oversize"), [0, 2], world)
        batch.close()
        assert world.slabs.used_bytes == 0

    run(scenario())


def test_flipped_bits_without_an_offset_are_the_same_for_the_same_seed_and_traffic() -> None:
    async def scenario() -> None:
        world = NotedWorld()
        found = [contents((await loaded(fault("flip_bits"), [1, 2], world)).take_leases()) for _ in range(2)]
        assert found[0] == found[1]
        assert found[0][1] != DATA[1]

    run(scenario())


@pytest.mark.parametrize(
    ("kind", "held", "claimed"),
    [
        (fault("truncate", keep_bytes=5), 5, 16),
        (fault("truncate", keep_bytes=0), 0, 16),
        (fault("truncate", keep_bytes=5, announced=True), 5, 5),
        (fault("oversize", extra_bytes=9), 25, 25),
    ],
)
def test_another_length_is_served(kind: Fault, held: int, claimed: int) -> None:
    async def scenario() -> None:
        leases = (await loaded(kind, [2], NotedWorld())).take_leases()
        assert leases[2].extent.length == claimed
        read = os.pread(leases[2].extent.descriptor, 100, leases[2].extent.offset)
        assert len(read) == held
        assert read[:16] == DATA[2][: min(held, 16)]

    run(scenario())


def test_two_keys_get_each_others_data_and_the_odd_one_its_own() -> None:
    async def scenario() -> None:
        found = contents((await loaded(fault("swap"), [0, 2, 3], NotedWorld())).take_leases())
        assert found == {0: DATA[2], 1: DATA[1], 2: DATA[0], 3: DATA[3]}

    run(scenario())


def test_what_was_served_first_is_served_again_after_the_key_has_changed() -> None:
    async def scenario() -> None:
        world, kind = NotedWorld(), fault("older_version", memory_bytes=20)
        newer = [bytes([97 + number]) * 16 for number in range(4)]
        first = contents((await loaded(kind, [0, 1], world)).take_leases())
        second = contents((await loaded(kind, [0, 1], world, newer)).take_leases())
        assert first == dict(enumerate(DATA))
        assert second[0] == DATA[0]
        assert second[1] == newer[1]  # beyond what may be remembered

    run(scenario())


def test_a_copy_without_room_is_no_load() -> None:
    async def scenario() -> None:
        world = NotedWorld()
        world.slabs.budget_bytes = 64
        batch = await loaded(fault("oversize"), [0], world)
        assert batch.result(0) is Result.NO_SPACE

    run(scenario())


@pytest.mark.parametrize(
    ("settings", "held"),
    [
        ({"fixed": "50ms"}, [0.05]),
        ({"per_mib": "1s"}, [2 * 16 / (1 << 20)]),
        ({"fixed": "1s", "per_mib": "1s"}, [1 + 2 * 16 / (1 << 20)]),
    ],
)
def test_a_delay_is_what_its_settings_say(settings: dict[str, str], held: list[float]) -> None:
    async def scenario() -> None:
        world = NotedWorld()
        await loaded(fault("delay", **settings), [0, 1], world)
        assert world.held_s == pytest.approx(held)

    run(scenario())


@pytest.mark.parametrize("distribution", ["uniform", "normal", "exponential", "pareto"])
def test_jitter_is_the_same_for_the_same_traffic_and_never_goes_back_in_time(distribution: str) -> None:
    async def scenario() -> None:
        world = NotedWorld()
        kind = fault("delay", jitter="1s", distribution=distribution)
        for _ in range(2):
            await loaded(kind, [0, 1, 2, 3], world)
        assert world.held_s[0] == world.held_s[1] >= 0
        assert not isinf(world.held_s[0])

    run(scenario())


@pytest.mark.parametrize("bytes_per_second", [1_000_000, 1_000_000_000])
def test_a_bandwidth_is_kept_over_loads_whose_own_transfer_takes_time(bytes_per_second: int) -> None:
    async def scenario() -> None:
        world = NotedWorld()
        kind = fault("bandwidth", bytes_per_second=bytes_per_second)
        transfer_s = 16 / bytes_per_second / 4
        for _ in range(100):
            await loaded(kind, [0], world)
            world.clock_s += max(0.0, world.held_s[-1]) + transfer_s
        assert 100 * 16 / world.clock_s == pytest.approx(bytes_per_second, rel=0.1)

    run(scenario())


def test_loads_side_by_side_share_the_bandwidth_and_a_pause_is_not_made_good() -> None:
    async def scenario() -> None:
        world = NotedWorld()
        kind = fault("bandwidth", bytes_per_second=16)
        await loaded(kind, [0], world)
        await loaded(kind, [0, 1], world)
        world.clock_s = 60.0
        await loaded(kind, [0], world)
        assert world.held_s == pytest.approx([1.0, 3.0, 1.0])

    run(scenario())


def test_a_call_that_never_completes_is_held_for_ever() -> None:
    async def scenario() -> None:
        world = NotedWorld()
        await loaded(fault("never_complete"), [0], world)
        assert world.held_s == [inf]

    run(scenario())


@pytest.mark.parametrize(
    ("kind", "completion"),
    [
        (fault("complete_late", after_delay="2s"), Completion(late_s=2.0)),
        (fault("complete_twice"), Completion(twice=True)),
        (fault("exchange_results"), Completion(exchanged=True)),
    ],
)
def test_how_a_result_reaches_the_cache_server_is_said_in_the_answer(
    kind: Fault, completion: Completion
) -> None:
    async def scenario() -> None:
        assert (await loaded(kind, [0], NotedWorld())).completion == completion

    run(scenario())


async def looked_up(kind: Fault, positions: Sequence[int], world: NotedWorld) -> list[Result]:
    batch = judged_batch([kind], {0: positions}, world=world, operation=Operation.LOOKUP)
    await batch.before()
    asked = batch.open_positions()
    batch.take_answers(asked, [Result.OK if place % 2 else Result.NOT_FOUND for place in asked])
    await batch.after()
    return batch.results


def test_a_missing_key_is_claimed() -> None:
    async def scenario() -> None:
        found = await looked_up(fault("claim_falsely"), [0, 1], NotedWorld())
        assert found == [Result.OK, Result.OK, Result.NOT_FOUND, Result.OK]

    run(scenario())


def test_a_stale_positive_fails_so_many_loads_of_a_key_while_lookup_goes_on_saying_yes() -> None:
    async def scenario() -> None:
        world, kind = NotedWorld(), fault("stale_positive", times=2)
        outcomes = []
        for _ in range(3):
            assert (await looked_up(kind, [0, 1], world))[:2] == [Result.OK, Result.OK]
            outcomes.append((await loaded(kind, [0], world)).result(0))
        assert outcomes == [Result.NOT_FOUND, Result.NOT_FOUND, Result.OK]

    run(scenario())


def test_an_object_is_deleted_at_the_barrier_between_lookup_and_load() -> None:
    async def scenario() -> None:
        for act in (looked_up, loaded):
            world = NotedWorld()
            await act(fault("force_delete"), [1, 2], world)
            assert [key.chunk_hash[0] for key in world.deleted] == [1, 2]

    run(scenario())


def test_a_byte_budget_counts_what_the_store_holds_and_what_comes() -> None:
    async def scenario() -> None:
        world = NotedWorld()
        world.held_bytes = 50
        kind = fault("byte_budget", bytes=90)
        batch = judged_batch(
            [kind], {0: [0, 1, 2, 3]}, world=world, operation=Operation.STORE, sizes=[16] * 4
        )
        await batch.before()
        assert list(batch.open_positions()) == [0, 1]

    run(scenario())


def test_a_store_is_lost_torn_or_refused_in_its_own_stage() -> None:
    async def scenario() -> None:
        world = NotedWorld()
        kinds = [
            fault("lose_then_acknowledge"),
            fault("keep_then_refuse"),
            fault("torn", keep_bytes=5),
            fault("torn", keep_bytes=99, acknowledge=False),
        ]
        batch = judged_batch(kinds, {0: [0], 1: [1], 2: [2], 3: [3]}, world=world, operation=Operation.STORE)
        batch.adopt({place: world.lease(DATA[place]) for place in range(4)})
        await batch.before_publish()
        assert batch.withheld == {0}
        assert batch.torn_bytes == {2: 5, 3: 16}
        batch.conclude(dict.fromkeys(range(4), Result.OK))
        await batch.after_publish()
        assert batch.results == [Result.OK, Result.IO_ERROR, Result.OK, Result.IO_ERROR]

    run(scenario())


@pytest.mark.parametrize(
    ("settings", "expected"), [({"scale": 0}, 0), ({"scale": 0.5}, 50), ({"bytes": 7}, 7)]
)
def test_usage_is_misreported(settings: dict[str, float], expected: int) -> None:
    async def scenario() -> None:
        batch = judged_batch([fault("misreport", **settings)], {0: [0]}, keys=0, operation=Operation.USAGE)
        batch.usage_bytes = 100
        await batch.after()
        assert batch.usage_bytes == expected

    run(scenario())


@pytest.mark.parametrize(("kind", "ended"), [("refuse", []), ("reset", ["session"]), ("restart", ["all"])])
def test_a_connection_is_refused_reset_or_lost_with_everything(kind: str, ended: list[str]) -> None:
    async def scenario() -> None:
        world = NotedWorld()
        batch = judged_batch([fault(kind)], {0: [0]}, world=world)
        with pytest.raises(InjectedFailure):
            await batch.before()
        assert world.ended == ended

    run(scenario())


def test_another_salt_is_asked_for_and_the_call_stays_as_it_was() -> None:
    async def scenario() -> None:
        batch = judged_batch([fault("alias_salt", to="other")], {0: [1]})
        await batch.before()
        assert [key.cache_salt for key in batch.keys] == ["", "other", "", ""]
        assert [key.cache_salt for key in batch.call.keys] == [""] * 4

    run(scenario())


def test_keys_are_left_out_of_a_listing() -> None:
    async def scenario() -> None:
        batch = judged_batch([fault("incomplete")], {0: [0, 3]}, operation=Operation.LIST)
        await batch.before()
        assert list(batch.open_positions()) == [1, 2]

    run(scenario())
