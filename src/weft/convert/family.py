"""What one foreign family is: how its settings and its weights are written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from weft.convert.table import Table
from weft.core.errors import CheckpointError
from weft.models.base import ModelConfig


@dataclass(frozen=True)
class Family:
    recipe: str
    """The recipe that a converted model comes with: what it is trained further by."""
    config: type[ModelConfig]
    """Settings of our own model."""
    settings: Callable[[dict[str, Any]], ModelConfig]
    """Their config.json -> our settings."""
    describe: Callable[[Any], dict[str, Any]]
    """Our settings -> their config.json, with "architectures" and "model_type"."""
    table: Callable[[Any], Table]
    """Our settings -> the table of names."""
    fresh: tuple[str, ...] = ()
    """Parts of our own that a foreign model may lack (heads): they start afresh."""
    finetuned: Callable[[Any], str] | None = None
    """Our settings -> the recipe of a model for another task, or none."""

    special_tokens: Callable[[dict[str, Any]], tuple[int, int]] | None = None
    """Their config.json -> the ids that a target begins and ends with, of a model with an encoder and a decoder."""

    def recipe_of(self, settings: ModelConfig) -> str:
        """The recipe that a model with these settings comes with."""
        return (self.finetuned and self.finetuned(settings)) or self.recipe


def need(config: dict[str, Any], **wanted: Any) -> None:
    """Refuse a foreign model whose settings ask for something we do not have."""
    for name, value in wanted.items():
        if config.get(name) not in (None, value):
            raise CheckpointError(f"config.json: {name} is {config[name]!r}; weft's model of this family has only {value!r}")


def target_special_tokens(padding: int, end: int) -> Callable[[dict[str, Any]], tuple[int, int]]:
    """What config.json says of a target's first and last token; these two where it says nothing, as padding usually begins one."""

    def read(config: dict[str, Any]) -> tuple[int, int]:
        values: dict[str, Any] = {"pad_token_id": padding, "eos_token_id": end} | {k: v for k, v in config.items() if v is not None}
        last = values["eos_token_id"]
        return values.get("decoder_start_token_id", values["pad_token_id"]), last[0] if isinstance(last, list) and last else last

    return read


def only(config: ModelConfig, **wanted: Any) -> None:
    """Refuse to write a model of ours in a format that has no place for one of its settings."""
    for name, value in wanted.items():
        if getattr(config, name) != value:
            raise CheckpointError(f"the model has {name} {getattr(config, name)!r}; this foreign format has only {value!r}")


def setting(config: dict[str, Any], *names: str) -> Any:
    """What config.json says under any of several names for one thing, which must agree."""
    values = {name: config[name] for name in names if config.get(name) is not None}
    if not values:
        raise CheckpointError(f"config.json: {names[0]!r} is missing")
    first, *others = values.values()
    if any(other != first for other in others):
        said = " and ".join(f"{name} {value!r}" for name, value in values.items())
        raise CheckpointError(f"config.json: {said} name one thing, but differ")
    return first


ACTIVATIONS = {"gelu": "gelu", "gelu_tanh": "gelu_new", "relu": "relu", "silu": "silu", "squared_relu": "relu2"}
"""Our name of an activation -> theirs."""
OTHER_NAMES = {"gelu_pytorch_tanh": "gelu_tanh", "gelu_fast": "gelu_tanh", "swish": "silu"}


def activation(name: str) -> str:
    """Their name of an activation -> ours."""
    known = {theirs: ours for ours, theirs in ACTIVATIONS.items()} | OTHER_NAMES
    if name not in known:
        raise CheckpointError(f"config.json: weft has no activation {name!r}; it has {', '.join(known)}")
    return known[name]
