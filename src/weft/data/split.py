"""Train/validation splits by index alone, so that every run splits a dataset the same way."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from weft.core import random
from weft.core.errors import ConfigError
from weft.data.base import UNLABELLED, Problems

T = TypeVar("T")
R = TypeVar("R")


def check_share(share: float, flag: str = "--data.validation") -> None:
    if not 0.0 <= share < 1.0:
        raise ConfigError(f"{flag} must be at least 0 and below 1, not {share}")


def map_splits(function: Callable[[T], R], train: T, validation: T) -> tuple[R, R]:
    """Apply a function to both splits; only once where they are one path or the same examples, as in `weft evaluate`."""
    result = function(train)
    same = train == validation if isinstance(train, str) else train is validation
    return result, result if same else function(validation)


def shuffled(size: int, purpose: str) -> np.ndarray:
    """A fixed permutation of range(size), another one for each purpose."""
    return random.permute(np.arange(size), size, random.seed_of(purpose, size))


def hold_out(labels: np.ndarray, share: float, problems: Problems) -> tuple[np.ndarray, np.ndarray]:
    """Indices of the training and of the validation examples, each ascending, from labels (N,).

    Where any example is labelled, only labelled ones are held out, and none whose class would be missing from training.
    """
    check_share(share)
    order = shuffled(len(labels), "validation")
    if (labels != UNLABELLED).any():
        order = order[labels[order] != UNLABELLED]
    validation = order[: max(1, round(len(order) * share)) if share else 0]
    train = np.setdiff1d(np.arange(len(labels)), validation)
    validation = np.sort(validation[np.isin(labels[validation], labels[train])])
    if share and not len(validation):
        problems.add("too few examples to hold any out for validation", f"{len(labels)} in all")
    return np.setdiff1d(np.arange(len(labels)), validation), validation


def balanced(labels: np.ndarray, purpose: str) -> np.ndarray:
    """All indices in an order that takes one example of every class, then a second of every class, and so on."""
    order = shuffled(len(labels), purpose)
    by_class = order[np.argsort(labels[order], kind="stable")]
    starts = np.flatnonzero(np.diff(labels[by_class], prepend=labels[by_class[:1]] - 1))
    rank = np.arange(len(labels)) - np.repeat(starts, np.diff(np.append(starts, len(labels))))
    return by_class[np.argsort(rank, kind="stable")]


def hide_labels(labels: np.ndarray, share: float) -> np.ndarray:
    """labels (N,) with only this share of them left, spread evenly over the classes; the others become UNLABELLED."""
    if not 0.0 <= share <= 1.0:
        raise ConfigError(f"--data.labelled must be from 0 to 1, not {share}")
    labelled = np.flatnonzero(labels != UNLABELLED)
    chosen = labelled[balanced(labels[labelled], "labelled")[: round(len(labelled) * share)]] if len(labelled) else labelled
    shown = np.full_like(labels, UNLABELLED)
    shown[chosen] = labels[chosen]
    return shown


def repeat_labelled(labels: np.ndarray, times: int) -> np.ndarray:
    """Indices of all examples with labels (N,), each labelled one so many times, where some are labelled and some are not."""
    if times < 1:
        raise ConfigError(f"--data.repeat_labelled must be at least 1, not {times}")
    labelled = np.flatnonzero(labels != UNLABELLED)
    repeats = np.tile(labelled, times - 1) if len(labelled) < len(labels) else labelled[:0]
    return np.concatenate([np.arange(len(labels)), repeats])


def number_classes(names: list[str]) -> tuple[np.ndarray, list[str]]:
    """A class number for each name, and the names of the classes: in numeric order where all are whole numbers."""
    distinct = set(names)
    numeric = all(re.fullmatch(r"-?[0-9]{1,18}", name) for name in distinct)
    classes = sorted(distinct, key=lambda name: (int(name), name)) if numeric else sorted(distinct)
    index_of = {name: index for index, name in enumerate(classes)}
    return np.array([index_of[name] for name in names], dtype=np.int64), classes
