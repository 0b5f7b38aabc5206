"""Several ways to go on from a text, or to answer a question, one of them right: JSON lines as those of SWAG.

{"context": "She opens the door.", "question": "Who is there?", "choices": ["A dog.", "Nobody."], "label": 0}

Context and question make the first text (either may be missing), each choice a second one. Batch: ids, segments (B, N, T),
lengths (B, N), label (B,) the place of the right one among the N choices.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from weft.data.base import Batch, Data, DataConfig, Dataset, Problems
from weft.data.encoder_tokens import Unit, check_context, given_or_learned
from weft.data.files import show, well_formed
from weft.data.packing import Packed, Texts, pack
from weft.data.questions import numbered_lines
from weft.data.split import check_share, hold_out
from weft.data.tokenizers import Tokenizer
from weft.errors import DataError


class Row(NamedTuple):
    text: str
    choices: list[str]
    label: int
    place: str


class Choices(Dataset):
    def __init__(self, packed: Packed, label: Tensor, number: int):
        """packed: the N choices of each example, one after the other."""
        self.packed, self.label, self.number = packed, label, number

    def __len__(self) -> int:
        return len(self.label)

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        each = (index[:, None] * self.number + torch.arange(self.number, device=index.device)).flatten()  # (B N,)
        rows = {name: part.view(-1, self.number, *part.shape[1:]) for name, part in self.packed.rows(each).items()}
        return {**rows, "label": self.label.index_select(0, index)}

    def to(self, device: torch.device) -> Dataset:
        return Choices(self.packed.to(device), self.label.to(device), self.number)

    @property
    def device(self) -> torch.device:
        return self.label.device


@dataclass(frozen=True, kw_only=True)
class ChoicesConfig(DataConfig):
    path: str = ""
    """A JSONL file (plain or .gz), each line with context or question or both, choices, and label, the right one's number from 0."""
    validation_path: str = ""
    """Lines to validate on; by default a share of `path`."""
    validation: float = 0.1
    """Share of the lines kept for validation where no validation_path is given; 0 for no validation."""
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
        tokens = given_or_learned(tokenizer, self.unit, [t for row in train for t in (row.text, *row.choices)], self.vocabulary)
        number = Counter(len(row.choices) for row in train).most_common(1)[0][0]
        first, second = (self._dataset(rows, number, tokens, problems) for rows in (train, held))
        info = {
            "vocabulary": tokens.size,
            "context": self.context,
            "tokens": number * first.packed.ids.longest,
            "choices": number,
            "training_examples": len(first),
            "validation_examples": len(second),
        }
        return Data(first, second if len(second) else None, info, tokens, problems)

    def _read(self, problems: Problems) -> tuple[list[Row], list[Row]]:
        rows = read_choices(self.path, problems)
        if self.validation_path:
            return rows, read_choices(self.validation_path, problems)
        train, held = hold_out(np.zeros(len(rows), dtype=np.int64), self.validation, problems)
        return [rows[i] for i in train], [rows[i] for i in held]

    def _dataset(self, rows: list[Row], number: int, tokens: Tokenizer, problems: Problems) -> Choices:
        for row in rows:
            if len(row.choices) != number:
                problems.add(f"rows that do not have {number} choices, left out", f"{row.place} ({len(row.choices)})")
        rows = [row for row in rows if len(row.choices) == number]
        texts = [Texts((row.text, choice), row.place) for row in rows for choice in row.choices]
        label = torch.tensor([row.label for row in rows], dtype=torch.int64)
        return Choices(pack(texts, tokens, self.context, problems), label, number)


def read_choices(path: str, problems: Problems) -> list[Row]:
    """The lines of a file that hold a text, choices and the number of the right one."""
    rows = []
    for line, place in numbered_lines(path, problems):
        try:
            rows.append(parse(json.loads(line), place))
        except (ValueError, RecursionError) as error:
            problems.add("rows that are no choice, left out", f"{place} ({str(error)[:80]})")
    if not rows:
        example = '{"context": "…", "choices": ["…", "…"], "label": 0}'
        raise DataError(f"{show(path)}: holds no usable record; one JSON object per line, as {example}, is expected")
    return rows


def parse(record: Any, place: str) -> Row:
    """A row from its JSON value; a ValueError says what is missing."""
    if not isinstance(record, dict):
        raise ValueError("not a JSON object")
    texts = [record.get(name) or "" for name in ("context", "question")]
    choices, label = record.get("choices"), record.get("label")
    if not all(isinstance(text, str) for text in texts) or not any(texts):
        raise ValueError("neither context nor question is a text")
    if not isinstance(choices, list) or len(choices) < 2 or not all(isinstance(choice, str) and choice.strip() for choice in choices):
        raise ValueError("choices is not a list of two texts or more")
    if type(label) is not int or not 0 <= label < len(choices):
        raise ValueError(f"label is not a number from 0 to {len(choices) - 1}")
    return Row(well_formed(" ".join(filter(None, texts))), [well_formed(choice) for choice in choices], label, place)
