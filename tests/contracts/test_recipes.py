"""What every recipe promises: it learns, it resumes to the bit, and neither validating nor logging changes the weights."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import typing
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from torch import Tensor

import weft
from tests.contracts.tiny import LEARN, Changes, tiny, without_dropout
from weft.core import config, registry
from weft.core.errors import WeftError
from weft.core.registry import RECIPES
from weft.evaluation.scores import measure
from weft.planning import cost
from weft.recipes import base
from weft.recipes.base import Recipe
from weft.report import samples
from weft.runs.assemble import assemble, build
from weft.runs.run import Run
from weft.training.checkpoint import checkpoint
from weft.training.hooks import Hook, evaluate
from weft.training.schedule import Schedule
from weft.training.trainer import Trainer


def kind(name: str) -> tuple[Any, ...]:
    """What is left of a recipe that is made tiny: its parts, and which way each of them goes where it has a choice."""
    made = base.recipe(name)
    optims = made.optim.values() if isinstance(made.optim, dict) else [made.optim]
    parts = [made.data, made.model, made.objective, *optims]
    return made.progress, *((type(part), *ways(part)) for part in parts)


def ways(part: Any) -> list[tuple[str, Any]]:
    """Choices by name, and of numbers whether they are set at all."""
    hints, found = typing.get_type_hints(type(part)), []
    for field in dataclasses.fields(part):
        hint, value = hints[field.name], getattr(part, field.name)
        if hint is bool or typing.get_origin(hint) is Literal:
            found.append((field.name, value))
        elif hint in (int, float) and not isinstance(part, base.DataConfig):
            found.append((field.name, bool(value)))
    return found


def parts(name: str) -> tuple[type, ...]:
    """What a recipe is made of, whichever way each part goes."""
    made = base.recipe(name)
    return type(made.data), type(made.model), type(made.objective)


every_recipe = pytest.mark.parametrize("name", list(RECIPES))
every_kind = pytest.mark.parametrize("name", list({kind(name): name for name in reversed(RECIPES)}.values())[::-1])
every_mixture = pytest.mark.parametrize("name", list({parts(name): name for name in reversed(RECIPES)}.values())[::-1])
"""Of data, model and objective: for what takes long and is the trainer's doing."""


NO_MATMULS = {"planar/lobes"}
"""Models without a product of matrices, so there are no FLOPs to count."""


class PowerCut(Exception):
    pass


class Cut(Hook):
    """Ends the process in the middle of a run, as far as a test can."""

    def __init__(self, at: int):
        self.at = at

    def after_step(self, trainer: Trainer) -> None:
        if trainer.step == self.at:
            raise PowerCut


def trained(recipe: Recipe, out: Path, *extra: Hook) -> Run:
    """As weft.train, but without the report."""
    made = assemble(recipe, out, extra=extra)
    made.trainer.fit()
    return made


def digest(folder: Path) -> str:
    """sha256 of the last weights of a run."""
    found = checkpoint.read(checkpoint.resolve(f"{folder}@last"))
    return hashlib.sha256(found.files["model.safetensors"]).hexdigest()


