"""The command line, up to where it needs a model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.harness.blend import CONFIGS, random_model

from kvchaos_blend.main import run

BAD_INPUT = 2


@pytest.fixture
def model_directory(tmp_path: Path) -> Path:
    directory = tmp_path / "model"
    random_model(CONFIGS["llama"]()).hf_model.save_pretrained(directory)
    return directory


def test_a_plan_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", "--prompt-tokens", "80", "--chunk-tokens", "16", "--missing", "2", "--json"]
    assert run(words) == 0
    assert json.loads(capsys.readouterr().out)["kept_chunks"] == [0, 1]
    assert run([*words, "--enable-segmented-prefix"]) == 0
    assert json.loads(capsys.readouterr().out)["kept_chunks"] == [0, 1, 3, 4]


def test_a_report_goes_to_a_file_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "--prompt-tokens", "80", "--report", str(tmp_path / "plan.json")]) == 0
    assert json.loads((tmp_path / "plan.json").read_text())["prompt_tokens"] == 80
    assert "plan, policy prefix" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["plan", "--prompt-tokens", "80", "--missing", "9"], "missing chunk 9 is not one of"),
        (["plan", "--prompt-tokens", "0"], "both must be at least 1"),
        (["recover", "--text", "x", "--model", "/nowhere/at/all"], "model /nowhere/at/all"),
        (["recover", "--text", "x", "--model", "m@1"], "must not contain '@'"),
        (["recover", "--text", "x", "--model", "m", "--target", "nonsense"], "nonsense"),
        (["recover", "--text", "x", "--model", "m", "--dtype", "int8"], "unknown dtype 'int8'"),
        (["recover", "--text", "x", "--model", "m", "--device", "tpu"], "unknown device 'tpu'"),
        (["recover", "--text", "x", "--model", "m", "--attention", "eager"], "unknown attention 'eager'"),
        (["recover", "--text", "x", "--model", "m", "--chunk-tokens", "0"], "chunk_tokens 0"),
        (["recover", "--text", "x", "--model", "m", "--token-file", "/absent"], "--token-file /absent"),
        (["serve", "--model", "m", "--listen", "0.0.0.0:1"], "use a Unix socket or 127.0.0.1"),
        (["serve", "--model", "m", "--http", "9471"], "expected HOST:PORT"),
    ],
)
def test_bad_input_is_named_and_ends_with_2(
    words: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == BAD_INPUT
    error = capsys.readouterr().err
    assert error.startswith("kvchaos-blend: ")
    assert reason in error


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--text", "x"], "has no tokenizer; give token ids"),
        (["--random-tokens", "0"], "the prompt is empty"),
        (["--random-tokens", "600"], "the model has 512"),
        (["--random-tokens", "20", "--ranks", "3"], "cannot be split over 3 ranks"),
        (["--random-tokens", "20", "--pool-tokens", "0"], "must be at least 1"),
        (["--tokens-file", "{dir}/absent.json"], "absent.json"),
        (["--tokens-file", "{dir}/text.json"], "not JSON"),
        (["--tokens-file", "{dir}/strings.json"], "expected a list of integers"),
    ],
)
def test_a_bad_prompt_is_named_and_ends_with_2(
    tmp_path: Path,
    model_directory: Path,
    arguments: list[str],
    reason: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "text.json").write_text("not json")
    (tmp_path / "strings.json").write_text('["a", true]')
    words = [argument.format(dir=tmp_path) for argument in arguments]
    target = f"unix:{tmp_path}/no.sock"
    assert run(["recover", *words, "--model", str(model_directory), "--target", target]) == BAD_INPUT
    assert reason in capsys.readouterr().err


def test_without_a_store_the_answer_still_comes(
    tmp_path: Path, model_directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["recover", "--random-tokens", "100", "--chunk-tokens", "16", "--model", str(model_directory)]
    words += [
        "--target",
        f"unix:{tmp_path}/no.sock",
        "--json",
        "--verify",
        "--plot",
        str(tmp_path / "plot.png"),
    ]
    assert run(words) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["outcome"] == "recovered"
    assert report["plan"]["tokens"] == {"loaded": 0, "recomputed": 100, "dropped": 0}
    assert "lookup failed" in report["warnings"][0]
    assert (tmp_path / "plot.png").stat().st_size > 0


def test_a_store_that_cannot_be_reached_fails(
    tmp_path: Path, model_directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["store", "--random-tokens", "100", "--chunk-tokens", "16", "--model", str(model_directory)]
    assert run([*words, "--target", f"unix:{tmp_path}/no.sock"]) == 1
    assert "6 not stored: unavailable" in capsys.readouterr().out


def test_every_command_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("serve", "recover", "store", "verify", "plan"):
        with pytest.raises(SystemExit) as ended:
            run([command, "--help"])
        assert ended.value.code == 0
    assert "--enable-segmented-prefix" in capsys.readouterr().out
