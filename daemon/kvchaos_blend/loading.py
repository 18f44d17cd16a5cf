"""Finds and loads a Hugging Face causal language model: an id, a local directory, or a GGUF file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

from kvchaos_blend.errors import ModelError
from kvchaos_blend.geometry import DTYPES


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model and, when it comes with one, its tokenizer."""

    hf_model: Any
    tokenizer: Any | None
    name: str
    """What it was asked for as."""


def choose_device(name: str) -> torch.device:
    """The device called "auto", "cpu" or "cuda".

    Raises:
        ModelError: an unknown name, or there is no such device.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name not in ("cpu", "cuda"):
        raise ModelError(f"unknown device {name!r}; known: auto, cpu, cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise ModelError("device cuda: torch finds no CUDA device; use --device cpu")
    return torch.device(name)


def choose_dtype(name: str) -> torch.dtype:
    """The dtype of that name. Raises ModelError that lists the known ones."""
    if name not in DTYPES:
        raise ModelError(f"unknown dtype {name!r}; known: {', '.join(DTYPES)}")
    return DTYPES[name]


def load(source: str, dtype: torch.dtype, device: torch.device, allow_download: bool = False) -> LoadedModel:
    """Loads weights and tokenizer. Nothing is fetched from the network unless ``allow_download``.

    Raises:
        ModelError: it is not there, or transformers cannot read it.
    """
    place, options = _locate(source)
    options["local_files_only"] = not allow_download
    try:
        quantization = {"quantization_config": GgufConfig(dequantize=True)} if "gguf_file" in options else {}
        hf_model = AutoModelForCausalLM.from_pretrained(place, dtype=dtype, **options, **quantization)
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise ModelError(f"model {source}: {_first_line(error)}{_hint(source, allow_download)}") from error
    return LoadedModel(hf_model.to(device).eval(), _tokenizer(place, options), source)


def _locate(source: str) -> tuple[str, dict[str, Any]]:
    path = Path(source)
    if path.suffix != ".gguf":
        return source, {}
    if not path.is_file():
        raise ModelError(f"model {source}: no such file")
    return str(path.parent), {"gguf_file": path.name}


def _tokenizer(place: str, options: dict[str, Any]) -> Any | None:
    try:
        return AutoTokenizer.from_pretrained(place, **options)
    except (OSError, ValueError, KeyError):
        return None


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0] or type(error).__name__


def _hint(source: str, allow_download: bool) -> str:
    if Path(source).exists() or allow_download:
        return ""
    return " (looked at local files only; --allow-download fetches a Hugging Face id)"
