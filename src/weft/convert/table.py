"""Foreign weights as a table of names, read in both directions.

A name may hold {i}, {j}, …, each a number. A foreign tensor that no row names, or two, is an error, and so is a tensor of
our own that no row makes: nothing is guessed, nothing is lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from weft.core.errors import CheckpointError


@dataclass(frozen=True)
class Rename:
    """One tensor under two names."""

    foreign: str
    own: str
    transpose: bool = False
    """Whether the two are transposes of each other (a GPT-2 "Conv1D" keeps its input first)."""


@dataclass(frozen=True)
class Join:
    """Several foreign tensors that are one of our own, end to end along the first dimension."""

    foreign: tuple[str, ...]
    own: str
    sizes: tuple[int, ...] = ()
    """Their sizes along it; equal parts where not given."""


@dataclass(frozen=True)
class Ignore:
    """A foreign tensor that is no parameter: a mask or a table that follows from the settings."""

    foreign: str


@dataclass(frozen=True)
class Same:
    """A foreign tensor that repeats another one; written only where that other one is."""

    foreign: str
    other: str


Row = Rename | Join | Ignore | Same
FRACTIONS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
"""Numbers that mean what they are; those of 8 bits and fewer need a scale from elsewhere."""


def pattern(name: str) -> re.Pattern[str]:
    """A name with {i} as a regular expression."""
    parts = re.split(r"\{(\w)\}", name)
    return re.compile("".join(rf"(?P<{part}>\d+)" if place % 2 else re.escape(part) for place, part in enumerate(parts)))


def filled(name: str, numbers: dict[str, str]) -> str:
    return re.sub(r"\{(\w)\}", lambda found: numbers[found[1]], name)


class Table:
    def __init__(self, rows: Iterable[Row], prefix: str = ""):
        """`prefix`: what stands before the names of a model inside one with a head; the inner model alone lacks it."""
        self.rows, self.prefix = list(rows), prefix

    @cached_property
    def foreign_patterns(self) -> list[tuple[re.Pattern[str], Row]]:
        return [(pattern(name), row) for row in self.rows for name in names(row)]

    def to_own(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Foreign tensors -> our own."""
        if not any(name.startswith(self.prefix) for name in tensors):
            tensors = {self.prefix + name: tensor for name, tensor in tensors.items()}
        own: dict[str, Tensor] = {}
        for name, tensor in tensors.items():
            row, numbers = self._row(name)
            if isinstance(row, Rename):
                own[filled(row.own, numbers)] = fractions(name, tensor).T.contiguous() if row.transpose else fractions(name, tensor)
            elif isinstance(row, Join):
                parts = [filled(part, numbers) for part in row.foreign]
                if missing := [part for part in parts if part not in tensors]:
                    raise CheckpointError(f"the weights hold {name!r} but not {missing[0]!r}, which belongs to it")
                own[filled(row.own, numbers)] = joined({part: fractions(part, tensors[part]) for part in parts})
            elif isinstance(row, Same):
                other = filled(row.other, numbers)
                if other in tensors and not torch.equal(tensor, tensors[other]):
                    raise CheckpointError(f"{name!r} and {other!r} should be the same tensor, but differ")
        return own

    def to_foreign(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Our own tensors -> foreign ones."""
        foreign: dict[str, Tensor] = {}
        made = [(pattern(row.own), row) for row in self.rows if isinstance(row, (Rename, Join))]
        for name, tensor in tensors.items():
            found = [(row, match.groupdict()) for expression, row in made if (match := expression.fullmatch(name))]
            if len(found) != 1:
                raise CheckpointError(
                    f"the weights hold {name!r}, which {'no row' if not found else 'more than one row'} of the table makes"
                )
            row, numbers = found[0]
            if isinstance(row, Rename):
                foreign[filled(row.foreign, numbers)] = tensor.T.contiguous() if row.transpose else tensor
            else:
                parts = tensor.split(row.sizes or len(tensor) // len(row.foreign))  # type: ignore[no-untyped-call]
                foreign |= {filled(part, numbers): piece.contiguous() for part, piece in zip(row.foreign, parts, strict=True)}
        return foreign

    def _row(self, name: str) -> tuple[Row, dict[str, str]]:
        found = [(row, match.groupdict()) for expression, row in self.foreign_patterns if (match := expression.fullmatch(name))]
        if len(found) != 1:
            raise CheckpointError(
                f"the weights hold {name!r}, which {'no row' if not found else 'more than one row'} of the table for this family names;"
                " it is another kind of model, or one with parts that weft does not have"
            )
        return found[0]


def fractions(name: str, tensor: Tensor) -> Tensor:
    """The tensor, refused where its numbers mean something else than they are."""
    if tensor.dtype not in FRACTIONS:
        kind = str(tensor.dtype).removeprefix("torch.")
        raise CheckpointError(f"{name!r} holds {kind}, not fractions as they are: quantised weights are read from GGUF files only")
    return tensor


def joined(parts: dict[str, Tensor]) -> Tensor:
    """Tensors end to end along the first dimension, of which all others must be equal."""
    shapes = {name: tuple(part.shape) for name, part in parts.items()}
    if len({shape[1:] for shape in shapes.values()}) > 1 or () in shapes.values():
        raise CheckpointError(f"the weights hold parts of one tensor that do not go together: {shapes}")
    return torch.cat(list(parts.values()))


def names(row: Row) -> Sequence[str]:
    return row.foreign if isinstance(row, Join) else (row.foreign,)
