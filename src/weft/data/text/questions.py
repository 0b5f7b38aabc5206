"""Questions with answers, to finetune a model that was pretrained on the facts (the birthplace task).

A row is question TAB place; its sequence is question MASK place MASK PAD …. The loss counts only the place and the MASK on
either side of it. Batch: ids (B, T - 1), targets (B, T - 1) for a context T.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from weft.core import random
from weft.core.errors import ConfigError, DataError
from weft.data.base import Batch, Data, DataConfig, Dataset, Problems
from weft.data.io.encodings import check_encoding
from weft.data.io.files import locate, read_bytes, show, unix_lines
from weft.data.io.text import decode, read_text
from weft.data.split import map_splits
from weft.data.text.biographies import ALPHABET, BiographiesConfig
from weft.data.text.packing import can_encode
from weft.data.text.token_windows import refuse_padding
from weft.data.tokenizers.base import Tokenizer
from weft.data.tokenizers.birthplace_characters import (
    MASK_CHARACTER,
    PAD_CHARACTER,
    BirthplaceCharacters,
    MaskedSpan,
    PackedRows,
    as_birthplace_characters,
    shifted,
)


class QuestionRow(NamedTuple):
    question: str
    place: str
    location: str
    """File and line, for messages."""


class Questions(Dataset):
    def __init__(self, rows: PackedRows, question_lengths: Tensor, context: int):
        """rows: question and place, concatenated; question_lengths (N,)."""
        self.rows, self.question_lengths, self.context = rows, question_lengths, context

    def __len__(self) -> int:
        return len(self.question_lengths)

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        start, length, question_lengths = (
            part.index_select(0, index) for part in (self.rows.starts, self.rows.sizes, self.question_lengths)
        )
        return shifted(
            self.rows.move_hidden_to_end(MaskedSpan(start, length, question_lengths, torch.zeros_like(question_lengths)), self.context),
            question_lengths,
        )

    def to(self, device: torch.device) -> Dataset:
        return Questions(self.rows.to(device), self.question_lengths.to(device), self.context)

    @property
    def device(self) -> torch.device:
        return self.question_lengths.device


def numbered_lines(path: str, problems: Problems) -> list[tuple[str, str]]:
    """The lines of a file that are not empty, each with its location."""
    file = locate(path)
    lines = unix_lines(decode(read_bytes(file), file, problems)).split("\n")
    result = [(line, f"{show(file)}:{number}") for number, line in enumerate(lines, 1)]
    if not lines[-1]:  # the text ends in a newline
        result.pop()
    for line, location in result:
        if not line.strip():
            problems.add("empty lines, left out", location)
    return [(line, location) for line, location in result if line.strip()]


def read_questions(path: str, problems: Problems | None = None) -> list[tuple[str, str | None]]:
    """The questions of a file, each with its answer where the file has one."""
    result = []
    for line, _ in numbered_lines(path, problems or Problems()):
        question, _, place = line.partition("\t")
        result.append((question, place.split("\t")[0].strip() or None))
    if not result:
        raise DataError(f"{show(path)}: holds no question; one per line is expected, with a tab and the place where it is known")
    return result


def read_question_rows(path: str, context: int, ascii_only: bool, problems: Problems) -> list[QuestionRow]:
    """The usable rows of a file."""
    rows = []
    for line, location in numbered_lines(path, problems):
        if line.count("\t") != 1:
            problems.add("rows that are not question, tab, place, left out", location)
            continue
        if ascii_only and not line.isascii():
            line = line.encode("ascii", errors="ignore").decode()
            problems.add("rows whose characters beyond ASCII are dropped", location)
        question, place = line.split("\t")
        rows.append(QuestionRow(question, place, location))
    rows = drop_unusable(rows, context, problems)
    if not rows:
        raise DataError(
            f"{show(path)}: holds no usable row; question, tab, place is expected, both together below {context - 1} characters"
        )
    return rows


def drop_unusable(rows: list[QuestionRow], context: int, problems: Problems) -> list[QuestionRow]:
    kept = []
    for row in rows:
        if not row.question.strip() or not row.place.strip():
            problems.add("rows without a question or without a place, left out", row.location)
        elif PAD_CHARACTER in row.question + row.place or MASK_CHARACTER in row.question + row.place:
            problems.add(f"rows with a special character, {PAD_CHARACTER} or {MASK_CHARACTER}, left out", row.location)
        elif len(row.question) + len(row.place) + 2 > context:
            problems.add(f"rows too long for a context of {context}, left out", row.location)
        else:
            kept.append(row)
    return kept


def drop_unencodable(rows: list[QuestionRow], tokenizer: Tokenizer, problems: Problems) -> list[QuestionRow]:
    """The rows without characters outside the vocabulary."""
    kept = []
    for row in rows:
        if can_encode(row.question + row.place, tokenizer):
            kept.append(row)
        else:
            problems.add("rows with a character outside the vocabulary, left out", row.location)
    return kept


def hold_out_rows(
    rows: list[QuestionRow], count: int, seed: int, flag: str = "--data.held_out"
) -> tuple[list[QuestionRow], list[QuestionRow]]:
    """Split rows into training and held-out ones."""
    if not 0 <= count < len(rows):
        raise ConfigError(f"{flag} must be from 0 to {len(rows) - 1}, one less than the number of rows, not {count}")
    order = random.permute(np.arange(len(rows)), len(rows), random.seed_of(seed, "held"))
    held_out = set(order[:count].tolist())
    return [row for i, row in enumerate(rows) if i not in held_out], [rows[i] for i in sorted(held_out)]


def training_rows(path: str, biographies: BiographiesConfig, context: int, ascii_only: bool, problems: Problems) -> list[QuestionRow]:
    """The rows of a file or, without one, those about the made-up people."""
    if path:
        return read_question_rows(path, context, ascii_only, problems)
    pairs, _ = biographies.questions()
    rows = drop_unusable(
        [QuestionRow(question, place, f"made-up question {i}") for i, (question, place) in enumerate(pairs, 1)], context, problems
    )
    if not rows:
        raise ConfigError(f"--data.context {context} is too small for every question about the made-up people; 64 is enough")
    return rows


def check_context(context: int) -> None:
    if context < 4:
        raise ConfigError(f"--data.context must be at least 4, two special tokens and two characters, not {context}")


@dataclass(frozen=True, kw_only=True)
class QuestionsConfig(DataConfig):
    path: str = ""
    """A file with question, tab, place on each line; empty asks about the made-up people of `biographies`."""
    vocabulary_path: str = ""
    """Text whose characters make the vocabulary where the model has none yet; empty takes those of the rows."""
    validation_path: str = ""
    """Rows to validate on; by default those held out or, of made-up people, the half that is not trained on."""
    encoding: str = ""
    """Encoding of the files, as utf-8, utf-16, gb18030, big5, shift_jis or latin-1; by default a byte-order mark or the bytes tell."""
    held_out: int = 0
    """Rows of `path` held out from training."""
    held_out_seed: int = 0
    """Seed of the choice of held-out rows."""
    context: int = 128
    """Characters per example T, special tokens included."""
    ascii: bool = True
    """Drop characters beyond ASCII from the training rows, as the reference does; validation rows keep them."""
    biographies: BiographiesConfig = field(default_factory=BiographiesConfig)
    """The people asked about where no path is given."""

    def build(self) -> Data:
        return self.build_with(None)

    def build_with(self, tokenizer: Tokenizer | None) -> Data:
        check_context(self.context)
        problems = Problems(encoding=check_encoding(self.encoding))
        rows, held_out = self.rows(problems)
        tokenizer = as_birthplace_characters(tokenizer) or self._vocabulary(rows + held_out, problems)
        rows, held_out = map_splits(partial(drop_unencodable, tokenizer=tokenizer, problems=problems), rows, held_out)
        if not rows:
            raise DataError(f"{show(self.path or 'biographies')}: every row has a character outside the vocabulary of the model or text")
        refuse_padding(self.context, sum(len(row.question) + len(row.place) for row in rows))
        info = {
            "vocabulary": tokenizer.size,
            "context": self.context,
            "tokens": self.context - 1,
            "training_questions": len(rows),
            "validation_questions": len(held_out),
        }
        train, validation = (question_dataset(part, tokenizer, self.context) if part else None for part in (rows, held_out))
        assert train is not None
        return Data(train, validation, info, tokenizer, problems)

    def rows(self, problems: Problems) -> tuple[list[QuestionRow], list[QuestionRow]]:
        """Training and validation rows: of two files, held out or, of made-up people, of the two halves."""
        same = bool(self.path) and self.path == self.validation_path
        whole = training_rows(self.path, self.biographies, self.context, self.ascii and not same, problems)
        if same:
            return whole, whole
        rows, held_out = hold_out_rows(whole, self.held_out, self.held_out_seed)
        if self.validation_path:  # validation questions are not changed
            return rows, read_question_rows(self.validation_path, self.context, False, problems)
        if not self.path and not self.held_out:
            _, pairs = self.biographies.questions()
            return rows, [QuestionRow(question, place, f"made-up question {i}") for i, (question, place) in enumerate(pairs, 1)]
        return rows, held_out

    def _vocabulary(self, rows: list[QuestionRow], problems: Problems) -> Tokenizer:
        if self.vocabulary_path:
            return BirthplaceCharacters.train(read_text(self.vocabulary_path, problems))
        return BirthplaceCharacters.train("\n".join(row.question + row.place for row in rows) + "\n" if self.path else ALPHABET)


def question_dataset(rows: list[QuestionRow], tokenizer: Tokenizer, context: int) -> Questions:
    packed = PackedRows.pack([row.question + row.place for row in rows], tokenizer)
    question_lengths = torch.tensor([len(row.question) for row in rows], dtype=packed.sizes.dtype)
    return Questions(packed, question_lengths, context)
