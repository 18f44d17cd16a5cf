"""The command without a daemon."""

import io
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvchaos.cli.main import COMMANDS, main

CONFIG = "version: 1\nbackend: {type: fs, base_path: /data}\nfault_inject: {gap_tail_ratios: [0.5]}\n"


def run(*words: str) -> tuple[int, str, str]:
    stdout, stderr = io.StringIO(), io.StringIO()
    code = main(words, stdout, stderr)
    return code, stdout.getvalue(), stderr.getvalue()


@pytest.fixture
def nowhere() -> Iterator[str]:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield f"unix:{folder}/control.sock"


@pytest.mark.parametrize(
    "command", ["status", "get", "rules", "reload", "halt", "resume", "reset", "drops", "watch"]
)
def test_an_unreachable_daemon_is_one_clear_line(command: str, nowhere: str) -> None:
    code, stdout, stderr = run(command, "--target", nowhere)
    assert (code, stdout) == (1, "")
    assert stderr == (
        f"kvchaos: no daemon answers at {nowhere}: No such file or directory; start kvchaos-sidecar, "
        "or give its control address with --target or KVCHAOS_TARGET\n"
    )


def test_the_target_comes_from_the_environment_unless_given(
    nowhere: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVCHAOS_TARGET", nowhere)
    assert nowhere in run("status")[2]
    assert "at 127.0.0.1:1: " in run("status", "--target", "127.0.0.1:1")[2]
    assert "at 127.0.0.1:1: " in run("--target", "127.0.0.1:1", "status")[2]


def test_a_socket_that_nobody_answers_on_is_given_up_in_time() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder, socket.socket(socket.AF_UNIX) as silent:
        silent.bind(f"{folder}/s")
        silent.listen()
        code, _, stderr = run("status", "--target", f"unix:{folder}/s", "--timeout", "300ms")
    assert code == 1
    assert "did not answer in time" in stderr


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["status", "--target", "nonsense"], "target 'nonsense' is neither"),
        (["set"], "nothing to set; give --rate, --seed, --gap-indices or --gap-tail-ratios"),
        (
            ["status", "--token-file", "/no/such"],
            "--token-file: cannot read /no/such: No such file or directory",
        ),
        (["status", "--ca", "/no/such", "--target", "127.0.0.1:1"], "cannot read '/no/such'"),
        (["explain", "/no/such.json"], "/no/such.json: cannot be read: No such file or directory"),
        (["explain", "--num-chunks", "10001"], "--num-chunks 10001 is over the limit of 10000"),
        (["validate", "/no/such.yaml"], "/no/such.yaml: cannot be read: No such file or directory"),
    ],
)
def test_bad_input_ends_with_2_and_the_fix(words: list[str], problem: str) -> None:
    code, stdout, stderr = run(*words)
    assert (code, stdout) == (2, "")
    assert stderr.startswith("kvchaos: ")
    assert problem in stderr


@pytest.mark.parametrize(
    "words",
    [[], ["nonsense"], ["set", "--rate", "1.5"], ["explain"], ["explain", "k.json", "--num-chunks", "1"]],
)
def test_a_malformed_command_line_ends_with_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run(*words)
    assert caught.value.code == 2
    assert "kvchaos" in capsys.readouterr().err


@pytest.mark.parametrize("command", [command.NAME for command in COMMANDS])
def test_every_command_has_a_help_text(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run(command, "--help")
    assert caught.value.code == 0
    assert "--json" in capsys.readouterr().out


def test_a_file_is_validated_without_a_daemon(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG)
    code, stdout, _ = run("validate", str(path))
    assert code == 0
    assert stdout.startswith(f"{path}: valid\n")
    assert "fault_inject.gap_tail_ratios  [0.5]" in stdout
    code, stdout, _ = run("validate", str(path), "--json")
    assert {"path": "version", "value": 1, "source": "file", "expires_at": None} in json.loads(stdout)


def test_every_problem_of_a_file_is_on_a_line_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("version: 1\nbackend: {type: fs, bas_path: /x}\nfault_inject: {rate: 1.5}\n")
    code, _, stderr = run("validate", str(path))
    assert code == 2
    assert stderr.splitlines() == [
        f"kvchaos: {path}: 3 problems:",
        "  backend.base_path: missing, it is required",
        "  backend.bas_path: unknown key; did you mean base_path?",
        "  fault_inject.rate: 1.5 is not in [0, 1]",
    ]


def test_a_batch_is_explained_without_a_daemon(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG)
    code, stdout, _ = run("explain", "--num-chunks", "8", "--config", str(path))
    assert code == 0
    assert stdout.startswith("1 of 8 positions are hit, by generation 1 of the rules\n")
    assert "round((1 - 0.5) * 7) = 4" in stdout
    code, stdout, _ = run("explain", "--num-chunks", "8", "--config", str(path), "--json")
    explained = json.loads(stdout)
    assert [found["position"] for found in explained["positions"]] == [4]
    assert (explained["batch_size"], explained["halted"]) == (8, False)


def test_without_the_sidecars_packages_the_extra_is_named(tmp_path: Path) -> None:
    """A Python that sees the client library and gRPC, but no installed distribution of kvchaos."""
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG)
    program = (
        "import importlib.metadata, sys\n"
        "importlib.metadata.entry_points = lambda **_: importlib.metadata.EntryPoints()\n"
        "from kvchaos.cli.main import main\n"
        f"sys.exit(main(['validate', {str(path)!r}], sys.stdout, sys.stderr))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == (
        "kvchaos: reading a configuration file needs the sidecar's packages: "
        'pip install "kvchaos[sidecar]"\n'
    )


def test_a_reader_that_leaves_is_no_traceback(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG)
    read_end, write_end = os.pipe()
    os.close(read_end)
    command = str(Path(sys.executable).parent / "kvchaos")
    done = subprocess.run(
        [command, "validate", str(path)], stdout=write_end, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(write_end)
    assert (done.returncode, done.stderr) == (1, "")
