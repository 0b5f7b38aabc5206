"""What a model scores on validation data, how far that may be off, and what something trivial scores."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

Interval = tuple[float, float]


@dataclass(frozen=True)
class Score:
    name: str
    value: float
    interval: Interval | None = None
    """Of 95 %; None where it is not known."""
    baseline: tuple[str, float] | None = None
    """Something trivial, and its score."""


@dataclass(frozen=True)
class ClassPredictions:
    """What a classifier says of every example whose class is known. N examples, C classes."""

    names: tuple[str, ...]
    probabilities: Tensor
    """(N, C)."""
    label: Tensor
    """(N,)."""


@dataclass(frozen=True)
class NumberPredictions:
    """What a regression says of every example, in the labels' own units. N examples."""

    name: str
    """Of the label."""
    predicted: Tensor
    """(N,)."""
    label: Tensor
    """(N,)."""


@dataclass(frozen=True)
class Scores:
    examples: int
    """Of the validation data."""
    scores: tuple[Score, ...]
    method: str
    """How the intervals were made, in a sentence."""
    classes: ClassPredictions | None = None
    """Of a classifier."""
    numbers: NumberPredictions | None = None
    """Of a regression."""
