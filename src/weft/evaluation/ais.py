"""Likelihood of a restricted Boltzmann machine by annealed importance sampling, from both ends.

Forward (Neal, 2001; Salakhutdinov & Murray, 2008): chains start at exact draws of a machine whose pixels are independent, with
the mean of the data, and are heated into the machine at hand over many temperatures. The mean of their weights is an unbiased
estimate of a ratio of normalisers, so log Z comes out low on average and the likelihood high. Backward (Burda, Grosse &
Salakhutdinov, 2015, arXiv:1412.8566): chains start at images and are cooled, which gives likelihoods that are low on average.
Where the two agree, both are near the truth; where they do not, more temperatures are needed. All in float64.

At temperature t, log f_t(v) = (1 - t) v a + t v b + Σ softplus(t (v W + c)), a being the biases of the independent pixels.

Shapes: M chains, K temperatures, X visible units, H hidden units.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.core import random
from weft.core.errors import ConfigError
from weft.data.base import Batch
from weft.evaluation.evaluate import TaskMetrics
from weft.models.base import BipartiteEnergy, need
from weft.sampling.importance import effective_sample_size, log_mean, standard_error

PLACES = ((0.0, 0.0), (1 / 29, 0.5), (9 / 29, 0.9), (1.0, 1.0))
"""Share of the temperatures below each temperature: dense where the machine is nearly itself (Salakhutdinov & Murray, 2008)."""

TOGETHER = 16
"""Temperatures whose noise is made at once: on a GPU it is as fast as that of one."""


@dataclass(frozen=True)
class Estimate:
    """What the chains found of log Z, and the score -F of the images, from which it is taken."""

    forward: Tensor
    """log Z by each chain from independent pixels, (M,); the logarithm of their mean is low on average."""
    backward: Tensor
    """log Z by each chain from an image; its mean is high on average."""
    score: float
    images: int
    temperatures: int

    def metrics(self) -> dict[str, float]:
        """All that is known: a single chain has no error."""
        found, reverse = log_mean(self.forward), float(self.backward.mean())
        numbers = {
            "log_likelihood": self.score - float(found.mean),
            "log_likelihood_reverse": self.score - reverse,
            "log_partition": float(found.mean),
            "log_partition_error": float(found.error),
            "log_partition_reverse": reverse,
            "log_partition_reverse_error": float(standard_error(self.backward)),
            "effective_chains": float(effective_sample_size(self.forward)),
            "ais_chains": float(len(self.forward)),
            "ais_temperatures": float(self.temperatures),
        }
        return {name: value for name, value in numbers.items() if not math.isnan(value)}


class Path:
    """The distributions between independent pixels (t = 0) and a machine (t = 1)."""

    def __init__(self, model: nn.Module, base: Tensor):
        """base (X,): log-odds of the independent pixels."""
        need(model, BipartiteEnergy)
        self.model = cast(BipartiteEnergy, copy.deepcopy(model).double().requires_grad_(False))
        self.base = base.double()
        empty = torch.zeros_like(self.base).unsqueeze(0)
        self.hidden = self.model.hidden_logits(empty).size(1)
        self.bias = self.model.visible_logits(empty.new_zeros(1, self.hidden))[0]  # (X,)

    def log_start(self) -> float:
        """log Z at t = 0, where no hidden unit has a field."""
        return float(F.softplus(self.base).sum()) + self.hidden * math.log(2)

    def start(self, key: Tensor) -> Tensor:
        """Exact draws at t = 0: key (M,) -> v (M, X)."""
        return (random.uniform(random.fold(key, "start"), len(self.base)) < self.base.sigmoid()).double()

    def gain(self, v: Tensor, low: float, high: float) -> tuple[Tensor, Tensor]:
        """log f_high(v) - log f_low(v) (M,), and the hidden units' fields at t = 1 (M, H), for v (M, X)."""
        fields = self.model.hidden_logits(v)
        moved = (high - low) * (v @ (self.bias - self.base))
        return moved + (F.softplus(high * fields) - F.softplus(low * fields)).sum(1), fields

    def noise(self, key: Tensor, numbers: Sequence[int]) -> Iterator[Tensor]:
        """For each of the numbers in turn the noise of one move (M, H + X), of key (M,)."""
        for some in torch.split(torch.tensor(numbers, device=key.device), TOGETHER):
            yield from random.uniform(random.fold(key.unsqueeze(1), some), self.hidden + len(self.base)).unbind(1)

    def move(self, fields: Tensor, t: float, noise: Tensor) -> Tensor:
        """One Gibbs sweep at temperature t from a state with these fields (M, H) -> v (M, X). It is its own reversal."""
        h = (noise[:, : self.hidden] < (t * fields).sigmoid()).double()
        logits = (1 - t) * self.base + t * self.model.visible_logits(h)
        return (noise[:, self.hidden :] < logits.sigmoid()).double()


