"""Flags: every field of every recipe is one and stands in the help; typing errors are one sentence."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal, get_args, get_origin

import pytest

from tests.cli.conftest import Outcome
from weft.cli import train
from weft.cli.options import help
from weft.core import config, registry
from weft.core.config import Config, leaves, parse_flags, separate
from weft.core.errors import ConfigError
from weft.recipes.base import Recipe, load, recipe
from weft.training.optimizer.settings import AdamW, Momentum, Muon


def other_value(kind: Any, value: Any) -> Any:
    """Another value that the annotation allows."""
    if get_origin(kind) is Literal:
        return next(choice for choice in (*get_args(kind), value) if choice != value or len(get_args(kind)) == 1)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 3
    if isinstance(value, float):
        return -value - 0.5
    if isinstance(value, tuple):
        inner = get_args(kind)[0]
        return tuple(other_value(inner, item) for item in value) or (
            (inner is int and (7, 8)) or (inner is float and (0.5, 1.5)) or ("a", "b")
        )
    return f"other-{value}"


def as_words(name: str, value: Any, dashes: bool) -> list[str]:
    stem, dot, last = (name.replace("_", "-") if dashes else name).rpartition(".")
    if isinstance(value, bool):
        return [f"--{stem}{dot}{'' if value else 'no-'}{last}"]
    if isinstance(value, tuple):
        return [f"--{stem}{dot}{last}", *map(str, value)]
    return [f"--{stem}{dot}{last}={value}"] if dashes else [f"--{stem}{dot}{last}", str(value)]


@pytest.mark.parametrize("name", registry.RECIPES)
def test_every_setting_is_a_flag(name: str) -> None:
    original = recipe(name)
    changes = {n: other_value(k, v) for n, (k, v) in leaves(original).items() if n != "name" and not n.endswith(".type")}
    for dashes in (True, False):
        words = [word for setting, value in changes.items() for word in as_words(setting, value, dashes)]
        made, place = train.parse(name, [*words, "--out=here"])
        assert made == config.override(original, changes)
        assert place.out == "here"
        assert made.name == name


def test_a_setting_alone_changes_nothing_else() -> None:
    changed, _ = train.parse("gpt/text", ["--model.width", "64"])
    assert changed == recipe("gpt/text", {"model.width": 64})
    assert train.parse("gpt/text", [])[0] == recipe("gpt/text")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--model.widht", "3"], "width"),
        (["--modl.width", "3"], "model"),
        (["--model.width", "wide"], "wide"),
        (["--model.width"], "model.width"),
        (["--model.width", "3", "4"], "4"),
        (["--optim.betas", "0.9"], "betas"),
        (["--data.tokenizer", "byts"], "byts"),
        (["--optim.type", "moun"], "--optim.type: 'moun' is not one of 'sgd', 'asgd', 'momentum', 'rmsprop', 'adam', 'adamw', 'muon'"),
        (["--optim.type"], "a value is missing"),
        (["--optim.type", "sgd", "--optim.betas", "0.9", "0.99"], "sgd has no setting 'betas'"),
        (["--model.type", "bert"], "gpt has no setting 'type'"),
        (["--name", "x"], "name"),
        (["stray"], "stray"),
    ],
)
def test_wrong_flags_end_with_code_2_and_name_the_flag(command: Callable[..., Outcome], words: list[str], said: str) -> None:
    done = command("train", "gpt/quickstart", *words)
    assert done.code == 2
    assert done.err.count("\n") == 1  # one sentence
    assert said in done.err.replace("-", "_").replace(" ", "") or said in done.err


@pytest.mark.parametrize("name", ["gpt/text", "gan/digits"])
def test_help_shows_every_flag_with_its_default(command: Callable[..., Outcome], name: str) -> None:
    done = command("train", name, "--help")
    assert done.code == 0
    settings = [n for n in leaves(recipe(name)) if n != "name"] + ["out", "init"]
    assert [n for n in settings if f"--{n.replace('_', '-')}" not in done.out] == []
    assert done.out.count("default:") >= len(settings)


def test_every_setting_of_every_recipe_says_what_it_is() -> None:
    silent = {
        f"{type(part).__name__} {s.name}" for n in registry.RECIPES for part in [recipe(n)] for s in help.settings_of(part) if not s.about
    }
    assert silent <= {"Recipe name"}


@pytest.mark.parametrize("name", ["gpt/text", "gan/digits"])
def test_the_index_says_what_the_settings_say(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made, function = recipe(name), registry.find("recipes", name)
    own = help.of_recipe(name, [])
    assert own is not None
    described = help.described(made, function)
    fresh = [help.Setting(*setting) for setting in described["settings"]]
    assert own == help.page(f"weft train {name}", described["about"], fresh, described["parts"])
    monkeypatch.setattr(help, "digest", lambda module: "changed since")
    assert help.of_recipe(name, []) is None


@pytest.mark.parametrize(
    "words", ["--optim.lr 0.5 --optim.type {} --optim.momentum 0.8", "--optim.type={} --optim.momentum=0.8 --optim.lr=0.5"]
)
def test_another_kind_of_optimiser_keeps_what_it_shares(words: str) -> None:
    own = recipe("gpt/quickstart").optim
    assert isinstance(own, AdamW)
    for name, kind in {"momentum": Momentum, "muon": Muon}.items():
        made, _ = train.parse("gpt/quickstart", words.format(name).split())
        assert isinstance(made.optim, kind)
        assert (made.optim.lr, made.optim.schedule, made.optim.momentum) == (0.5, own.schedule, 0.8)
        assert made == recipe("gpt/quickstart", {"optim.momentum": 0.8, "optim.lr": 0.5, "optim.type": name})
        assert load(config.to_dict(made)) == made
    adam, _ = train.parse("gpt/quickstart", ["--optim.type", "adam", "--optim.eps-inside-sqrt"])
    assert adam.optim == dataclasses.replace(adam.optim, eps_inside_sqrt=True)  # type: ignore[type-var]
    assert train.parse("gpt/quickstart", ["--optim.type", "adamw"])[0] == recipe("gpt/quickstart")


def test_each_turn_can_have_another_kind(command: Callable[..., Outcome]) -> None:
    made, _ = train.parse("gan/digits", ["--optim.generator.type", "sgd"])
    assert [type(part).__name__ for part in made.optim.values()] == ["Adam", "SGD"]  # type: ignore[attr-defined]
    assert "--optim.adamw-lr" in command("train", "gpt/quickstart", "--optim.type", "muon", "--help").out


@dataclasses.dataclass(frozen=True, kw_only=True)
class Inner(Config):
    pair: tuple[float, float] = (0.0, 1.0)
    many: tuple[int, ...] = ()
    fast: bool = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outer(Config):
    inner: Inner = dataclasses.field(default_factory=Inner)
    rate: float = 1.0
    path: str = ""
    limit: int | None = None


def parse(*words: str) -> tuple[Outer, list[str]]:
    free, groups = separate(list(words), Outer())
    return parse_flags(groups, Outer()), free


def test_words_that_belong_to_no_flag_may_stand_anywhere() -> None:
    made, free = parse(
        "first", "--rate", "-3", "second", "--inner.pair", "-1", "2e-3", "third", "--inner.no-fast", "fourth", "--", "--fifth"
    )
    assert free == ["first", "second", "third", "fourth", "--fifth"]
    assert made == Outer(rate=-3.0, inner=Inner(pair=(-1.0, 0.002), fast=False))


def test_values_may_hold_an_equals_sign_and_dashes() -> None:
    assert parse("--path=a=b-c")[0].path == "a=b-c"
    assert parse("--path", "a=b_c")[0].path == "a=b_c"
    assert parse("--inner.many", "1", "2", "3", "--limit", "4")[0] == Outer(inner=Inner(many=(1, 2, 3)), limit=4)
    assert parse("--inner.many", "--limit", "None")[0] == Outer()
    assert parse("--inner.fast=false", "--inner.pair=2,3")[0].inner == Inner(fast=False, pair=(2.0, 3.0))


def test_a_switch_may_be_said_to_be_true_or_false() -> None:
    assert parse("--inner.fast", "false", "word") == (Outer(inner=Inner(fast=False)), ["word"])
    assert parse("--inner.no-fast", "--inner.fast", "True") == (Outer(), [])
    assert parse("--inner.fast", "word", "false") == (Outer(), ["word", "false"])
    assert parse("--inner.no-fast", "false") == (Outer(inner=Inner(fast=False)), ["false"])


def test_the_last_of_two_equal_flags_counts() -> None:
    assert parse("--rate", "2", "--rate", "3")[0].rate == 3.0


def test_a_missing_value_is_named() -> None:
    with pytest.raises(ConfigError, match="--rate: a value is missing"):
        parse("--rate", "--path", "x")


def test_leaves_name_every_setting_once() -> None:
    found = leaves(recipe("gan/digits"))
    assert found["optim.generator.lr"][1] > 0
    assert all(not isinstance(value, (Config, dict)) for _, value in found.values())
    assert isinstance(recipe("gan/digits"), Recipe)
