"""Text files as one stream of tokens, split into windows for next-token prediction."""

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
from weft.data.io.archives import is_archive, read_members
from weft.data.io.files import decode as decode
from weft.data.io.files import locate as locate
from weft.data.io.files import read_bytes as read_bytes
from weft.data.io.files import show, unix_lines, walk
from weft.data.split import check_share, map_splits
from weft.data.text.lanes import LaneWindows
from weft.data.tokenizers.base import Tokenizer

SUFFIXES = (".txt", ".md", ".gz")
Unit = Literal["characters", "bytes", "words", "byte_bpe", "bpe", "wordpiece", "unigram"]


def read_text(path: str, problems: Problems, suffixes: tuple[str, ...] = SUFFIXES, exact: bool = False) -> str:
    """All texts of a path, joined by line ends.

    Line ends become "\\n" and undecodable bytes U+FFFD, unless `exact`, which keeps every byte.
    """
    whole = "\n".join(read_texts(path, problems, suffixes, exact))
    if not whole.strip():
        raise DataError(f"{show(path)}: holds no text; name another file or folder with --data.path")
    return whole


def read_texts(path: str, problems: Problems, suffixes: tuple[str, ...] = SUFFIXES, exact: bool = False) -> list[str]:
    """The text of a file, or of every text file of a folder or an archive, sorted by path; paths may be joined by commas."""
    if "," in path and not os.path.exists(path):
        return [text for part in path.split(",") for text in read_texts(part.strip(), problems, suffixes, exact)]
    source = locate(path)
    if is_archive(source):
        return [
            clean(decode(data, name, problems, exact), name, problems, exact) for name, data in read_members(source, suffixes, problems)
        ]
    files = walk(source, suffixes, problems) if source.is_dir() else [source]
    if not files:
        raise DataError(f"{show(source)}: the folder holds no text file ({', '.join(suffixes)})")
    return read_all(files, problems, exact)


def read_all(files: list[Path], problems: Problems, exact: bool = False) -> list[str]:
    """The text of each readable file; a single file must be readable."""
    texts = []
    for file in files:
        try:
            text = decode(read_bytes(file), file, problems, exact)
        except DataError as error:
            if len(files) == 1:  # there is no other file
                raise
            problems.add("files that cannot be read", str(error))
            continue
        texts.append(clean(text, file, problems, exact))
    return texts


def clean(text: str, file: Path, problems: Problems, exact: bool) -> str:
    """The text with Unix line ends, unless `exact`; empty texts and NUL characters are counted."""
    if not text.strip():
        problems.add("empty files", show(file))
    if exact:
        return text
    if (position := text.find("\0")) >= 0:
        problems.add("NUL characters, kept; is this text?", f"{show(file)}:{text.count(chr(10), 0, position) + 1}", text.count("\0"))
    return unix_lines(text)


