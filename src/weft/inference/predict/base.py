"""What a kind of model is given, and what it tells of it: the interface that `weft predict`, `weft sample` and the server share.

A row becomes an example, an example one item of a data set or several (the windows of a long paragraph), items go through the model in
batches, and what is found of the items of an example becomes its result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from weft.core.errors import ConfigError
from weft.core.registry import nearest
from weft.data.base import Batch, Dataset, Problems
from weft.models.base import GivesProbabilities, offers

Result = dict[str, Any]
Shown = list[tuple[str, str]]
TYPED = "what was typed"
MOST_CLASSES = 100
"""Classes up to which the probability of each is told; beyond it that of the likeliest alone."""


class BadRow(ValueError):
    """A row that nothing can be told of, and why."""


@dataclass(frozen=True)
class Row:
    """A row of a file, or what was typed or sent in its stead."""

    cells: Mapping[str, Any]
    location: str = TYPED


class Trained(Protocol):
    """What prediction needs of a loaded model."""

    recipe: Any
    model: nn.Module
    tokenizer: Any


@dataclass(frozen=True)
class Items:
    """Examples as a data set."""

    data: Dataset
    owner: list[int]
    """The index of the example that each item belongs to."""
    sizes: list[int]
    """Tokens of each item, or 1: items of similar size go through the model together."""
    about: list[Any]
    """What the result needs to know of each item besides what the model says."""
    bad: dict[int, str] = field(default_factory=dict)
    """Why there is no item of an example, by its index."""

    @classmethod
    def one_each(cls, data: Dataset, sizes: Sequence[int] = ()) -> Items:
        """A data set with an item for each example."""
        return cls(data, list(range(len(data))), list(sizes) or [1] * len(data), [None] * len(data))


class Predictor:
    """One kind of prediction by one model."""

    kind = ""
    """What it tells, in a word: class, number, tags, answer, choice, embedding, log-likelihood."""
    asked: tuple[str, ...] = ()
    """What it wants to be given, as one would type it."""
    most_items = 512
    """Items that go through the model at once."""
    window = 8192
    """Rows that are read, and ordered by size, together."""
    same_size = False
    """Whether only items of equal size may go through the model together."""
    files: tuple[str, ...] = ()
    """Suffixes of the files that are rows themselves, as images are; a row may then be the content of one."""

    def __init__(self, trained: Trained):
        self.trained = trained
        self.model: Any = trained.model
        self.tokenizer = trained.tokenizer
        self.device = next(trained.model.parameters()).device
        self.asked = self.asked_of(trained.tokenizer)

    @classmethod
    def asked_of(cls, tokenizer: Any) -> tuple[str, ...]:
        """`asked`, of a model with this tokenizer."""
        return cls.asked

    @property
    def columns(self) -> list[str]:
        """Columns of a CSV file of results; "probabilities.yes" is a value inside another."""
        raise NotImplementedError

    def known_names(self) -> set[str]:
        """Column names by which the first line of a file is known for a header."""
        return set()

    def choose(self, names: Sequence[str], chosen: Sequence[str]) -> tuple[str, ...]:
        """The columns to read, out of those of a file; `chosen` are those that the user named."""
        raise NotImplementedError

    def example(self, row: Row, columns: Sequence[str]) -> Any:
        """What the data make of a row; BadRow where they can make nothing of it."""
        raise NotImplementedError

    def items(self, examples: Sequence[Any], problems: Problems) -> Items:
        raise NotImplementedError

    def compute(self, batch: Batch) -> list[Any]:
        """What the model says of each item of a batch."""
        raise NotImplementedError

    def result(self, example: Any, found: list[tuple[Any, Any]]) -> Result:
        """What is told of an example, from (about, found) of each of its items."""
        raise NotImplementedError

    def typed(self, words: Sequence[str]) -> list[Row]:
        """Words of a command line as rows."""
        raise NotImplementedError

    def title(self, words: Sequence[str]) -> str:
        """What stands above a result that is shown."""
        return " | ".join(words)

    def shown(self, result: Result) -> Shown:
        """A result for a reader: what, and how sure the model is of it."""
        raise NotImplementedError


def named(names: Sequence[str], chosen: Sequence[str]) -> tuple[str, ...]:
    """The columns that the user named, by name or by number from 1."""
    found = []
    for name in chosen:
        if name in names:
            found.append(name)
        elif name.isdecimal() and len(name) < 9 and 1 <= int(name) <= len(names):
            found.append(names[int(name) - 1])
        else:
            raise ConfigError(f"--columns: the input has no column {name!r}{nearest(name, list(names))}")
    return tuple(found)


def text_of(row: Row, column: str) -> str:
    """The text of a cell; BadRow where there is none."""
    value = row.cells.get(column)
    if isinstance(value, bool | int | float):
        value = str(value)
    if value is not None and not isinstance(value, str):
        raise BadRow(f"{column!r} is not a text but a {type(value).__name__}")
    if not (value or "").strip():
        raise BadRow(f"no text in {column!r}")
    return str(value)


def shares_of(logits: Tensor, model: Any = None) -> list[list[float]]:
    """logits (B, C) -> the probabilities of the classes, for each example, as the model has them."""
    found = model.probabilities(logits) if offers(model, GivesProbabilities) else logits.float().softmax(-1)
    shares: list[list[float]] = found.tolist()
    return shares


def class_result(names: Sequence[str], shares: list[float]) -> Result:
    """The likeliest class, and the probability of each."""
    probability = max(shares)
    result: Result = {"prediction": names[shares.index(probability)], "probability": probability}
    return result if len(names) > MOST_CLASSES else {**result, "probabilities": dict(zip(names, shares, strict=True))}


def class_columns(names: Sequence[str]) -> list[str]:
    few = names if len(names) <= MOST_CLASSES else []
    return ["prediction", "probability", *(f"probabilities.{name}" for name in few)]


def ranked(result: Result, most: int = 10) -> Shown:
    """Names with their probabilities, the likeliest first."""
    shares: dict[str, float] = result.get("probabilities") or {result["prediction"]: result["probability"]}
    best = sorted(shares.items(), key=lambda pair: -pair[1])[:most]
    return [(name, f"{share:.3f}") for name, share in best]


def trimmed(batch: Batch) -> Batch:
    """A batch of tokens without the columns that only fill up its rows."""
    if "lengths" not in batch:
        return batch
    longest = int(batch["lengths"].max())
    return {name: part[..., :longest] if name in ("ids", "segments", "tags") else part for name, part in batch.items()}


def whole(data: Dataset) -> Batch:
    index = torch.arange(len(data), device=data.device)
    return data.batch(index, torch.zeros_like(index))
