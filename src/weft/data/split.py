"""Which examples train and which validate, decided by position alone, so that every run of a data set is cut the same way."""

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


def both(make: Callable[[T], R], train: T, held: T) -> tuple[R, R]:
    """What is made of what trains and of what validates; once where they are one path or the same examples, as in `weft evaluate`."""
    first = make(train)
    same = train == held if isinstance(train, str) else train is held
    return first, first if same else make(held)


def shuffled(size: int, purpose: str) -> np.ndarray:
    """A fixed order of range(size), another one for each purpose."""
    return random.permute(np.arange(size), size, random.seed_of(purpose, size))


def hold_out(labels: np.ndarray, share: float, problems: Problems) -> tuple[np.ndarray, np.ndarray]:
    """Positions for training and for validation, each ascending, of examples with labels (N,).

    Only labelled examples validate where any is labelled, and none whose class would be missing from training.
    """
    check_share(share)
    order = shuffled(len(labels), "validation")
    if (labels != UNLABELLED).any():
        order = order[labels[order] != UNLABELLED]
    held = order[: max(1, round(len(order) * share)) if share else 0]
    kept = np.setdiff1d(np.arange(len(labels)), held)
    held = np.sort(held[np.isin(labels[held], labels[kept])])
    if share and not len(held):
        problems.add("too few examples to keep any for validation", f"{len(labels)} in all")
    return np.setdiff1d(np.arange(len(labels)), held), held


def balanced(labels: np.ndarray, purpose: str) -> np.ndarray:
    """All positions in an order that takes one example of every class, then a second of every class, and so on."""
    order = shuffled(len(labels), purpose)
    by_class = order[np.argsort(labels[order], kind="stable")]
    starts = np.flatnonzero(np.diff(labels[by_class], prepend=labels[by_class[:1]] - 1))
    rank = np.arange(len(labels)) - np.repeat(starts, np.diff(np.append(starts, len(labels))))
    return by_class[np.argsort(rank, kind="stable")]


def withhold(labels: np.ndarray, share: float) -> np.ndarray:
    """labels (N,) of which the share given is kept, spread evenly over the classes; the others are UNLABELLED."""
    if not 0.0 <= share <= 1.0:
        raise ConfigError(f"--data.labelled must be from 0 to 1, not {share}")
    known = np.flatnonzero(labels != UNLABELLED)
    chosen = known[balanced(labels[known], "labelled")[: round(len(known) * share)]] if len(known) else known
    kept = np.full_like(labels, UNLABELLED)
    kept[chosen] = labels[chosen]
    return kept


def repeat_labelled(labels: np.ndarray, times: int) -> np.ndarray:
    """Positions of all examples with labels (N,), and each labelled one so many times, where some are labelled and some are not."""
    if times < 1:
        raise ConfigError(f"--data.repeat_labelled must be at least 1, not {times}")
    known = np.flatnonzero(labels != UNLABELLED)
    again = np.tile(known, times - 1) if len(known) < len(labels) else known[:0]
    return np.concatenate([np.arange(len(labels)), again])


def number_classes(names: list[str]) -> tuple[np.ndarray, list[str]]:
    """A class number for each name, and the names of the classes: in numeric order where all are whole numbers."""
    distinct = set(names)
    numeric = all(re.fullmatch(r"-?[0-9]{1,18}", name) for name in distinct)
    classes = sorted(distinct, key=lambda name: (int(name), name)) if numeric else sorted(distinct)
    number = {name: position for position, name in enumerate(classes)}
    return np.array([number[name] for name in names], dtype=np.int64), classes


def note_single_class(classes: list[str], problems: Problems) -> None:
    if len(classes) == 1:
        problems.add("a single class, so there is nothing to tell apart", repr(classes[0]))
