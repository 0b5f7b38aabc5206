"""Texts, or pairs of texts, each with its class or a number, from a TSV, CSV or JSONL file: the tasks of GLUE, or your own.

Batch: ids, segments (B, T), lengths (B,) as `weft.data.text.packing` makes them, label (B,): the class as int64, or the number as
float32, standardised by the mean and deviation of training.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

from weft.core.errors import DataError
from weft.data.annotated.base import AnnotatedConfig
from weft.data.annotated.label_tokens import LabelledTokenizer
from weft.data.base import UNLABELLED, Data, Problems
from weft.data.io.files import show
from weft.data.io.records import Header, Separator, number, read_records
from weft.data.split import map_splits, number_classes
from weft.data.text.packing import LabelledSequences, Packed, Texts, pack
from weft.data.text.text_columns import PAIRS, find_columns
from weft.data.tokenizers.base import Tokenizer


class LabelledExample(NamedTuple):
    texts: Texts
    label: str
    columns: tuple[str, ...] = ()
    """Names of the texts' columns."""


@dataclass(frozen=True, kw_only=True)
class LabelledTextsConfig(AnnotatedConfig):
    path: str = ""
    """A TSV, CSV or JSONL file (plain or .gz) with a text or a pair of texts and its label per row."""
    text: str = ""
    """Column of the text, or of the first of two, by name or by number from 1; by default known by its name, or the only one left."""
    second: str = ""
    """Column of the second text; by default known by its name, as sentence2 is, or the second of two that are left."""
    label: str = ""
    """Column of the label; by default the one called label, class or score, else the last."""
    header: Header = "detect"
    """Whether the first line names the columns."""
    separator: Separator = "detect"
    """The delimiter between cells."""
    number: bool = False
    """Whether the label is a number to predict, instead of a class."""
    class_names: tuple[str, ...] = ()
    """The classes in their order; by default those of a trained model, else those of the training rows, sorted."""

    def prepare(
        self, train: list[LabelledExample], validation: list[LabelledExample], tokenizer: Tokenizer | None, problems: Problems
    ) -> Data:
        labelled = self._labelled(train, tokenizer)
        train_set, validation_set = map_splits(partial(self._dataset, tokenizer=labelled, problems=problems), train, validation)
        if not len(train_set):
            few = show(", ".join(labelled.classes[:10]))
            raise DataError(f"{show(self.path)}: has no row of a class that the model knows ({few}); name others with --data.class-names")
        facts: dict[str, Any] = {
            "tokens": train_set.number * train_set.packed.ids.longest,
            "texts": labelled.texts,
            "training_examples": len(train_set),
            "validation_examples": len(validation_set),
        }
        if self.number:
            facts |= {"classes": 1, "scale": labelled.deviation, "median": float(train_set.label.median())}
        else:
            facts |= {"classes": len(labelled.classes), "class_names": labelled.classes}
        return self.finish(train_set, validation_set, labelled, problems, facts)

    def classes_of(self, rows: list[LabelledExample]) -> np.ndarray:
        return super().classes_of(rows) if self.number else number_classes([row.label for row in rows])[0]

    def read(self, path: str, problems: Problems) -> list[LabelledExample]:
        """The examples of a file: its rows that have all texts and a label."""
        rows = read_records(path, problems, self.header, self.separator, self.label or self.text)
        texts, label = find_columns(rows, self.text, self.second, self.label)
        pair = tuple(rows.names[column] for column in texts)
        named = not any(map(str.isdecimal, pair))
        if len(pair) == 2 and named and not self.second and tuple(name.lower() for name in pair) not in PAIRS:
            message = "files whose two columns besides the label were taken for a pair of texts; for single texts name one with --data.text"
            problems.add(message, f"{show(rows.path)} ({' and '.join(map(repr, pair))})")
        examples = []
        for row, cells in enumerate(rows.cells):
            cell = cells[label].strip()
            if not cell:
                problems.add("rows without a label, left out", rows.location(row))
            elif self.number and number(cell) is None:
                problems.add("rows whose label is not a number, left out", f"{rows.location(row)} ({cell[:40]!r})")
            elif not all(cells[column].strip() for column in texts):
                problems.add("rows without a text, left out", rows.location(row))
            else:
                examples.append(LabelledExample(Texts(tuple(cells[column] for column in texts), rows.location(row)), cell, pair))
        if not examples and self.number and rows.cells and number(rows.cells[0][label].strip()) is None:
            shown = show(rows.cells[0][label].strip()[:40])
            raise DataError(f"{show(rows.path)}: its labels, such as {shown}, are not numbers; classes are predicted by bert/classify")
        if not examples:
            names = ", ".join(repr(rows.names[column]) for column in (*texts, label))
            raise DataError(f"{show(rows.path)}: no row has all of {names}; name the columns with --data.text, --data.second, --data.label")
        return examples

    def _labelled(self, rows: list[LabelledExample], tokenizer: Tokenizer | None) -> LabelledTokenizer:
        """The tokenizer with labels of the trained model, else one learned from the training rows alone."""
        tokens = self.tokens(tokenizer, [part for row in rows for part in row.texts.parts])
        labels = [row.label for row in rows]
        columns = rows[0].columns if rows else ()
        if self.class_names and not self.number:
            return LabelledTokenizer(tokens, list(self.class_names), columns=columns)
        if isinstance(tokenizer, LabelledTokenizer) and bool(tokenizer.classes) != self.number:
            own = tokenizer.classes, tokenizer.mean, tokenizer.deviation
            return tokenizer if tokenizer.texts == len(columns) else LabelledTokenizer(tokenizer.tokens, *own, columns)
        if self.number:
            return LabelledTokenizer.of_numbers(tokens, labels, columns)
        classes = number_classes(labels)[1]
        if len(classes) > max(20, len(rows) // 2):
            raise DataError(
                f"{show(self.path)}: the label has {len(classes)} different values in {len(rows)} rows, so it cannot be a class; name its "
                "column with --data.label, or say --data.number"
            )
        return LabelledTokenizer(tokens, classes, columns=columns)

    def sequences(self, texts: Texts) -> tuple[Texts, ...]:
        """The token sequences of an example: one, or in subclasses several."""
        return (texts,)

    def _dataset(self, rows: list[LabelledExample], tokenizer: LabelledTokenizer, problems: Problems) -> LabelledSequences:
        label = tokenizer.encode_labels([row.label for row in rows])
        unknown = (label == UNLABELLED) if tokenizer.classes else torch.zeros(len(rows), dtype=torch.bool)
        for row, is_unknown in zip(rows, unknown.tolist(), strict=True):
            if is_unknown:
                problems.add("rows of a class that training does not have, left out", f"{row.texts.location} ({row.label[:40]!r})")
        known_rows = [row for row, is_unknown in zip(rows, unknown.tolist(), strict=True) if not is_unknown]
        texts = [each for row in known_rows for each in self.sequences(row.texts)]
        return LabelledSequences(self.packed(texts, tokenizer.tokens, problems), label[~unknown])

    def packed(self, texts: Iterable[Texts], tokenizer: Tokenizer, problems: Problems) -> Packed:
        """The token sequences of texts."""
        return pack(texts, tokenizer, self.context, problems)
