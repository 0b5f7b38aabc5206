"""What a step costs by noise-contrastive estimation and by a softmax over all words, as the vocabulary grows (Mnih & Teh, 2012).

A softmax scores every word for every prediction, NCE the true one and k noise words. Both are trained on the same text for as many steps,
and their perplexities compared: NCE's is that of its scores made to sum to one.
"""

from __future__ import annotations

import math
import statistics
import time
from dataclasses import dataclass

import torch

from weft.core.config import Config
from weft.core.errors import ConfigError
from weft.data.base import IGNORE, Batch, Data, DataLoader
from weft.data.text.cooccurrence import CooccurrenceConfig
from weft.models.language.word2vec import Word2VecConfig
from weft.objectives.language.full_softmax import FullSoftmaxConfig
from weft.objectives.language.nce import NCE, NCEConfig
from weft.objectives.language.word_prediction import WordPrediction
from weft.report.curves import Curve
from weft.report.svg import chart
from weft.studies.base import Finding
from weft.training import execution
from weft.training.optimizer.settings import Adam
from weft.training.schedule import Schedule
from weft.training.settings import Train
from weft.training.trainer import Trainer

PAIRS = 2048
"""Validation windows that tell the perplexity."""


@dataclass(frozen=True, kw_only=True)
class Settings(Config):
    path: str = ""
    """A text file; empty takes the docstrings and comments of Python's standard library."""
    vocabularies: tuple[int, ...] = (1000, 4000, 16_000, 64_000)
    """Sizes at which a step is timed."""
    vocabulary: int = 4000
    """Words of the models whose perplexities are compared."""
    negatives: int = 100
    """Noise words k."""
    width: int = 64
    """Of the vectors."""
    batch: int = 128
    """Windows of a step."""
    steps: int = 500
    """Of training, for the perplexity."""
    seeds: int = 3
    """Of weights, order and noise."""


def seconds(settings: Settings, kind: str, vocabulary: int, goes: int = 5) -> float:
    """Of the forward and backward pass of a batch, the median of some goes."""
    zipf = tuple(1 + 10_000_000 // word for word in range(1, vocabulary + 1))
    objective: WordPrediction
    if kind == "NCE":
        objective = NCEConfig(architecture="cbow", frequencies=zipf, negatives=settings.negatives).build()
    else:
        objective = FullSoftmaxConfig(architecture="cbow", frequencies=zipf).build()
    model = Word2VecConfig(vocabulary=vocabulary, width=settings.width).build()
    words = torch.randint(vocabulary, (settings.batch, 11), generator=torch.Generator().manual_seed(0))
    batch: Batch = {"centre": words[:, 0], "context": words[:, 1:], "key": torch.arange(settings.batch)}
    taken = []
    for _ in range(goes + 1):
        begin = time.perf_counter()
        objective(model, batch, "").sums["loss"].backward()
        taken.append(time.perf_counter() - begin)
        model.zero_grad()
    return statistics.median(taken[1:])


def perplexity(settings: Settings, kind: str, data: Data, seed: int) -> tuple[float, float]:
    """Of validation windows behind the training, and the spread of log Z over them."""
    frequencies = data.info["frequencies"]
    measure = NCEConfig(architecture="cbow", frequencies=frequencies, negatives=settings.negatives).build()
    objective = measure if kind == "NCE" else FullSoftmaxConfig(architecture="cbow", frequencies=frequencies).build()
    torch.manual_seed(seed)
    model = Word2VecConfig(vocabulary=len(frequencies), width=settings.width).build()
    train = Train(steps=settings.steps, batch=settings.batch, seed=seed, device="cpu")
    source = DataLoader(data.train, seed, torch.device("cpu"))
    optim = Adam(lr=1e-2, schedule=Schedule(kind="linear"))
    Trainer(model, objective, source, train, optim, execution.choose(train, model, objective)).fit()
    assert data.validation is not None and isinstance(measure, NCE)
    held = DataLoader(data.validation, 0, torch.device("cpu")).batch(0, min(PAIRS, len(data.validation)))
    found = {name: float(value) for name, value in measure.measure(model, held).items()}
    number = float((measure.examples(held)["targets"] != IGNORE).sum())
    log_z = found["log_z"] / number
    return math.exp(found["nll"] / number), math.sqrt(max(0.0, found["log_z_square"] / number - log_z**2))


def study(settings: Settings) -> Finding:
    """Steps by the vocabulary, and perplexities behind as many steps."""
    least = min(settings.negatives, settings.width, settings.batch, settings.steps, settings.seeds)
    if not settings.vocabularies or min(*settings.vocabularies, settings.vocabulary) < 2 or least < 1:
        raise ConfigError("expected vocabularies of at least 2, and negatives, a width, a batch, steps and seeds of at least 1")
    kinds = ("full softmax", "NCE")
    times = {kind: {size: 1e3 * seconds(settings, kind, size) for size in settings.vocabularies} for kind in kinds}
    curves = [Curve(kind, [(math.log10(n), ms) for n, ms in times[kind].items()], f"c{i}") for i, kind in enumerate(kinds)]
    figure = chart("milliseconds of a step, by log10 of the vocabulary", curves, tall=True, log=True, across="log10 words")
    faster = {size: times[kinds[0]][size] / times[kinds[1]][size] for size in settings.vocabularies}
    rows = [(f"a step of {size:,} words, ms", *(f"{times[kind][size]:.2f}" for kind in kinds), f"{faster[size]:.2f}") for size in faster]
    data = CooccurrenceConfig(path=settings.path, vocabulary=settings.vocabulary).build()
    found = {kind: [perplexity(settings, kind, data, seed) for seed in range(1, settings.seeds + 1)] for kind in kinds}
    means = {kind: statistics.fmean(each for each, _ in values) for kind, values in found.items()}
    deviations = {kind: statistics.stdev([each for each, _ in found[kind]]) if settings.seeds > 1 else 0.0 for kind in kinds}
    shown = (f"{means[kind]:.1f} ± {deviations[kind]:.1f}" for kind in kinds)
    rows.append(("validation perplexity", *shown, f"{means[kinds[0]] / means[kinds[1]]:.3f}"))
    rows.append(("spread of log Z", *(f"{statistics.fmean(z for _, z in found[kind]):.3f}" for kind in kinds), ""))
    largest = max(settings.vocabularies)
    claim = (
        f"With {largest:,} words a step by NCE is {faster[largest]:.1f} times as fast. Behind {settings.steps} steps on "
        f"{len(data.info['frequencies']):,} words perplexity is {100 * (means[kinds[1]] / means[kinds[0]] - 1):+.1f} % from a softmax's."
    )
    return Finding("NCE against a full softmax", claim, ("", *kinds, "ratio"), tuple(rows), figure)