def schedule(temperatures: int) -> list[float]:
    """K + 1 temperatures from 0 to 1."""
    shares = torch.linspace(0, 1, temperatures + 1, dtype=torch.float64)
    found = torch.zeros_like(shares)
    for (left, low), (right, high) in pairwise(PLACES):
        inside = (shares >= left) & (shares <= right)
        found[inside] = low + (high - low) * (shares[inside] - left) / (right - left)
    found[-1] = 1.0
    return [float(t) for t in found]


@torch.no_grad()
def heat(path: Path, key: Tensor, temperatures: int) -> Tensor:
    """Chains from independent pixels to the machine -> the logarithms of their weights (M,); their mean is Z / Z_0."""
    steps, v = schedule(temperatures), path.start(key)
    total = torch.zeros(len(key), dtype=torch.float64, device=key.device)
    for (low, high), noise in zip(pairwise(steps), path.noise(key, range(temperatures)), strict=True):
        gain, fields = path.gain(v, low, high)
        total += gain
        v = path.move(fields, high, noise)
    return total


@torch.no_grad()
def cool(path: Path, v: Tensor, key: Tensor, temperatures: int) -> Tensor:
    """Chains from images v (M, X) to independent pixels -> the logarithms of the weights of the same way forward (M,)."""
    steps = schedule(temperatures)
    total = torch.zeros(len(key), dtype=torch.float64, device=key.device)
    fields = path.model.hidden_logits(v.double())
    backwards = range(temperatures)[::-1]
    for number, noise in zip(backwards, path.noise(key, backwards), strict=True):
        v = path.move(fields, steps[number + 1], noise)
        gain, fields = path.gain(v, steps[number], steps[number + 1])
        total += gain
    return total


def base_rates(images: Tensor) -> Tensor:
    """Log-odds (X,) of independent pixels with the mean of images (N, X), each with one half of an image more of both colours."""
    mean = (images.double().sum(0) + 0.5) / (len(images) + 1)
    return mean.logit()


@torch.no_grad()
def estimate(model: nn.Module, images: Tensor, chains: int = 100, temperatures: int = 10_000, seed: int = 0) -> Estimate:
    """log Z of a machine and the score of binary images (N, X); backward chains start at the first of them."""
    if chains < 1 or temperatures < 1 or not len(images):
        raise ConfigError(f"AIS needs chains, temperatures and images, not {chains}, {temperatures} and {len(images)} of them")
    path = Path(model, base_rates(images))
    key = random.keys(random.seed_of(seed, "ais"), torch.arange(chains)).to(images.device)
    forward = path.log_start() + heat(path, random.fold(key, "heat"), temperatures)
    first = images[:chains]
    backward = path.log_start() + cool(path, first, random.fold(key, "cool")[: len(first)], temperatures)
    score = torch.cat([-path.model.free_energy(some.double()) for some in torch.split(images, 1024)]).mean()
    return Estimate(forward, backward, float(score), len(images), temperatures)


def measure(loaded: Any, objective: Any, data: Any, batches: Iterable[Batch]) -> TaskMetrics | None:
    """What `weft evaluate` adds for a machine of two sides; the objective's settings say how thoroughly."""
    chains, temperatures = objective.config.ais_chains, objective.config.ais_temperatures
    if not (chains and temperatures):
        return None
    found = estimate(loaded.model, torch.cat([batch["image"].flatten(1) for batch in batches]), chains, temperatures)
    content = found.metrics() | {"images": found.images, "forward": found.forward.tolist(), "backward": found.backward.tolist()}
    return TaskMetrics(found.metrics(), json.dumps(content, indent=1) + "\n", ".json")
