"""Questions and their answers, to be learned by a model that has read the facts elsewhere (the birthplace task).

A row is question TAB place; its sequence is question MASK place MASK PAD …. Only the place and the MASK on either side of it
are predicted. Batch: ids (B, T - 1), targets (B, T - 1) for a context T.
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
from weft.data.io.files import decode, locate, read_bytes, show, unix_lines
from weft.data.split import both
from weft.data.text.biographies import ALPHABET, BiographiesConfig
from weft.data.text.windows import read_text, refuse_padding
from weft.data.tokenizers.base import Tokenizer
from weft.data.tokenizers.birthplace_characters import MASK_MARK, PAD_MARK, MarkedCharacters, Piece, Rows, known, shifted


class Row(NamedTuple):
    question: str
    place: str
    where: str
    """File and line, for messages."""


class Questions(Dataset):
    def __init__(self, rows: Rows, asked: Tensor, context: int):
        """rows: question and place without marks; asked (N,): length of the question."""
        self.rows, self.asked, self.context = rows, asked, context

    def __len__(self) -> int:
        return len(self.asked)

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        start, length, asked = (part.index_select(0, index) for part in (self.rows.starts, self.rows.sizes, self.asked))
        return shifted(self.rows.arrange(Piece(start, length, asked, torch.zeros_like(asked)), self.context), asked)

    def to(self, device: torch.device) -> Dataset:
        return Questions(self.rows.to(device), self.asked.to(device), self.context)

    @property
    def device(self) -> torch.device:
        return self.asked.device


def numbered_lines(path: str, problems: Problems) -> list[tuple[str, str]]:
    """The lines of a file that are not empty, each with its place."""
    place = locate(path)
    lines = unix_lines(decode(read_bytes(place), place, problems)).split("\n")
    found = [(line, f"{show(place)}:{number}") for number, line in enumerate(lines, 1)]
    if not lines[-1]:  # what a last newline leaves is no line
        found.pop()
    for line, where in found:
        if not line.strip():
            problems.add("empty lines, left out", where)
    return [(line, where) for line, where in found if line.strip()]


def read_questions(path: str, problems: Problems | None = None) -> list[tuple[str, str | None]]:
    """Questions to answer, as they stand in the file, with the right place where the file has it."""
    found = []
    for line, _ in numbered_lines(path, problems or Problems()):
        question, _, place = line.partition("\t")
        found.append((question, place.split("\t")[0].strip() or None))
    if not found:
        raise DataError(f"{show(path)}: holds no question; one per line is expected, with a tab and the place where it is known")
    return found


def read_rows(path: str, context: int, ascii_only: bool, problems: Problems) -> list[Row]:
    """The rows of a file that can be trained on."""
    rows = []
    for line, where in numbered_lines(path, problems):
        if line.count("\t") != 1:
            problems.add("rows that are not question, tab, place, left out", where)
            continue
        if ascii_only and not line.isascii():
            line = line.encode("ascii", errors="ignore").decode()
            problems.add("rows whose characters beyond ASCII are dropped", where)
        question, place = line.split("\t")
        rows.append(Row(question, place, where))
    rows = usable(rows, context, problems)
    if not rows:
        raise DataError(
            f"{show(path)}: holds no usable row; question, tab, place is expected, both together below {context - 1} characters"
        )
    return rows


def usable(rows: list[Row], context: int, problems: Problems) -> list[Row]:
    kept = []
    for row in rows:
        if not row.question.strip() or not row.place.strip():
            problems.add("rows without a question or without a place, left out", row.where)
        elif PAD_MARK in row.question + row.place or MASK_MARK in row.question + row.place:
            problems.add(f"rows that hold a mark, {PAD_MARK} or {MASK_MARK}, left out", row.where)
        elif len(row.question) + len(row.place) + 2 > context:
            problems.add(f"rows too long for a context of {context}, left out", row.where)
        else:
            kept.append(row)
    return kept


def encodable(rows: list[Row], tokenizer: Tokenizer, problems: Problems) -> list[Row]:
    """Rows of characters that the tokenizer has."""
    kept = []
    for row in rows:
        try:
            tokenizer.encode(row.question + row.place)
        except DataError:
            problems.add("rows with a character outside the vocabulary, left out", row.where)
            continue
        kept.append(row)
    return kept


def hold_rows(rows: list[Row], held: int, seed: int, flag: str = "--data.held") -> tuple[list[Row], list[Row]]:
    """Rows to train on, and those set aside."""
    if not 0 <= held < len(rows):
        raise ConfigError(f"{flag} must be from 0 to {len(rows) - 1}, one less than there are rows, not {held}")
    order = random.permute(np.arange(len(rows)), len(rows), random.seed_of(seed, "held"))
    aside = set(order[:held].tolist())
    return [row for i, row in enumerate(rows) if i not in aside], [rows[i] for i in sorted(aside)]


def training_rows(path: str, biographies: BiographiesConfig, context: int, ascii_only: bool, problems: Problems) -> list[Row]:
    """The rows of a file or, without one, those about the made-up people."""
    if path:
        return read_rows(path, context, ascii_only, problems)
    asked, _ = biographies.questions()
    rows = usable([Row(question, place, f"made-up question {i}") for i, (question, place) in enumerate(asked, 1)], context, problems)
    if not rows:
        raise ConfigError(f"--data.context {context} is too small for every question about the made-up people; 64 is enough")
    return rows


def check_context(context: int) -> None:
    if context < 4:
        raise ConfigError(f"--data.context must be at least 4, two marks and two characters, not {context}")


@dataclass(frozen=True, kw_only=True)
class QuestionsConfig(DataConfig):
    path: str = ""
    """A file with question, tab, place on each line; empty asks about the made-up people of `biographies`."""
    vocabulary_path: str = ""
    """Text whose characters make the vocabulary where the model has none yet; empty takes those of the rows."""
    validation_path: str = ""
    """Rows to validate on; by default those that are held or, of made-up people, the half that is not trained on."""
    held: int = 0
    """Rows of `path` set aside, not trained on."""
    held_seed: int = 0
    """Chooses the rows that are held."""
    context: int = 128
    """Characters per example T, marks included."""
    ascii: bool = True
    """Drop characters beyond ASCII from the training rows, as the reference does; not from rows that validate, too."""
    biographies: BiographiesConfig = field(default_factory=BiographiesConfig)
    """The people asked about where no path is given."""

    def build(self) -> Data:
        return self.build_with(None)

    def build_with(self, tokenizer: Tokenizer | None) -> Data:
        check_context(self.context)
        problems = Problems()
        rows, held = self.rows(problems)
        tokenizer = known(tokenizer) or self._vocabulary(rows + held, problems)
        rows, held = both(partial(encodable, tokenizer=tokenizer, problems=problems), rows, held)
        if not rows:
            raise DataError(f"{show(self.path or 'biographies')}: every row has a character outside the vocabulary of the model or text")
        refuse_padding(self.context, sum(len(row.question) + len(row.place) for row in rows))
        info = {
            "vocabulary": tokenizer.size,
            "context": self.context,
            "tokens": self.context - 1,
            "training_questions": len(rows),
            "validation_questions": len(held),
        }
        train, validation = (questions(part, tokenizer, self.context) if part else None for part in (rows, held))
        assert train is not None
        return Data(train, validation, info, tokenizer, problems)

    def rows(self, problems: Problems) -> tuple[list[Row], list[Row]]:
        """Rows to train on, and to validate on: another file's, those that are held or, of made-up people, the other half."""
        same = bool(self.path) and self.path == self.validation_path
        whole = training_rows(self.path, self.biographies, self.context, self.ascii and not same, problems)
        if same:
            return whole, whole
        rows, held = hold_rows(whole, self.held, self.held_seed)
        if self.validation_path:  # questions are evaluated as they are written
            return rows, read_rows(self.validation_path, self.context, False, problems)
        if not self.path and not self.held:
            _, asked = self.biographies.questions()
            return rows, [Row(question, place, f"made-up question {i}") for i, (question, place) in enumerate(asked, 1)]
        return rows, held

    def _vocabulary(self, rows: list[Row], problems: Problems) -> Tokenizer:
        if self.vocabulary_path:
            return MarkedCharacters.train(read_text(self.vocabulary_path, problems))
        return MarkedCharacters.train("\n".join(row.question + row.place for row in rows) + "\n" if self.path else ALPHABET)


def questions(rows: list[Row], tokenizer: Tokenizer, context: int) -> Questions:
    packed = Rows.pack([row.question + row.place for row in rows], tokenizer)
    asked = torch.tensor([len(row.question) for row in rows], dtype=packed.sizes.dtype)
    return Questions(packed, asked, context)
