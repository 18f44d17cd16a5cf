"""Pydantic's validation errors as lines for a person: the place, the value and the fix."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

Location = tuple[int | str, ...]

_SECRET_WORDS = ("password", "secret", "token", "credential", "access_key", "api_key")
_SHOWN_CHARACTERS = 60


def problems_of(error: ValidationError, model: type[BaseModel], prefix: str = "") -> list[str]:
    """One line for each problem, each naming its place below ``prefix``.

    ``model`` is the one that was validated; its field names serve for suggestions.
    """
    return [_line(details, model, prefix) for details in error.errors(include_url=False)]


def shown(value: object) -> str:
    """A value as YAML would write it, cut to a readable length."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."


def is_secret(name: str) -> bool:
    """Whether a field of that name holds a secret, which no message may show."""
    return not name.endswith("_file") and any(word in name.lower() for word in _SECRET_WORDS)


def suggestion(name: str, known: Sequence[str]) -> str:
    """What to write instead of a name that is not known."""
    nearest = get_close_matches(name.lower(), known, n=1, cutoff=0.6)
    return f"did you mean {nearest[0]}?" if nearest else f"known are {', '.join(known)}"


def _line(details: ErrorDetails, model: type[BaseModel], prefix: str) -> str:
    steps, owner = _follow(details["loc"], model)
    kind = details["type"]
    if kind == "extra_forbidden":
        message = f"unknown key; {suggestion(str(steps[-1]), _names_of(owner))}"
    elif kind in ("union_tag_invalid", "union_tag_not_found"):
        steps = (*steps, "type")
        message = _wrong_tag(details)
    elif kind == "value_error":
        message = str(details["ctx"]["error"])
    elif kind in _MESSAGES:
        value = "the value" if steps and is_secret(str(steps[-1])) else shown(details["input"])
        message = _MESSAGES[kind](value) + _known_keys(kind, steps, owner)
    else:
        message = details["msg"]
    place = _path(steps, prefix)
    return f"{place}: {message}" if place else message


def _known_keys(kind: str, steps: Location, owner: type[BaseModel]) -> str:
    """Where a mapping is missing: what its keys are."""
    field = owner.model_fields.get(str(steps[-1])) if steps else None
    models = _models_in(field.annotation) if field and kind.startswith("model_") else []
    return f"; its keys are {', '.join(_names_of(models[0]))}" if len(models) == 1 else ""


def _names_of(model: type[BaseModel]) -> list[str]:
    """The names of a model's fields, as a file writes them."""
    return [field.alias or name for name, field in model.model_fields.items()]


def _wrong_tag(details: ErrorDetails) -> str:
    tags = [tag.strip("' ") for tag in details["ctx"].get("expected_tags", "").split(",") if tag]
    if not tags:
        return "missing, it is required"
    tag = str(details["ctx"]["tag"])
    return f"{shown(tag)} is not one of {', '.join(tags)}; {suggestion(tag, tags)}"


def _follow(location: Location, model: type[BaseModel]) -> tuple[Location, type[BaseModel]]:
    """The steps that a person sees (pydantic adds the tag of a union), and the model of the last step."""
    visible: list[int | str] = []
    owner, candidates = model, [model]
    for step in location:
        tagged = [candidate for candidate in candidates if _tag_of(candidate) == step]
        if tagged and len(candidates) > 1:
            candidates = tagged
            continue
        visible.append(step)
        if candidates and not isinstance(step, int):
            owner = candidates[0]
            field = owner.model_fields.get(str(step))
            candidates = _models_in(field.annotation) if field else []
    return tuple(visible), owner


def _tag_of(model: type[BaseModel]) -> object:
    field = model.model_fields.get("type")
    return next(iter(get_args(field.annotation)), None) if field else None


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in get_args(annotation) for model in _models_in(argument)]


def _path(steps: Location, prefix: str) -> str:
    path = prefix
    for step in steps:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
    return path


_MESSAGES: Mapping[str, Callable[[str], str]] = {
    "missing": lambda _: "missing, it is required",
    "int_type": lambda value: f"{value} is not an integer",
    "float_type": lambda value: f"{value} is not a number" + ("; write 5% as 0.05" if "%" in value else ""),
    "string_type": lambda value: f"{value} is not text; put it in quotes",
    "string_sub_type": lambda value: f"{value} is not text; put it in quotes",
    "string_too_short": lambda _: "must not be empty",
    "tuple_type": lambda value: f"{value} is not a list; write [{value}]",
    "dict_type": lambda value: f"{value} is not a mapping of names to values",
    "model_type": lambda value: f"{value} is not a mapping of names to values",
    "model_attributes_type": lambda value: f"{value} is not a mapping of names to values",
}
