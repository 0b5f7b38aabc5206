"""Without noise words all word vectors collapse into one direction (Mikolov et al., 2013; Goldberg & Levy, 2014).

log sigma of the pairs of a text is largest where every score is infinite, whatever the words are: all vectors point the same way and say
nothing. Noise words hold those scores down that the text does not ask for.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from weft.core import random
from weft.core.config import Config
from weft.core.errors import ConfigError
from weft.data.base import Data, DataLoader
from weft.data.text.cooccurrence import CooccurrenceConfig
from weft.models.language.word2vec import Word2Vec, Word2VecConfig
from weft.objectives.language.negative_sampling import NegativeSampling, NegativeSamplingConfig
from weft.report.curves import Curve
from weft.report.svg import chart
from weft.studies.base import Finding
from weft.training import execution
from weft.training.optimizer.settings import SGD
from weft.training.settings import Train
from weft.training.trainer import Trainer

POINTS = 20
"""Measured of each run."""


@dataclass(frozen=True, kw_only=True)
class Settings(Config):
    path: str = ""
    """A text file; empty takes the docstrings and comments of Python's standard library."""
    negatives: tuple[int, ...] = (0, 1, 5)
    """Noise words of each pair."""
    steps: int = 1000
    """Of training, on 256 words and their contexts each."""
    lr: float = 0.05
    """Learning rate of plain SGD, of the sum over a word's pairs."""
    width: int = 32
    """Of the vectors."""
    seeds: int = 3
    """Of weights and order."""


@torch.no_grad()
def numbers(model: Word2Vec, objective: NegativeSampling) -> tuple[float, float, float]:
    """The mean cosine of two words, the share of the vectors' squared length that lies in one direction, and the mean chance that is given
    to a word and one drawn from the noise."""
    vectors = F.normalize(model.centre.weight[1:], dim=-1)  # without the unknown word, which is never trained
    cosine = vectors @ vectors.mT
    lengths = torch.linalg.svdvals(vectors).square()
    drawn = objective.draw(random.keys(0, torch.arange(1, len(vectors) + 1)), 8)
    chance = model(torch.arange(1, len(vectors) + 1), drawn).sigmoid()
    other = ~torch.eye(len(vectors), dtype=torch.bool)
    return float(cosine[other].mean()), float(lengths[0] / lengths.sum()), float(chance.mean())


def run(settings: Settings, data: Data, negatives: int, seed: int) -> list[tuple[int, tuple[float, float, float]]]:
    """The numbers at some steps of training."""
    torch.manual_seed(seed)
    model = Word2VecConfig(vocabulary=data.info["vocabulary"], width=settings.width).build()
    objective = NegativeSamplingConfig(negatives=negatives, frequencies=data.info["frequencies"]).build()
    train = Train(steps=settings.steps, batch=256, seed=seed, device="cpu")
    optim = SGD(lr=256 * settings.lr)  # losses are means over pairs
    source = DataLoader(data.train, seed, torch.device("cpu"))
    trainer = Trainer(model, objective, source, train, optim, execution.choose(train, model, objective))
    found, every = [(0, numbers(model, objective))], max(1, settings.steps // POINTS)
    for step in range(1, settings.steps + 1):
        trainer.run_step()
        if step % every == 0 or step == settings.steps:
            found.append((step, numbers(model, objective)))
    return found


def study(settings: Settings) -> Finding:
    """Train with and without noise words."""
    if not settings.negatives or min(settings.negatives) < 0 or min(settings.steps, settings.width, settings.seeds) < 1:
        raise ConfigError("expected numbers of negatives, and steps, a width and seeds of at least 1")
    data = CooccurrenceConfig(path=settings.path, vocabulary=1000, validation=0.0).build()
    rows, curves = [], []
    for number, negatives in enumerate(settings.negatives):
        runs = [run(settings, data, negatives, seed) for seed in range(1, settings.seeds + 1)]
        mean = [(step, [statistics.fmean(each[at][1][i] for each in runs) for i in range(3)]) for at, (step, _) in enumerate(runs[0])]
        curves.append(Curve(f"k = {negatives}", [(float(step), values[0]) for step, values in mean], f"c{number % 8}"))
        cosine, share, chance = mean[-1][1]
        rows.append((str(negatives), f"{cosine:.3f}", f"{100 * share:.0f} %", f"{chance:.3f}"))
    first, last = rows[0], rows[-1]
    claim = (
        f"With {first[0]} noise words two words have a cosine of {first[1]} in the mean, {first[2]} lies in one direction, and "
        f"any two words are given a chance of {first[3]} to stand together; with {last[0]} it is {last[1]}, {last[2]} and {last[3]}."
    )
    head = ("noise words k", "mean cosine of two words", "in one direction", "chance of words drawn at random")
    figure = chart("mean cosine of two words, by step", curves, tall=True)
    return Finding("Word vectors without noise words", claim, head, tuple(rows), figure)
