"""Texts and their labels as pairs: the target names each label of a text once, the most frequent first.

Batch: as of `weft.data.text.pairs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from weft.core import registry
from weft.core.errors import DataError
from weft.data.annotated.label_sets import SEPARATOR, LabelSetsConfig, canonical, joined, labels_of
from weft.data.base import Problems
from weft.data.constraint import Constraint
from weft.data.text.pairs import PairsConfig
from weft.data.tokenizers.base import ClassNames, Tokenizer, WordTokenizer
from weft.data.tokenizers.special_tokens import END
from weft.data.tokenizers.two_sided import TwoSidedTokenizer


@dataclass(frozen=True, kw_only=True)
class LabelSetPairsConfig(PairsConfig):
    path: str = ""
    """A CSV, TSV or JSONL file with a text and its labels per row, as for `label_sets`; empty takes mixed paragraphs of docstrings."""
    tokenizer: Any = "words"
    """Words and punctuation marks of the texts; labels have a token each."""
    text: str = ""
    """Column of the text, by name or by number from 1; by default known by its name."""
    second: str = ""
    """Column of a second text, which is put behind the first."""
    label: str = ""
    """Column of the labels."""
    label_separator: str = SEPARATOR
    """What stands between the labels of a cell."""
    min_examples: int = 2
    """Labels that fewer training texts have are not learned."""
    mixtures: int = 6000
    """Texts of the embedded data."""

    def _read(self, problems: Problems) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        names = ("path", "validation_path", "validation", "text", "second", "label", "label_separator", "min_examples", "mixtures")
        source = LabelSetsConfig(header=self.header, separator=self.separator, **{name: getattr(self, name) for name in names})
        source.check()
        train, validation = source.split(problems)
        first, second = ([(" ".join(row.texts.parts), row.label) for row in rows if row.label] for rows in (train, validation))
        if not first:
            raise DataError(f"{self.path}: no text has a label; name their column with --data.label")
        return first, first if train is validation else second

    def _tokenizer(self, train: list[tuple[str, str]], validation: list[tuple[str, str]]) -> LabelSetTokenizer:
        words = WordTokenizer.train("\n".join(text for text, _ in train), self.vocabulary)
        return LabelSetTokenizer(words, ClassNames(canonical((labels_of(names) for _, names in train), self.min_examples)))


class LabelSetTokenizer(TwoSidedTokenizer):
    """Words of a text, and the names of labels in their canonical order."""

    name = "label_set"
    needs_all_tokens = True

    def __init__(self, source: Tokenizer, target: ClassNames):
        super().__init__(source, target)
        self.numbers = {name: number for number, name in enumerate(target.names)}

    def encode_target(self, text: str) -> np.ndarray:
        """Labels in canonical order, those that are not known left out."""
        known = sorted(self.numbers[name] for name in labels_of(text) if name in self.numbers)
        return np.array(known, dtype=np.int64) + self.first_target

    def decode(self, ids: list[int]) -> str:
        assert isinstance(self.target, ClassNames)
        stop = ids.index(END) if END in ids else len(ids)
        return joined(self.target.names[number - self.first_target] for number in ids[:stop] if number >= self.first_target)

    def constraint(self, source: Sequence[int]) -> Constraint:
        return Ascending(self.first_target, self.size)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> LabelSetTokenizer:
        source = registry.find("tokenizers", data["inner"]["type"]).from_json(data["inner"])
        return cls(source, ClassNames(list(data["target"]["names"])))


class Ascending:
    """A set is said in one way only: each label stands behind those that come before it in the canonical order."""

    def __init__(self, first: int, size: int):
        self.first, self.size = first, size

    def start(self) -> int:
        return self.first

    def advance(self, state: int, token: int) -> int:
        return self.size if token == END else token + 1

    def allowed(self, state: int, room: int) -> Tensor:
        found = torch.zeros(self.size, dtype=torch.bool)
        found[END] = True
        if room > 1:
            found[state:] = True
        return found
