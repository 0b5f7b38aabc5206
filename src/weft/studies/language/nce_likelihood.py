"""Noise-contrastive estimation becomes maximum likelihood as its noise words grow in number (Gutmann & Hyvärinen, 2010; Mnih & Teh, 2012).

In a made-up language each of H contexts has a distribution of its own over V words, so every expectation is a sum that can be taken. At the
same weights the expected gradient of NCE with k noise words turns towards that of the likelihood; what is learned has a partition function
Z near 1, though nothing normalises it.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.core.config import Config
from weft.core.errors import ConfigError
from weft.data.base import DataLoader, TensorDataset
from weft.models.language.word2vec import Word2Vec, Word2VecConfig
from weft.objectives.language.full_softmax import FullSoftmaxConfig
from weft.objectives.language.nce import NCEConfig
from weft.objectives.language.word_prediction import WordPredictionConfig
from weft.report.curves import Curve
from weft.report.svg import chart
from weft.studies.base import Finding
from weft.training import execution
from weft.training.optimizer.settings import Adam
from weft.training.schedule import Schedule
from weft.training.settings import Train
from weft.training.trainer import Trainer

BINS = 24
"""Of a histogram."""


@dataclass(frozen=True, kw_only=True)
class Settings(Config):
    words: int = 60
    """Vocabulary V."""
    contexts: int = 30
    """Contexts H."""
    width: int = 16
    """Of the vectors."""
    noise: tuple[int, ...] = (1, 3, 10, 30, 100, 300, 1000, 3000)
    """Noise words k at which gradients are compared."""
    trained: tuple[int, ...] = (1, 10, 100)
    """Noise words k with which models are trained."""
    steps: int = 400
    """Of training, on 512 pairs each."""
    seeds: int = 3
    """Languages, each with weights of its own."""


def language(settings: Settings, seed: int) -> tuple[Tensor, Tensor]:
    """Words given their context (H, V), and words by themselves (V,): Zipf's law, turned by what each context prefers."""
    generator = torch.Generator().manual_seed(seed)
    zipf = 1 / torch.arange(1, settings.words + 1, dtype=torch.double)
    given = zipf * (1.5 * torch.randn(settings.contexts, settings.words, generator=generator, dtype=torch.double)).exp()
    given = given / given.sum(1, keepdim=True)
    return given, given.mean(0)


def likelihood_loss(scores: Tensor, given: Tensor) -> Tensor:
    """scores (H, V) -> minus the expected log-likelihood."""
    return -(given * scores.log_softmax(1)).sum(1).mean()


def nce_loss(scores: Tensor, given: Tensor, noise: Tensor, k: int) -> Tensor:
    """scores (H, V), as if they were log-probabilities -> the expected loss over data and k noise words."""
    against = scores - (k * noise).log()
    return (given * F.softplus(-against) + k * noise * F.softplus(against)).sum(1).mean()


def cosine(model: Word2Vec, given: Tensor, noise: Tensor, k: int) -> float:
    """Of the gradients of both losses with respect to all of a model's parameters; a constant of each context makes its Z 1."""
    tables = (model.centre.weight, model.context.weight)
    scores = noise.log() + tables[0] @ tables[1].mT
    scores = scores - scores.logsumexp(1, keepdim=True).detach()
    losses = (likelihood_loss(scores, given), nce_loss(scores, given, noise, k))
    exact, found = (torch.cat([g.flatten() for g in torch.autograd.grad(loss, tables, retain_graph=True)]) for loss in losses)
    return float(F.cosine_similarity(exact, found, dim=0))


def untrained(settings: Settings, seed: int, std: float) -> Word2Vec:
    torch.manual_seed(seed)
    model = Word2VecConfig(vocabulary=settings.words, width=settings.width).build()
    for table in (model.centre, model.context):
        torch.nn.init.normal_(table.weight, std=std)
    return model


def trained(settings: Settings, seed: int, objective: WordPredictionConfig, given: Tensor) -> Word2Vec:
    """A model of the language, by pairs that are drawn from it."""
    model, generator = untrained(settings, seed, 0.1), torch.Generator().manual_seed(seed)
    contexts = torch.arange(settings.contexts).repeat_interleave(2048)
    words = torch.multinomial(given, 2048, True, generator=generator).flatten().unsqueeze(1)
    source = DataLoader(TensorDataset({"centre": contexts, "context": words}), seed, torch.device("cpu"))
    train, optim = Train(steps=settings.steps, batch=512, seed=seed, device="cpu"), Adam(lr=0.02, schedule=Schedule(kind="linear"))
    built = objective.build()
    Trainer(model, built, source, train, optim, execution.choose(train, model, built)).fit()
    return model


