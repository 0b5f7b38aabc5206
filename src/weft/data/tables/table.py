"""Labelled rows of a TSV, CSV or JSONL file: text with its class, or a table of numbers, or both.

Batch: x (B, F) float32, label (B,): the class as int64, or the number as float32, standardised by the mean and deviation of the training
rows; how columns become the features x is in `weft.data.tables.columns`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from weft.core.errors import ConfigError, DataError
from weft.data.annotated.label_tokens import standard
from weft.data.base import Data, DataConfig, Problems
from weft.data.io.encodings import check_encoding
from weft.data.io.files import show
from weft.data.io.records import Header, Records, Separator, number, read_records
from weft.data.split import check_share, hold_out, map_splits, number_classes
from weft.data.tables.columns import Column, Columns
from weft.data.tokenizers.base import Tokenizer


@dataclass(frozen=True, kw_only=True)
class TableConfig(DataConfig):
    path: str = ""
    """A TSV, CSV or JSONL file (plain or .gz) with a row per example."""
    validation_path: str = ""
    """Rows to validate on; by default a share of `path`."""
    validation: float = 0.1
    """Share of the rows held out for validation where no validation_path is given; 0 for no validation."""
    encoding: str = ""
    """Encoding of the files, as utf-8, utf-16, gb18030, big5, shift_jis or latin-1; by default a byte-order mark or the bytes tell."""
    label: str = ""
    """Column of the class, by name or by number from 1; by default the one called label, else the last."""
    number: bool = False
    """Whether the label is a number to predict, instead of a class."""
    columns: tuple[str, ...] = ()
    """Columns to learn from, by name or number; by default all but the label."""
    header: Header = "detect"
    """Whether the first line names the columns."""
    separator: Separator = "detect"
    """The delimiter between cells."""
    hash_buckets: int = 4096
    """Hash buckets that the words of all text columns share (the hashing trick)."""
    char_ngram: int = 3
    """Length of the character n-grams that are hashed besides words; 0 for words only."""

    def build(self) -> Data:
        return self.build_with(None)

    def build_with(self, tokenizer: Tokenizer | None) -> Data:
        check_share(self.validation)
        if self.hash_buckets < 1 or self.char_ngram < 0:
            raise ConfigError(
                f"--data.hash_buckets must be at least 1 and --data.char_ngram not negative, not {self.hash_buckets} and {self.char_ngram}"
            )
        problems = Problems(encoding=check_encoding(self.encoding))
        rows, validation_rows, label = self._read(problems)
        columns = tokenizer if isinstance(tokenizer, Columns) else self._learn(rows, label)
        train, validation = map_splits(partial(columns.encode_rows, problems=problems), rows, validation_rows)
        if not len(train):
            raise DataError(f"{show(rows.path)}: has no row of a class that the model knows ({', '.join(columns.classes[:10])})")
        labels = {"classes": len(columns.classes), "class_names": columns.classes}
        if self.number:
            middle = train.labels.median() if len(train) else 0.0
            labels = {"classes": 1, "scale": columns.deviation, "median": float(middle)}
        info = {
            "features": columns.features,
            **labels,
            "target": columns.label,
            "columns": {column.name: "number" if column.numeric else "text" for column in columns.columns},
            "training_examples": len(train),
            "validation_examples": len(validation),
        }
        return Data(train, validation if len(validation) else None, info, columns, problems)

    def _read(self, problems: Problems) -> tuple[Records, Records, int]:
        """Training and validation rows, and the index of the label column."""
        rows, label = self._read_labelled(self.path, problems)
        numbers = np.zeros(len(rows.cells), dtype=np.int64) if self.number else self._classes(rows, label)
        if self.validation_path == self.path:
            return rows, rows, label
        if self.validation_path:
            return rows, self._read_labelled(self.validation_path, problems)[0], label
        train, validation_rows = hold_out(numbers, self.validation, problems)
        return rows.select(train.tolist()), rows.select(validation_rows.tolist()), label

    def _classes(self, rows: Records, label: int) -> np.ndarray:
        """The class of each row (N,), where there are not too many for that."""
        numbers, classes = number_classes([cells[label] for cells in rows.cells])
        if len(classes) > max(20, len(rows.cells) // 2):
            numeric = all(number(cells[label]) is not None for cells in rows.cells)
            other = "to predict it as a number, train regression/table; or " if numeric else ""
            raise DataError(
                f"{show(rows.path)}: column {rows.names[label]!r} has {len(classes)} different values in {len(rows.cells)} rows, so it "
                f"cannot be the class; {other}name the column that is with --data.label"
            )
        return numbers

    def _read_labelled(self, path: str, problems: Problems) -> tuple[Records, int]:
        """The rows of a file that have a label, and the label's column."""
        rows = read_records(path, problems, self.header, self.separator, self.label)
        if len(rows.names) < 2:
            raise DataError(
                f"{show(rows.path)}: has one column only; a label and at least one feature are needed, separated by tab or comma"
            )
        lower = [name.lower() for name in rows.names]
        label = rows.column(self.label, "--data.label") if self.label else lower.index("label") if "label" in lower else len(lower) - 1
        for row, cells in enumerate(rows.cells):
            cells[label] = cells[label].strip()
            if not cells[label]:
                problems.add("rows without a label, left out", rows.location(row))
        rows = rows.select([row for row, cells in enumerate(rows.cells) if cells[label]])
        if self.number:
            rows = self._numeric(rows, label, problems)
        if not rows.cells:
            raise DataError(f"{show(rows.path)}: no row has a label in column {rows.names[label]!r}; name the right one with --data.label")
        return rows, label

    def _numeric(self, rows: Records, label: int, problems: Problems) -> Records:
        """The rows whose label is a number."""
        known = [number(cells[label]) is not None for cells in rows.cells]
        if rows.cells and sum(known) < len(known) / 2:
            shown = show(rows.cells[known.index(False)][label][:40])
            raise DataError(
                f"{show(rows.path)}: the labels in column {rows.names[label]!r}, such as {shown}, are not numbers; classes are predicted "
                "by classifier/table, or name another column with --data.label"
            )
        for row, numeric in enumerate(known):
            if not numeric:
                problems.add("rows whose label is not a number, left out", f"{rows.location(row)} ({rows.cells[row][label][:40]!r})")
        return rows.select([row for row, numeric in enumerate(known) if numeric])

    def _learn(self, rows: Records, label: int) -> Columns:
        """Classes, kinds of columns and statistics, from the training rows alone."""
        chosen = [rows.column(name, "--data.columns") for name in self.columns] or [i for i in range(len(rows.names)) if i != label]
        if label in chosen:
            raise ConfigError(f"--data.columns: {rows.names[label]!r} is the label, which must not be learned from")
        columns = [Column.learn(rows.names[i], [cells[i] for cells in rows.cells]) for i in chosen]
        labels = [cells[label] for cells in rows.cells]
        settings = columns, self.hash_buckets, self.char_ngram
        if self.number:
            return Columns(rows.names[label], [], *settings, *standard([float(cell) for cell in labels]))
        return Columns(rows.names[label], number_classes(labels)[1], *settings)
