"""``kvchaos --targets``: one command for three real sidecars, also when one is dead or hangs."""

import io
import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.harness.processes import free_port
from tests.harness.sidecar import SidecarProcess
from tests.harness.waiting import eventually

from kvchaos.cli.main import main
from kvchaos.control import ControlClient

BACKEND = {"type": "memory", "capacity_bytes": 1 << 20}
NAMES = ("pod-a", "pod-b", "pod-c")
RULE = "{name: shaky, match: {op: load, position: 0}, fault: {error: {cause: timed_out}}}\n"


@pytest.fixture(scope="module")
def started() -> Iterator[list[SidecarProcess]]:
    with ExitStack() as stack:
        listen = {"control": f"127.0.0.1:{free_port()}"}
        yield [
            stack.enter_context(
                SidecarProcess(BACKEND, environment="lab", listen=listen if place == 2 else {})
            )
            for place in range(3)
        ]


@pytest.fixture
def fleet(started: list[SidecarProcess]) -> Iterator[list[SidecarProcess]]:
    yield started
    for sidecar in started:
        if sidecar.probe("/healthz") != 200:
            sidecar.restart()
        with ControlClient(sidecar.control_target) as client:
            client.resume()
            client.reset()


@pytest.fixture
def targets(fleet: list[SidecarProcess], tmp_path: Path) -> str:
    lines = [f"{name} {sidecar.control_target}" for name, sidecar in zip(NAMES, fleet, strict=True)]
    file = tmp_path / "targets"
    file.write_text("# the lab\n\n" + "  # one pod\n".join(lines) + "\n")
    return str(file)


@contextmanager
def hanging(sidecar: SidecarProcess) -> Iterator[None]:
    sidecar.process.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        sidecar.process.signal(signal.SIGCONT)
        eventually(lambda: sidecar.probe("/healthz") == 200, "the sidecar that was stopped")


def run(*words: str, code: int = 0) -> list[str]:
    stdout, stderr = io.StringIO(), io.StringIO()
    assert main(words, stdout, stderr) == code, stdout.getvalue() + stderr.getvalue()
    return (stdout.getvalue() or stderr.getvalue()).splitlines()


def run_json(*words: str, code: int = 0) -> Any:
    return json.loads("\n".join(run(*words, "--json", code=code)))


def rate(sidecar: SidecarProcess) -> float:
    with ControlClient(sidecar.control_target) as client:
        return client.get_status().fault_inject.rate


def halted(sidecar: SidecarProcess) -> bool:
    with ControlClient(sidecar.control_target) as client:
        return client.get_status().fault_inject.halted


def test_a_change_reaches_every_sidecar_and_each_has_its_line(
    fleet: list[SidecarProcess], targets: str
) -> None:
    lines = run("set", "--rate", "0.25", "--seed", "7", "--targets", targets)
    assert [line.split()[:3] for line in lines[:3]] == [[name, "ok", "changed:"] for name in NAMES]
    assert all("rate 0.25 seed 7" in line for line in lines[:3])
    assert lines[3:] == ["3 of 3 ok"]
    assert [rate(sidecar) for sidecar in fleet] == [0.25] * 3


def test_addresses_with_commas_between_them_are_targets_too(fleet: list[SidecarProcess]) -> None:
    listed = ",".join(sidecar.control_target for sidecar in fleet)
    assert run("--targets", listed, "halt", "--reason", "enough")[-1] == "3 of 3 ok"
    assert all(halted(sidecar) for sidecar in fleet)
    assert all("HALTED" in line for line in run("status", "--targets", listed)[:3])


def test_a_name_that_resolves_is_a_target(fleet: list[SidecarProcess]) -> None:
    address = fleet[2].control_target
    (answer,) = run_json("halt", "--targets", f"dns:{address}")["targets"]
    assert (answer["name"], answer["ok"]) == (address, True)
    assert halted(fleet[2])


def test_rules_are_added_listed_and_removed_everywhere(targets: str, tmp_path: Path) -> None:
    file = tmp_path / "rule.yaml"
    file.write_text(RULE)
    run("rules", "add", str(file), "--targets", targets)
    assert [line.split(maxsplit=2)[2] for line in run("rules", "--targets", targets)[:3]] == [
        "fault_inject idle, shaky armed"
    ] * 3
    run("rules", "remove", "shaky", "--targets", targets)
    assert "shaky" not in "".join(run("rules", "list", "--targets", targets))


def test_every_answer_is_in_the_json(targets: str) -> None:
    answers = run_json("get", "fault_inject.rate", "--targets", targets)
    assert (answers["ok"], answers["failed"]) == (3, 0)
    assert [target["name"] for target in answers["targets"]] == list(NAMES)
    assert answers["targets"][0]["answer"][0]["value"] == 0.0


def test_one_dead_and_one_hanging_are_named_and_the_third_is_changed(
    fleet: list[SidecarProcess], targets: str
) -> None:
    fleet[0].kill()
    with hanging(fleet[1]):
        lines = run("set", "--rate", "0.5", "--targets", targets, "--timeout", "1s", code=1)
    assert lines[0].startswith(f"pod-a  failed  no daemon answers at {fleet[0].control_target}: ")
    assert lines[1].startswith(
        f"pod-b  failed  the daemon at {fleet[1].control_target} did not answer in time"
    )
    assert lines[2].startswith("pod-c  ok      changed: ")
    assert lines[3] == "1 of 3 ok, 2 FAILED"
    assert rate(fleet[2]) == 0.5


