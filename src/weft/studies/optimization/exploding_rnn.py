"""A recurrent network whose gradients explode learns only where they are clipped (Pascanu et al., 2013, arXiv:1211.5063).

It is to tell which symbol stood first, after a stretch of noise. What it was told at first has to pass through the same matrix once
for every step since, and so does the gradient on its way back: where the matrix makes vectors longer, now and then one step of
gradient descent is so long that what was learned is lost. To clip a gradient leaves its direction as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from weft.core import random
from weft.core.config import Config
from weft.core.errors import ConfigError
from weft.data.base import DataLoader, TensorDataset
from weft.nn.recurrent import RecurrentLayer
from weft.objectives.classification import ClassificationConfig
from weft.report.curves import Curve
from weft.report.svg import chart
from weft.studies.base import Finding
from weft.training import execution
from weft.training.hooks import Hook, evaluate
from weft.training.optimizer.settings import SGD, OptimConfig
from weft.training.settings import Train
from weft.training.trainer import Trainer

SYMBOLS, EXAMPLES, HELD = 4, 8192, 512


@dataclass(frozen=True, kw_only=True)
class Settings(Config):
    length: int = 30
    """Steps after which the first symbol is asked for."""
    width: int = 32
    """Of the state."""
    gain: float = 1.5
    """Spectral radius of the recurrent matrix at first, about."""
    lr: float = 0.2
    """Rate of gradient descent."""
    clip: float = 1.0
    """Largest norm of a gradient, where it is clipped."""
    steps: int = 300
    """Of training, 32 sequences each."""
    seeds: int = 3
    """Networks trained each way."""


class Recurrent(nn.Module):
    """The class of a sequence from the last state of a recurrent layer."""

    def __init__(self, cell: str, width: int):
        super().__init__()
        self.rnn = RecurrentLayer(cell, SYMBOLS + 1, width)
        self.head = nn.Linear(width, SYMBOLS)

    def classify(self, x: Tensor) -> Tensor:
        """x (B, T, SYMBOLS + 1) -> (B, SYMBOLS)."""
        logits: Tensor = self.head(self.rnn(x)[1]["h"])
        return logits


def exploding(settings: Settings, seed: int) -> Recurrent:
    """A tanh RNN whose recurrent matrix makes vectors longer."""
    torch.manual_seed(seed)
    model = Recurrent("rnn", settings.width)
    nn.init.normal_(model.rnn.weight_hh, std=settings.gain / settings.width**0.5)
    return model


def sequences(number: int, length: int, seed: int) -> TensorDataset:
    """A symbol, then noise in a channel of its own; the label is the symbol."""
    keys = random.keys(seed, torch.arange(number))
    label = random.integers(keys, SYMBOLS)
    x = torch.zeros(number, length, SYMBOLS + 1)
    x[torch.arange(number), 0, label] = 1.0
    x[:, 1:, SYMBOLS] = random.uniform(random.fold(keys, "noise"), length)[:, 1:]
    return TensorDataset({"x": x, "label": label})


@dataclass
class Widths(Hook):
    """The loss and the norm of the gradient, before it is clipped, at every step."""

    losses: list[tuple[float, float]] = field(default_factory=list)
    norms: list[tuple[float, float]] = field(default_factory=list)
    accuracy: float = 0.0
    name = "steps"

    def after_step(self, trainer: Trainer) -> None:
        self.losses.append((trainer.step, trainer.means.read()["loss"]))
        self.norms.append((trainer.step, float(trainer.updaters[""].norm)))
        trainer.means.clear()


def train(model: Recurrent, optim: OptimConfig, steps: int, data: Callable[[int, int], TensorDataset], seed: int) -> Widths:
    """Train a network to tell the first symbol, and measure it on other sequences; data: so many of them, from a seed."""
    objective, seen = ClassificationConfig(inputs=("x",)).build(), Widths()
    run = Train(steps=steps, batch=32, seed=seed, device="cpu", precision="fp32", compile="off", nonfinite="skip")
    plan = execution.choose(run, model, objective)
    source, held = (DataLoader(data(number, kind), seed, plan.device) for kind, number in ((1, EXAMPLES), (2, HELD)))
    Trainer(model, objective, source, run, optim, plan, [seen]).fit()
    seen.accuracy = evaluate(model, objective, held, HELD, HELD)["accuracy"]
    return seen


def train_exploding(settings: Settings, clip: float, seed: int) -> Widths:
    """One network, trained with its gradients clipped to a norm, or left as they are (0)."""
    optim = SGD(lr=settings.lr, clip_norm=clip)
    return train(exploding(settings, seed), optim, settings.steps, lambda number, kind: sequences(number, settings.length, kind), seed)


def study(settings: Settings) -> Finding:
    """Train networks with and without clipping, and compare what they learn."""
    if min(settings.length, settings.width, settings.steps, settings.seeds) < 1 or settings.clip <= 0:
        raise ConfigError("expected length, width, steps and seeds of at least 1 and clip above 0")
    found = {name: [train_exploding(settings, clip, seed + 1) for seed in range(settings.seeds)] for name, clip in ways(settings).items()}
    first = [Curve(name, runs[0].losses, f"c{place}") for place, (name, runs) in enumerate(found.items())]
    norms = [
        Curve(name, [(step, max(norm, 1e-12)) for step, norm in runs[0].norms], f"c{i}") for i, (name, runs) in enumerate(found.items())
    ]
    figure = chart("training loss of the first seed", first, tall=True) + chart(
        "norm of its gradient, before clipping", norms, tall=True, log=True
    )
    rows = tuple(
        (name, str(seed), f"{run.losses[-1][1]:.3f}", f"{run.accuracy:.3f}", f"{max(norm for _, norm in run.norms):.3g}")
        for name, runs in found.items()
        for seed, run in enumerate(runs, 1)
    )
    right = {name: sum(run.accuracy for run in runs) / len(runs) for name, runs in found.items()}
    shares = " and ".join(f"{100 * share:.0f} % with gradients {name}" for name, share in right.items())
    claim = f"Asked after {settings.length} steps which of {SYMBOLS} symbols stood first, it is right in {shares};"
    claim += f" by chance in {100 / SYMBOLS:.0f} %."
    return Finding("Exploding gradients", claim, ("gradients", "seed", "last loss", "accuracy", "largest norm"), rows, figure)


def ways(settings: Settings) -> dict[str, float]:
    return {"as they are": 0.0, f"clipped to {settings.clip:g}": settings.clip}
