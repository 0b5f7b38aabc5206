"""Old names still work for one version, are answered with the new ones, and stand in core/renamed.py alone."""

from __future__ import annotations

import dataclasses
import re
import tokenize
from pathlib import Path
from typing import Any

import pytest

import weft
from tests.gpt_configs import gpt_config
from weft.cli import data as cli_data
from weft.cli import plan_words, sample, serve
from weft.core import config, registry, renamed
from weft.core.errors import ConfigError
from weft.data.images.augment import Augment
from weft.data.tokenizers import base as tokenizers
from weft.models.gpt import GPTConfig
from weft.models.speedrun_gpt import SpeedrunGPTConfig
from weft.recipes.base import load
from weft.studies import bert_features, gan_panels
from weft.training.schedule import Schedule
from weft.training.settings import Train

ROOT = Path(__file__).parent.parent.parent
SOURCES = [path for path in sorted((ROOT / "src" / "weft").rglob("*.py")) if path.name != "renamed.py"]
COMMANDS = {"sample": sample.Options, "serve": serve.Options, "plan_words": plan_words.Settings} | {
    "data": cli_data.Python,
    "bert_features": bert_features.Settings,
    "gan_panels": gan_panels.Settings,
}
"""Flags of commands, by their modules."""
PLAIN = {"train": Train, "schedule": Schedule, "augment": Augment} | COMMANDS
"""Parts without a registry name."""
PART_OF = {"models": "model", "data": "data", "objectives": "objective", "optimizers": "optim"}
OLD = {
    *("Cache", "Store", "Reader", "Steps", "one_row", "Flight", "Choosers", "told", "SourceEngine", "WholeEngine", "Filling", "Teller"),
    *("marks", "Held", "Found", "rise", "fall", "_turns", "RoundedLinear", "FewRows", "token_loss", "tuned_products", "wide_block"),
    *("Halves", "mark", "judge", "pretence", "cpu_block", "telling", "keeping"),
    *("depth_dropout", "halvings", "bottleneck", "discriminator_turns", "rest_lr", "TwoFoldersConfig", "DrawsConfig"),
    *("WavesConfig", "SentinelsConfig", "MemoryConfig", "MarkedTokenizer", "AnsweringTokenizer", "MarkedCharacters"),
}
"""Identifiers that the field has another word for."""
STILL_THERE: set[str] = {"bottleneck"}
"""A word with another meaning: `--bottleneck` of the birthplace assignment's own command."""


def class_of(part: str) -> Any:
    return PLAIN[part] if part in PLAIN else registry.config_class(part)


def fields(part: str) -> set[str]:
    return {field.name for field in dataclasses.fields(class_of(part))}


@pytest.mark.parametrize("part", sorted(renamed.SETTINGS))
def test_every_new_name_is_a_setting_and_no_old_one(part: str) -> None:
    names = renamed.SETTINGS[part]
    assert set(names.values()) <= fields(part)
    assert not set(names) & fields(part)


def test_every_new_registry_name_is_registered_and_no_old_one() -> None:
    parts = {name for table in registry.CONFIG_TABLES for name in registry.TABLES[table]}
    assert set(renamed.TYPES.values()) <= parts and not set(renamed.TYPES) & parts
    assert set(renamed.TOKENIZERS.values()) <= set(registry.TOKENIZERS) and not set(renamed.TOKENIZERS) & set(registry.TOKENIZERS)


def identifiers() -> set[str]:
    found = set()
    for path in SOURCES:
        with path.open("rb") as file:
            found |= {token.string for token in tokenize.tokenize(file.readline) if token.type == tokenize.NAME}
    return found


def test_no_old_identifier_is_left() -> None:
    found = identifiers() & OLD
    assert found - STILL_THERE == set()
    assert STILL_THERE - found == set(), "gone from the code; take them out of STILL_THERE"


