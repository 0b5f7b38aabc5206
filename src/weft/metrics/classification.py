"""Scores of a classifier beside its accuracy: what is taken for what, precision and recall of each class, and calibration.

Shapes: N examples, C classes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

BINS = 10


@dataclass(frozen=True)
class ClassScores:
    """How one class is told."""

    precision: float
    """Share that is right of those taken for the class; 0 where there is none."""
    recall: float
    """Share of the class that is found; 0 where there is none."""
    f1: float
    examples: int


@dataclass(frozen=True)
class Bin:
    """The examples whose confidence lies in one interval."""

    examples: int
    confidence: float
    """Their mean."""
    accuracy: float


def confusion(predicted: Tensor, label: Tensor, classes: int) -> Tensor:
    """predicted (N,), label (N,) -> how many of each class (rows) were taken for each (columns), (C, C)."""
    return torch.bincount(label * classes + predicted, minlength=classes * classes).view(classes, classes)


def scores_of_classes(table: Tensor) -> list[ClassScores]:
    """Of each class of a confusion matrix (C, C)."""
    found = []
    for right, real, taken in zip(table.diagonal().tolist(), table.sum(1).tolist(), table.sum(0).tolist(), strict=True):
        f1 = 2 * right / (real + taken) if real + taken else 0.0
        found.append(ClassScores(right / taken if taken else 0.0, right / real if real else 0.0, f1, real))
    return found


def bins_of_confidence(probabilities: Tensor, label: Tensor, bins: int = BINS) -> list[Bin]:
    """probabilities (N, C), label (N,) -> the examples by the probability of their likeliest class, in intervals (a, b] of equal width."""
    confidence, predicted = probabilities.max(-1)
    place = (confidence * bins).ceil().long().sub(1).clamp(0, bins - 1)
    found = []
    for number in range(bins):
        inside = place == number
        examples = int(inside.sum())
        mean = [float(values[inside].double().mean()) if examples else 0.0 for values in (confidence, (predicted == label).float())]
        found.append(Bin(examples, *mean))
    return found


def expected_calibration_error(bins: list[Bin]) -> float:
    """The mean over examples of |accuracy - confidence| of their bin (Naeini et al., 2015)."""
    return sum(one.examples * abs(one.accuracy - one.confidence) for one in bins) / max(1, sum(one.examples for one in bins))


def brier(probabilities: Tensor, label: Tensor) -> float:
    """The mean over examples of the summed squared distance of all probabilities (N, C) from the truth, 0 to 2 (Brier, 1950)."""
    truth = torch.nn.functional.one_hot(label, probabilities.size(-1))
    return float((probabilities.double() - truth).square().sum(-1).mean())
