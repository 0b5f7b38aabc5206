"""Recipes: settings only, filled in from the data, found by name."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import weft
from weft.core import config
from weft.core.errors import CheckpointError, ConfigError
from weft.data.text.token_windows import TextConfig
from weft.models.base import ModelConfig
from weft.models.language.gpt import GPTConfig
from weft.objectives.language.next_token import NextTokenConfig
from weft.recipes import base
from weft.recipes.base import Recipe
from weft.training.optimizer.settings import AdamW


def made(**model: object) -> Recipe:
    return Recipe(data=TextConfig(path="x"), model=GPTConfig(**model), objective=NextTokenConfig(), optim=AdamW())  # type: ignore[arg-type]


def test_empty_fields_are_facts_of_the_data() -> None:
    info = {"vocabulary": 65, "context": 32, "bytes_per_token": 1.25, "tokens": 32}
    resolved = made().resolve(info)
    assert (resolved.model.vocabulary, resolved.model.context) == (65, 32)  # type: ignore[attr-defined]
    assert resolved.objective.bytes_per_token == 1.25  # type: ignore[attr-defined]
    assert resolved.resolve({"vocabulary": 7}) == resolved


def test_what_was_given_is_kept() -> None:
    assert made(vocabulary=100).resolve({"vocabulary": 65}).model.vocabulary == 100  # type: ignore[attr-defined]


def test_tokens_that_the_data_adds_get_room() -> None:
    info = {"vocabulary": 68, "added_tokens": 3}
    for has, gets in ((65, 68), (66, 68), (67, 68), (68, 68), (100, 100), (0, 68)):
        assert made(vocabulary=has).resolve(info).model.vocabulary == gets  # type: ignore[attr-defined]
    for has, told in ((64, info), (65, {"vocabulary": 68})):
        with pytest.raises(ConfigError, match=rf"--model\.vocabulary is {has}, but the data has 68"):
            made(vocabulary=has).resolve(told)


def test_a_context_that_is_too_short_names_the_flag_to_lower() -> None:
    said = r"the model has a context of 64 tokens, but --data\.{0} {1} makes sequences of up to {2}; lower it to {3}, or take a model with"
    with pytest.raises(ConfigError, match=said.format("context", 256, 256, 64)):
        made(context=64).resolve({"context": 256})
    recipe = weft.recipe("transformer/pairs", {"model.context": 64, "data.max_length": 100})
    with pytest.raises(ConfigError, match=said.format("max_length", 100, 102, 62)):
        recipe.resolve({"vocabulary": 9, "context": 102})
    with pytest.raises(ConfigError, match=r"--model\.context is -1"):
        made(context=-1).resolve({"context": 256})
    assert made(context=64).resolve({"context": 64}).model.context == 64  # type: ignore[attr-defined]


@dataclass(frozen=True, kw_only=True)
class Switches(ModelConfig):
    flag: bool = False
    shape: tuple[int, ...] = ()
    name: str = ""
    rate: float = 0.0


def test_only_numbers_and_shapes_are_empty() -> None:
    resolved = base._fill(Switches(), {"flag": True, "shape": (1, 8, 8), "name": "x", "rate": 0.5})
    assert resolved == Switches(flag=False, shape=(1, 8, 8), name="", rate=0.5)


def test_the_public_names_are_those_of_the_base_module() -> None:
    assert weft.recipe("gpt/text", {"model.width": 64}).model.width == 64  # type: ignore[attr-defined]
    assert weft.Recipe is Recipe


def test_changes_do_not_touch_the_registered_recipe() -> None:
    assert weft.recipe("gpt/text", {"model.width": 64}) != weft.recipe("gpt/text")
    assert weft.recipe("gpt/text") == weft.recipe("gpt/text")


def test_a_wrong_recipe_suggests_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'gpt/text'"):
        weft.recipe("gpt/tex")


def test_public_names() -> None:
    assert set(weft.__all__) >= {"Recipe", "recipe", "train", "load", "evaluate", "convert"}
    with pytest.raises(CheckpointError, match="no such file or folder"):
        weft.convert("nowhere", "there")
    with pytest.raises(AttributeError, match="has no attribute 'trian'"):
        _ = weft.trian  # type: ignore[attr-defined]


def test_two_recipes_differ_in_what_was_changed() -> None:
    first, second = (config.to_dict(weft.recipe("gpt/text", {"optim.lr": rate})) for rate in (0.1, 0.2))
    assert config.difference(first, second) == ["optim.lr: 0.1 -> 0.2"]
