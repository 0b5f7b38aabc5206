"""Settings by their last name, by the words of other libraries, and from a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Outcome, tiny_flags
from weft.cli import train
from weft.cli.options.words import ANSWERS, SAME
from weft.core import config
from weft.recipes.base import Recipe, recipe


def parsed(name: str, *words: str) -> Recipe:
    return train.parse(name, list(words))[0]


@pytest.mark.parametrize(
    ("typed", "full"),
    [
        ("--lr 1e-3", "--optim.lr 1e-3"),
        ("--learning-rate=1e-3", "--optim.lr 1e-3"),
        ("--batch-size 7 --max_iters 9", "--train.batch 7 --train.steps 9"),
        ("--block-size 16 --n-layer 1 --n_head 2 --hidden-size 16", "--data.context 16 --model.layers 1 --model.heads 2 --model.width 16"),
        ("--optimizer muon --momentum 0.8", "--optim.type muon --optim.momentum 0.8"),
        ("--no-tie-embeddings --deterministic", "--model.no-tie-embeddings --train.deterministic"),
        ("--betas 0.8 0.9 --seed 3", "--optim.betas 0.8 0.9 --train.seed 3"),
        ("--data my.txt --warmup-steps 3", "--data.path my.txt --optim.schedule.warmup 3"),
    ],
)
def test_other_words_are_the_same_settings(typed: str, full: str) -> None:
    assert parsed("gpt/text", *typed.split()) == parsed("gpt/text", *full.split()) != recipe("gpt/text")


def test_a_name_alone_is_for_all_optimisers() -> None:
    made = parsed("gan/digits", "--lr", "0.5", "--betas", "0.1", "0.2")
    assert {(part.lr, part.betas) for part in made.optim.values()} == {(0.5, (0.1, 0.2))}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("--epochs 3", "--train.steps"),
        ("--fp16", "--train.precision"),
        ("--gradient-accumulation-steps 4", "--train.micro-batch"),
        ("--dropout 0.2", "--model.attention-dropout or --model.embedding-dropout or --model.residual-dropout"),
        ("--lrr 1", "did you mean --optim.lr?"),
        ("--widht 1", "did you mean --model.width?"),
        ("--foo 1", "there is no such setting; see weft train gpt/text --help"),
        ("--every 3", "could be --train.eval-every or --train.log-every or --train.save-every"),
        ("--hold 3", "there is no such setting"),
        ("--lr", "a value is missing"),
    ],
)
def test_what_is_said_in_another_way_is_answered_with_the_flag(command: Callable[..., Outcome], typed: str, said: str) -> None:
    found = command("train", "gpt/text", *typed.split())
    assert (found.code, found.err.count("\n")) == (2, 1)
    assert said in found.err


def test_every_answer_names_flags_that_exist() -> None:
    known = {f"--{name.replace('_', '-')}" for name in config.leaves(recipe("gpt/text"))} | {"--out", "--init", "--explain"}
    for said in ANSWERS.values():
        assert {word.strip(",:;") for word in said.split() if word.startswith("--")} <= known
    for name in SAME:
        assert any(flag.strip("-").rpartition(".")[2] == name.replace("_", "-").rpartition(".")[2] for flag in known), name


def test_a_part_that_a_recipe_lacks_is_not_another(command: Callable[..., Outcome]) -> None:
    """A classifier of images has channels, and the width of a schedule is none of a model."""
    assert "there is no such setting" in command("train", "classifier/images", "--width", "3").err


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.yaml", "recipe: gpt/text\nmodel: {width: 32, layers: 1}\nlr: 1e-3\noptim.betas: [0.8, 0.9]\nbatch_size: 5\n"),
        ("a.toml", 'recipe = "gpt/text"\nlr = 1e-3\nbatch_size = 5\n[model]\nwidth = 32\nlayers = 1\n[optim]\nbetas = [0.8, 0.9]\n'),
        (
            "a.json",
            json.dumps({"recipe": "gpt/text", "model": {"width": 32, "layers": 1}, "lr": 1e-3, "optim.betas": [0.8, 0.9], "batch": 5}),
        ),
    ],
)
def test_a_file_holds_settings(tmp_path: Path, name: str, text: str) -> None:
    file = tmp_path / name
    file.write_text(text)
    flags = ["--model.width", "32", "--model.layers", "1", "--lr", "1e-3", "--optim.betas", "0.8", "0.9", "--train.batch", "5"]
    wanted = parsed("gpt/text", *flags)
    assert parsed(str(file)) == parsed("gpt/text", "--config", str(file)) == wanted
    assert parsed("gpt/text", "--config", str(file), "--model.width", "64").model.width == 64  # type: ignore[attr-defined]


def test_the_recipe_of_a_run_is_one_to_train(command: Callable[..., Outcome], text_run: Path, text_file: Path, tmp_path: Path) -> None:
    saved = text_run / "recipe.json"
    assert config.to_dict(parsed(str(saved))) == json.loads(saved.read_text())
    assert config.to_dict(parsed("gpt/text", "--config", str(saved))) == json.loads(saved.read_text())
    done = command("train", str(saved), "--steps", "2", "--out", str(tmp_path / "run"))
    assert done.code == 0, done.err


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.yaml", "model: {width: 32", "is not valid YAML"),
        ("a.json", "{", "is not valid JSON"),
        ("a.yaml", "- 1\n", "should hold settings by name"),
        ("a.yaml", "lr: 1\n", "does not say which recipe"),
        ("a.yaml", "recipe: gpt/tex\n", "did you mean 'gpt/text'?"),
        ("a.yaml", "recipe: gpt/text\nmodel: {widht: 3}\n", "did you mean 'width'?"),
        ("none.yaml", "", "cannot be read as settings"),
    ],
)
def test_a_file_that_says_no_recipe_is_refused(command: Callable[..., Outcome], tmp_path: Path, name: str, text: str, said: str) -> None:
    if text:
        (tmp_path / name).write_text(text)
    found = command("train", str(tmp_path / name))
    assert (found.code, found.err.count("\n")) == (2, 1)
    assert said in found.err


def test_a_config_trains(command: Callable[..., Outcome], text_file: Path, tmp_path: Path) -> None:
    settings = dict(zip(*[iter(tiny_flags(text_file))] * 2, strict=True))
    (tmp_path / "tiny.json").write_text(json.dumps({name[2:]: value for name, value in settings.items()}))
    done = command("train", "gpt/text", "--config", str(tmp_path / "tiny.json"), "--out", str(tmp_path / "run"))
    assert done.code == 0, done.err
    assert "step 6/6" in done.out
