"""The recorder never waits: what it cannot keep, it counts and marks."""

import json
import os
import resource
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.harness.waiting import eventually

from kvchaos.errors import ConfigError
from kvchaos.keys import ObjectKey
from kvchaos.recordings.reader import read_recording
from kvchaos.results import Result
from kvchaos_sidecar.clock import ManualClock
from kvchaos_sidecar.config.schema import Recording
from kvchaos_sidecar.faults.registry import FAULTS
from kvchaos_sidecar.recording.events import CallJudged, Occurrences
from kvchaos_sidecar.recording.recorder import Recorder
from kvchaos_sidecar.rules.call import Call, Operation
from kvchaos_sidecar.rules.strike import Strike
from kvchaos_sidecar.rules.verdict import Verdict

KEYS = [ObjectKey(bytes([number]) * 32, "org/model", 7, 1, "tenant") for number in range(4)]


class Recorded:
    """A recorder, and what it lost."""

    def __init__(self, path: Path, max_queued_keys: int = 1000) -> None:
        self.path = path
        self.lost: list[int] = []
        self.recorder = Recorder(
            Recording(path=str(path)), self._header, ManualClock(), self.lost.append, max_queued_keys
        )

    def _header(self) -> dict[str, Any]:
        return {"daemon_version": "1.2"}

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_text().splitlines()]

    def types(self) -> list[str]:
        return [line["type"] for line in self.lines()]


def load(sequence: int = 1, keys: Sequence[ObjectKey] = KEYS) -> Call:
    return Call(Operation.LOAD, keys, [64] * len(keys), "client", "abcdefgh", 3, sequence)


@pytest.fixture
def recorded(tmp_path: Path) -> Iterator[Recorded]:
    made = Recorded(tmp_path / "run.jsonl")
    made.recorder.start()
    yield made
    made.recorder.close()


def test_a_call_is_written_with_its_keys_its_place_and_its_faults(recorded: Recorded) -> None:
    drop = FAULTS["drop"].model_validate({})
    verdict = Verdict(5, {"gap": 4}, [Strike("gap", drop, (1, 3), ("index", "rate"), seed=2)])
    recorded.recorder.judged(load(), verdict)
    recorded.recorder.settled(load(), [Result.OK, Result.DROPPED, Result.OK, Result.DROPPED])
    recorded.recorder.judged(load(2), None)
    recorded.recorder.failed(load(2), TimeoutError())
    recorded.recorder.close()
    assert recorded.types() == ["header", "call", "outcome", "call", "outcome", "end"]
    header, call, outcome, again, failed, _ = recorded.lines()
    assert (header["format"], header["part"], header["daemon_version"]) == (1, 1, "1.2")
    assert (call["session"], call["id"], call["client"], call["seq"]) == (3, "abcdefgh", "client", 1)
    assert call["keys"][2] == ["02" * 32, "org/model", 7, 1, "tenant"]
    assert call["sizes"] == [64] * 4
    assert (call["generation"], call["evaluated"]) == (5, {"gap": 4})
    strike = verdict.strikes[0]
    assert call["fired"] == [
        {
            "rule": "gap",
            "fault": {"drop": {"poison": "nan"}},
            "positions": [1, 3],
            "reasons": ["index", "rate"],
            "chances": [strike.chance(0), strike.chance(1)],
        }
    ]
    assert outcome["results"] == ["ok", "dropped", "ok", "dropped"]
    assert (call["nth"], again["nth"]) == (1, 2)
    assert call["batch"] == again["batch"]
    assert "fired" not in again
    assert failed["failed"] == "TimeoutError"


def test_what_does_not_fit_into_the_queue_is_counted_and_marked(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path / "run.jsonl", max_queued_keys=12)
    for sequence in range(1, 6):
        recorded.recorder.judged(load(sequence), None)
    recorded.recorder.start()
    recorded.recorder.close()
    assert sum(recorded.lost) == 3
    assert recorded.types() == ["header", "call", "call", "lost", "end"]
    assert recorded.lines()[3]["events"] == 3
    assert read_recording(recorded.path).warnings[0].startswith("3 events were not recorded")


def test_what_is_not_a_regular_file_is_left_alone(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(ConfigError, match=r"recording.path: cannot write .*pipe: .*not a regular file"):
        Recorded(pipe).recorder.start()
    assert pipe.is_fifo()


def test_a_full_disk_costs_events_and_nothing_else(recorded: Recorded) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (recorded.path.stat().st_size + 10, limits[1]))
    try:
        recorded.recorder.judged(load(), None)
        eventually(lambda: recorded.lost == [1], "the event to be lost")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    recorded.recorder.judged(load(2), None)
    recorded.recorder.close()
    assert recorded.types() == ["header", "lost", "call", "end"]
    assert recorded.lines()[2]["seq"] == 2


def test_closing_without_starting_does_nothing(tmp_path: Path) -> None:
    Recorded(tmp_path / "run.jsonl").recorder.close()
    assert os.listdir(tmp_path) == []


def test_occurrences_are_counted_for_each_session_operation_and_batch() -> None:
    occurrences = Occurrences()
    places = [(1, "load", "a"), (1, "load", "a"), (2, "load", "a"), (1, "lookup", "a"), (1, "load", "a")]
    assert [occurrences.count(*place) for place in places] == [1, 2, 1, 1, 3]


SETTINGS: dict[str, dict[str, object]] = {
    "error": {"cause": "not_found"},
    "truncate": {"keep_bytes": 3},
    "delay": {"fixed": "50ms", "jitter": "1m", "distribution": "pareto"},
    "bandwidth": {"bytes_per_second": 1000},
    "complete_late": {"after_delay": "1s"},
    "errno": {"code": "ENOSPC"},
    "torn": {"keep_bytes": 3},
    "byte_budget": {"bytes": 3},
    "misreport": {"scale": 0.5},
}


@pytest.mark.parametrize("kind", FAULTS)
def test_every_fault_is_written_so_that_it_can_be_read_again(kind: str) -> None:
    fault = FAULTS[kind].model_validate(SETTINGS.get(kind, {}))
    strike = Strike("rule", fault, (0,), ("match",))
    event = CallJudged(0.0, load(), Verdict(1, {}, [strike]))
    (fired,) = json.loads(json.dumps(event.line(Occurrences())))["fired"]
    ((written, settings),) = fired["fault"].items()
    assert FAULTS[written].model_validate(settings) == fault
