"""Columns of a table as features: standardised numbers, and text as hashed bags of words and character n-grams.

A column is numeric where nine in ten of its training cells are numbers: (value - mean) / deviation, both of the training rows;
a missing number counts as the mean. Any other column is text: each word, and each run of n characters in it, counts in the
bucket that its hash falls into (Weinberger et al., 2009, arXiv:0902.2206; n-grams as in Bojanowski et al., 2016,
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
from weft.data.io.records import Records, number
from weft.data.text.ragged import Ragged
from weft.data.tokenizers.base import Tokenizer

WORD = re.compile(r"\w+|[^\w\s]")
CHUNK_ROWS = 10_000
"""Rows per chunk of counting."""


@dataclass(frozen=True)
class Column:
    """The kind of a column, and for numbers the mean and deviation of the training rows."""

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
    """The encoding of rows as features and classes, saved in the checkpoint so that new rows are encoded as those of training were."""

    name = "table"

    def __init__(
        self, label: str, classes: list[str], columns: list[Column], buckets: int, pieces: int, mean: float = 0.0, deviation: float = 1.0
    ):
        """classes: none where the label is a number, which is standardised by mean and deviation."""
        self.label, self.classes, self.columns, self.buckets, self.pieces = label, classes, columns, buckets, pieces
        self.mean, self.deviation = mean, deviation
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
            "mean": self.mean,
            "deviation": self.deviation,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Columns:
        columns = [Column(**column) for column in data["columns"]]
        standard = data.get("mean", 0.0), data.get("deviation", 1.0)
        return cls(data["label"], data["classes"], columns, data["buckets"], data["pieces"], *standard)

    def encode_rows(self, rows: Records, problems: Problems) -> TableRows:
        """The rows as a dataset; those of a class that does not occur in training are counted and left out."""
        label = rows.column(self.label, "--data.label")
        if not self.classes:
            values = np.array([number(cells[label]) or 0.0 for cells in rows.cells])
            standardised = np.clip((values - self.mean) / self.deviation, -1e6, 1e6).astype(np.float32)
            return self.features_of(rows, torch.from_numpy(standardised), problems)
        class_numbers = {name: position for position, name in enumerate(self.classes)}
        for row, cells in enumerate(rows.cells):
            if cells[label] not in class_numbers:
                problems.add("rows of a class that training does not have, left out", f"{rows.location(row)} ({cells[label][:40]!r})")
        rows = rows.select([row for row, cells in enumerate(rows.cells) if cells[label] in class_numbers])
        labels = torch.tensor([class_numbers[cells[label]] for cells in rows.cells], dtype=torch.int64)
        return self.features_of(rows, labels, problems)

    def features_of(self, rows: Records, labels: Tensor, problems: Problems) -> TableRows:
        """The rows with these labels (N,) as a dataset."""
        return TableRows(self._numbers(rows, problems), *self._bags(rows), labels, self.buckets if self.text else 0)

    def _numbers(self, rows: Records, problems: Problems) -> Tensor:
        """Standardised numbers (N, columns); 0, the mean, where there is none."""
        standardised = np.zeros((len(rows.cells), len(self.numeric)), dtype=np.float32)
        for position, column in enumerate(self.numeric):
            index = rows.column(column.name, "--data.columns")
            values = [number(cells[index]) for cells in rows.cells]
            for row in (row for row, value in enumerate(values) if value is None):
                kind = "cells that are not a number" if rows.cells[row][index].strip() else "empty cells"
                problems.add(f"{kind} in a column of numbers, taken as its mean", f"{rows.location(row)} (column {column.name!r})")
            filled = np.array([column.mean if value is None else value for value in values])
            standardised[:, position] = np.clip((filled - column.mean) / column.deviation, -1e6, 1e6)
        return torch.from_numpy(standardised)

    def _bags(self, rows: Records) -> tuple[Ragged, Ragged]:
        """The buckets that each row uses, and their weights."""
        indexed_seeds = [(rows.column(column.name, "--data.columns"), zlib.crc32(column.name.encode())) for column in self.text]
        cached_buckets = cache(self._buckets_of)

        def row_buckets(cells: list[str]) -> list[int]:
            return [
                bucket
                for index, seed in indexed_seeds
                for word in WORD.findall(cells[index].lower())
                for bucket in cached_buckets(word, seed)
            ]

        chunks = [rows.cells[first : first + CHUNK_ROWS] for first in range(0, max(1, len(rows.cells)), CHUNK_ROWS)]
        parts = zip(*(bag_weights([row_buckets(cells) for cells in chunk], self.buckets) for chunk in chunks), strict=True)
        buckets, weights, sizes = (torch.from_numpy(np.concatenate(part)) for part in parts)
        return Ragged(buckets, sizes, fill=self.buckets), Ragged(weights, sizes, fill=0.0)

    def _buckets_of(self, word: str, seed: int) -> list[int]:
        """The buckets of a word and of its n-grams of `pieces` characters, with < and > at its ends; crc32 is portable."""
        delimited = f"<{word}>"
        ngrams = [delimited[i : i + self.pieces] for i in range(len(delimited) - self.pieces + 1)] if self.pieces else []
        return [zlib.crc32(ngram.encode("utf-8", errors="replace"), seed) % self.buckets for ngram in [word, *ngrams]]


def bag_weights(bags: list[list[int]], buckets: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Buckets (M,) and weights (M,) of all rows, concatenated, and their number in each row (N,)."""
    row = np.repeat(np.arange(len(bags)), [len(items) for items in bags])
    flat = np.array([bucket for items in bags for bucket in items], dtype=np.int64)
    distinct, counts = np.unique(row * buckets + flat, return_counts=True)
    row_of, weight = distinct // buckets, 1 + np.log(counts)
    size = np.bincount(row_of, minlength=len(bags))
    length = np.sqrt(np.bincount(row_of, weight**2, minlength=len(bags)))
    weight *= (np.sqrt(size) / np.maximum(length, 1e-9))[row_of]
    return (distinct % buckets).astype(np.int32), weight.astype(np.float32), size


class TableRows(Dataset):
    """Rows as numbers (N, columns) and as sparse bags: the buckets of a row and their weights."""

    def __init__(self, numbers: Tensor, buckets: Ragged, weights: Ragged, labels: Tensor, width: int):
        self.numbers, self.buckets, self.weights, self.labels, self.width = numbers, buckets, weights, labels, width

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        x = self.numbers.index_select(0, index)
        if self.width:
            # the padding of the bags goes to an extra last column
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
