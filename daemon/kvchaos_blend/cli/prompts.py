"""Prompts on the command line."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path

import torch

from kvchaos_blend.errors import PromptError
from kvchaos_blend.model import CausalModel


def add_prompt_arguments(parser: ArgumentParser) -> None:
    """Adds the ways to give a prompt, of which exactly one must be used."""
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--text", help="the prompt as text")
    group.add_argument("--text-file", type=Path, metavar="FILE", help="a file with the prompt as UTF-8 text")
    group.add_argument(
        "--tokens-file", type=Path, metavar="FILE", help="a JSON file with a list of token ids"
    )
    group.add_argument(
        "--random-tokens", type=int, metavar="N", help="N random token ids, the same every time"
    )


def read_prompt(arguments: Namespace, model: CausalModel) -> tuple[int, ...]:
    """The prompt's token ids.

    Raises:
        PromptError: a file that does not hold what it should.
        ModelError: a text for a model without a tokenizer.
        OSError: a file that cannot be read.
    """
    if arguments.text is not None:
        return tuple(model.encode(arguments.text))
    if arguments.text_file is not None:
        return tuple(model.encode(_text(arguments.text_file)))
    if arguments.tokens_file is not None:
        return _token_ids(arguments.tokens_file)
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randint(0, model.vocabulary, (max(arguments.random_tokens, 0),), generator=generator)
    return tuple(drawn.tolist())


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise PromptError(f"{path}: not UTF-8 text: {error.reason} at byte {error.start}") from error


def _token_ids(path: Path) -> tuple[int, ...]:
    try:
        values = json.loads(path.read_bytes())
    except ValueError as error:
        raise PromptError(f"{path}: not JSON: {error}") from error
    if not isinstance(values, list) or not all(type(value) is int for value in values):
        raise PromptError(f"{path}: expected a list of integers")
    return tuple(values)
