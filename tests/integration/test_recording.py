"""A run is recorded by one daemon, and its faults are injected again by another."""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import blake2b
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from tests.harness.lmcache import plugin_spec
from tests.harness.plugin import Driver, make_adapter, make_keys, make_objects
from tests.harness.processes import ProcessFailed
from tests.harness.redis import RedisServer
from tests.harness.sidecar import SidecarProcess
from tests.harness.waiting import eventually
from tests.harness.wire import INLINE, WireSession
from tests.harness.wire import make_keys as make_wire_keys

from kvchaos.cli.main import main
from kvchaos.control import ControlClient
from kvchaos.recordings.reader import read_recording

SIZE = 5000
PROMPTS = 6
REPOSITORY = Path(__file__).parents[2]
MEMORY = {"type": "memory", "capacity_bytes": 1 << 28}
RULES = [
    {
        "name": "hidden",
        "match": {"op": "lookup"},
        "select": {"rate": 0.2, "per": "attempt", "seed": 3},
        "fault": "hide",
    },
    {
        "name": "flipped",
        "match": {"op": "load"},
        "select": {"rate": 0.3, "per": "attempt", "seed": 4},
        "fault": "flip_bits",
    },
    {
        "name": "slow",
        "match": {"op": "load"},
        "select": {"rate": 0.1, "per": "attempt", "seed": 5},
        "fault": {"delay": {"fixed": "1ms", "jitter": "5ms"}},
    },
    {
        "name": "torn",
        "match": {"op": "store"},
        "select": {"rate": 0.1, "seed": 6},
        "fault": {"torn": {"keep_bytes": 1000}},
    },
]


@contextmanager
def sidecar(*arguments: str, **document: Any) -> Iterator[SidecarProcess]:
    with SidecarProcess(MEMORY, arguments=arguments, environment="test", **document) as process:
        yield process
        assert process.stop() == 0


def lines_of(path: Path, kind: str = "") -> list[dict[str, Any]]:
    written = path.read_text()
    whole = written[: written.rfind("\n") + 1]
    lines = [json.loads(line) for line in whole.splitlines()]
    return [line for line in lines if not kind or line["type"] == kind]


def faults_of(path: Path) -> list[tuple[object, ...]]:
    """What was injected, without the marks of a replay."""
    return sorted(
        (*found.call, found.place, found.rule.removeprefix("replay."), found.fault, found.chance)
        for found in read_recording(path).faults
    )


def drive_plugin(process: SidecarProcess) -> list[object]:
    """A fixed run through LMCache's side of the plugin. Returns what its cache server sees."""
    adapter = make_adapter(plugin_spec(process.cache_target))
    driver = Driver(adapter)
    seen: list[object] = []
    for number in range(PROMPTS):
        keys = make_keys(8, prefix=bytes([number]))
        seen.append(driver.store(keys, make_objects(8, SIZE, number)).is_successful())
        for _ in range(3):
            seen.append(driver.lookup(keys))
            objects = make_objects(8, SIZE)
            seen.append(driver.load(keys, objects))
            seen.append([blake2b(item.byte_array).hexdigest() for item in objects])
    adapter.close()
    return seen


