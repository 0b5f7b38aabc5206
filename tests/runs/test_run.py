"""Runs: settings refused before anything is built, folders that hold one run, starting from another's weights."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

import weft
from tests.contracts.tiny import text_file
from weft.api import default_folder, train
from weft.core import config
from weft.core.errors import CheckpointError, ConfigError, WeftError
from weft.models.language.gpt import GPTConfig
from weft.recipes.base import Recipe
from weft.runs.assemble import adopt, assemble
from weft.runs.load import load
from weft.training.checkpoint import checkpoint
from weft.training.hooks import Validation
from weft.training.log import Log
from weft.training.optimizer.settings import SGD


def small(folder: Path, **changes: Any) -> Recipe:
    settings = {
        "data.path": str(text_file(folder)), "data.context": 8, "model.layers": 1, "model.heads": 2, "model.width": 16,
        "train.steps": 6, "train.batch": 4, "train.eval_every": 3, "train.eval_examples": 8, "train.log_every": 2, "train.save_every": 2,
    }  # fmt: skip
    return weft.recipe("gpt/text", settings | {name.replace("__", "."): value for name, value in changes.items()})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train__steps": 0}, "--train.steps must be at least 1, not 0"),
        ({"train__batch": -1}, "--train.batch must be at least 1, not -1"),
        ({"train__log_every": 0}, "--train.log_every must be at least 1"),
        ({"train__eval_every": -1}, "--train.eval_every must not be negative"),
        ({"train__patience": -3}, "--train.patience must not be negative"),
        ({"train__ema": 1.0}, "--train.ema must be at least 0 and below 1"),
        ({"train__batch_ramp": (0, 100)}, "--train.batch_ramp must start between 1 and --train.batch 4"),
        ({"train__batch_ramp": (9, 100)}, "--train.batch_ramp must start between 1 and --train.batch 4"),
        ({"train__device": "gpu"}, "'gpu' is not a device"),
        ({"train__device": "meta"}, "weft does not run on 'meta'"),
        ({"train__seed": 1 << 70}, "--train.seed must fit 64 bits"),
        ({"model__vocabulary": 3}, "--model.vocabulary is 3, but the data has"),
        ({"model__heads": 0}, "--model.heads must be at least 1, not 0"),
        ({"optim__lr": -1.0}, "--optim.lr must be at least 0"),
        ({"optim__betas": (0.9, 1.0)}, "--optim.betas must be at least 0 and below 1, not 1.0"),
        ({"optim__schedule__every": 0}, "--optim.schedule.every must be at least 1 and finite, not 0"),
        ({"optim__lr": float("inf")}, "--optim.lr must be at least 0 and finite, not inf"),
        ({"optim": GPTConfig()}, "--optim: GPTConfig is not an optimiser"),
        ({"optim": {"": "adam"}}, "--optim.: str is not an optimiser"),
        ({"optim": SGD(lr=-1)}, "--optim.lr must be at least 0 and finite, not -1"),
        ({"progress__metric": "truth"}, "--progress.metric: validation reports no 'truth'; choose from: bits_per_byte, loss"),
        ({"progress__metric": "accuracy"}, "--progress.goal min would keep the worst accuracy; say --progress.goal max with it"),
        ({"progress__goal": "max"}, "--progress.goal max would keep the worst loss; say --progress.goal min with it"),
        ({"progress__metric": "perplexty"}, "--progress.metric: validation reports no 'perplexty'; did you mean 'perplexity'"),
    ],
)
def test_settings_that_cannot_work_are_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        assemble(small(tmp_path, **changes), tmp_path / "run").trainer.fit()
    assert not (tmp_path / "run").exists(), "what is refused leaves nothing behind"


@dataclass(frozen=True, kw_only=True)
class Nameless(GPTConfig):
    pass


def test_a_part_without_a_registry_name_is_refused(tmp_path: Path) -> None:
    recipe = config.override(small(tmp_path), {"model": Nameless()})
    with pytest.raises(ConfigError, match=r"Nameless has no registry name.*registry\.add\(\)"):
        assemble(recipe, tmp_path / "run")


def test_a_run_directory_holds_what_it_should(tmp_path: Path) -> None:
    done = weft.train(small(tmp_path, train__ema=0.5), tmp_path / "run")
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert {"recipe.json", "metrics.jsonl", "checkpoints", "environment.json", "run.json", "report.html"} <= names
    assert [name for name in names if name.startswith("events.out.tfevents.")], "in the folder itself, whose name TensorBoard then shows"
    newest = checkpoint.folders(tmp_path / "run")[-1]
    assert {path.name for path in newest.iterdir()} == {
        "recipe.json", "model.safetensors", "ema.safetensors", "tokenizer.json", "metrics.json", "training.safetensors", "training.json",
        "manifest.json",
    }  # fmt: skip
    facts = json.loads((tmp_path / "run" / "environment.json").read_text())
    assert [line.partition(" ")[0] for line in facts["plan"]][:4] == ["device", "precision", "compile", "cuda_graphs"]
    assert facts["parameters"] == done.size == sum(p.numel() for p in done.trainer.model.parameters())
    assert json.loads((tmp_path / "run" / "recipe.json").read_text())["model"]["vocabulary"] > 0


def test_another_recipe_in_the_same_folder_shows_the_difference(tmp_path: Path) -> None:
    assemble(small(tmp_path), tmp_path / "run").trainer.fit()
    with pytest.raises(ConfigError, match=r"holds a run of another recipe[\s\S]*optim\.lr: 0\.002 -> 0\.1"):
        assemble(small(tmp_path, optim__lr=0.1), tmp_path / "run")


def test_more_steps_continue_the_run(tmp_path: Path) -> None:
    assemble(small(tmp_path), tmp_path / "run").trainer.fit()
    longer = assemble(small(tmp_path, train__steps=8), tmp_path / "run")
    assert longer.trainer.step == 6
    longer.trainer.fit()
    assert longer.trainer.step == 8


def test_repeating_a_finished_run_changes_nothing(tmp_path: Path) -> None:
    assemble(small(tmp_path), tmp_path / "run").trainer.fit()
    before = {path: path.read_bytes() for path in (tmp_path / "run" / "checkpoints").rglob("*") if path.is_file()}
    log = (tmp_path / "run" / "metrics.jsonl").read_bytes()
    assemble(small(tmp_path), tmp_path / "run").trainer.fit()
    after = {path: path.read_bytes() for path in (tmp_path / "run" / "checkpoints").rglob("*") if path.is_file()}
    assert before == after
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == log


def test_a_damaged_recipe_file_is_taken_from_the_newest_checkpoint(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assemble(small(tmp_path), folder).trainer.fit()
    written = (folder / "recipe.json").read_bytes()
    (folder / "recipe.json").write_text("{")
    with pytest.raises(ConfigError, match="another recipe"):
        assemble(small(tmp_path, optim__lr=0.5), folder)
    assemble(small(tmp_path), folder)
    assert (folder / "recipe.json").read_bytes() == written


def test_a_run_that_began_before_a_setting_existed_continues(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assemble(small(tmp_path), folder).trainer.fit()
    written = json.loads((folder / "recipe.json").read_text())
    del written["model"]["task_dropout"], written["data"]["tokenizer"]
    (folder / "recipe.json").write_text(json.dumps(written))
    assert assemble(small(tmp_path), folder).trainer.step == 6
    with pytest.raises(ConfigError, match=r"model\.task_dropout: 0\.1 -> 0\.3"):
        assemble(small(tmp_path, model__task_dropout=0.3), folder)


def test_starting_from_another_run(tmp_path: Path) -> None:
    first = assemble(small(tmp_path, train__ema=0.5), tmp_path / "first")
    first.trainer.fit()
    tuned = assemble(small(tmp_path, optim__lr=1e-4), tmp_path / "second", init=f"{tmp_path / 'first'}@last")
    assert tuned.trainer.step == 0
    saved = checkpoint.read(checkpoint.resolve(f"{tmp_path / 'first'}@last")).tensors("ema.safetensors")
    assert torch.equal(tuned.trainer.model.embed.weight.cpu(), saved["embed.weight"])
    tuned.trainer.fit()
    again = assemble(small(tmp_path, optim__lr=1e-4), tmp_path / "second", init=f"{tmp_path / 'first'}@last")
    assert again.trainer.step == 6
    for other in (None, str(tmp_path / "first")):
        with pytest.raises(ConfigError, match=r"another recipe[\s\S]*init: .*first@last\" -> "):
            assemble(small(tmp_path, optim__lr=1e-4), tmp_path / "second", init=other)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("word2vec/source", "--init: a classifier of images (classifier/digits) cannot start a table of word vectors (word2vec/source)"),
        ("vae/digits", "cannot start a VAE of images (vae/digits): that is for models such as vae, and this is a mlp; name another"),
        ("gpt/text", "a classifier of images (classifier/digits) cannot start a language model (gpt/text): it knows images, and not texts"),
        ("hopfield/digits", "cannot start an associative memory (hopfield/digits): MLP does not offer Recalls"),
    ],
)
def test_a_model_of_another_kind_is_refused(tmp_path: Path, name: str, said: str) -> None:
    pytest.importorskip("sklearn")
    assemble(weft.recipe("classifier/digits", {"train.steps": 1}), tmp_path / "digits").trainer.fit()
    path = {"data.path": str(text_file(tmp_path))} if "digits" not in name else {}
    recipe = adopt(weft.recipe(name, path), str(tmp_path / "digits"))
    with pytest.raises(WeftError, match=re.escape(said)):
        assemble(recipe, tmp_path / "run", init=str(tmp_path / "digits"))
    assert not (tmp_path / "run").exists()


def test_weights_of_another_shape_are_named(tmp_path: Path) -> None:
    assemble(small(tmp_path), tmp_path / "first").trainer.fit()
    with pytest.raises(CheckpointError, match=r"the weights do not fit the model: .*other shape"):
        assemble(small(tmp_path, model__width=32), tmp_path / "second", init=str(tmp_path / "first"))
    with pytest.raises(CheckpointError, match=r"the weights do not fit the model: .*other shape"):
        assemble(small(tmp_path, model__width=32, model__vocabulary=99), tmp_path / "third", init=str(tmp_path / "first"))


def test_loading_uses_the_best_checkpoint_and_evaluation_mode(tmp_path: Path) -> None:
    done = assemble(small(tmp_path, train__steps=12), tmp_path / "run")
    done.trainer.fit()
    validation = next(h for h in done.trainer.hooks if isinstance(h, Validation))
    loaded = weft.load(tmp_path / "run", device="cpu")
    assert loaded.metrics["step"] == validation.best_step
    assert not loaded.model.training
    assert loaded.tokenizer.decode(list(loaded.tokenizer.encode("the cat"))) == "the cat"
    assert loaded(torch.zeros(1, 3, dtype=torch.int64)).shape == (1, 3, loaded.tokenizer.size)


def test_a_run_stops_early_and_stays_stopped(tmp_path: Path) -> None:
    still = small(tmp_path, optim__lr=0.0, train__steps=50, train__patience=2)
    for _ in range(2):
        done = assemble(still, tmp_path / "run")
        done.trainer.fit()
        assert done.trainer.step == 9  # the best at 3, then none better at 6 and 9
        assert "no better loss" in done.trainer.stop_reason
    assert weft.load(tmp_path / "run", device="cpu").metrics["step"] == 3


def test_validation_can_be_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    done = assemble(small(tmp_path, train__eval_every=0, train__patience=3), tmp_path / "run")
    assert "--train.patience 3 has no effect" in caplog.text
    done.trainer.fit()
    assert done.validation is None
    assert any(isinstance(hook, Log) for hook in done.trainer.hooks)
    assert weft.load(tmp_path / "run", device="cpu").metrics["step"] == 6


def test_the_default_folder_is_named_after_the_recipe() -> None:
    assert default_folder(weft.recipe("gpt/text")) == Path("runs/gpt-text")


def test_the_mean_of_the_last_checkpoints(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("abcdefgh " * 100)
    changes = {"data.path": str(tmp_path / "text.txt"), "data.context": 8, "train.device": "cpu", "train.steps": 6, "train.batch": 4}
    small = {
        "model.layers": 1,
        "model.heads": 2,
        "model.width": 16,
        "train.save_every": 2,
        "train.keep_checkpoints": 3,
        "train.eval_every": 0,
    }
    train(weft.recipe("gpt/text", {**changes, **small}), out=tmp_path / "run")
    found = [load(f"{tmp_path / 'run'}@{step}").model.state_dict() for step in (4, 6)]
    mean = load(f"{tmp_path / 'run'}@average2").model.state_dict()
    for name, value in mean.items():
        torch.testing.assert_close(value, (found[0][name] + found[1][name]) / 2)
    with pytest.raises(CheckpointError, match=r"@average9: 3 checkpoints are kept; --train\.keep_checkpoints"):
        load(f"{tmp_path / 'run'}@average9")


def test_data_that_changed_under_a_run_are_noticed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assemble(small(tmp_path), tmp_path / "run").trainer.fit()
    text = text_file(tmp_path).read_text()
    assemble(small(tmp_path, train__steps=7), tmp_path / "run").trainer.fit()
    assert not caplog.text
    text_file(tmp_path).write_text(text[::-1])
    assemble(small(tmp_path, train__steps=8), tmp_path / "run")
    assert "the data have changed since the run began" in caplog.text


@pytest.mark.parametrize(
    ("name", "changes", "why"),
    [
        ("gan/digits", {"model.norm": "batch"}, "normalises over the batch"),
        ("gan/digits", {"model.minibatch_kernels": 2}, "GAN compares the examples"),
        ("gan/semi_digits", {}, "Adversarial compares the examples"),
    ],
)
def test_micro_batches_that_change_the_gradient_say_so(
    tmp_path: Path, name: str, changes: dict[str, Any], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    cut = {"train.batch": 8, "train.micro_batch": 4, "train.steps": 1}
    assemble(weft.recipe(name, changes | cut), tmp_path / "run")
    assert any("--train.micro_batch 4" in said and why in said for said in caplog.messages)
    caplog.clear()
    assemble(weft.recipe(name, changes | cut | {"train.micro_batch": 0}), tmp_path / "whole")
    assert not caplog.messages


@pytest.mark.parametrize(
    "cut", [{"train.batch": 9, "train.micro_batch": 2}, {"train.batch": 1}, {"train.batch": 8, "train.micro_batch": 1}]
)
def test_a_single_example_has_no_spread(tmp_path: Path, cut: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="a single example has none"):
        assemble(weft.recipe("gan/semi_digits", cut), tmp_path / "run")
    assert not (tmp_path / "run").exists()
