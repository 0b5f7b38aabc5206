"""`weft sweep`: which flags are tried, which are set, and what is printed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Outcome, tiny_flags
from weft.cli.sweep import parse


def test_flags_with_several_values_are_tried_and_others_set() -> None:
    words = (
        "--optim.lr=1e-4..1e-2:log --model.width 64,128 --train.steps 50 --model.bias --model.no-bias --method random --trials 5 --jobs 2"
    )
    recipe, tried, options = parse("gpt/text", words.split())
    assert tried == {"optim.lr": "1e-4..1e-2:log", "model.width": "64,128", "model.bias": [True, False]}
    assert (recipe.train.steps, options.method, options.trials, options.jobs) == (50, "random", 5, 2)


def test_a_setting_of_several_numbers_is_given_more_than_once_to_be_tried() -> None:
    recipe, tried, _ = parse("vae/digits", ["--model.hidden", "24", "12", "--optim.lr", "1e-3,1e-2"])
    assert recipe.model.hidden == (24, 12) and list(tried) == ["optim.lr"]  # type: ignore[attr-defined]
    _, tried, _ = parse("vae/digits", ["--model.hidden", "24", "12", "--model.hidden", "48,24"])
    assert tried == {"model.hidden": [["24", "12"], ["48,24"]]}


def test_another_optimiser_brings_its_settings() -> None:
    recipe, tried, _ = parse("gpt/text", ["--optim.type", "muon", "--optim.momentum", "0.9,0.95"])
    assert type(recipe.optim).__name__ == "Muon" and tried == {"optim.momentum": "0.9,0.95"}
    assert parse("gpt/text", ["--optim.type", "muon,adamw"])[1] == {"optim.type": "muon,adamw"}


def test_a_path_is_no_range() -> None:
    recipe, tried, _ = parse("gpt/text", ["--data.path", "../a..b/c.txt", "--optim.lr", "1e-3,1e-2"])
    assert recipe.data.path == "../a..b/c.txt" and list(tried) == ["optim.lr"]  # type: ignore[attr-defined]


def test_a_sweep_from_the_command_line(command: Callable[..., Outcome], text_file: Path, tmp_path: Path) -> None:
    words = ("sweep", "gpt/text", *tiny_flags(text_file), "--optim.lr", "1e-5,1e-2", "--out", str(tmp_path / "sweep"))
    done = command(*words)
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0] == f"2 trials in {tmp_path / 'sweep'}, chosen by validation loss"
    table = next(i for i, line in enumerate(lines) if line.split()[:2] == ["optim.lr", "steps"])
    assert [line.split()[0] for line in lines[table + 1 : table + 3]] == ["0.01", "1e-05"]
    assert "which flatters its loss; measure it on data that no trial has seen" in done.out
    best = next(line for line in lines if line.startswith("best:"))
    again = command(*best.split()[2:], "--out", str(tmp_path / "again"))
    assert again.code == 0
    value = next(line for line in again.out.splitlines() if line.startswith("best validation loss")).split()[3]
    assert lines[table + 1].split()[2] == value, "the best command makes the best trial again"
    assert command(*words).out.splitlines()[1:] == lines[3:], "again: nothing is trained"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["sweep"], 2, "usage: weft sweep RECIPE"),
        (["sweep", "--help"], 0, "--jobs INT"),
        (["sweep", "gpt/text", "--help"], 0, "--eta INT"),
        (["sweep", "--optim.lr", "1,2"], 2, "expected the name of a recipe"),
        (["sweep", "gpt/txt", "--optim.lr", "1,2"], 2, "did you mean 'gpt/text'"),
        (["sweep", "gpt/text", "--model.widht", "1,2"], 2, "did you mean 'width'"),
        (["sweep", "gpt/text", "--optim.lr", "1e-3"], 2, "needs a setting with several values"),
        (["sweep", "gpt/text", "--optim.lr", "1,2", "--method", "best"], 2, "'best' is not one of"),
        (["sweep", "gpt/text", "--optim.lr", "1,2", "--trails", "2"], 2, "did you mean 'trials'"),
    ],
)
def test_help_and_wrong_use(command: Callable[..., Outcome], words: list[str], code: int, said: str) -> None:
    done = command(*words)
    assert done.code == code and said in done.out + done.err