@torch.no_grad()
def measured(model: Word2Vec, given: Tensor, noise: Tensor, contexts: int) -> tuple[Tensor, float]:
    """log Z of every context (H,), and the divergence from the language to the model, nats."""
    scores = noise.log() + (model.centre.weight[:contexts] @ model.context.weight.mT).double()
    log_z = scores.logsumexp(1)
    return log_z, float((given * (given.log() - scores + log_z[:, None])).sum(1).mean())


def histogram(values: Tensor, low: float, high: float) -> list[tuple[float, float]]:
    """The share of values in each bin."""
    counts = torch.histc(values.float(), BINS, low, high) / len(values)
    return [(low + (number + 0.5) * (high - low) / BINS, share) for number, share in enumerate(counts.tolist())]


def spread(values: list[float]) -> str:
    return f"{statistics.fmean(values):.4f}" + (f" ± {statistics.stdev(values):.4f}" if len(values) > 1 else "")


def study(settings: Settings) -> Finding:
    """Gradients by k, and what is learned with some k and by likelihood."""
    if min(settings.words, settings.contexts, settings.width, settings.steps, settings.seeds, *settings.noise, *settings.trained) < 1:
        raise ConfigError("expected words, contexts, a width, steps, seeds and noise words of at least 1")
    if settings.contexts > settings.words:
        raise ConfigError(f"--contexts must not be above --words, {settings.words}, as both have vectors in tables of that size")
    turned: dict[int, list[float]] = {k: [] for k in settings.noise}
    logs: dict[str, list[Tensor]] = {}
    apart: dict[str, list[float]] = {}
    for seed in range(1, settings.seeds + 1):
        given, noise = language(settings, seed)
        full = torch.cat([given, given.mean(0).expand(settings.words - settings.contexts, -1)])  # a row for each row of the table
        model = untrained(settings, seed, 0.3).double()
        for k in settings.noise:
            turned[k].append(cosine(model, full, noise, k))
        shares = tuple((1e9 * noise).round().long().tolist())
        objectives: dict[str, WordPredictionConfig] = {"likelihood": FullSoftmaxConfig(frequencies=shares)}
        objectives |= {f"NCE, k = {k}": NCEConfig(negatives=k, frequencies=shares) for k in settings.trained}
        for name, objective in objectives.items():
            log_z, divergence = measured(trained(settings, seed, objective, given), given, noise, settings.contexts)
            logs.setdefault(name, []).append(log_z)
            apart.setdefault(name, []).append(divergence)
    curve = [(math.log10(k), statistics.fmean(values)) for k, values in turned.items()]
    title = "cosine of the gradients of NCE and likelihood, by log10 of k"
    figure = chart(title, [Curve("cosine", curve, "c0")], tall=True, across="log10 k")
    every = {name: torch.cat(values) for name, values in logs.items()}
    ends = min(float(v.min()) for v in every.values()) - 0.1, max(float(v.max()) for v in every.values()) + 0.1
    shown = [Curve(name, histogram(values, *ends), f"c{number % 8}") for number, (name, values) in enumerate(every.items())]
    figure += chart("share of contexts, by their log Z", shown, tall=True, across="log Z")
    rows = [(f"gradient, k = {k}", spread(values), "", "") for k, values in turned.items()]
    rows += [(name, "", f"{values.mean():.3f} ± {values.std():.3f}", spread(apart[name])) for name, values in every.items()]
    last, best = f"NCE, k = {max(settings.trained)}", settings.noise[-1]
    claim = (
        f"With {best} noise words the gradient of NCE has a cosine of {statistics.fmean(turned[best]):.4f} with that of the likelihood, "
        f"with {settings.noise[0]} of {statistics.fmean(turned[settings.noise[0]]):.4f}. What {last} learns has a log Z of "
        f"{every[last].mean():.3f} ± {every[last].std():.3f} over contexts; with likelihood Z is free, ± {every['likelihood'].std():.3f}."
    )
    head = ("", "cosine with likelihood", "log Z", "KL from the language, nats")
    return Finding("NCE and maximum likelihood", claim, head, tuple(rows), figure)
