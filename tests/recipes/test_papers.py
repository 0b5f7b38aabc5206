"""Recipes that keep to a paper's settings, and what each chooses its best checkpoint by."""

from __future__ import annotations

import pytest

import weft
from weft.training.optimizer.settings import Adam, OptimConfig, RMSProp


def of(name: str) -> list[OptimConfig]:
    optim = weft.recipe(name).optim
    return [*optim.values()] if isinstance(optim, dict) else [optim]


@pytest.mark.parametrize("name", ["transformer/pairs", "transformer/multi30k"])
def test_the_transformer(name: str) -> None:
    (optim,) = of(name)
    assert isinstance(optim, Adam)
    assert (optim.betas, optim.eps, optim.schedule.kind) == ((0.9, 0.98), 1e-9, "noam")


@pytest.mark.parametrize("name", ["dcgan/mnist", "dcgan/fashion", "dcgan/cifar10", "dcgan/images"])
def test_dcgan(name: str) -> None:
    assert weft.recipe(name).train.batch == 128
    for optim in of(name):
        assert isinstance(optim, Adam)
        assert (optim.lr, optim.betas) == (2e-4, (0.5, 0.999))


def test_wgan() -> None:
    recipe, (optim,) = weft.recipe("wgan/cifar10"), of("wgan/cifar10")
    assert isinstance(optim, RMSProp)  # which has no momentum
    assert (optim.lr, recipe.objective.weight_clip, recipe.objective.discriminator_steps, recipe.train.batch) == (5e-5, 0.01, 5, 64)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("name", "lr"), [("wgan_gp/images", 1e-4), ("wgan_gp/fashion", 2e-4), ("wgan_gp/cifar10", 2e-4)])
def test_wgan_with_a_penalty(name: str, lr: float) -> None:
    """The paper's settings; on data of a known size twice its rate, for fewer steps."""
    recipe = weft.recipe(name)
    assert (recipe.objective.gradient_penalty, recipe.objective.discriminator_steps) == (10.0, 5)  # type: ignore[attr-defined]
    assert recipe.model.discriminator_norm == "none"  # type: ignore[attr-defined]  # the penalty is of each example by itself
    for optim in of(name):
        assert isinstance(optim, Adam)
        assert (optim.lr, optim.betas) == (lr, (0.0, 0.9))


@pytest.mark.parametrize(("name", "lr", "batch"), [("bert/classify", 5e-5, 32), ("bert/squad", 5e-5, 32), ("bert/choice", 2e-5, 16)])
def test_bert_is_finetuned(name: str, lr: float, batch: int) -> None:
    recipe, (optim,) = weft.recipe(name), of(name)
    assert (optim.lr, optim.schedule.kind, recipe.train.batch) == (lr, "linear", batch)
    assert recipe.train.steps == 3 * recipe.train.eval_every  # epochs


@pytest.mark.parametrize(
    ("metric", "names"),
    [
        ("token_bleu", ["transformer/numbers", "transformer/pairs", "transformer/multi30k", "nat/numbers", "nat/multi30k", "t5/pairs"]),
        ("accuracy", ["bert/classify", "bert/sst2", "bert/rte", "bert/qnli", "bert/mnli", "bert/choice", "bert/squad", "vit/cifar10"]),
        ("matthews", ["bert/cola"]),
        ("f1", ["bert/mrpc", "bert/qqp"]),
        ("pearson", ["bert/score", "bert/stsb"]),
    ],
)
def test_the_best_checkpoint_is_chosen_by_what_the_task_is_about(metric: str, names: list[str]) -> None:
    """Not by cross-entropy: a translator by BLEU, the tasks of GLUE by the metric that GLUE names."""
    for name in names:
        progress = weft.recipe(name).progress
        assert (progress.metric, progress.goal) == (metric, "max"), name
    assert weft.recipe(names[0], {"progress.metric": "loss", "progress.goal": "min"}).progress.metric == "loss"