def flags() -> re.Pattern[str]:
    """Old settings as flags or in quotes: those that no part of the same kind has under this name."""
    words = [f"{part}[.]{name}" for part in PLAIN for name in renamed.SETTINGS[part]]
    for table, flag in PART_OF.items():
        mine = [part for part in registry.TABLES[table] if part in renamed.SETTINGS]
        taken = set().union(*(fields(part) for part in registry.TABLES[table]))
        words += [f"{flag}[.]{name}" for part in mine for name in renamed.SETTINGS[part] if name not in taken]
    mine = {name for part in COMMANDS for name in renamed.SETTINGS[part]}
    return re.compile(
        rf"""(?:--|["'`])(?:[a-z_]+[.])*(?:{"|".join(sorted(set(words)))})(?![\w-])|--(?:{"|".join(sorted(mine))})(?![\w.-])""".replace(
            "_", "[_-]"
        )
    )


def test_no_old_flag_is_left_in_code_messages_or_docs() -> None:
    pattern, pages = flags(), [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    assert pattern.search("--train.micro 4") and pattern.search('"train.keep"') and pattern.search("--model.norm-heads")
    assert not pattern.search("--train.micro_batch 4") and not pattern.search("--train.keep-checkpoints")
    here = [path for path in (ROOT / "tests").rglob("*.py") if path.name not in ("test_renamed.py", "test_format3.py")]
    found = [(str(path), match.group()) for path in [*SOURCES, *pages, *here] for match in pattern.finditer(path.read_text())]
    assert found == []


# -- what is given under an old name -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("recipe", "old", "value", "new", "wanted"),
    [
        ("gpt/text", "train.micro", 4, "train.micro_batch", 4),
        ("gpt/text", "train.activations", "inputs", "train.activation_checkpointing", "full"),
        ("gpt/text", "train.activations", "auto", "train.activation_checkpointing", "auto"),
        ("gpt/text", "optim.schedule.floor", 0.1, "optim.schedule.min_lr_ratio", 0.1),
        ("gan/digits", "optim.generator.schedule.floor", 0.1, "optim.generator.schedule.min_lr_ratio", 0.1),
        ("vit/images", "data.augment.colour", 0.2, "data.augment.color_jitter", 0.2),
        ("llama/text", "model.groups", 2, "model.kv_heads", 2),
        ("bert/sst2", "data.unit", "bert_words", "data.tokenizer", "bert_words"),
    ],
)
def test_an_old_setting_works_and_is_answered_with_the_new_one(
    recipe: str, old: str, value: Any, new: str, wanted: Any, caplog: pytest.LogCaptureFixture
) -> None:
    changed = weft.recipe(recipe, {old: value})
    assert config.leaves(changed)[new][1] == wanted
    assert caplog.messages == [f"--{old} is now called --{new}"]
    assert changed == weft.recipe(recipe, {new: wanted})


@pytest.mark.parametrize("words", ["--model.norm-heads", "--model.norm_heads true", "--model.norm-heads=true"])
def test_an_old_flag_works(words: str, caplog: pytest.LogCaptureFixture) -> None:
    free, flags = config.separate([*words.split(), "--train.ramp", "4", "100", "rest"], weft.recipe("gpt/text"))
    made = config.parse_flags(flags, weft.recipe("gpt/text"))
    assert (free, made.model) == (["rest"], with_qk_norm(weft.recipe("gpt/text").model))
    assert made == dataclasses.replace(weft.recipe("gpt/text", {"train.batch_ramp": (4, 100)}), model=made.model)
    assert len(caplog.messages) == 2


def with_qk_norm(model: Any) -> GPTConfig:
    return gpt_config(**{field.name: getattr(model, field.name) for field in dataclasses.fields(model)}, qk_norm=True)


def test_the_opposite_of_an_old_flag_works() -> None:
    changed = config.parse_flags([["--model.no-norm-heads"]], weft.recipe("gpt/speedrun"))
    assert changed == weft.recipe("gpt/speedrun", {"model.qk_norm": False})


