"""Columns of a table as features: numbers standardised, text as hashed bags of words and of pieces of words.

A column is numeric where nine in ten of its training cells are numbers: (value - mean) / deviation, both of the training rows;
a missing number counts as the mean. Any other column is text: each word, and each run of n characters in it, counts in the
bucket that its hash falls into (Weinberger et al., 2009, arXiv:0902.2206; pieces as in Bojanowski et al., 2016,
arXiv:1607.04606) with the weight 1 + log(count), and a row is scaled so that its weights have a mean square of 1.

Shapes: B batch, N rows, M buckets in use by all rows together.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from weft.data.base import Batch, Dataset, Problems
from weft.data.io.rows import Rows, number
from weft.data.text.ragged import Ragged
from weft.data.tokenizers.base import Tokenizer

WORD = re.compile(r"\w+|[^\w\s]")
CHUNK = 10_000
"""Rows whose words are counted together."""


@dataclass(frozen=True)
class Column:
    """What a column holds, and for numbers their mean and deviation in training."""

    name: str
    numeric: bool
    mean: float = 0.0
    deviation: float = 1.0

    @classmethod
    def learn(cls, name: str, cells: list[str]) -> Column:
        filled = [number(cell) for cell in cells if cell.strip()]
        values = np.array([value for value in filled if value is not None])
        if len(values) < 0.9 * len(filled):
            return cls(name, numeric=False)
        mean, deviation = (float(values.mean()), float(values.std())) if len(values) else (0.0, 0.0)
        return cls(name, True, mean, deviation if deviation > 1e-9 * abs(mean) else 1.0)


class Columns(Tokenizer):
    """How rows become features and classes; saved beside the weights, so that new rows are treated as those of training were."""

    name = "table"

    def __init__(self, label: str, classes: list[str], columns: list[Column], buckets: int, pieces: int):
        self.label, self.classes, self.columns, self.buckets, self.pieces = label, classes, columns, buckets, pieces
        self.numeric = [column for column in columns if column.numeric]
        self.text = [column for column in columns if not column.numeric]
        self.features = len(self.numeric) + (buckets if self.text else 0)
        self.size = len(classes)

    def decode(self, ids: list[int]) -> str:
        return ", ".join(self.classes[i] for i in ids)

    def to_json(self) -> dict[str, Any]:
        columns = [asdict(column) for column in self.columns]
        return {
            "type": self.name,
            "label": self.label,
            "classes": self.classes,
            "columns": columns,
            "buckets": self.buckets,
            "pieces": self.pieces,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Columns:
        return cls(data["label"], data["classes"], [Column(**column) for column in data["columns"]], data["buckets"], data["pieces"])

    def encode_rows(self, rows: Rows, problems: Problems) -> TableRows:
        """The rows as a dataset; those of a class that training did not have are counted and left out."""
        label = rows.column(self.label, "--data.label")
        known = {name: position for position, name in enumerate(self.classes)}
        for row, cells in enumerate(rows.cells):
            if cells[label] not in known:
                problems.add("rows of a class that training does not have, left out", f"{rows.place(row)} ({cells[label][:40]!r})")
        rows = rows.select([row for row, cells in enumerate(rows.cells) if cells[label] in known])
        labels = torch.tensor([known[cells[label]] for cells in rows.cells], dtype=torch.int64)
        return TableRows(self._numbers(rows, problems), *self._bags(rows), labels, self.buckets if self.text else 0)

    def _numbers(self, rows: Rows, problems: Problems) -> Tensor:
        """Standardised numbers (N, columns); 0, the mean, where there is none."""
        table = np.zeros((len(rows.cells), len(self.numeric)), dtype=np.float32)
        for position, column in enumerate(self.numeric):
            place = rows.column(column.name, "--data.columns")
            for row, cells in enumerate(rows.cells):
                value = number(cells[place])
                if value is None:
                    kind = "cells that are not a number" if cells[place].strip() else "empty cells"
                    problems.add(f"{kind} in a column of numbers, taken as its mean", f"{rows.place(row)} (column {column.name!r})")
                else:
                    table[row, position] = np.clip((value - column.mean) / column.deviation, -1e6, 1e6)
        return torch.from_numpy(table)

    def _bags(self, rows: Rows) -> tuple[Ragged, Ragged]:
        """The buckets that each row uses, and their weights."""
        places = [(rows.column(column.name, "--data.columns"), zlib.crc32(column.name.encode())) for column in self.text]
        look_up = cache(self._buckets_of)

        def all_of(cells: list[str]) -> list[int]:
            return [bucket for place, seed in places for word in WORD.findall(cells[place].lower()) for bucket in look_up(word, seed)]

        chunks = [rows.cells[first : first + CHUNK] for first in range(0, max(1, len(rows.cells)), CHUNK)]
        parts = zip(*(weigh([all_of(cells) for cells in chunk], self.buckets) for chunk in chunks), strict=True)
        buckets, weights, sizes = (torch.from_numpy(np.concatenate(part)) for part in parts)
        return Ragged(buckets, sizes, fill=self.buckets), Ragged(weights, sizes, fill=0.0)

    def _buckets_of(self, word: str, seed: int) -> list[int]:
        """The buckets of a word and of the runs of `pieces` characters in it, its ends marked; crc32 is the same everywhere."""
        marked = f"<{word}>"
        runs = [marked[i : i + self.pieces] for i in range(len(marked) - self.pieces + 1)] if self.pieces else []
        return [zlib.crc32(piece.encode("utf-8", errors="replace"), seed) % self.buckets for piece in [word, *runs]]


def weigh(found: list[list[int]], buckets: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Buckets and weights of everything found, row after row (M,), (M,), and how many of them each row has (N,)."""
    row = np.repeat(np.arange(len(found)), [len(items) for items in found])
    flat = np.array([bucket for items in found for bucket in items], dtype=np.int64)
    distinct, counts = np.unique(row * buckets + flat, return_counts=True)
    owner, weight = distinct // buckets, 1 + np.log(counts)
    size = np.bincount(owner, minlength=len(found))
    length = np.sqrt(np.bincount(owner, weight**2, minlength=len(found)))
    weight *= (np.sqrt(size) / np.maximum(length, 1e-9))[owner]
    return (distinct % buckets).astype(np.int32), weight.astype(np.float32), size


class TableRows(Dataset):
    """Rows held as numbers (N, columns) and as bags: the buckets a row uses and their weights."""

    def __init__(self, numbers: Tensor, buckets: Ragged, weights: Ragged, labels: Tensor, width: int):
        self.numbers, self.buckets, self.weights, self.labels, self.width = numbers, buckets, weights, labels, width

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        x = self.numbers.index_select(0, index)
        if self.width:
            # a spare last column takes what lies beyond the end of a bag
            dense = torch.zeros(len(index), self.width + 1, device=index.device)
            dense.scatter_(1, self.buckets.rows(index).long(), self.weights.rows(index))
            x = torch.cat((x, dense[:, : self.width]), dim=1)
        return {"x": x, "label": self.labels.index_select(0, index)}

    def to(self, device: torch.device) -> Dataset:
        numbers, labels = self.numbers.to(device), self.labels.to(device)
        return TableRows(numbers, self.buckets.to(device), self.weights.to(device), labels, self.width)

    @property
    def device(self) -> torch.device:
        return self.labels.device
