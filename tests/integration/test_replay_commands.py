"""``kvchaos replay`` and ``kvchaos minimise`` against real daemons."""

import io
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.harness.sidecar import SidecarProcess
from tests.harness.wire import INLINE, WireSession, make_keys

from kvchaos.cli.main import main
from kvchaos.recordings.reader import read_recording, write_recording

ROOT = Path(__file__).parents[2]
MEMORY = {"type": "memory", "capacity_bytes": 1 << 28}
KEYS = make_keys(12, b"a fixed prompt..")
SIZE = 64

LOADS = f"""
import sys
from tests.harness.wire import INLINE, WireSession, make_keys
keys = make_keys({len(KEYS)}, b"a fixed prompt..")
with WireSession(sys.argv[1]) as session:
    first = session.load(keys[:8], {SIZE}, 1, INLINE).results
    second = session.load(keys[8:], {SIZE}, 2, INLINE).results
dropped = [place for place, result in enumerate([*first, *second]) if result == 4]
"""
FAILS_WITH_A_PAIR = LOADS + "sys.exit(3 if {2, 9} <= set(dropped) else 0)"
FAILS_NOW_AND_THEN = (
    LOADS
    + """
import pathlib
counter = pathlib.Path(sys.argv[2])
runs = int(counter.read_text()) + 1 if counter.exists() else 1
counter.write_text(str(runs))
sys.exit(1 if 5 in dropped and runs % 2 else 0)
"""
)
IN_A_DAEMON_OF_ITS_OWN = """
import os, sys
from tests.harness.sidecar import SidecarProcess
from tests.harness.wire import INLINE, WireSession, make_keys
keys = make_keys(12, b"a fixed prompt..")
replay = ["--replay", os.environ["KVCHAOS_REPLAY"]]
memory = {"type": "memory", "capacity_bytes": 1 << 20}
with SidecarProcess(memory, arguments=replay, environment="test") as daemon:
    with WireSession(daemon.cache_target) as session:
        first = session.load(keys[:8], 64, 1, INLINE).results
sys.exit(1 if first[1] == 4 else 0)
"""


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two loads of which every key is dropped: 12 faults."""
    path = tmp_path_factory.mktemp("recording") / "run.jsonl"
    drops = {"gap_indices": list(range(len(KEYS)))}
    with SidecarProcess(MEMORY, drops, ["--record", str(path)]) as process:
        with WireSession(process.cache_target) as session:
            session.load(KEYS[:8], SIZE, 1, INLINE)
            session.load(KEYS[8:], SIZE, 2, INLINE)
        process.stop()
    return path


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Iterator[SidecarProcess]:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    with SidecarProcess(MEMORY, environment="test") as process:
        monkeypatch.setenv("KVCHAOS_TARGET", process.control_target)
        yield process


def run(*words: str, code: int = 0) -> str:
    stdout, stderr = io.StringIO(), io.StringIO()
    assert main(words, stdout, stderr) == code, stdout.getvalue() + stderr.getvalue()
    return stdout.getvalue() + stderr.getvalue()


def dropped(process: SidecarProcess) -> list[int]:
    """Positions that a run like the recorded one sees dropped."""
    with WireSession(process.cache_target) as session:
        results = [
            *session.load(KEYS[:8], SIZE, 1, INLINE).results,
            *session.load(KEYS[8:], SIZE, 2, INLINE).results,
        ]
    return [position for position, result in enumerate(results) if result == 4]


def rules(process: SidecarProcess) -> list[str]:
    return [rule["rule"] for rule in json.loads(run("rules", "--json"))[1:]]


def test_the_faults_of_a_known_pair_are_found_among_many_and_replayed(
    daemon: SidecarProcess, recording: Path, tmp_path: Path
) -> None:
    minimal = tmp_path / "minimal.jsonl"
    command = [sys.executable, "-c", FAILS_WITH_A_PAIR, daemon.cache_target]
    text = run("minimise", "--recording", str(recording), "--output", str(minimal), "--", *command)
    assert "run 1: 12 of 12 faults: fails\nrun 2: 0 of 12 faults: passes\n" in text
    assert "2 of 12 faults are left" in text
    assert KEYS[2].short() in text
    assert rules(daemon) == []
    left = read_recording(minimal)
    assert [(found.operation, found.place) for found in left.faults] == [("load", 2), ("load", 1)]
    assert left.warnings == []
    run("replay", str(minimal))
    assert dropped(daemon) == [2, 9]


def test_a_command_that_fails_now_and_then_is_run_several_times(
    daemon: SidecarProcess, recording: Path, tmp_path: Path
) -> None:
    minimal = tmp_path / "minimal.jsonl"
    command = [sys.executable, "-c", FAILS_NOW_AND_THEN, daemon.cache_target, str(tmp_path / "runs")]
    words = ["minimise", "--recording", str(recording), "--output", str(minimal), "--repeat", "2", "--json"]
    found = json.loads(run(*words, "--", *command))
    assert len(found["faults"]) == 1
    assert KEYS[5].short() in found["faults"][0]
    assert found["runs"] == int((tmp_path / "runs").read_text())


def test_a_command_may_start_a_daemon_of_its_own_for_every_run(
    recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    four = tmp_path / "four.jsonl"
    whole = read_recording(recording)
    write_recording(four, whole, whole.faults[:4])
    command = [sys.executable, "-c", IN_A_DAEMON_OF_ITS_OWN]
    text = run("minimise", "--recording", str(four), "--fresh", "--", *command)
    assert "1 of 4 faults are left" in text
    assert [found.place for found in read_recording(Path(f"{four}.minimal")).faults] == [1]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["true"], "does not fail with all 12 recorded faults"),
        (["false"], "fails without any fault"),
    ],
)
def test_what_cannot_be_minimised_is_said(
    daemon: SidecarProcess, recording: Path, command: list[str], message: str
) -> None:
    assert message in run("minimise", "--recording", str(recording), "--", *command, code=1)
    assert rules(daemon) == []


def test_a_command_that_hangs_is_killed_and_counts_as_failed(daemon: SidecarProcess, recording: Path) -> None:
    words = ["minimise", "--recording", str(recording), "--run-timeout", "200ms", "--", "sleep", "60"]
    assert "fails without any fault" in run(*words, code=1)


def test_a_command_that_cannot_be_started_is_bad_input(daemon: SidecarProcess, recording: Path) -> None:
    text = run("minimise", "--recording", str(recording), "--", "/no/such/program", code=2)
    assert "cannot run /no/such/program: No such file" in text
    assert rules(daemon) == []


def test_replay_runs_a_command_and_fails_when_a_recorded_call_did_not_come(
    daemon: SidecarProcess, recording: Path
) -> None:
    command = [sys.executable, "-c", LOADS, daemon.cache_target]
    assert "replay.fault_inject  over   drop   12   0" in run("replay", str(recording), "--", *command)
    half = [sys.executable, "-c", LOADS.replace("second = ", "second = [] #"), daemon.cache_target]
    text = run("replay", str(recording), "--", *half, code=1)
    assert "replay.fault_inject awaits session 2, load number 1 of the keys" in text
    assert "1 recorded calls did not come" in text
    assert rules(daemon) == []


def test_a_replay_counts_the_sessions_that_are_opened_after_it(
    daemon: SidecarProcess, recording: Path
) -> None:
    assert dropped(daemon) == []
    run("replay", str(recording))
    assert dropped(daemon) == list(range(12))
    assert dropped(daemon) == []
    assert "replay.fault_inject  over" in run("replay", "--report")
    assert "is in force already" in run("replay", str(recording), code=2)
    run("reset")
    assert "no replay is in force" in run("replay", "--report", code=2)


def test_a_recording_that_is_cut_off_is_refused_and_changes_nothing(
    daemon: SidecarProcess, recording: Path, tmp_path: Path
) -> None:
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(recording.read_bytes()[:-200])
    lines = cut.read_text().count("\n") + 1
    assert f"cut.jsonl: line {lines}: cut off" in run("replay", str(cut), code=2)
    assert rules(daemon) == []


def test_output_that_cannot_be_written_is_bad_input(daemon: SidecarProcess, recording: Path) -> None:
    command = ["minimise", "--recording", str(recording), "--output", "/no/such/dir/x", "--", "false"]
    assert "--output: cannot write /no/such/dir/x" in run(*command, code=2)
    assert os.listdir(recording.parent) == [recording.name]  # nor did the searches that failed write any