def test_settings_that_another_model_has_now_are_switched_on_alone() -> None:
    """A GPT with some of the speedrun's settings is the speedrun's model without the others, in flags and in what was saved."""
    model = weft.recipe("gpt/text", {"model.skips": True, "model.norm_embedding": True}).model
    assert isinstance(model, SpeedrunGPTConfig)
    assert (model.embedding_skips, model.embedding_norm, model.qk_norm, model.zero_init) == (True, True, False, False)
    assert (model.activation, model.tied, model.bias) == ("gelu", True, True)
    now = config.to_dict(weft.recipe("gpt/text").model)
    before = {**now, "skips": False, "norm_embedding": False, "norm_heads": False, "zero_outputs": False}
    assert renamed.recipe(before) == now
    assert config.from_dict(renamed.recipe({**before, "skips": True, "norm_embedding": True}), GPTConfig) == model


def test_an_old_setting_belongs_to_its_part(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ConfigError, match="GPTConfig has no field 'groups'"):
        weft.recipe("gpt/text", {"model.groups": 2})
    with pytest.raises(ConfigError, match="Train has no field 'floor'"):
        weft.recipe("gpt/text", {"train.floor": 2})
    assert caplog.messages == []


def test_an_old_registry_name_works(caplog: pytest.LogCaptureFixture) -> None:
    assert registry.find("data", "waves") is registry.find("data", "audio") is registry.config_class("waves")
    assert registry.find("tokenizers", "pairs").name == "seq2seq"
    assert caplog.messages == [
        "'waves' (data) is now called 'audio'",
        "'waves' is now called 'audio'",
        "'pairs' (tokenizers) is now called 'seq2seq'",
    ]
    with pytest.raises(ConfigError):
        registry.find("models", "waves")


# -- what was saved under old names --------------------------------------------------------------------------------------------


def aged(data: Any, part: str = "") -> Any:
    """A recipe in its JSON form as an earlier version would have written it."""
    if not isinstance(data, dict):
        return data
    part = data.get("type", part)
    before = {new: old for old, new in renamed.SETTINGS.get(part, {}).items()}
    found = {}
    for name, value in data.items():
        old = before.get(name, name)
        values = {new: was for was, new in renamed.VALUES.get(part, {}).get(old, {}).items()}
        found[old] = values.get(value, value) if isinstance(value, str) else aged(value, name)
    types = {new: old for old, new in renamed.TYPES.items()}
    return found | ({"type": types.get(part, part)} if "type" in data else {})


def test_recipes_as_they_were_saved_are_read_as_they_are_now(caplog: pytest.LogCaptureFixture) -> None:
    for name in registry.RECIPES:
        recipe = weft.recipe(name, {"train.activation_checkpointing": "full"})
        now = config.to_dict(recipe)
        before = aged(now)
        assert before["train"]["activations"] == "inputs"
        assert renamed.recipe(before) == now == renamed.recipe(now)
        assert list(renamed.recipe(before)["train"]) == list(now["train"])
        assert load(before) == recipe
    assert caplog.messages == []


def test_tokenizers_as_they_were_saved_are_read() -> None:
    old = b'{"type": "pairs", "inner": {"type": "marked_characters", "characters": "\\u25a1\\u2047ab"}}'
    made = tokenizers.load(old)
    assert (made.name, made.to_json()["inner"]["type"]) == ("seq2seq", "birthplace_characters")


@pytest.mark.parametrize(
    ("model", "up"), [({"type": "gpt"}, "up"), ({"type": "llama"}, "gate_up"), ({"type": "t5", "gated": True}, "gate_up"), (None, "up")]
)
def test_names_of_parameters_wherever_they_stand(model: Any, up: str) -> None:
    new_name = renamed.parameters(model)
    assert new_name("blocks.0.feedforward.rise.weight") == f"blocks.0.feedforward.{up}.weight"
    assert new_name("optim//blocks.0.feedforward.rise.weight/exp_avg[16,0]") == f"optim//blocks.0.feedforward.{up}.weight/exp_avg[16,0]"
    assert new_name("difference.fall.bias") == "difference.down.bias"
    assert new_name("sunrise.weight") == "sunrise.weight"