def open_objects(process: SidecarProcess, directory: Path) -> int:
    """Files of the store, and memory for objects, that a daemon has open."""
    opened = []
    for link in Path(f"/proc/{process.process.pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            opened.append(str(link.readlink()))
    return sum(name.startswith((f"{directory}/l2/", "/memfd:kvchaos")) for name in opened)


def test_a_replay_of_a_random_run_injects_the_same_faults_and_shows_the_same(tmp_path: Path) -> None:
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    with sidecar("--record", str(first), fault_inject={"rate": 0.15, "seed": 9}, rules=RULES) as process:
        seen = drive_plugin(process)
    with sidecar("--record", str(second), "--replay", str(first)) as process:
        seen_again = drive_plugin(process)
        with ControlClient(process.control_target) as control:
            listed = {rule.name: rule for rule in control.list_rules().rules}
            assert "replay.flipped" in control.get_status().warning
        fired = process.metrics().value("kvchaos_rule_fired_total", rule="replay.flipped", reason="recorded")
    recorded = faults_of(first)
    rules = {found[5] for found in recorded}
    assert rules == {"fault_inject", "hidden", "flipped", "slow", "torn"}
    assert faults_of(second) == recorded
    assert seen_again == seen
    assert {rule.state for rule in listed.values()} == {"over"}
    assert fired == sum(found[5] == "flipped" for found in recorded)


def test_another_run_reports_what_was_awaited_and_did_not_come(tmp_path: Path) -> None:
    recording = tmp_path / "run.jsonl"
    keys = make_wire_keys(4, b"p" * 16)
    with (
        sidecar("--record", str(recording), fault_inject={"gap_indices": [1]}) as process,
        WireSession(process.cache_target) as session,
    ):
        session.store_objects(keys, [bytes(SIZE)] * 4)
        session.load(keys, SIZE, 2, INLINE)
        session.load(keys[:2], SIZE, 3, INLINE)
    with sidecar("--replay", str(recording)) as process, ControlClient(process.control_target) as control:
        with WireSession(process.cache_target) as session:
            session.store_objects(keys, [bytes(SIZE)] * 4)
            session.load(keys, SIZE, 2, INLINE)
        (rule,) = control.list_rules().rules
        assert (rule.name, rule.state, rule.fired) == ("replay.fault_inject", "armed", 1)
        assert rule.awaited == 1
        assert rule.awaited_calls[0].startswith("session 1, load number 1 of the keys ")
        assert control.get_status().sessions_opened == 1


def test_one_can_judge_from_a_recording_what_became_of_every_key(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    keys = make_wire_keys(3)
    objects = [bytes([number]) * SIZE for number in range(3)]
    torn = {"name": "torn", "match": {"op": "store", "position": 1}, "fault": {"torn": {"keep_bytes": 10}}}
    with (
        sidecar("--record", str(path), fault_inject={"gap_indices": [0]}, rules=[torn]) as process,
        WireSession(process.cache_target, client_name="judged") as session,
    ):
        session.store_objects(keys, objects)
        session.lookup(keys)
        session.load_objects(keys, SIZE, 2)
        session.unlock(keys[:2])
        session.close()
        eventually(lambda: bool(lines_of(path, "session_end")), "the end of the session")
    header, *lines = lines_of(path)
    assert header["type"] == "header"
    assert header["fault_inject"]["gap_indices"] == [0]
    assert header["rules"] == ["torn"]
    assert lines[-1]["type"] == "end"
    calls = [line for line in lines if line["type"] == "call"]
    assert [call["op"] for call in calls] == ["connect", "store", "lookup", "load", "unlock"]
    assert [call["seq"] for call in calls] == [1, 2, 3, 4, 5]
    assert {(call["session"], call["client"]) for call in calls} == {(1, "judged")}
    assert [key[0] for key in calls[3]["keys"]] == [key.chunk_hash.hex() for key in keys]
    assert calls[3]["evaluated"] == {"fault_inject": 3}
    (fired,) = calls[3]["fired"]
    assert (fired["rule"], fired["positions"], fired["fault"]) == (
        "fault_inject",
        [0],
        {"drop": {"poison": "nan"}},
    )
    outcomes = {line["seq"]: line["results"] for line in lines if line["type"] == "outcome"}
    assert outcomes[3] == ["ok"] * 3
    assert outcomes[4] == ["dropped", "size_mismatch", "ok"]
    (moved,) = [line for line in lines if line["type"] == "moved"]
    assert (moved["seq"], moved["failed"]) == (4, [])
    (commit,) = [line for line in lines if line["type"] == "commit"]
    assert (commit["seq"], commit["results"], commit["stored"]) == (2, ["ok"] * 3, [SIZE, 10, SIZE])
    stored = [objects[0], objects[1][:10], objects[2]]
    assert commit["checksums"] == [blake2b(data, digest_size=16).hexdigest() for data in stored]
    (ended,) = [line for line in lines if line["type"] == "session_end"]
    assert (ended["reason"], ended["locks"]) == ("stream_lost", 1)
    assert str(objects[2]) not in path.read_text()


@pytest.mark.parametrize("backend", ["fs", "memory"])
def test_recording_leaves_no_descriptor_open(tmp_path: Path, backend: str) -> None:
    (tmp_path / "l2").mkdir()
    settings: Mapping[str, object] = (
        {"type": "fs", "base_path": str(tmp_path / "l2")} if backend == "fs" else MEMORY
    )
    path = tmp_path / "run.jsonl"
    with SidecarProcess(settings, arguments=["--record", str(path)]) as process:
        with WireSession(process.cache_target) as session:
            for number in range(5):
                session.store_objects(make_wire_keys(50), [bytes(SIZE)] * 50, number + 1)
        eventually(lambda: len(lines_of(path, "commit")) == 5, "the commits to be recorded")
        held = 250 if backend == "memory" else 0
        eventually(lambda: open_objects(process, tmp_path) == held, "descriptors to be closed")
    checksums = [checksum for line in lines_of(path, "commit") for checksum in line["checksums"]]
    assert set(checksums) == {blake2b(bytes(SIZE), digest_size=16).hexdigest()}


def test_a_daemon_that_is_killed_leaves_a_recording_that_can_be_replayed(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    keys = make_wire_keys(4)
    with (
        SidecarProcess(MEMORY, {"gap_indices": [2]}, ["--record", str(path)]) as process,
        WireSession(process.cache_target) as session,
    ):
        session.load(keys, SIZE, 1, INLINE)
        eventually(lambda: len(lines_of(path, "outcome")) == 2, "the load to be recorded")
        process.kill()
    recording = read_recording(path)
    assert [found.operation for found in recording.faults] == ["load"]
    assert "no end" in recording.warnings[0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"type":"header","format":1,"part":1}\n{"type":"call","ses', "line 2: cut off"),
        ("version: 1\n", "line 1: not JSON"),
        ('{"type":"header","format":7,"part":1}\n', "line 1: format 7; this version reads format 1"),
    ],
)
def test_a_daemon_refuses_a_replay_file_that_it_cannot_use(
    tmp_path: Path, content: str, message: str
) -> None:
    path = tmp_path / "broken.jsonl"
    path.write_text(content)
    with pytest.raises(ProcessFailed, match=f"exit code 2(.|\n)*broken.jsonl: .*{message}"):
        SidecarProcess(MEMORY, arguments=["--replay", str(path)], environment="test").wait_ready()


def test_a_recording_that_cannot_be_written_is_refused_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "run.jsonl"
    with pytest.raises(
        ProcessFailed, match=r"exit code 2(.|\n)*recording\.path: cannot write .*No such file"
    ):
        SidecarProcess(MEMORY, arguments=["--record", str(path)]).wait_ready()


FAILS_WHEN_THE_THIRD_IS_DROPPED = """
import sys
from tests.harness.wire import INLINE, WireSession, make_keys
with WireSession(sys.argv[1]) as session:
    sys.exit(session.load(make_keys(6, b"a fixed prompt.."), 5000, 1, INLINE).results[2] == 4)
"""


@contextmanager
def store_of(kind: str, directory: Path) -> Iterator[Mapping[str, object]]:
    """The settings of an empty store behind the sidecar."""
    directory.mkdir()
    if kind == "lmcache":
        yield {"type": "lmcache", "inner": {"type": "fs", "base_path": str(directory / "l2")}}
        return
    with RedisServer(directory) as server:
        yield {"type": "redis", "host": server.host, "port": server.port}


@pytest.mark.parametrize("kind", ["redis", "lmcache"])
def test_a_run_over_another_store_is_recorded_replayed_and_minimised(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    keys = make_wire_keys(6, b"a fixed prompt..")
    objects = [bytes([number]) * SIZE for number in range(len(keys))]

    with store_of(kind, tmp_path / "one") as settings:
        drops = {"gap_indices": [1, 2, 4]}
        with SidecarProcess(settings, drops, ["--record", str(first)], environment="test") as process:
            with WireSession(process.cache_target) as session:
                session.load(keys, SIZE, 1, INLINE)
                session.store_objects(keys, objects, 2)
                assert sorted(session.load_objects(keys, SIZE, 3)) == [0, 3, 5]
            assert process.stop() == 0
    assert lines_of(first, "header")[0]["backend"].startswith(f"{kind} ")
    (commit,) = lines_of(first, "commit")
    assert commit["results"] == ["ok"] * len(keys)
    assert commit["checksums"] == [blake2b(data, digest_size=16).hexdigest() for data in objects]
    results = [line["results"] for line in lines_of(first, "outcome") if len(line["results"]) == len(keys)]
    assert results[-1] == ["ok", "dropped", "dropped", "ok", "dropped", "ok"]

    with store_of(kind, tmp_path / "two") as settings:
        arguments = ["--record", str(second), "--replay", str(first)]
        with SidecarProcess(settings, arguments=arguments, environment="test") as process:
            with WireSession(process.cache_target) as session:
                session.load(keys, SIZE, 1, INLINE)
                session.store_objects(keys, objects, 2)
                assert sorted(session.load_objects(keys, SIZE, 3)) == [0, 3, 5]
            with ControlClient(process.control_target) as control:
                control.reset()
            assert process.stop() == 0
        assert faults_of(second) == faults_of(first)
        with SidecarProcess(settings, environment="test") as process:
            command = [sys.executable, "-c", FAILS_WHEN_THE_THIRD_IS_DROPPED, process.cache_target]
            target = ["--target", process.control_target]
            words = ["minimise", *target, "--recording", str(first), "--", *command]
            assert main(words, StringIO(), StringIO()) == 0
    left = read_recording(Path(f"{first}.minimal")).faults
    assert [(found.operation, found.nth, found.place) for found in left] == [("load", 1, 2)]