def test_the_failures_are_in_the_json(fleet: list[SidecarProcess], targets: str) -> None:
    fleet[0].kill()
    answers = run_json("halt", "--targets", targets, code=1)
    assert (answers["ok"], answers["failed"]) == (2, 1)
    assert [target["ok"] for target in answers["targets"]] == [False, True, True]
    assert "no daemon answers" in answers["targets"][0]["error"]
    assert answers["targets"][0]["answer"] is None


def test_all_or_nothing_sends_nothing_when_one_hangs(fleet: list[SidecarProcess], targets: str) -> None:
    with hanging(fleet[1]):
        words = ("set", "--rate", "0.5", "--targets", targets, "--timeout", "1s", "--all-or-nothing")
        lines = run(*words, code=1)
    assert [line.split(maxsplit=2)[1] for line in lines[:3]] == ["failed"] * 3
    assert lines[0].endswith("nothing was sent: another target failed")
    assert "did not answer in time" in lines[1]
    assert [rate(sidecar) for sidecar in fleet] == [0.0] * 3


def test_all_or_nothing_takes_back_what_was_changed_when_one_refuses(
    fleet: list[SidecarProcess], targets: str, tmp_path: Path
) -> None:
    run("set", "--rate", "0.125", "--targets", targets)
    file = tmp_path / "rule.yaml"
    file.write_text(RULE)
    run("rules", "add", str(file), "--target", fleet[2].control_target)

    lines = run("rules", "add", str(file), "--targets", targets, "--all-or-nothing", code=1)

    assert [line.partition("  failed  ")[2] for line in lines[:2]] == [
        "another target failed; the change was taken back"
    ] * 2
    assert "'shaky' is in force already" in lines[2]
    with ControlClient(fleet[0].control_target) as client:
        assert not client.list_rules().rules
        assert client.get_status().fault_inject.rate == 0.125


def test_a_change_of_somebody_else_is_not_taken_back_with_ones_own(fleet: list[SidecarProcess]) -> None:
    with ControlClient(fleet[0].control_target) as client:
        own = client.set_faults(rate=0.5).change
        client.halt()
        with pytest.raises(Exception, match=f"change {own} is not the last one"):
            client.undo(own)
        assert client.get_status().fault_inject.rate == 0.5


@pytest.mark.parametrize("first", ["set", "reset", "halt", "resume"])
def test_every_kind_of_change_can_be_taken_back(fleet: list[SidecarProcess], first: str) -> None:
    with ControlClient(fleet[0].control_target) as client:
        client.set_faults(rate=0.5)
        if first == "resume":
            client.halt("a reason")
        before = client.get_status()
        make = {"set": lambda: client.set_faults(rate=1.0), "reset": client.reset}
        change = make.get(first, getattr(client, first, None))().change
        assert client.get_status().fault_inject != before.fault_inject
        client.undo(change)
        after = client.get_status()
    assert (after.fault_inject.rate, after.fault_inject.halted, after.halt_reason) == (
        before.fault_inject.rate,
        before.fault_inject.halted,
        before.halt_reason,
    )


def test_a_fleet_behind_tls_is_reached_by_the_name_in_its_certificate(
    tmp_path: Path, certificate: tuple[Path, Path]
) -> None:
    token = tmp_path / "token"
    token.write_text("a-token-that-is-long-enough-1234567890")
    port = free_port()
    tls = {"certificate": str(certificate[0]), "key": str(certificate[1])}
    listen = {"control": f"127.0.0.1:{port}", "tls": tls, "token_file": str(token)}
    access = ("--ca", str(certificate[0]), "--token-file", str(token), "--timeout", "5s")
    with SidecarProcess(BACKEND, listen=listen):
        named = ("--targets", f"127.0.0.1:{port}", "--server-name", "kvchaos-test")
        assert run("status", *named, *access)[-1] == "1 of 1 ok"
        assert "1 FAILED" in run("status", "--targets", f"127.0.0.1:{port}", *access, code=1)[-1]

        stdout = io.StringIO()
        main(["halt", "--json", "--targets", f"dns:localhost:{port}", *access], stdout, io.StringIO())
        answers = {target["name"]: target["ok"] for target in json.loads(stdout.getvalue())["targets"]}
        assert answers[f"127.0.0.1:{port}"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("watch", "--targets", "127.0.0.1:1"), "watch works with one sidecar"),
        (("status", "--targets", "127.0.0.1:1", "--target", "127.0.0.1:2"), "not both"),
        (("status", "--targets", "127.0.0.1:1", "--all-or-nothing"), "makes no change"),
        (("reload", "--targets", "127.0.0.1:1", "--all-or-nothing"), "makes no change"),
        (("halt", "--all-or-nothing"), "goes with --targets"),
        (("rules", "add", "-", "--targets", "127.0.0.1:1"), "standard input"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_sent(
    words: tuple[str, ...], complaint: str
) -> None:
    assert complaint in run(*words, code=2)[0]
