"""What every model promises, through a recipe that trains it: gradients, determinism, independent rows, weights that save."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.contracts.tiny import tiny, without_dropout
from weft.core import config, registry
from weft.core.registry import MODELS, RECIPES
from weft.data.base import Batch, DataLoader
from weft.objectives.base import Objective
from weft.recipes.base import Recipe
from weft.runs.assemble import build
from weft.training.checkpoint import checkpoint
from weft.training.optimizer.updater import parameter_kinds

BATCH = 6
every_model = pytest.mark.parametrize("name", list(MODELS))
FORWARD: dict[str, Callable[[Any, Batch], Tensor]] = {
    "gpt": lambda model, batch: model(batch["ids"]),
    "speedrun_gpt": lambda model, batch: model(batch["ids"]),
    "llama": lambda model, batch: model(batch["ids"]),
    "rnn_lm": lambda model, batch: model(batch["ids"]),
    "min_gru": lambda model, batch: model(batch["ids"]),
    "bert": lambda model, batch: model(batch["ids"], batch["segments"], batch["lengths"]),
    "transformer": lambda model, batch: model(batch["source"], batch["source_length"], batch["target"][:, :-1]),
    "pointer_generator": lambda model, batch: model(batch["source"], batch["source_length"], batch["target"][:, :-1]),
    "pointer_network": lambda model, batch: model(batch["points"], batch["lengths"], batch["order"]),
    "rnn_seq2seq": lambda model, batch: model(batch["source"], batch["source_length"], batch["target"][:, :-1]),
    "nonautoregressive": lambda model, batch: model(
        batch["source"], batch["source_length"], batch["target"][:, 1:], batch["target_length"] - 1
    ),
    "t5": lambda model, batch: model(batch["source"], batch["source_length"], batch["target"][:, :-1]),
    "perceiver": lambda model, batch: model(batch["ids"]),
    "mlp": lambda model, batch: model(batch["image"]),
    "vit": lambda model, batch: model(batch["image"]),
    "detr": lambda model, batch: model(batch["image"]),
    "swin": lambda model, batch: model(batch["image"]),
    **{name: lambda model, batch: model(batch["image"]) for name in ("convnet", "resnet", "preact_resnet", "densenet", "highway")},
    "vae": lambda model, batch: model(batch["image"]),
    "conditional_vae": lambda model, batch: model(batch["image"], batch["label"]),
    "semi_supervised_vae": lambda model, batch: model(batch["image"], batch["label"]),
    "gan": lambda model, batch: model.discriminate(model.sample(batch["key"])),
    "dcgan": lambda model, batch: model.discriminate(model.sample(batch["key"])),
    "bigan": lambda model, batch: model(batch["image"]),
    "pix2pix": lambda model, batch: model(batch["source"]),
    "cyclegan": lambda model, batch: model(batch["image"]),
    "rbm": lambda model, batch: model(batch["image"]),
    "boltzmann": lambda model, batch: model(model.clamped(batch["image"].flatten(1), batch["key"], 2)),
    "hopfield": lambda model, batch: model(2 * batch["image"] - 1),
    "planar": lambda model, batch: model.draw(batch["key"])[1],
    "realnvp": lambda model, batch: model(batch["point"]),
    "realnvp_images": lambda model, batch: model(batch["image"]),
    "maf": lambda model, batch: model(batch["point"]),
    "iaf": lambda model, batch: model.draw(batch["key"])[1],
    "distilled": lambda model, batch: model(batch["point"]),
    "pixelcnn": lambda model, batch: model(batch["image"]),
    "gated_pixelcnn": lambda model, batch: model(batch["image"]),
    "fasttext": lambda model, batch: model(batch["ids"], batch["segments"], batch["lengths"]),
    "word2vec": lambda model, batch: model(batch["centre"], batch["context"].clamp(min=0)),
    "elmo": lambda model, batch: model(batch["ids"], lengths=batch["lengths"]),
    "tagger": lambda model, batch: model(batch["ids"], lengths=batch["lengths"]),
    "speaker_encoder": lambda model, batch: model(batch["frames"]),
    "audio_classifier": lambda model, batch: model(batch["source"], batch["source_length"]),
    "conformer_ctc": lambda model, batch: model(batch["source"], batch["source_length"]),
    **{
        name: lambda model, batch: model(batch["source"], batch["source_length"], batch["target"][:, :-1])
        for name in ("transducer", "las", "conformer_aed")
    },
}
"""How each model is called on a batch of its recipe; a row of the result belongs to a row of the batch."""
SHAPES: dict[str, Callable[[Any, Batch], tuple[int, ...]]] = {
    "gpt": lambda c, batch: (BATCH, c.context, c.vocabulary),
    "speedrun_gpt": lambda c, batch: (BATCH, c.context, c.vocabulary),
    "llama": lambda c, batch: (BATCH, c.context, c.vocabulary),
    "rnn_lm": lambda c, batch: (*batch["ids"].shape, c.vocabulary),
    "min_gru": lambda c, batch: (*batch["ids"].shape, c.vocabulary),
    "bert": lambda c, batch: (BATCH, c.context, c.vocabulary),
    "transformer": lambda c, batch: (BATCH, batch["target"].size(1) - 1, c.vocabulary),
    "pointer_generator": lambda c, batch: (BATCH, batch["target"].size(1) - 1, c.vocabulary),
    "pointer_network": lambda c, batch: (BATCH, batch["order"].size(1), batch["points"].size(1) + 1),
    "rnn_seq2seq": lambda c, batch: (BATCH, batch["target"].size(1) - 1, c.vocabulary),
    "nonautoregressive": lambda c, batch: (BATCH, batch["target"].size(1) - 1, c.vocabulary),
    "t5": lambda c, batch: (BATCH, batch["target"].size(1) - 1, c.vocabulary),
    "perceiver": lambda c, batch: (BATCH, c.context, c.vocabulary),
    "mlp": lambda c, batch: (BATCH, c.classes),
    "vit": lambda c, batch: (BATCH, c.classes),
    "detr": lambda c, batch: (BATCH, c.queries, c.classes + 5),
    "swin": lambda c, batch: (BATCH, c.classes),
    **{name: lambda c, batch: (BATCH, c.classes) for name in ("convnet", "resnet", "preact_resnet", "densenet", "highway")},
    "vae": lambda c, batch: (BATCH, c.features),
    "conditional_vae": lambda c, batch: (BATCH, c.features),
    "semi_supervised_vae": lambda c, batch: (BATCH, c.features),
    "gan": lambda c, batch: (BATCH,),
    "dcgan": lambda c, batch: (BATCH,),
    "bigan": lambda c, batch: (BATCH, c.features),
    "pix2pix": lambda c, batch: (BATCH, *c.image),
    "cyclegan": lambda c, batch: (BATCH, *c.image),
    "rbm": lambda c, batch: (BATCH,),
    "boltzmann": lambda c, batch: (BATCH,),
    "hopfield": lambda c, batch: (BATCH,),
    **{name: lambda c, batch: (BATCH,) for name in ("planar", "realnvp", "realnvp_images", "maf", "iaf", "distilled")},
    "pixelcnn": lambda c, batch: (BATCH, c.levels, *c.image),
    "gated_pixelcnn": lambda c, batch: (BATCH, c.levels, *c.image),
    "fasttext": lambda c, batch: (BATCH, c.classes),
    "word2vec": lambda c, batch: tuple(batch["context"].shape),
    "elmo": lambda c, batch: (BATCH, batch["ids"].size(1), 2 * c.projection),
    "tagger": lambda c, batch: (BATCH, batch["ids"].size(1), c.classes),
    "speaker_encoder": lambda c, batch: (BATCH, c.embedding),
    "audio_classifier": lambda c, batch: (BATCH, c.classes),
    "conformer_ctc": lambda c, batch: (BATCH, -(-batch["source"].size(1) // c.subsampling), c.vocabulary),
    "transducer": lambda c, batch: (BATCH, -(-batch["source"].size(1) // c.subsampling), batch["target"].size(1) - 1, c.vocabulary),
    **{name: lambda c, batch: (BATCH, batch["target"].size(1) - 1, c.vocabulary) for name in ("las", "conformer_aed")},
}

EMPTY = ("hopfield",)
"""Models that start without any weights, whatever the seed."""


def recipe_of(model: str, folder: Path) -> Recipe:
    """The first recipe that trains a model, made small, without dropout."""
    family = registry.find("models", model)
    for name in RECIPES:
        if isinstance(registry.find("recipes", name)().model, family):
            return tiny(name, folder)
    pytest.fail(f"no recipe trains the model {model!r}")


def parts(made: Recipe, device: torch.device) -> tuple[nn.Module, Objective, Batch]:
    data = made.data.build()
    resolved = made.resolve(data.info)
    model, objective = build(resolved)
    return model.to(device), objective.to(device), DataLoader(data.train, 1, device).batch(0, BATCH)


def plain(model: str, folder: Path, device: torch.device) -> tuple[nn.Module, Objective, Batch]:
    made = recipe_of(model, folder)
    return parts(config.override(made, without_dropout(made)), device)


@every_model
def test_shapes(name: str, tmp_path: Path, device: torch.device) -> None:
    assert name in FORWARD, f"say in {__name__} how {name} is called"
    model, _, batch = plain(name, tmp_path, device)
    assert tuple(FORWARD[name](model, batch).shape) == SHAPES[name](model.config, batch)


@every_model
def test_gradient_reaches_every_parameter(name: str, tmp_path: Path, device: torch.device) -> None:
    model, objective, batch = plain(name, tmp_path, device)
    jitter(model)
    reached: set[str] = set()
    for turn in objective.turns:
        model.zero_grad()
        sum(objective(model, batch, turn.name).sums.values()).backward()
        mine = {id(p) for module in turn.modules for p in model.get_submodule(module).parameters()}
        reached |= {path for path, p in model.named_parameters() if id(p) in mine and p.grad is not None and p.grad.abs().sum() > 0}
    assert reached == {path for path, _ in model.named_parameters()}


@every_model
def test_evaluation_is_deterministic_and_leaves_no_trace(name: str, tmp_path: Path, device: torch.device) -> None:
    model, objective, batch = parts(recipe_of(name, tmp_path), device)
    model.eval()
    before = {path: value.clone() for path, value in [*model.state_dict().items(), *objective.state_dict().items()]}
    with torch.no_grad():
        first, second = FORWARD[name](model, batch), FORWARD[name](model, batch)
        sums = [objective(model, batch, objective.turns[0].name).sums for _ in range(2)]
        objective.measure(model, batch)
    assert torch.equal(first, second)
    assert all(torch.equal(value, sums[1][key]) for key, value in sums[0].items())
    after = dict([*model.state_dict().items(), *objective.state_dict().items()])
    assert all(torch.equal(value, after[path]) for path, value in before.items())


@every_model
def test_rows_of_a_batch_are_independent(name: str, tmp_path: Path, device: torch.device) -> None:
    model, objective, batch = plain(name, tmp_path, device)
    jitter(model)
    model.eval()
    rows = [{key: value[i : i + 1] for key, value in batch.items()} for i in range(BATCH)]
    with torch.no_grad():
        whole = FORWARD[name](model, batch)
        torch.testing.assert_close(torch.cat([FORWARD[name](model, row) for row in rows]), whole, atol=1e-5, rtol=1e-5)
        for turn in objective.turns if objective.separable else ():
            terms, singles = objective(model, batch, turn.name), [objective(model, row, turn.name) for row in rows]
            counts, own = objective.counts(batch), [objective.counts(row) for row in rows]
            for key, value in terms.sums.items():
                mean = value / counts[key]
                each = sum(single.sums[key] for single in singles) / sum(count[key] for count in own)
                torch.testing.assert_close(mean, each, atol=1e-4, rtol=1e-5)


@every_model
def test_weights_survive_a_checkpoint(name: str, tmp_path: Path, device: torch.device) -> None:
    made = recipe_of(name, tmp_path)
    model, _, batch = parts(made, device)
    jitter(model)
    stored = checkpoint.Checkpoint(tmp_path, {"m": checkpoint.pack(model.state_dict())}).tensors("m")
    other, _, _ = parts(config.override(made, {"train.seed": 2}), device)
    checkpoint.load_weights(other, stored, "here")
    for path, value in model.state_dict().items():
        assert torch.equal(value, other.state_dict()[path]), path
    with torch.no_grad():
        assert torch.equal(FORWARD[name](model.eval(), batch), FORWARD[name](other.eval(), batch))


@every_model
def test_the_same_seed_makes_the_same_weights(name: str, tmp_path: Path, device: torch.device) -> None:
    made = recipe_of(name, tmp_path)
    first, second, third = (parts(config.override(made, {"train.seed": seed}), device)[0].state_dict() for seed in (3, 3, 4))
    assert all(torch.equal(value, second[path]) for path, value in first.items())
    assert name in EMPTY or any(not torch.equal(value, third[path]) for path, value in first.items())


@every_model
def test_decay_spares_biases_norms_and_embeddings(name: str, tmp_path: Path, device: torch.device) -> None:
    model, objective, _ = parts(recipe_of(name, tmp_path), device)
    for turn in objective.turns:
        kinds = parameter_kinds([(module, model.get_submodule(module)) for module in turn.modules])
        for path, kind in kinds.items():
            owner, _, leaf = path.rpartition(".")
            parameter, module = model.get_parameter(path), model.get_submodule(owner)
            spared = "bias" in leaf or parameter.ndim < 2 or isinstance(module, nn.Embedding | nn.LayerNorm) or leaf.endswith("embedding")
            assert (kind == "no_decay") == spared, path


@every_model
def test_settings_are_documented(name: str) -> None:
    """Every field of a model's settings has a sentence under it, which is its help text."""
    family = registry.find("models", name)
    body = ast.parse(inspect.getsource(family)).body[0].body  # type: ignore[attr-defined]
    for place, node in enumerate(body):
        if isinstance(node, ast.AnnAssign):
            follows = body[place + 1]
            assert isinstance(follows, ast.Expr), node.target.id  # type: ignore[union-attr]
            assert isinstance(follows.value, ast.Constant), node.target.id  # type: ignore[union-attr]


def jitter(model: nn.Module) -> None:
    """Move every weight a little, so that zeros at the start hide nothing."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator).to(parameter.device))
