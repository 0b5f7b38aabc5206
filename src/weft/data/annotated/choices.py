"""Multiple choice: several continuations of a text, or answers to a question, one of them right, in JSON lines as of SWAG.

{"context": "She opens the door.", "question": "Who is there?", "choices": ["A dog.", "Nobody."], "label": 0}

Context and question make the first text (either may be missing), each choice a second one. Batch: ids, segments (B, N, T),
lengths (B, N), label (B,) the index of the right one among the N choices.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch

from weft.core.errors import DataError
from weft.data.annotated.base import AnnotatedConfig
from weft.data.base import Data, Problems
from weft.data.io.files import show, well_formed
from weft.data.split import map_splits
from weft.data.text.packing import LabelledSequences, Texts, pack
from weft.data.text.questions import numbered_lines
from weft.data.tokenizers.base import Tokenizer


class ChoiceExample(NamedTuple):
    text: str
    choices: list[str]
    label: int
    location: str


@dataclass(frozen=True, kw_only=True)
class ChoicesConfig(AnnotatedConfig):
    path: str = ""
    """A JSONL file (plain or .gz), each line with context or question or both, choices, and label, the right one's number from 0."""

    def prepare(self, train: list[ChoiceExample], validation: list[ChoiceExample], tokenizer: Tokenizer | None, problems: Problems) -> Data:
        tokens = self.tokens(tokenizer, [text for row in train for text in (row.text, *row.choices)])
        number = Counter(len(row.choices) for row in train).most_common(1)[0][0]
        train_set, validation_set = map_splits(partial(self._dataset, number=number, tokens=tokens, problems=problems), train, validation)
        facts = {
            "tokens": number * train_set.packed.ids.longest,
            "choices": number,
            "training_examples": len(train_set),
            "validation_examples": len(validation_set),
        }
        return self.finish(train_set, validation_set, tokens, problems, facts)

    def read(self, path: str, problems: Problems) -> list[ChoiceExample]:
        return read_choices(path, problems)

    def _dataset(self, rows: list[ChoiceExample], number: int, tokens: Tokenizer, problems: Problems) -> LabelledSequences:
        for row in rows:
            if len(row.choices) != number:
                problems.add(f"rows that do not have {number} choices, left out", f"{row.location} ({len(row.choices)})")
        rows = [row for row in rows if len(row.choices) == number]
        texts = [Texts((row.text, choice), row.location) for row in rows for choice in row.choices]
        label = torch.tensor([row.label for row in rows], dtype=torch.int64)
        return LabelledSequences(pack(texts, tokens, self.context, problems), label)


def read_choices(path: str, problems: Problems) -> list[ChoiceExample]:
    """The examples of a JSONL file; malformed lines are counted."""
    rows = []
    for line, location in numbered_lines(path, problems):
        try:
            rows.append(parse_choice(json.loads(line), location))
        except (ValueError, RecursionError) as error:
            problems.add("rows that are no multiple-choice example, left out", f"{location} ({str(error)[:80]})")
    if not rows:
        example = '{"context": "…", "choices": ["…", "…"], "label": 0}'
        raise DataError(f"{show(path)}: holds no usable record; one JSON object per line, as {example}, is expected{problems.summary()}")
    return rows


def parse_choice(record: Any, location: str) -> ChoiceExample:
    """An example from its JSON value; a ValueError says what is missing."""
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
    return ChoiceExample(well_formed(" ".join(filter(None, texts))), [well_formed(choice) for choice in choices], label, location)
