"""What is tried: how values and ranges are written, and that draws cover a space and never depend on how many were asked for."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

import weft
from weft.core.errors import ConfigError
from weft.sweeps import space
from weft.sweeps.space import Choices, Range


def first(number: int, tried: space.Space, seed: int = 1) -> list[dict[str, Any]]:
    return list(itertools.islice(space.draws(tried, seed), number))


@pytest.mark.parametrize(
    ("given", "whole", "expected"),
    [
        ("64,128", True, Choices(("64", "128"))),
        ([64, 128], True, Choices((64, 128))),
        (3, True, Choices((3,))),
        ("1e-4..1e-2:log", False, Range(1e-4, 1e-2, log=True)),
        ("0..0.5", False, Range(0.0, 0.5)),
        ("1..6", True, Range(1, 6, integer=True)),
        (".1...9:4", False, Range(0.1, 0.9, count=4)),
        ("-1..1:log:3", False, None),
        ("2..1", False, None),
        ("1..2:logg", False, None),
    ],
)
def test_values_and_ranges_are_read(given: Any, whole: bool, expected: Any) -> None:
    if expected is not None:
        assert space.parse("a", given, whole) == expected
    else:
        with pytest.raises(ConfigError, match=r"--a .*range"):
            space.parse("a", given, whole)


def test_values_become_what_the_recipe_takes() -> None:
    tried = space.read(weft.recipe("gpt/text"), {"model.width": "64,128,64", "optim.type": ["adamw", "muon"], "model.layers": "1..4"})
    assert tried == {"model.width": Choices((64, 128)), "optim.type": Choices(("adamw", "muon")), "model.layers": Range(1, 4, integer=True)}
    for given, said in (
        ({"model.widht": [1]}, "did you mean 'width'"),
        ({"model.width": "64,wide"}, "'wide' is not an integer"),
        ({"train.precision": ["bf17"]}, "'bf17' is not one of"),
        ({"model.width": ""}, "no value is given"),
        ({}, "a sweep needs a setting with several values"),
    ):
        with pytest.raises(ConfigError, match=said):
            space.read(weft.recipe("gpt/text"), given)


def test_a_grid_has_every_combination_with_the_ends_of_ranges() -> None:
    tried: space.Space = {
        "lr": Range(1e-4, 1e-2, log=True, count=3),
        "width": Choices((64, 128)),
        "layers": Range(1, 2, integer=True, count=5),
    }
    found = space.grid(tried)
    assert len(found) == 3 * 2 * 2
    assert sorted({settings["lr"] for settings in found}) == [1e-4, 1e-3, 1e-2]
    assert found[0] == {"lr": 1e-4, "width": 64, "layers": 1}


def test_draws_are_different_and_more_of_them_begin_with_the_same() -> None:
    tried: space.Space = {"lr": Range(1e-4, 1e-2, log=True), "width": Choices((64, 128))}
    assert first(5, tried) == first(20, tried)[:5]
    assert first(5, tried) != first(5, tried, seed=2)
    names = [space.folder_name(settings) for settings in first(50, tried)]
    assert len(set(names)) == 50


def test_draws_cover_a_range_by_ratios_and_choices_alike() -> None:
    found = first(60, {"lr": Range(1e-4, 1e-1, log=True), "width": Choices((1, 2, 3)), "layers": Range(1, 4, integer=True)})
    decades = [sum(low <= settings["lr"] < 10 * low for settings in found) for low in (1e-4, 1e-3, 1e-2)]
    assert decades == pytest.approx([20, 20, 20], abs=2)
    assert [sum(settings["width"] == value for settings in found) for value in (1, 2, 3)] == pytest.approx([20, 20, 20], abs=2)
    assert [sum(settings["layers"] == value for settings in found) for value in (1, 2, 3, 4)] == pytest.approx([15] * 4, abs=2)


def test_a_space_of_few_ends() -> None:
    assert len(first(99, {"width": Choices((1, 2)), "layers": Range(1, 3, integer=True)})) == 6


def test_settings_name_a_folder() -> None:
    assert space.folder_name({"optim.lr": 0.001, "model.width": 64}) == "optim.lr=0.001,model.width=64"
    assert space.folder_name({"model.hidden": (24, 12)}).startswith("model.hidden=24-12-")
    assert space.folder_name({"data.path": "a/b.txt"}) != space.folder_name({"data.path": "a-b.txt"})
    assert len(space.folder_name({f"model.name{i}": 1 for i in range(40)})) < 120
