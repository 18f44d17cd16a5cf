"""The ``kvchaos`` command against a real daemon."""

import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.harness.sidecar import SidecarProcess
from tests.harness.wire import INLINE, WireSession, make_keys

from kvchaos.cli.main import main

KEYS = make_keys(8)
SIZE = 16
PROGRAM = str(Path(sys.executable).parent / "kvchaos")


@pytest.fixture(scope="module")
def daemon() -> Iterator[SidecarProcess]:
    with SidecarProcess({"type": "memory", "capacity_bytes": 1 << 20}, environment="lab") as process:
        with WireSession(process.cache_target) as session:
            session.store_objects(KEYS, [bytes(SIZE)] * 8)
        yield process


@pytest.fixture
def target(daemon: SidecarProcess, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("KVCHAOS_TARGET", daemon.control_target)
    yield daemon.control_target
    run("resume")
    run("reset")


@pytest.fixture
def session(daemon: SidecarProcess) -> Iterator[WireSession]:
    with WireSession(daemon.cache_target, client_name="loader") as opened:
        yield opened


def run(*words: str, code: int = 0) -> str:
    stdout, stderr = io.StringIO(), io.StringIO()
    assert main(words, stdout, stderr) == code, stderr.getvalue()
    return stdout.getvalue() or stderr.getvalue()


def run_json(*words: str) -> object:
    return json.loads(run(*words, "--json"))


def test_set_shows_what_is_in_force_and_get_where_it_comes_from(target: str) -> None:
    text = run("set", "--rate", "0.5", "--seed", "9", "--gap-indices", "1,2", "--ttl", "1h")
    assert re.match(r"changed; generation \d+ is in force\nrate +0.5\nseed +9\ngap_indices +\[1, 2\]\n", text)
    assert run("set", "--seed", "9").startswith("changed")
    assert run("set", "--seed", "9").startswith("nothing to change")
    rate, seed = run_json("get", "fault_inject")[:2]
    assert (rate["value"], rate["source"]) == (0.5, "runtime")
    assert rate["expires_at"].endswith("Z")
    assert (seed["value"], seed["expires_at"]) == (9, None)
    assert [field["path"] for field in run_json("get", "backend.capacity_bytes")] == [
        "backend.capacity_bytes"
    ]
    assert "there is no field 'fault'" in run("get", "fault", code=2)


def test_an_empty_list_clears_the_gaps(target: str) -> None:
    run("set", "--gap-indices", "1", "--gap-tail-ratios", "0.5")
    change = run_json("set", "--gap-indices", "", "--gap-tail-ratios", "")
    assert (change["fault_inject"]["gap_indices"], change["fault_inject"]["gap_tail_ratios"]) == ([], [])


def test_status_shows_the_warning_and_the_sessions(target: str, session: WireSession) -> None:
    run("set", "--rate", "0.25")
    text = run("status")
    assert text.startswith("kvchaos fault injection ACTIVE (rate=0.25 ")
    assert re.search(r"^session +client +transport", text, re.MULTILINE)
    assert re.search(r"^\S{8} +loader +inline +0 +0 ", text, re.MULTILINE)
    assert run_json("status")["sessions"][0]["client_name"] == "loader"


def test_rules_tells_what_is_armed(target: str) -> None:
    assert run_json("rules") == [
        {"rule": "fault_inject", "state": "idle", "operation": "load", "fault": "drop", "selects": "nothing"}
    ]
    run("set", "--gap-tail-ratios", "0.5")
    assert re.search(r"fault_inject +armed +- +load +drop \(gap_tail_ratios \[0\.5\]\)", run("rules", "list"))
    run("halt")
    assert "halted" in run("rules")


RULES = """
rules:
- {name: first, match: {op: load, position: 0}, fault: {error: {cause: timed_out}}}
- {name: hidden, match: {op: lookup, position: -1}, fault: hide}
"""


def test_rules_are_added_listed_shown_switched_and_removed(target: str, tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(RULES)
    added = run("rules", "add", str(file), "--ttl", "1h")
    assert added.startswith("changed")
    assert "rules: first, hidden; kvchaos rules lists them" in added
    listed = {rule["name"]: rule for rule in run_json("rules")[1:]}  # type: ignore[index]
    assert list(listed) == ["first", "hidden"]
    assert (listed["hidden"]["fault"], listed["hidden"]["state"]) == ("hide", "armed")
    assert re.search(r"hidden +armed +runtime +lookup +hide +0 +0 +20", run("rules"))
    assert run("rules", "disable", "hidden").startswith("changed")
    assert re.search(r"hidden +disabled", run("rules"))
    assert run("rules", "enable", "hidden").startswith("changed")
    assert '"cause": "timed_out"' in run("rules", "show", "first")
    run("halt")
    assert re.search(r"first +halted", run("rules"))
    run("resume")
    assert run("rules", "remove", "first").startswith("changed")
    assert "first" not in run("rules")
    assert run("reset").startswith("changed")
    assert "hidden" not in run("rules")


def test_a_rule_of_the_catalogue_is_armed_by_its_number(target: str) -> None:
    run("rules", "add", "catalogue:f21", "--ttl", "5m")
    assert "f21-head-hidden" in run("rules")
    explained = run_json("explain", "--num-chunks", "4", "--op", "lookup")
    assert [found["position"] for found in explained["positions"]] == [0, 1]  # type: ignore[index, call-overload]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["rules", "add"], "rules add needs a file with rules, catalogue:ID, or - for stdin"),
        (["rules", "show"], "rules show needs a rule name"),
        (["rules", "show", "nowhere"], "there is no rule 'nowhere'"),
        (["rules", "add", "/does/not/exist"], "/does/not/exist: cannot be read: No such file or directory"),
        (["rules", "add", "catalogue:F99"], "'F99' is not in the catalogue; did you mean F9?"),
        (["rules", "remove", "nothing"], "nothing: there is no such rule"),
        (["catalogue", "x"], "'x' is not in the catalogue; known are F1, F2"),
    ],
)
def test_bad_input_about_rules_says_what_to_write(target: str, words: list[str], problem: str) -> None:
    assert problem in run(*words, code=2)