def log(folder: Path) -> list[dict[str, Any]]:
    """The log without what depends on the clock."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for line in lines:
        line.pop("seconds")
        for clocked in ("per_second", "mfu"):
            line.get("train", {}).pop(clocked, None)
    return lines


def make(name: str, tmp_path: Path, device: torch.device, changes: Changes | None = None) -> Recipe:
    exact = {"train.device": str(device), "train.deterministic": device.type == "cuda"}
    return tiny(name, tmp_path, exact | (changes or {}))


@every_mixture
def test_a_run_cut_and_continued_is_the_same_run(name: str, tmp_path: Path, device: torch.device) -> None:
    """Twice from the beginning, and once cut at step 8 (last saved at 5): equal weights, state and log, each step once."""
    made = make(name, tmp_path, device, {"train.ema": 0.9})
    trained(made, tmp_path / "whole")
    trained(made, tmp_path / "again")
    with pytest.raises(PowerCut):
        trained(made, tmp_path / "cut", Cut(8))
    assert trained(made, tmp_path / "cut").trainer.step == 12
    whole, again, cut = (checkpoint.read(checkpoint.resolve(f"{tmp_path / n}@last")) for n in ("whole", "again", "cut"))
    for file in ("model.safetensors", "ema.safetensors", "training.safetensors"):
        assert whole.files[file] == again.files[file], f"two fresh runs differ in {file}"
        assert whole.files[file] == cut.files[file], f"the continued run differs in {file}"
    assert log(tmp_path / "whole") == log(tmp_path / "again") == log(tmp_path / "cut")
    steps = [line["step"] for line in log(tmp_path / "cut")]
    assert steps == sorted(set(steps)) == [1, 3, 4, 6, 8, 9, 12]


@every_recipe
def test_a_run_cut_continued_and_watched_is_one_left_alone(name: str, tmp_path: Path, device: torch.device) -> None:
    """Cut at step 3 (last saved at 2), with each step logged and validated: the weights of a run that does none of this."""
    short = {"train.steps": 4, "train.ema": 0.9, "train.eval_examples": 4}
    alone = {"train.log_every": 100, "train.eval_every": 0, "train.save_every": 0}
    watched = {"train.log_every": 1, "train.eval_every": 1, "train.save_every": 2}
    trained(make(name, tmp_path, device, short | alone), tmp_path / "alone")
    made = make(name, tmp_path, device, short | watched)
    with pytest.raises(PowerCut):
        trained(made, tmp_path / "cut", Cut(3))
    assert trained(made, tmp_path / "cut").trainer.step == 4
    alone_at_end, cut_at_end = (checkpoint.read(checkpoint.resolve(f"{tmp_path / n}@last")) for n in ("alone", "cut"))
    for file in ("model.safetensors", "ema.safetensors", "training.safetensors"):
        assert alone_at_end.files[file] == cut_at_end.files[file], f"the continued run differs in {file}"
    assert [line["step"] for line in log(tmp_path / "cut")] == [1, 2, 3, 4], "each step is logged once"


@every_mixture
def test_what_an_example_costs_is_known(name: str, tmp_path: Path, device: torch.device) -> None:
    made = make(name, tmp_path, device)
    data = made.data.build()
    resolved = made.resolve(data.info)
    before = torch.get_rng_state()
    _, objective = build(resolved)
    torch.set_rng_state(before)
    found = cost.flops_of_draw(resolved, data, objective)
    assert (found > 0) == (name not in NO_MATMULS)
    assert torch.equal(torch.get_rng_state(), before), "counting draws no random numbers"


@pytest.mark.parametrize("optimizer", list(registry.OPTIMIZERS))
def test_every_optimiser_continues_with_everything_on(optimizer: str, tmp_path: Path, device: torch.device) -> None:
    """bf16, dropout, ragged micro-batches, a ramp, a schedule by tokens, clipping and both penalties."""
    schedule = Schedule(kind="cosine", unit="tokens", warmup=200, min_lr_ratio=0.1)
    optim = registry.find("optimizers", optimizer)(lr=1e-2, schedule=schedule, clip_norm=1.0, l1=1e-4, l2=1e-4, weight_decay=0.01)
    changes = {"optim": optim, "train.precision": "bf16", "train.micro_batch": 3, "train.batch_ramp": (2, 40)}
    made = config.override(make("gpt/text", tmp_path, device), changes)
    trained(made, tmp_path / "whole")
    with pytest.raises(PowerCut):
        trained(made, tmp_path / "cut", Cut(8))
    trained(made, tmp_path / "cut")
    whole, cut = (checkpoint.read(checkpoint.resolve(f"{tmp_path / n}@last")) for n in ("whole", "cut"))
    for file in ("model.safetensors", "training.safetensors"):
        assert whole.files[file] == cut.files[file], f"the continued run differs in {file}"
    assert log(tmp_path / "whole") == log(tmp_path / "cut")


@every_mixture
def test_neither_validating_nor_logging_changes_the_weights(name: str, tmp_path: Path, device: torch.device) -> None:
    often = {"train.eval_every": 1, "train.log_every": 1, "train.save_every": 1}
    seldom = {"train.eval_every": 0, "train.log_every": 100, "train.save_every": 0}
    for folder, changes in (("often", often), ("seldom", seldom)):
        trained(make(name, tmp_path, device, changes), tmp_path / folder)
    assert digest(tmp_path / "often") == digest(tmp_path / "seldom")


@every_mixture
def test_the_progress_metric_improves(name: str, tmp_path: Path, device: torch.device) -> None:
    longer = {
        "train.steps": 100,
        "train.batch": 32,
        "train.eval_every": 0,
        "train.log_every": 1000,
        "train.save_every": 0,
        "train.eval_examples": 0,
    }
    made = make(name, tmp_path, device, longer | LEARN.get(name, {}))
    started = assemble(config.override(made, {"train.eval_every": 1}), tmp_path / "start")
    held = started.validation
    assert held is not None, "a recipe has data to validate on"
    examples = min(held.examples, 512)
    before = evaluate(started.trainer.model, started.trainer.objective, held.source, examples, 64)
    after = evaluate(trained(made, tmp_path / "run").trainer.model, started.trainer.objective, held.source, examples, 64)
    metric, goal = made.progress.metric, made.progress.goal
    assert metric in before, f"validation reports {', '.join(before)}"
    assert after[metric] < before[metric] if goal == "min" else after[metric] > before[metric]


def gradients(trainer: Trainer) -> dict[str, Tensor]:
    """The gradient that each turn of the first step would apply; what the weights become where the objective changes them itself."""
    if not (trainer.objective.separable and getattr(trainer.model, "separable", True)):
        pytest.skip("the loss is not a sum over examples")
    kept: dict[str, Tensor] = {}
    for turn, updater in trainer.updaters.items():

        def keep(turn: str = turn, updater: Any = updater) -> None:
            kept.update({f"{turn}/{name}": p.grad.clone() for name, p in updater.named.items() if p.grad is not None})

        updater.step = keep  # type: ignore[method-assign]
    trainer.run_step()
    if trainer.objective.updates_model:
        return {name: p.detach().clone() for name, p in trainer.model.named_parameters()}
    return kept


@every_kind
@pytest.mark.parametrize("micro", [1, 5])
def test_ragged_micro_batches_equal_the_big_batch(name: str, micro: int, tmp_path: Path, device: torch.device) -> None:
    changes = {"train.batch": 11, "train.precision": "fp32", "train.eval_every": 0, "train.cuda_graphs": "off"}
    made = make(name, tmp_path, device, changes)
    made = config.override(made, without_dropout(made))
    whole = gradients(assemble(made, tmp_path / "whole").trainer)
    parts = gradients(assemble(config.override(made, {"train.micro_batch": micro}), tmp_path / "parts").trainer)
    assert whole.keys() == parts.keys()
    assert whole
    for path, gradient in whole.items():
        allowed = 1e-6 * max(1.0, float(gradient.abs().max()))
        assert float((gradient - parts[path]).abs().max()) <= allowed, path


@every_recipe
def test_recipes_survive_json(name: str, tmp_path: Path) -> None:
    made = tiny(name, tmp_path)
    written = json.loads(json.dumps(config.to_dict(made)))
    assert base.load(written) == made
    assert written["model"]["type"]
    assert config.difference(written, config.to_dict(base.load(written))) == []
    resolved = made.resolve(made.data.build().info)
    assert base.load(json.loads(json.dumps(config.to_dict(resolved)))) == resolved


@every_mixture
def test_the_saved_model_loads_evaluates_alike_and_shows_samples(
    name: str, tmp_path: Path, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make(name, tmp_path, device, {"train.steps": 4, "train.ema": 0.5, "train.precision": "fp32"})
    done = trained(made, tmp_path / "run")
    held = done.validation
    assert held is not None
    loaded = weft.load(tmp_path / "run", device=str(device))
    assert not loaded.model.training
    assert loaded.recipe == done.recipe
    objective = done.trainer.objective
    again = evaluate(loaded.model, objective, held.source, held.examples, held.batch)
    assert again == pytest.approx(held.latest, rel=1e-5, abs=1e-6)
    for amount in ("TOKENS", "IMAGES", "POINTS"):
        monkeypatch.setattr(samples, amount, 4)
    scores = measure(loaded, done.data)
    assert scores is not None
    reported = {name: value for name, value in held.latest.items() if "_of_" not in name}
    assert {score.name for score in scores.scores} == set(reported)
    if objective.separable:
        assert {score.name: score.value for score in scores.scores} == pytest.approx(reported, rel=1e-4, abs=1e-5)
    missing = [sample.text for sample in samples.draw(loaded) if sample.title == "No samples"]
    assert all("is no image" in text for text in missing), "rows of numbers cannot be shown, all else can"


BAD: dict[type, tuple[Any, ...]] = {int: (-1, 0), float: (-1.0, 2.0, float("nan")), tuple: ((-1,), (0,))}
ONE_OF_A_KIND = (
    "gpt/text",
    "gpt/classify",
    "gpt/choose",
    "classifier/digits",
    "classifier/table",
    "vae/semi_supervised",
    "gan/digits",
    "rbm/persistent",
    "word2vec/source",
    "bert/pairs",
    "bert/classify",
    "bert/choice",
)


@pytest.mark.parametrize("name", ONE_OF_A_KIND)
def test_a_setting_that_cannot_work_is_refused_in_one_sentence(name: str, tmp_path: Path) -> None:
    """Every number of a recipe's parts made negative, zero, too large or not a number: it trains, or says why not."""
    made = tiny(name, tmp_path, {"train.steps": 1, "train.eval_every": 1, "train.eval_examples": 4, "train.device": "cpu"})
    number = 0
    for setting, (_, value) in config.leaves(made).items():
        for bad in BAD.get(type(value), ()) if setting.startswith(("data.", "model.", "objective.", "optim")) else ():
            number += 1
            try:
                trained(config.override(made, {setting: bad}), tmp_path / str(number))
            except WeftError as error:
                assert str(error).count("\n") == 0
            except Exception as error:
                pytest.fail(f"--{setting} {bad}: {type(error).__name__}: {error}")


@every_recipe
def test_documentation_and_defaults(name: str) -> None:
    assert weft.recipe(name).name == name
    doc = registry.find("recipes", name).__doc__ or ""
    assert f"weft train {name}" in doc, "the docstring shows how the recipe is run"
