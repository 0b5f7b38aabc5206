"""Texts with any number of labels each: a file with the labels in a column, or paragraphs of docstrings mixed from several packages.

Batch: ids, segments (B, T), lengths (B,) as of `weft.data.annotated.bags`; label (B, C) float32, 1 for each label of a text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from weft.core import random
from weft.core.errors import ConfigError, DataError
from weft.data.annotated.bags import BagsConfig, standard_library
from weft.data.annotated.label_tokens import LabelledTokenizer
from weft.data.annotated.labelled_texts import LabelledExample
from weft.data.base import Data, Problems
from weft.data.io.files import show
from weft.data.io.records import read_records
from weft.data.split import map_splits
from weft.data.text.packing import LabelledSequences, Texts
from weft.data.text.text_columns import LABEL_SETS, find_columns
from weft.data.tokenizers.base import Tokenizer

SEPARATOR = ";"
LONGEST = 40
"""Words of a paragraph of the embedded data."""


@dataclass(frozen=True, kw_only=True)
class LabelSetsConfig(BagsConfig):
    path: str = ""
    """A CSV, TSV or JSONL file (plain or .gz) with a text and its labels per row; empty takes paragraphs of the standard library's
    docstrings, one to three together, each from another package, whose names are the labels."""
    label: str = ""
    """Column of the labels, joined by label_separator or a list in JSONL; by default the one called labels, topics or tags, else as for
    single labels."""
    label_separator: str = SEPARATOR
    """What stands between the labels of a cell."""
    min_examples: int = 2
    """Labels that fewer training texts have are not learned."""
    mixtures: int = 6000
    """Texts of the embedded data."""

    def check(self) -> None:
        super().check()
        if self.number or not self.label_separator or self.min_examples < 1 or not 10 <= self.mixtures <= 1_000_000:
            raise ConfigError(
                "--data.number is not for labels, --data.label-separator must not be empty, --data.min-examples at least 1 and "
                f"--data.mixtures from 10 to 1,000,000, not {self.label_separator!r}, {self.min_examples} and {self.mixtures}"
            )

    def read(self, path: str, problems: Problems) -> list[LabelledExample]:
        """The examples of a file, the labels of each joined by SEPARATOR; rows without a label are texts of none."""
        if not path:
            return mixtures(standard_library(problems), self.mixtures)
        rows = read_records(path, problems, self.header, self.separator, self.label or self.text, join_lists=self.label_separator)
        lower = [name.lower() for name in rows.names]
        usual = next((rows.names[lower.index(name)] for name in LABEL_SETS if name in lower), "")
        texts, label = find_columns(rows, self.text, self.second, self.label or usual)
        examples = []
        for row, cells in enumerate(rows.cells):
            if any(cells[column].strip() for column in texts):
                parts = Texts(tuple(cells[column] for column in texts), rows.location(row))
                names = labels_of(cells[label], self.label_separator)
                examples.append(LabelledExample(parts, joined(names), tuple(rows.names[column] for column in texts)))
            else:
                problems.add("rows without a text, left out", rows.location(row))
        if not examples:
            raise DataError(f"{show(path)}: no row has a text; name its column with --data.text")
        return examples

    def classes_of(self, rows: list[LabelledExample]) -> np.ndarray:
        return np.zeros(len(rows), dtype=np.int64)

    def prepare(
        self, train: list[LabelledExample], validation: list[LabelledExample], tokenizer: Tokenizer | None, problems: Problems
    ) -> Data:
        labelled = tokenizer
        if not isinstance(labelled, LabelledTokenizer):
            tokens = self.tokens(tokenizer, [part for row in train for part in row.texts.parts])
            columns = train[0].columns if train else ()
            names = list(self.class_names) or canonical((labels_of(row.label) for row in train), self.min_examples)
            if not names:
                raise DataError(f"{show(self.path)}: no label is that of {self.min_examples} texts; name their column with --data.label")
            labelled = LabelledTokenizer(tokens, names, columns=columns)
        first, second = map_splits(partial(self._sets, tokenizer=labelled, problems=problems), train, validation)
        facts = {
            "tokens": first.packed.ids.longest,
            "texts": labelled.texts,
            "training_examples": len(first),
            "validation_examples": len(second),
            "classes": len(labelled.classes),
            "class_names": labelled.classes,
        }
        return self.finish(first, second, labelled, problems, facts)

    def _sets(self, rows: list[LabelledExample], tokenizer: LabelledTokenizer, problems: Problems) -> LabelledSequences:
        known = {name: number for number, name in enumerate(tokenizer.classes)}
        label = torch.zeros(len(rows), len(known))
        for number, row in enumerate(rows):
            for name in labels_of(row.label):
                if name in known:
                    label[number, known[name]] = 1.0
                else:
                    problems.add("labels that the model does not know, left out", f"{row.texts.location} ({name[:40]!r})")
        return LabelledSequences(self.packed([row.texts for row in rows], tokenizer.tokens, problems), label)


def labels_of(cell: str, separator: str = SEPARATOR) -> list[str]:
    """The labels of a cell, each once."""
    return list(dict.fromkeys(name.strip() for name in cell.split(separator) if name.strip()))


def joined(names: Iterable[str]) -> str:
    return f"{SEPARATOR} ".join(name.replace(SEPARATOR, ",") for name in names)


def canonical(sets: Iterable[Iterable[str]], least: int = 1) -> list[str]:
    """Labels in their canonical order, the most frequent first."""
    counts = Counter(name for names in sets for name in names)
    return sorted((name for name, count in counts.items() if count >= least), key=lambda name: (-counts[name], name))


def mixtures(paragraphs: list[LabelledExample], number: int) -> list[LabelledExample]:
    """Texts of one to three paragraphs, each from another package."""
    generator = np.random.Generator(np.random.PCG64(random.seed_of("label sets")))
    groups: dict[str, list[str]] = {}
    for one in paragraphs:
        groups.setdefault(one.label, []).append(" ".join(one.texts.parts[0].split()[:LONGEST]))
    names = sorted(groups)
    found = []
    for _ in range(number):
        chosen = [names[i] for i in generator.choice(len(names), int(generator.integers(1, min(3, len(names)) + 1)), replace=False)]
        text = " ".join(groups[name][int(generator.integers(len(groups[name])))] for name in chosen)
        found.append(LabelledExample(Texts((text,), ", ".join(chosen)), joined(chosen), ("text",)))
    return found