def test_a_rule_file_with_a_mistake_is_refused_whole(target: str, tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(RULES.replace("timed_out", "timedout").replace("hide}", "hyde}"))
    text = run("rules", "add", str(file), code=2)
    assert "rules[0].fault.error.cause: " in text
    assert "rules[1].fault.hyde: unknown key; did you mean hide?" in text
    assert "first" not in run("rules")


def test_a_file_of_rules_is_validated_on_its_own_with_warnings(tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text("- {name: a, match: {op: load, model: 'x@y'}, fault: drop}")
    assert "warning: rules[0].match.model: 'x@y' never matches" in run("validate", str(file))
    file.write_text("- {name: a, match: {op: load}, fault: dorp}")
    assert "rules[0].fault.dorp: unknown key; did you mean drop?" in run("validate", str(file), code=2)


def test_adding_a_rule_that_can_never_fire_warns(target: str, tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text("{name: idle, match: {op: load}, select: {rate: 0}, fault: drop}")
    assert "warning: rules[0].select.rate: 0 selects nothing" in run("rules", "add", str(file))


def test_the_catalogue_lists_its_entries_and_shows_one(target: str) -> None:
    assert len(run_json("catalogue")) == 21  # type: ignore[arg-type]
    assert "f3-torn-store" in run("catalogue", "F3")


def test_halt_and_resume(target: str) -> None:
    assert run_json("halt", "--reason", "lunch")["changed"] is True
    assert run_json("halt")["changed"] is False
    assert run_json("status")["halt_reason"] == "lunch"
    assert run_json("resume")["fault_inject"]["halted"] is False


def test_reload_says_what_is_wrong_with_the_file(target: str, daemon: SidecarProcess) -> None:
    good = daemon.config_path.read_text()
    try:
        daemon.config_path.write_text(good.replace('"fault_inject"', '"fault_injekt"'))
        assert "fault_injekt: unknown key; did you mean fault_inject?" in run("reload", code=2)
    finally:
        daemon.config_path.write_text(good)
    assert run_json("reload")["fault_inject"]["rate"] == 0


def test_explain_takes_the_keys_of_a_file(target: str, tmp_path: Path) -> None:
    run("set", "--gap-indices", "1")
    path = tmp_path / "keys.json"
    path.write_text(json.dumps([{**key._asdict(), "chunk_hash": key.chunk_hash.hex()} for key in KEYS]))
    text = run("explain", str(path))
    assert text.startswith("1 of 8 positions are hit")
    assert KEYS[1].short() in text
    run("halt")
    assert "injection is halted" in run("explain", "--num-chunks", "4")


def test_drops_and_watch_show_what_was_injected(target: str, session: WireSession) -> None:
    run("set", "--gap-indices", "2,3")
    command = [PROGRAM, "watch", "--json"]
    with (
        subprocess.Popen(
            [*command, "--count", "1"], stdout=subprocess.PIPE, text=True, env={**os.environ}
        ) as one,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as endless,
    ):
        load_until_seen(session, one)
        watched = json.loads(one.stdout.read())
        assert one.wait(20) == 0
        assert (watched["event"]["positions"], watched["event"]["client_name"]) == ([2, 3], "loader")
        endless.stdout.readline()
        endless.send_signal(signal.SIGINT)
        assert endless.wait(20) == 0
        assert endless.stderr.read() == ""
    listed = run_json("drops", "--limit", "1")
    assert [event["positions"] for event in listed["events"]] == [[2, 3]]
    assert re.search(r"loader +\S{8} +fault_inject +index +drop +load +8 +2,3 ", run("drops"))


def load_until_seen(session: WireSession, watcher: subprocess.Popen[str]) -> None:
    """Loads again and again, because the watcher is another process that needs a while to begin."""
    for request_id in range(10, 1000):
        session.load(KEYS, SIZE, request_id, INLINE)
        try:
            watcher.wait(0.2)
        except subprocess.TimeoutExpired:
            continue
        return
    raise AssertionError("the watcher saw nothing")
