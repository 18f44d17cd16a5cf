"""Finding and loading models."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.harness.blend import CONFIGS, smollm2_gguf
from tests.harness.blend import random_model as tiny_model
from transformers import GPT2Config

from kvchaos_blend.attention.sdpa_gaps import SdpaGaps
from kvchaos_blend.errors import ModelError
from kvchaos_blend.loading import choose_device, choose_dtype, load
from kvchaos_blend.model import CausalModel

CPU = torch.device("cpu")


def test_a_local_directory_is_loaded_in_the_asked_dtype(tmp_path: Path) -> None:
    tiny_model(CONFIGS["llama"]()).hf_model.save_pretrained(tmp_path)
    loaded = load(str(tmp_path), torch.bfloat16, CPU)
    assert loaded.hf_model.dtype == torch.bfloat16
    assert loaded.tokenizer is None


@pytest.mark.slow
def test_real_weights_are_loaded_from_a_gguf_file_with_their_tokenizer() -> None:
    loaded = load(str(smollm2_gguf()), torch.float32, CPU)
    model = CausalModel(loaded, SdpaGaps())
    assert model.geometry.describe() == "30 layers, 3 KV heads of 64, float32"
    assert model.max_positions == 8192
    assert model.decode(model.encode("The capital of France")) == "The capital of France"


def test_what_is_not_there_is_named_with_the_fix() -> None:
    with pytest.raises(ModelError, match=r"model nobody/nothing: .*--allow-download"):
        load("nobody/nothing", torch.float32, CPU)


def test_a_missing_gguf_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such file"):
        load(str(tmp_path / "absent.gguf"), torch.float32, CPU)


def test_a_directory_without_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=str(tmp_path)):
        load(str(tmp_path), torch.float32, CPU)


def test_a_file_that_is_no_gguf_is_named(tmp_path: Path) -> None:
    (tmp_path / "noise.gguf").write_bytes(b"noise")
    with pytest.raises(ModelError, match=r"noise\.gguf"):
        load(str(tmp_path / "noise.gguf"), torch.float32, CPU)


def test_an_unsupported_architecture_is_refused_with_the_supported_ones() -> None:
    config = GPT2Config(vocab_size=64, n_embd=16, n_layer=1, n_head=2)
    with pytest.raises(ModelError, match="'gpt2' is not supported; supported: llama, mistral, qwen2, qwen3"):
        CausalModel(tiny_model(config), SdpaGaps())


def test_a_text_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    model = CausalModel(tiny_model(CONFIGS["llama"]()), SdpaGaps())
    with pytest.raises(ModelError, match="has no tokenizer; give token ids"):
        model.encode("text")
    assert model.decode([1, 2]) == ""


def test_unknown_devices_and_dtypes_are_refused_with_the_known_ones() -> None:
    with pytest.raises(ModelError, match="unknown device 'tpu'; known: auto, cpu, cuda"):
        choose_device("tpu")
    with pytest.raises(ModelError, match="unknown dtype 'int8'; known: float32, bfloat16, float16"):
        choose_dtype("int8")
    assert choose_device("cpu") == CPU


@pytest.mark.skipif(torch.cuda.is_available(), reason="asks what happens without a GPU")
def test_without_a_gpu_auto_is_the_cpu_and_cuda_is_refused() -> None:
    assert choose_device("auto") == CPU
    with pytest.raises(ModelError, match="use --device cpu"):
        choose_device("cuda")
