"""Texts, or pairs of texts, each with its class or a number, from a TSV, CSV or JSONL file: the tasks of GLUE, or your own.

Batch: ids, segments (B, T), lengths (B,) as `weft.data.packing` makes them, label (B,): the class as int64, or the number as
float32, counted in deviations from the mean of training.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from weft.data.base import UNLABELLED, Batch, Data, DataConfig, Dataset, Problems
from weft.data.encoder_tokens import Unit, check_context, given_or_learned
from weft.data.files import show
from weft.data.labels import LabelledTokenizer
from weft.data.packing import Packed, Texts, pack
from weft.data.rows import Header, Separator, number, read_rows
from weft.data.split import check_share, hold_out, note_single_class, number_classes
from weft.data.text_columns import find_columns
from weft.data.tokenizers import Tokenizer
from weft.errors import DataError


class Row(NamedTuple):
    texts: Texts
    label: str


class LabelledTexts(Dataset):
    def __init__(self, packed: Packed, label: Tensor):
        self.packed, self.label = packed, label

    def __len__(self) -> int:
        return len(self.label)

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        return {**self.packed.rows(index), "label": self.label.index_select(0, index)}

    def to(self, device: torch.device) -> Dataset:
        return LabelledTexts(self.packed.to(device), self.label.to(device))

    @property
    def device(self) -> torch.device:
        return self.label.device


@dataclass(frozen=True, kw_only=True)
class LabelledTextsConfig(DataConfig):
    path: str = ""
    """A TSV, CSV or JSONL file (plain or .gz) with a text or a pair of texts and its label per row."""
    validation_path: str = ""
    """Rows to validate on; by default a share of `path`."""
    validation: float = 0.1
    """Share of the rows kept for validation where no validation_path is given; 0 for no validation."""
    text: str = ""
    """Column of the text, or of the first of two, by name or by number from 1; by default known by its name, or the only one left."""
    second: str = ""
    """Column of the second text; by default known by its name, as sentence2 is, or the second of two that are left."""
    label: str = ""
    """Column of the label; by default the one called label, class or score, else the last."""
    header: Header = "detect"
    """Whether the first line names the columns."""
    separator: Separator = "detect"
    """What stands between cells."""
    number: bool = False
    """Whether the label is a number to be told, instead of a class."""
    class_names: tuple[str, ...] = ()
    """The classes in their order; by default those the model knows already, else those of the training rows, sorted."""
    unit: Unit = "wordpiece"
    """What a token is, where no model says so."""
    vocabulary: int = 0
    """Largest number of tokens to learn; 0 is 10,000."""
    context: int = 128
    """Longest sequence of tokens, marks included; longer texts are cut."""

    def build(self) -> Data:
        return self.build_with(None)

    def build_with(self, tokenizer: Tokenizer | None) -> Data:
        check_share(self.validation)
        check_context(self.context, self.vocabulary)
        problems = Problems()
        train, held = self._read(problems)
        labelled = self._labelled(train, tokenizer)
        first, second = (self._dataset(rows, labelled, problems) for rows in (train, held))
        if not len(first):
            known = show(", ".join(labelled.classes[:10]))
            raise DataError(f"{show(self.path)}: has no row of a class that the model knows ({known}); name others with --data.class-names")
        info: dict[str, Any] = {
            "vocabulary": labelled.size,
            "context": self.context,
            "tokens": first.packed.ids.longest,
            "training_examples": len(first),
            "validation_examples": len(second),
        }
        if self.number:
            info |= {"classes": 1, "scale": labelled.deviation}
        else:
            note_single_class(labelled.classes, problems)
            info |= {"classes": len(labelled.classes), "class_names": labelled.classes}
        return Data(first, second if len(second) else None, info, labelled, problems)

    def _read(self, problems: Problems) -> tuple[list[Row], list[Row]]:
        rows = self.read(self.path, problems)
        if self.validation_path:
            return rows, self.read(self.validation_path, problems)
        labels = np.zeros(len(rows), dtype=np.int64) if self.number else number_classes([row.label for row in rows])[0]
        train, held = hold_out(labels, self.validation, problems)
        return [rows[i] for i in train], [rows[i] for i in held]

    def read(self, path: str, problems: Problems) -> list[Row]:
        """The rows of a file that have everything they need."""
        rows = read_rows(path, problems, self.header, self.separator, self.label or self.text)
        texts, label = find_columns(rows, self.text, self.second, self.label)
        found = []
        for row, cells in enumerate(rows.cells):
            told = cells[label].strip()
            if not told:
                problems.add("rows without a label, left out", rows.place(row))
            elif self.number and number(told) is None:
                problems.add("rows whose label is not a number, left out", f"{rows.place(row)} ({told[:40]!r})")
            elif not all(cells[place].strip() for place in texts):
                problems.add("rows without a text, left out", rows.place(row))
            else:
                found.append(Row(Texts(tuple(cells[place] for place in texts), rows.place(row)), told))
        if not found:
            names = ", ".join(repr(rows.names[place]) for place in (*texts, label))
            raise DataError(f"{show(rows.path)}: no row has all of {names}; name the columns with --data.text, --data.second, --data.label")
        return found

    def _labelled(self, rows: list[Row], known: Tokenizer | None) -> LabelledTokenizer:
        """Tokens and labels: those of the model where it has them, else learned from the training rows alone."""
        tokens = given_or_learned(known, self.unit, [part for row in rows for part in row.texts.parts], self.vocabulary)
        labels = [row.label for row in rows]
        if self.class_names and not self.number:
            return LabelledTokenizer(tokens, list(self.class_names))
        if isinstance(known, LabelledTokenizer) and bool(known.classes) != self.number:
            return known
        if self.number:
            return LabelledTokenizer.of_numbers(tokens, labels)
        classes = number_classes(labels)[1]
        if len(classes) > max(20, len(rows) // 2):
            raise DataError(
                f"{show(self.path)}: the label has {len(classes)} different values in {len(rows)} rows, so it cannot be a class; name its "
                "column with --data.label, or say --data.number"
            )
        return LabelledTokenizer(tokens, classes)

    def _dataset(self, rows: list[Row], tokenizer: LabelledTokenizer, problems: Problems) -> LabelledTexts:
        label = tokenizer.encode_labels([row.label for row in rows])
        unknown = (label == UNLABELLED) if tokenizer.classes else torch.zeros(len(rows), dtype=torch.bool)
        for row, left_out in zip(rows, unknown.tolist(), strict=True):
            if left_out:
                problems.add("rows of a class that training does not have, left out", f"{row.texts.place} ({row.label[:40]!r})")
        texts = [row.texts for row, left_out in zip(rows, unknown.tolist(), strict=True) if not left_out]
        return LabelledTexts(pack(texts, tokenizer.tokens, self.context, problems), label[~unknown])
