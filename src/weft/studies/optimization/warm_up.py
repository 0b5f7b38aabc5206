"""Why norms that stand last need a warm-up, and norms that stand first do not (Xiong et al., 2020, arXiv:2002.04745).

At the start of training the gradients of a Transformer grow towards its output where each layer norm follows the sum, and not
where it stands before the branch. So a rate that the one takes from the first step on throws the other to where it learns
nothing but how often each letter occurs, unless the rate rises from 0. The task is to write numbers in English words.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from weft.core.config import Config
from weft.core.errors import ConfigError
from weft.data.base import Data, DataLoader
from weft.data.text.number_words import NumberWordsConfig
from weft.models.language.transformer import Transformer, TransformerConfig
from weft.nn.block import Order
from weft.objectives.language.seq2seq import Seq2SeqConfig
from weft.report.curves import Curve
from weft.report.svg import chart
from weft.studies.base import Finding
from weft.training import execution
from weft.training.hooks import Hook, evaluate
from weft.training.optimizer.settings import Adam
from weft.training.schedule import Schedule
from weft.training.settings import Train
from weft.training.trainer import Trainer

BATCH, EVERY = 32, 10
NAMES: dict[Order, str] = {"pre": "norm first", "post": "norm last"}
Points = list[tuple[float, float]]
"""(step, validation loss)."""
Row = dict[tuple[Order, int], Points]
"""By the place of the norms and the steps of warm-up."""


@dataclass(frozen=True, kw_only=True)
class Settings(Config):
    lr: float = 2e-3
    """Peak of the learning rate, Adam's."""
    steps: int = 120
    """Of training, for each of the four."""
    warmup: int = 60
    """Steps in which the rate rises from 0, where it does."""
    layers: int = 6
    """Of the encoder, and as many of the decoder."""
    width: int = 64
    """Of the states."""
    seed: int = 1
    """Of the weights and the order."""

    def model(self, norm: Order, data: Data) -> Transformer:
        """A Transformer without dropout, its first weights drawn with the seed."""
        torch.manual_seed(self.seed)
        sizes = {"vocabulary": data.info["vocabulary"], "context": data.info["context"]}
        return TransformerConfig(layers=self.layers, heads=4, width=self.width, norm=norm, dropout=0.0, **sizes).build()


@dataclass
class Losses(Hook):
    """The validation loss, every few steps."""

    held: DataLoader
    points: Points = field(default_factory=list)
    name = "losses"

    def after_step(self, trainer: Trainer) -> None:
        if trainer.step % EVERY == 0 or trainer.step == 1:
            found = evaluate(trainer.model, trainer.objective, self.held, len(self.held.dataset), 128)
            self.points.append((trainer.step, found["loss"]))


def objective(data: Data) -> Any:
    return Seq2SeqConfig(label_smoothing=0.0, decode=False, start=data.info["start"], end=data.info["end"]).build()


def train(settings: Settings, data: Data, norm: Order, warmup: int) -> Points:
    """The validation loss of one Transformer as it learns."""
    assert data.validation is not None
    model, loss = settings.model(norm, data), objective(data)
    run = Train(steps=settings.steps, batch=BATCH, seed=settings.seed, device="cpu", compile="off")
    plan = execution.choose(run, model, loss)
    losses = Losses(DataLoader(data.validation, settings.seed, plan.device, shuffle=False))
    optim = Adam(lr=settings.lr, betas=(0.9, 0.98), schedule=Schedule(kind="constant", warmup=warmup))
    Trainer(model, loss, DataLoader(data.train, settings.seed, plan.device), run, optim, plan, [losses]).fit()
    return losses.points


def gradients(settings: Settings, data: Data, norm: Order) -> list[float]:
    """Before the first step: the size of the gradient of each layer of the decoder (its last matrix), first to last."""
    model, loss = settings.model(norm, data), objective(data)
    batch = data.train.batch(torch.arange(BATCH), torch.zeros(BATCH, dtype=torch.int64))
    (loss(model, batch, "").sums["loss"] / loss.counts(batch)["loss"]).backward()
    return [float(block.feedforward.down.weight.grad.norm()) for block in model.decoder]  # type: ignore[operator,union-attr]


def of_letters(data: Data) -> float:
    """The loss of a model that knows nothing but how often each token occurs in what it is to write."""
    targets = data.train.batch(torch.arange(len(data.train)), torch.zeros(len(data.train), dtype=torch.int64))
    inside = torch.arange(targets["target"].size(1)) < targets["target_length"][:, None]
    inside[:, 0] = False  # the start is given
    shares = targets["target"][inside].bincount().double() / inside.sum()
    return float(-torch.special.xlogy(shares, shares).sum())


def study(settings: Settings) -> Finding:
    """Train both kinds with and without warm-up, and compare what they reach."""
    if settings.warmup < 1 or settings.steps < 1:
        raise ConfigError(f"expected warmup ≥ 1 and steps ≥ 1, found {settings.warmup} and {settings.steps}")
    data = NumberWordsConfig(limit=1000, pairs=1000, validation=0.1).build()
    found = {(norm, warmup): train(settings, data, norm, warmup) for norm in NAMES for warmup in (0, settings.warmup)}
    return describe(settings, found, of_letters(data), {norm: gradients(settings, data, norm) for norm in NAMES})


def describe(settings: Settings, found: Row, letters: float, sizes: dict[Order, list[float]]) -> Finding:
    """The figures and the table."""
    labels = {key: f"{NAMES[key[0]]}, {'warm-up' if key[1] else 'no warm-up'}" for key in found}
    curves = [Curve(labels[key], points, f"c{place}") for place, (key, points) in enumerate(found.items())]
    figure = chart("validation loss, by step", curves, tall=True, across="step")
    by_layer = [Curve(NAMES[norm], list(enumerate(values, 1)), f"c{2 * place}") for place, (norm, values) in enumerate(sizes.items())]
    figure += chart("size of the gradient before the first step, by layer of the decoder", by_layer, tall=True, across="layer")
    rows = []
    for key, points in found.items():
        first, last = sizes[key[0]][0], sizes[key[0]][-1]
        rows.append((labels[key], f"{points[-1][1]:.3f}", *(f"{size:.4f}" for size in (first, last)), f"{last / first:.1f}"))
    head = ("", f"validation loss after {settings.steps} steps", "first gradient, first layer", "last layer", "ratio")
    claim = f"{settings.layers} + {settings.layers} layers of {settings.width}, Adam at {settings.lr:g}. {conclusion(found, letters)}"
    return Finding("Warm-up and the place of the norms", claim, head, tuple(rows), figure)


def conclusion(found: Row, letters: float) -> str:
    """What the numbers say, in words."""
    ends = {key: points[-1][1] for key, points in found.items()}
    said = []
    for norm, name in NAMES.items():
        plain, warmed = (ends[key] for key in ends if key[0] == norm)
        learns = "learns without a warm-up" if plain < letters / 2 else "does not learn without a warm-up"
        said.append(f"With the {name} it {learns}: it ends at a loss of {plain:.3f} without and at {warmed:.3f} with one.")
    return f"{' '.join(said)} Who knows only how often each letter occurs has {letters:.3f}."
