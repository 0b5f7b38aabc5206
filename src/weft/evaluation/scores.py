"""The scores of a trained model on its validation data with intervals of 95 % and trivial baselines, and a classifier's predictions.

Examples are measured in groups, one forward pass each; the bootstrap draws groups again, so that neighbours that are alike, such as
windows of one text, stay together. Where examples cannot be measured a few at a time, there are intervals of many examples alone.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from weft.data.base import Data, DataLoader
from weft.evaluation.evaluate import build_objective
from weft.metrics.intervals import RESAMPLES, bootstrap, wilson
from weft.metrics.scores import ClassPredictions, Interval, NumberPredictions, Score, Scores
from weft.objectives.base import Objective, Terms
from weft.objectives.regression import Regression
from weft.runs.load import Loaded
from weft.training.execution import tf32_products
from weft.training.hooks import validation_step
from weft.training.means import Means

GROUPS, FEWEST, LARGEST = 100, 10, 256
"""Groups that are aimed at, those without which there is no interval, and examples in one at most."""
MOST_SUMS = 4096
"""Numbers that are summed over examples, beyond which no intervals are made."""
UNIGRAM_EXAMPLES, UNIGRAM_TOKENS = 64, 1 << 20
"""Examples at once, and tokens of the training data that unigram frequencies are counted in."""


@torch.no_grad()
def measure(loaded: Loaded, data: Data | None = None) -> Scores | None:
    """The scores of a model on as many examples as its training validated on; None where there is no validation data."""
    data = data or loaded.recipe.data.build_with(loaded.tokenizer)
    if data.validation is None:
        return None
    device = next(loaded.model.parameters()).device
    objective = build_objective(loaded, data, changed=False, settings={}).to(device).eval()
    order = DataLoader(data.validation, loaded.recipe.train.seed, device, shuffle=False)
    number = min(loaded.recipe.train.eval_examples or len(data.validation), len(data.validation))
    size = max(1, min(LARGEST, number // GROUPS)) if in_groups(objective) else min(number, LARGEST)
    groups, answers, numbers = [], [], []
    with tf32_products(False), torch.autocast(device.type, enabled=False):
        for first in range(0, number, size):
            batch = order.batch(first, min(size, number - first))
            groups.append(sums_of(loaded.model, objective, batch))
            answers.append(predicted(loaded.model, objective, batch))
            if isinstance(objective, Regression):
                numbers.append(torch.stack([objective.predict(loaded.model, batch), batch["label"]]).cpu())
    classes = class_predictions(loaded, data, answers)
    scores, method = with_intervals(objective, groups, size)
    if classes is not None and len(classes.label) <= number:  # one class an example
        right = int((classes.probabilities.argmax(-1) == classes.label).sum())
        scores = [replace(s, interval=wilson(right, len(classes.label))) if s.name == "accuracy" else s for s in scores]
        method += " That of the accuracy is Wilson's."
    found = baselines(objective, scores, data, order, number, classes)
    beside = tuple(replace(s, baseline=found.get(s.name)) for s in scores if not own_baseline(s.name, scores))
    return Scores(number, beside, method.strip(), classes, number_predictions(loaded, data, numbers))


def in_groups(objective: Objective) -> bool:
    """Whether examples may be measured a few at a time: not where a loss needs a whole batch, or where validation draws long chains."""
    return objective.separable and not objective.carries and type(objective).measure is Objective.measure


def sums_of(model: Any, objective: Objective, batch: dict[str, Tensor]) -> Means:
    """What validation sums up of a group of examples."""
    means, counts = Means(objective), objective.counts(batch)
    for index, turn in enumerate(objective.turns):
        means.add(turn.name, Terms(*validation_step(model, objective, batch, turn.name, index == 0)), counts)
    return means


def with_intervals(objective: Objective, groups: list[Means], size: int) -> tuple[list[Score], str]:
    """Every reported number of all groups together, with its interval where the groups may be drawn again."""
    total = Means(objective)
    total.terms = groups[0].terms
    shapes = [(table, name, value.shape) for table in ("sums", "counts") for name, value in getattr(groups[0], table).items()]
    rows = [torch.cat([getattr(group, table)[name].cpu().flatten() for table, name, _ in shapes]).numpy() for group in groups]

    ends = np.cumsum([shape.numel() for *_, shape in shapes])[:-1]

    def score(sums: np.ndarray) -> dict[str, float]:
        for (table, name, shape), part in zip(shapes, np.split(sums, ends), strict=True):
            getattr(total, table)[name] = torch.from_numpy(part).view(shape)
        return total.read()

    values = score(np.sum(rows, axis=0))
    if len(groups) < FEWEST or not objective.separable or objective.carries or rows[0].size > MOST_SUMS:
        return [Score(name, value) for name, value in values.items()], ""
    intervals = dict(zip(values, bootstrap(np.stack(rows), lambda sums: list(score(sums).values())), strict=True))
    method = f"Intervals are of 95 %, by the bootstrap: {RESAMPLES:,} times {len(groups)} groups of {size} were drawn again."
    return [Score(name, value, known(intervals[name])) for name, value in values.items()], method


def known(interval: Interval) -> Interval | None:
    return interval if all(map(math.isfinite, interval)) else None


def predicted(model: Any, objective: Objective, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor] | None:
    """Probabilities (N, C) and classes (N,) of what has a known class; None where the objective tells no classes."""
    logits = objective.class_logits(model, batch)
    if logits is None:
        return None
    label = batch[objective.classes].flatten()
    return logits.flatten(0, -2)[label >= 0].float().softmax(-1).cpu(), label[label >= 0].cpu()


def class_predictions(loaded: Loaded, data: Data, answers: list[tuple[Tensor, Tensor] | None]) -> ClassPredictions | None:
    given = [one for one in answers if one is not None and len(one[1])]
    if not given:
        return None
    probabilities, label = (torch.cat(part) for part in zip(*given, strict=True))
    names = getattr(loaded.tokenizer, "names", None) or getattr(loaded.tokenizer, "classes", None) or data.info.get("class_names") or ()
    numbers = range(probabilities.size(-1))
    return ClassPredictions(tuple(str(names[i]) if i < len(names) else str(i) for i in numbers), probabilities, label)


def number_predictions(loaded: Loaded, data: Data, answers: list[Tensor]) -> NumberPredictions | None:
    """The answers and labels (2, N) in their own units."""
    if not answers:
        return None
    tokenizer = loaded.tokenizer
    values = torch.cat(answers, dim=1) * getattr(tokenizer, "deviation", 1.0) + getattr(tokenizer, "mean", 0.0)
    return NumberPredictions(str(data.info.get("target", "label")), values[0], values[1])


def baselines(
    objective: Objective, scores: list[Score], data: Data, order: DataLoader, number: int, classes: ClassPredictions | None
) -> dict[str, tuple[str, float]]:
    """What something trivial scores, by the name of the score."""
    if classes is not None:
        shares = torch.bincount(classes.label).double() / len(classes.label)
        entropy = -float(torch.xlogy(shares, shares).sum())
        return {"accuracy": ("commonest class", float(shares.max())), "loss": ("class frequencies", entropy)}
    found = {own[0]: (own[1], score.value) for score in scores if (own := own_baseline(score.name, scores))}
    if isinstance(objective, Regression):
        label = torch.cat([order.batch(first, min(LARGEST, number - first))["label"] for first in range(0, number, LARGEST)])
        error = float(label.double().square().mean())  # labels are counted from the mean of training
        return {**found, "loss": ("mean", error)}
    if any(score.name == "perplexity" for score in scores) and "targets" in order.batch(0, 1):
        nats = unigram(data, order, number)
        values = {"loss": nats, "perplexity": math.exp(nats)}
        if bytes_per_token := getattr(getattr(objective, "config", None), "bytes_per_token", 0.0):
            values["bits_per_byte"] = nats / math.log(2) / bytes_per_token
        return {name: ("unigram", value) for name, value in values.items()}
    return found


def own_baseline(name: str, scores: list[Score]) -> tuple[str, str] | None:
    """Of a number that an objective reports to compare another with, as rmse_of_mean, both names."""
    of, between, what = name.partition("_of_")
    return (of, what) if between and any(score.name == of for score in scores) else None


def unigram(data: Data, order: DataLoader, number: int) -> float:
    """Nats per token of the validation data by how often tokens occur in training, each once more than it does."""

    def tokens(source: DataLoader, first: int, last: int) -> Tensor:
        found = source.batch(first, last - first)["targets"].flatten()
        return found[found >= 0].cpu()

    source, counts, first = DataLoader(data.train, order.seed, order.device), torch.zeros(0, dtype=torch.int64), 0
    vocabulary = int(data.info["vocabulary"])
    while first < len(data.train) and int(counts.sum()) < UNIGRAM_TOKENS:
        last = min(first + UNIGRAM_EXAMPLES, len(data.train))
        more = torch.bincount(tokens(source, first, last), minlength=vocabulary)
        counts, first = more + counts if len(counts) else more, last
    cost = -((counts.double() + 1) / (counts.sum() + len(counts))).log()
    targets = torch.cat([tokens(order, first, min(first + UNIGRAM_EXAMPLES, number)) for first in range(0, number, UNIGRAM_EXAMPLES)])
    return float(cost[targets].mean())
