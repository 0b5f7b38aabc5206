"""Text files as one stream of tokens, cut into windows for next-token prediction."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from weft.core import registry
from weft.core.errors import ConfigError, DataError
from weft.data.base import IGNORE, Batch, Data, DataConfig, Dataset, Problems
from weft.data.io.archives import is_archive, members
from weft.data.io.files import decode as decode
from weft.data.io.files import locate as locate
from weft.data.io.files import read_bytes as read_bytes
from weft.data.io.files import show, unix_lines, walk
from weft.data.split import both, check_share
from weft.data.tokenizers.base import Tokenizer

SUFFIXES = (".txt", ".md", ".gz")
Unit = Literal["characters", "bytes", "words", "byte_bpe", "bpe", "wordpiece", "unigram"]


def read_text(path: str, problems: Problems, suffixes: tuple[str, ...] = SUFFIXES, exact: bool = False) -> str:
    """All texts of a path, one after the other.

    Line ends become "\\n" and bytes that are no text U+FFFD, unless `exact`, which keeps every byte.
    """
    whole = "\n".join(read_texts(path, problems, suffixes, exact))
    if not whole.strip():
        raise DataError(f"{show(path)}: holds no text; name another file or folder with --data.path")
    return whole


def read_texts(path: str, problems: Problems, suffixes: tuple[str, ...] = SUFFIXES, exact: bool = False) -> list[str]:
    """The text of one file, or of every text file of a folder or an archive in the order of its path; of several, after commas."""
    if "," in path and not os.path.exists(path):
        return [text for part in path.split(",") for text in read_texts(part.strip(), problems, suffixes, exact)]
    place = locate(path)
    if is_archive(place):
        return [clean(decode(data, name, problems, exact), name, problems, exact) for name, data in members(place, suffixes, problems)]
    files = walk(place, suffixes, problems) if place.is_dir() else [place]
    if not files:
        raise DataError(f"{show(place)}: the folder holds no text file ({', '.join(suffixes)})")
    return read_all(files, problems, exact)


def read_all(files: list[Path], problems: Problems, exact: bool = False) -> list[str]:
    """The text of each file that can be read; where only one was asked for, it must be."""
    texts = []
    for file in files:
        try:
            text = decode(read_bytes(file), file, problems, exact)
        except DataError as error:
            if len(files) == 1:  # there is nothing else to go on with
                raise
            problems.add("files that cannot be read", str(error))
            continue
        texts.append(clean(text, file, problems, exact))
    return texts


def clean(text: str, file: Path, problems: Problems, exact: bool) -> str:
    """With plain line ends, unless `exact`; an empty text and one with NUL characters are counted."""
    if not text.strip():
        problems.add("empty files", show(file))
    if exact:
        return text
    if (at := text.find("\0")) >= 0:
        problems.add("NUL characters, kept; is this text?", f"{show(file)}:{text.count(chr(10), 0, at) + 1}", text.count("\0"))
    return unix_lines(text)


class TokenWindows(Dataset):
    """Windows of a token stream. In training every start is an example; in order, windows meet and cover each token once.

    A text that ends inside a window is filled up with its last token, and nothing is predicted there.
    """

    def __init__(self, tokens: Tensor, context: int, overlapping: bool):
        self.tokens, self.context, self.overlapping = tokens, context, overlapping
        predicted = len(tokens) - 1
        self.step = 1 if overlapping else context
        self._length = max(1, predicted - context + 1) if overlapping else -(-predicted // context)
        missing = (self._length - 1) * self.step + context - predicted
        filled = torch.cat((tokens, tokens[-1:].expand(missing))) if missing > 0 else tokens
        self._ragged = missing > 0
        self._windows = filled.unfold(0, context + 1, self.step)  # (N, T + 1), a view

    def __len__(self) -> int:
        return self._length

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        window = self._windows.index_select(0, index).long()  # (B, T + 1)
        targets = window[:, 1:]
        if self._ragged:
            place = index[:, None] * self.step + torch.arange(1, self.context + 1, device=index.device)
            targets = targets.masked_fill(place >= len(self.tokens), IGNORE)
        return {"ids": window[:, :-1], "targets": targets}

    def to(self, device: torch.device) -> Dataset:
        return TokenWindows(self.tokens.to(device), self.context, self.overlapping)

    @property
    def device(self) -> torch.device:
        return self.tokens.device


def as_tensor(ids: np.ndarray, size: int) -> Tensor:
    """Tokens in the smallest type that holds them."""
    kind = np.uint8 if size <= 256 else np.int16 if size <= 32768 else np.int32
    return torch.from_numpy(np.ascontiguousarray(ids).astype(kind))


def language_data(
    train: str, validation: str, unit: Unit, vocabulary: int, context: int, problems: Problems, tokenizer: Tokenizer | None = None
) -> Data:
    """Training and validation windows of two texts under one tokenizer, learned from them where none is given.

    Without a validation text of two tokens or more there is no validation.
    """
    check_sizes(context, vocabulary)
    if tokenizer is None:
        tokenizer = registry.find("tokenizers", unit).train(train + validation if unit == "characters" else train, vocabulary)
    assert tokenizer is not None
    first, second = both(tokenizer.encode, train, validation)
    if len(first) < 2:
        raise DataError(
            f"the training text has {len(first)} token{'s' * (len(first) != 1)} ({unit}); at least 2 are needed: take a longer one, or "
            "hold out less of it with --data.validation"
        )
    refuse_padding(context, len(first))
    if len(first) <= context:
        problems.add("a training text no longer than one example, so all examples are alike", f"{len(first)} tokens, context {context}")
    if validation and len(second) < 2:
        problems.add("a validation text too short to predict anything, left out", f"{len(second)} tokens")
    measured, ids = (validation, second) if len(second) >= 2 else (train, first)
    info = {
        "vocabulary": tokenizer.size,
        "context": context,
        "tokens": context,
        "bytes_per_token": len(measured.encode("utf-8", errors="replace")) / len(ids),
        "training_tokens": len(first),
        "validation_tokens": len(second) if len(second) >= 2 else 0,
    }
    held = TokenWindows(as_tensor(second, tokenizer.size), context, overlapping=False) if len(second) >= 2 else None
    return Data(TokenWindows(as_tensor(first, tokenizer.size), context, overlapping=True), held, info, tokenizer, problems)


def check_sizes(context: int, vocabulary: int, flag: str = "context") -> None:
    if context < 1:
        raise ConfigError(f"--data.{flag} must be at least 1, not {context}")
    if vocabulary < 0 or vocabulary == 1:
        raise ConfigError(f"--data.vocabulary must be 0 or at least 2, not {vocabulary}")


PADDING = 8192
"""Tokens up to which an example may be longer than all there is to fill it with."""


def refuse_padding(context: int, tokens: int) -> None:
    """Refuse examples that would be long and mostly padding: they take no end of time."""
    if context > max(PADDING, tokens):
        raise ConfigError(
            f"--data.context {context:,} is longer than the whole training text of {tokens:,} tokens; lower it to {tokens:,} or less"
        )


@dataclass(frozen=True, kw_only=True)
class TextConfig(DataConfig):
    path: str = ""
    """A text file (plain or .gz), or a folder, .zip or .tar of them; several with commas between; relative to $WEFT_DATA, too."""
    validation_path: str = ""
    """Text to validate on; by default the end of `path`."""
    validation: float = 0.1
    """Share at the end of `path` kept for validation where no validation_path is given; 0 for no validation."""
    unit: Unit = "characters"
    """What a token is."""
    vocabulary: int = 0
    """Largest number of words or pieces of words; 0 is 10,000. Bytes and characters need no limit."""
    context: int = 256
    """Tokens per example."""

    def build(self) -> Data:
        return self.build_with(None)

    def build_with(self, tokenizer: Tokenizer | None) -> Data:
        check_share(self.validation)
        problems = Problems()
        exact = self.unit == "bytes"
        train, held = both(partial(read_text, problems=problems, exact=exact), self.path, self.validation_path or self.path)
        if not self.validation_path:
            cut = int(len(train) * (1 - self.validation))
            train, held = train[:cut], train[cut:]
        return language_data(train, held, self.unit, self.vocabulary, self.context, problems, tokenizer)
