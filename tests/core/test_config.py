"""Settings: to JSON and back, changed by name, and wrong names and values refused in one clear sentence."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any, Literal

import hypothesis.strategies as st
import pytest
from hypothesis import given

import weft
from weft.core import config
from weft.core.config import Config
from weft.core.errors import ConfigError
from weft.models.language.gpt import GPTConfig
from weft.recipes import base
from weft.training.optimizer.settings import SGD, AdamW, OptimConfig
from weft.training.settings import Train


@dataclass(frozen=True, kw_only=True)
class Inner(Config):
    rate: float = 0.5
    steps: int = 3


@dataclass(frozen=True, kw_only=True)
class Outer(Config):
    name: str = "x"
    flag: bool = False
    size: int | None = None
    kind: Literal["a", "b", 3] = "a"
    pair: tuple[int, float] = (1, 2.0)
    many: tuple[int, ...] = ()
    names: list[str] = field(default_factory=list)
    table: dict[str, float] = field(default_factory=dict)
    inner: Inner = field(default_factory=Inner)
    free: object = None


OUTERS = st.builds(
    Outer,
    name=st.text(max_size=5),
    flag=st.booleans(),
    size=st.none() | st.integers(-5, 5),
    kind=st.sampled_from(["a", "b", 3]),
    pair=st.tuples(st.integers(), st.floats(allow_nan=False)),
    many=st.lists(st.integers(), max_size=4).map(tuple),
    names=st.lists(st.text(max_size=3), max_size=3),
    table=st.dictionaries(st.text(max_size=3), st.floats(allow_nan=False), max_size=3),
    inner=st.builds(Inner, rate=st.floats(allow_nan=False), steps=st.integers()),
    free=st.none() | st.builds(SGD, lr=st.floats(0, 1)) | st.dictionaries(st.text("ab", min_size=1), st.builds(AdamW), max_size=2),
)


@given(OUTERS)
def test_settings_survive_json(value: Outer) -> None:
    assert config.from_dict(json.loads(json.dumps(config.to_dict(value))), Outer) == value


def test_registered_settings_carry_their_name() -> None:
    written = config.to_dict(AdamW(lr=0.1))
    assert written["type"] == "adamw"
    assert "type" not in written["schedule"]
    assert config.from_dict(written, OptimConfig) == AdamW(lr=0.1)
    assert "type" not in config.to_dict(Inner())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"type": "adamx"}, r"no type is called 'adamx'; did you mean 'adam"),
        ({"type": "gpt"}, "GPTConfig is not a OptimConfig"),
        ({"type": ["os.system"]}, "no type is called"),
        ({"type": "sgd", "lr": "fast"}, "recipe.lr: 'fast' is not a number"),
        ({"type": "sgd", "learning_rate": 1}, "recipe: no field 'learning_rate'"),
        ({"type": "sgd", "schedule": {"kind": "cosinus"}}, "recipe.schedule.kind: 'cosinus' is not one of 'constant', 'linear', 'cosine'"),
        ({"type": "sgd", "schedule": 3}, "recipe.schedule: expected a JSON object, not 3"),
        ([], r"recipe: expected a JSON object, not \[\]"),
    ],
)
def test_wrong_data_is_named_with_its_place(data: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config.from_dict(data, OptimConfig)


def test_a_missing_field_is_an_error() -> None:
    with pytest.raises(ConfigError, match="data"):
        base.load({"name": "x"})


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("name", "y", "y"),
        ("flag", "true", True),
        ("flag", "no", False),
        ("flag", 1, True),
        ("size", "7", 7),
        ("size", "None", None),
        ("size", 3.0, 3),
        ("kind", "b", "b"),
        ("kind", "3", 3),
        ("pair", ["4", "5"], (4, 5.0)),
        ("pair", "4,5.5", (4, 5.5)),
        ("many", "1 2 3", (1, 2, 3)),
        ("many", 6, (6,)),
        ("many", [], ()),
        ("names", ["a", "b"], ["a", "b"]),
        ("inner.rate", "1e-3", 1e-3),
        ("inner.steps", 10, 10),
    ],
)
def test_values_become_what_the_field_says(name: str, value: Any, expected: Any) -> None:
    changed: Any = config.override(Outer(), {name: value})
    for part in name.split("."):
        changed = getattr(changed, part)
    assert changed == expected
    assert type(changed) is type(expected)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("flag", "maybe", "--flag: 'maybe' is not true or false"),
        ("size", "2.5", "--size: '2.5' is not an integer"),
        ("size", 2.5, "--size: 2.5 is not an integer"),
        ("size", True, "--size: True is not an integer"),
        ("size", float("inf"), "--size: inf is not an integer"),
        ("kind", "c", "--kind: 'c' is not one of 'a', 'b', 3"),
        ("pair", "1", "--pair: expected 2 values, not 1"),
        ("pair", "1 x", "--pair: 'x' is not a number"),
        ("table", 3, "--table: name a field of it|--table: has no fields"),
        ("inner", 3, r"--inner: name a field of it, for example --inner\.rate"),
        ("inner.rat", 3, "--inner.rat: inner has no setting 'rat'; did you mean 'rate'"),
        ("iner.rate", 3, "--iner.rate: test_config has no setting 'iner'; did you mean 'inner'"),
        ("name.first", 3, "--name.first: it has no field 'first', as it is a single value"),
        ("inner.rate", None, "--inner.rate: None is not a number"),
        ("name", 3, "--name: 3 is not of type str"),
    ],
)
def test_wrong_changes_are_refused(name: str, value: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config.override(Outer(), {name: value})


def test_a_mapping_of_parts_is_changed_by_name() -> None:
    outer = Outer(free={"first": SGD(lr=0.1), "second": AdamW()})
    changed = config.override(outer, {"free.first.lr": "0.5"})
    assert changed.free == {"first": SGD(lr=0.5), "second": AdamW()}
    assert outer.free == {"first": SGD(lr=0.1), "second": AdamW()}
    assert config.override(outer, {"free.first": AdamW(lr=2.0)}).free["first"] == AdamW(lr=2.0)  # type: ignore[index]
    with pytest.raises(ConfigError, match="no entry 'frist'; did you mean 'first'"):
        config.override(outer, {"free.frist.lr": 1})
    with pytest.raises(ConfigError, match=r"--free\.first: name a field of it, for example --free\.first\.type"):
        config.override(outer, {"free.first": "0.5"})


def test_settings_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Train().steps = 3  # type: ignore[misc]
    with pytest.raises(TypeError):
        GPTConfig(5)  # type: ignore[misc]


def test_difference_names_every_leaf() -> None:
    old, new = config.to_dict(Outer()), config.to_dict(config.override(Outer(), {"inner.rate": 2.0, "many": (1,)}))
    assert config.difference(old, new) == ["inner.rate: 0.5 -> 2.0", "many: [] -> [1]"]
    assert config.difference(old, old) == []


def test_an_unknown_setting_of_a_recipe_suggests_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"--model\.widht: gpt has no setting 'widht'; did you mean 'width'"):
        weft.recipe("gpt/text", {"model.widht": 3})


def test_pretty_is_json() -> None:
    assert json.loads(config.pretty(Outer())) == config.to_dict(Outer())
