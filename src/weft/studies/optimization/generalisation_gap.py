"""The gap between validation and training loss, without and with each regulariser.

A wide perceptron learns a thousand of scikit-learn's digits. Both losses are measured in the same way: over all examples,
with dropout and noise off. Without a regulariser the training loss goes to 0 while the validation loss turns up again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from weft.core import random
from weft.core.config import Config
from weft.data.base import Batch, DataLoader, TensorDataset
from weft.data.images.digits import DigitsConfig
from weft.models.mlp import MLPConfig
from weft.objectives.classification import ClassificationConfig
from weft.report.curves import Curve
from weft.report.svg import chart
from weft.studies.base import Finding
from weft.training import execution
from weft.training.hooks import Hook, Validation, evaluate
from weft.training.optimizer.settings import AdamW
from weft.training.settings import Train
from weft.training.trainer import Trainer


@dataclass(frozen=True, kw_only=True)
class Settings(Config):
    examples: int = 1000
    """Digits to learn from; the others of the 1,797 validate."""
    epochs: int = 40
    """Passes over them."""
    hidden: int = 512
    """Width of the hidden layer."""
    seed: int = 1
    """Of the weights, the order and the noise."""


@dataclass(frozen=True)
class Variant:
    dropout: float = 0.0
    weight_decay: float = 0.0
    noise: float = 0.0
    patience: int = 0


VARIANTS = {
    "none": Variant(),
    "dropout": Variant(dropout=0.7),
    "weight decay": Variant(weight_decay=1.0),
    "noise": Variant(noise=0.3),
    "early stopping": Variant(patience=3),
}
BATCH, LR = 50, 3e-3
Points = list[tuple[int, float, float, float]]
"""(epoch, training loss, validation loss, validation accuracy) after every epoch."""
Row = dict[str, Points]


@dataclass
class Losses(Hook):
    """Both losses after every epoch."""

    train: DataLoader
    held: DataLoader
    every: int
    points: Points = field(default_factory=list)
    name = "losses"

    def after_step(self, trainer: Trainer) -> None:
        if trainer.step % self.every == 0:
            first, second = (evaluate(trainer.model, trainer.objective, s, len(s.dataset), 512) for s in (self.train, self.held))
            self.points.append((trainer.step // self.every, first["loss"], second["loss"], second["accuracy"]))


@dataclass(frozen=True)
class Noise:
    """A transform that adds Gaussian noise from each example's own key."""

    deviation: float

    def __call__(self, batch: Batch, key: Tensor) -> Batch:
        image = batch["image"]  # (B, 64)
        return {**batch, "image": image + self.deviation * random.normal(random.fold(key, "noise"), *image.shape[1:])}


def train(settings: Settings, variant: Variant) -> Points:
    """Train one variant; what is returned ends with the epoch whose weights are kept."""
    data = DigitsConfig(validation=1 - settings.examples / 1797).build()
    assert isinstance(data.train, TensorDataset)
    assert data.validation is not None
    torch.manual_seed(settings.seed)
    model = MLPConfig(features=64, classes=10, hidden=(settings.hidden,), dropout=variant.dropout).build()
    objective = ClassificationConfig().build()
    epoch = max(1, len(data.train) // BATCH)
    run = Train(steps=epoch * settings.epochs, batch=BATCH, seed=settings.seed, device="cpu")
    plan = execution.choose(run, model, objective)
    held = DataLoader(data.validation, settings.seed, plan.device, shuffle=False)
    losses = Losses(DataLoader(data.train, settings.seed, plan.device, shuffle=False), held, epoch)
    hooks: list[Hook] = [losses]
    if variant.patience:
        hooks.append(Validation(held, epoch, 0, 512, "loss", "min", variant.patience))
    seen = TensorDataset(data.train.tensors, Noise(variant.noise) if variant.noise else None)
    optim = AdamW(lr=LR, weight_decay=variant.weight_decay)
    trainer = Trainer(model, objective, DataLoader(seen, settings.seed, plan.device), run, optim, plan, hooks)
    trainer.fit()
    return losses.points[: -variant.patience or None] if trainer.stop_reason else losses.points


def row(epoch: int, own: float, held: float, accuracy: float) -> tuple[str, ...]:
    return (str(epoch), *(f"{value:.4f}" for value in (own, held, held - own, accuracy)))


def conclusion(found: Row) -> str:
    """What the numbers say about the gap, in words."""
    gaps = {name: points[-1][2] - points[-1][1] for name, points in found.items()}
    start, end = found["none"][0], found["none"][-1]
    smaller = [name for name, gap in gaps.items() if gap < gaps["none"]]
    larger = [name for name, gap in gaps.items() if name not in (*smaller, "none")]
    text = f"Without a regulariser the gap goes from {start[2] - start[1]:.3f} (epoch {start[0]}) to {end[2] - end[1]:.3f} (epoch {end[0]})"
    text += f"; it ends smaller with {', '.join(smaller)}" if smaller else ""
    return f"{text}; not smaller with {', '.join(larger)}." if larger else f"{text}."


def study(settings: Settings) -> Finding:
    """Train every variant and compare their gaps."""
    return describe(settings, {name: train(settings, variant) for name, variant in VARIANTS.items()})


def describe(settings: Settings, found: Row) -> Finding:
    """The figure and the table of what every variant reached."""
    curves = [Curve(name, [(e, held - own) for e, own, held, _ in points], f"c{i}") for i, (name, points) in enumerate(found.items())]
    plain = found["none"]
    pair = [
        Curve("training", [(epoch, own) for epoch, own, _, _ in plain], "c0"),
        Curve("validation", [(epoch, held) for epoch, _, held, _ in plain], "c1"),
    ]
    figure = chart("loss without a regulariser, by epoch", pair, shade=True, tall=True, across="epoch")
    figure += chart("generalisation gap (validation − training loss), by epoch", curves, tall=True, across="epoch")
    rows = tuple((name, *row(*points[-1])) for name, points in found.items())
    head = ("regulariser", "epoch", "training loss", "validation loss", "gap", "validation accuracy")
    claim = f"A perceptron with {settings.hidden} hidden units on {settings.examples:,} digits. {conclusion(found)}"
    return Finding("Generalisation gap", claim, head, rows, figure)
