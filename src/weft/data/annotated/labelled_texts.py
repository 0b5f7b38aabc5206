"""Texts, or pairs of texts, each with its class or a number, from a TSV, CSV or JSONL file: the tasks of GLUE, or your own.

Batch: ids, segments (B, T), lengths (B,) as `weft.data.text.packing` makes them, label (B,): the class as int64, or the number as
float32, counted in deviations from the mean of training.
"""

from __future__ import annotations

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
from weft.data.io.rows import Header, Separator, number, read_rows
from weft.data.split import both, note_single_class, number_classes
from weft.data.text.packing import LabelledSequences, Texts, pack
from weft.data.text.text_columns import find_columns
from weft.data.tokenizers.base import Tokenizer


class Row(NamedTuple):
    texts: Texts
    label: str


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
    """What stands between cells."""
    number: bool = False
    """Whether the label is a number to be told, instead of a class."""
    class_names: tuple[str, ...] = ()
    """The classes in their order; by default those the model knows already, else those of the training rows, sorted."""

    def prepare(self, train: list[Row], held: list[Row], known: Tokenizer | None, problems: Problems) -> Data:
        labelled = self._labelled(train, known)
        first, second = both(partial(self._dataset, tokenizer=labelled, problems=problems), train, held)
        if not len(first):
            few = show(", ".join(labelled.classes[:10]))
            raise DataError(f"{show(self.path)}: has no row of a class that the model knows ({few}); name others with --data.class-names")
        facts: dict[str, Any] = {
            "tokens": first.number * first.packed.ids.longest,
            "training_examples": len(first),
            "validation_examples": len(second),
        }
        if self.number:
            facts |= {"classes": 1, "scale": labelled.deviation}
        else:
            note_single_class(labelled.classes, problems)
            facts |= {"classes": len(labelled.classes), "class_names": labelled.classes}
        return self.finish(first, second, labelled, problems, facts)

    def classes_of(self, rows: list[Row]) -> np.ndarray:
        return super().classes_of(rows) if self.number else number_classes([row.label for row in rows])[0]

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
        if not found and self.number and rows.cells and number(rows.cells[0][label].strip()) is None:
            shown = show(rows.cells[0][label].strip()[:40])
            raise DataError(f"{show(rows.path)}: its labels, such as {shown}, are not numbers; classes are told by bert/classify")
        if not found:
            names = ", ".join(repr(rows.names[place]) for place in (*texts, label))
            raise DataError(f"{show(rows.path)}: no row has all of {names}; name the columns with --data.text, --data.second, --data.label")
        return found

    def _labelled(self, rows: list[Row], known: Tokenizer | None) -> LabelledTokenizer:
        """Tokens and labels: those of the model where it has them, else learned from the training rows alone."""
        tokens = self.tokens(known, [part for row in rows for part in row.texts.parts])
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

    def sequences(self, texts: Texts) -> tuple[Texts, ...]:
        """What an example is read as: one sequence or, where a source says so, several."""
        return (texts,)

    def _dataset(self, rows: list[Row], tokenizer: LabelledTokenizer, problems: Problems) -> LabelledSequences:
        label = tokenizer.encode_labels([row.label for row in rows])
        unknown = (label == UNLABELLED) if tokenizer.classes else torch.zeros(len(rows), dtype=torch.bool)
        for row, left_out in zip(rows, unknown.tolist(), strict=True):
            if left_out:
                problems.add("rows of a class that training does not have, left out", f"{row.texts.place} ({row.label[:40]!r})")
        kept = [row for row, left_out in zip(rows, unknown.tolist(), strict=True) if not left_out]
        texts = [each for row in kept for each in self.sequences(row.texts)]
        return LabelledSequences(pack(texts, tokenizer.tokens, self.context, problems), label[~unknown])