class TokenWindows(Dataset):
    """Windows of a token stream: overlapping, one from every token, or adjacent, each token once.

    The last window is padded with the last token, and the loss ignores the padding.
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
            position = index[:, None] * self.step + torch.arange(1, self.context + 1, device=index.device)
            targets = targets.masked_fill(position >= len(self.tokens), IGNORE)
        return {"ids": window[:, :-1], "targets": targets}

    def to(self, device: torch.device) -> Dataset:
        return TokenWindows(self.tokens.to(device), self.context, self.overlapping)

    @property
    def device(self) -> torch.device:
        return self.tokens.device


def as_tensor(ids: np.ndarray, size: int) -> Tensor:
    """Ids as a tensor of the smallest integer dtype for this vocabulary size."""
    dtype = np.uint8 if size <= 256 else np.int16 if size <= 32768 else np.int32
    return torch.from_numpy(np.ascontiguousarray(ids).astype(dtype))


def language_data(
    train: str,
    validation: str,
    unit: Unit,
    vocabulary: int,
    context: int,
    problems: Problems,
    tokenizer: Tokenizer | None = None,
    lanes: int = 0,
) -> Data:
    """Training and validation windows of two texts, with the given tokenizer or one trained on them.

    Without a validation text of two tokens or more there is no validation. With lanes, training windows go on where others end.
    """
    check_sizes(context, vocabulary)
    if lanes < 0:
        raise ConfigError(f"--data.lanes must not be negative, not {lanes}")
    if tokenizer is None:
        tokenizer = registry.find("tokenizers", unit).train(train + validation if unit == "characters" else train, vocabulary)
    assert tokenizer is not None
    train_ids, validation_ids = map_splits(tokenizer.encode, train, validation)
    if len(train_ids) < 2:
        raise DataError(
            f"the training text has {len(train_ids)} token{'s' * (len(train_ids) != 1)} ({unit}), not at least 2: take a longer one, or "
            "hold out less of it with --data.validation"
        )
    refuse_padding(context, len(train_ids))
    if len(train_ids) <= context:
        problems.add(
            "a training text no longer than one example, so all examples are the same", f"{len(train_ids)} tokens, context {context}"
        )
    if validation and len(validation_ids) < 2:
        problems.add("a validation text too short to predict anything, left out", f"{len(validation_ids)} tokens")
    measured_text, ids = (validation, validation_ids) if len(validation_ids) >= 2 else (train, train_ids)
    info = {
        "vocabulary": tokenizer.size,
        "context": context,
        "tokens": context,
        "bytes_per_token": len(measured_text.encode("utf-8", errors="replace")) / len(ids),
        "training_tokens": len(train_ids),
        "validation_tokens": len(validation_ids) if len(validation_ids) >= 2 else 0,
    }
    if lanes:
        info["lanes"] = lanes
    validation_set = (
        TokenWindows(as_tensor(validation_ids, tokenizer.size), context, overlapping=False) if len(validation_ids) >= 2 else None
    )
    tokens = as_tensor(train_ids, tokenizer.size)
    windows = LaneWindows(tokens, context, lanes) if lanes else TokenWindows(tokens, context, overlapping=True)
    return Data(windows, validation_set, info, tokenizer, problems)


def check_sizes(context: int, vocabulary: int, flag: str = "context") -> None:
    if context < 1:
        raise ConfigError(f"--data.{flag} must be at least 1, not {context}")
    if vocabulary < 0 or vocabulary == 1:
        raise ConfigError(f"--data.vocabulary must be 0 or at least 2, not {vocabulary}")


MAX_PADDED_CONTEXT = 8192
"""Longest context of examples that may be mostly padding."""


def refuse_padding(context: int, tokens: int) -> None:
    """Refuse long examples that would be mostly padding: a waste of time and memory."""
    if context > max(MAX_PADDED_CONTEXT, tokens):
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
    tokenizer: Unit = "characters"
    """Tokenizer that is trained on the data, where no model brings its own."""
    vocabulary: int = 0
    """Largest number of words or pieces of words; 0 is 10,000. Bytes and characters need no limit."""
    context: int = 256
    """Tokens per example."""
    lanes: int = 0
    """Read the text in so many contiguous lanes, as stateful training wants it (truncated_bptt, with `context` tokens of back-propagation):
    each example goes on where the one of the batch before ended. As many as --train.batch; 0 for windows from anywhere."""

    def build(self) -> Data:
        return self.build_with(None)

    def build_with(self, tokenizer: Tokenizer | None) -> Data:
        check_share(self.validation)
        problems = Problems()
        exact = self.tokenizer == "bytes"
        train, validation = map_splits(partial(read_text, problems=problems, exact=exact), self.path, self.validation_path or self.path)
        if not self.validation_path:
            cut = int(len(train) * (1 - self.validation))
            train, validation = train[:cut], train[cut:]
        return language_data(train, validation, self.tokenizer, self.vocabulary, self.context, problems, tokenizer, self.lanes)
