"""Text files as one stream of tokens, split into windows for next-token prediction."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from weft.core import registry
from weft.core.errors import ConfigError, DataError
from weft.data.base import IGNORE, Batch, Data, DataConfig, Dataset, Problems
from weft.data.io.encodings import check_encoding
from weft.data.io.text import Text, read_whole
from weft.data.split import check_share, map_splits
from weft.data.text.lanes import LaneWindows
from weft.data.tokenizers.base import ByteTokenizer, Tokenizer, id_dtype
from weft.data.tokenizers.unknown import note_unknown, without_token

Unit = Literal["characters", "bytes", "words", "whitespace", "byte_bpe", "bpe", "wordpiece", "unigram"]


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
    ids = np.ascontiguousarray(ids, dtype=id_dtype(size))
    return torch.from_numpy(ids if ids.flags.writeable else ids.copy())


def encode_text(tokenizer: Tokenizer, text: Text) -> np.ndarray:
    """The ids of a text, of the smallest integer dtype, without the whole of it as a string where the tokenizer can go on by lines."""
    if isinstance(tokenizer, ByteTokenizer):
        return text.array()
    ids, end = np.empty(text.size, dtype=id_dtype(tokenizer.size)), 0  # pages that are not written take no memory
    for piece in tokenizer.encode_pieces(text):
        if end + len(piece) > len(ids):  # a tokenizer that makes more tokens than there are bytes
            ids = np.concatenate((ids[:end], np.empty(len(ids) + len(piece), dtype=ids.dtype)))
        ids[end : end + len(piece)] = piece
        end += len(piece)
    return ids[:end]


def language_data(
    train: Text,
    validation: Text,
    unit: Unit,
    vocabulary: int,
    context: int,
    problems: Problems,
    tokenizer: Tokenizer | None = None,
    lanes: int = 0,
    validation_context: int = 0,
    shift: bool = False,
) -> Data:
    """Training and validation windows of two texts, with the given tokenizer or one trained on them.

    Without a validation text of two tokens or more there is no validation. With lanes, training windows go on where others end.
    """
    check_sizes(context, vocabulary)
    check_sizes(validation_context or context, vocabulary, "validation_context")
    if lanes < 0:
        raise ConfigError(f"--data.lanes must not be negative, not {lanes}")
    if shift and not lanes:
        raise ConfigError("--data.shift is for a text in lanes; give --data.lanes as many as --train.batch")
    if tokenizer is None:
        tokenizer = registry.find("tokenizers", unit).train_pieces(
            itertools.chain(train, validation if unit == "characters" else ()), vocabulary
        )
    assert tokenizer is not None
    train_ids, validation_ids = map_splits(partial(encode_text, tokenizer), train, validation)
    unknown, unknown_validation = map_splits(partial(note_unknown, tokenizer, problems=problems), train, validation)
    if len(train_ids) < 2:
        raise DataError(
            f"the training text has {len(train_ids)} token{'s' * (len(train_ids) != 1)} ({unit}), not at least 2: take a longer one, or "
            f"hold out less of it with --data.validation{problems.summary() if unknown else ''}"
        )
    refuse_padding(context, len(train_ids))
    if len(train_ids) <= context:
        problems.add(
            "a training text no longer than one example, so all examples are the same", f"{len(train_ids)} tokens, context {context}"
        )
    if validation and len(validation_ids) < 2:
        problems.add("a validation text too short to predict anything, left out", f"{len(validation_ids)} tokens")
    validated = len(validation_ids) >= 2
    measured, ids = (validation, validation_ids) if validated else (train, train_ids)
    info = {
        "vocabulary": tokenizer.size,
        "context": context,
        "tokens": context,
        "bytes_per_token": measured.size / len(ids),
        "unknown_per_token": without_token(tokenizer, unknown_validation if validated else unknown) / len(ids),
        "training_tokens": len(train_ids),
        "validation_tokens": len(validation_ids) if validated else 0,
    }
    if lanes:
        info["lanes"] = lanes
    longest = min(validation_context or context, max(1, len(validation_ids) - 1))
    validation_set = TokenWindows(as_tensor(validation_ids, tokenizer.size), longest, overlapping=False) if validated else None
    tokens = as_tensor(train_ids, tokenizer.size)
    windows = LaneWindows(tokens, context, lanes, shift) if lanes else TokenWindows(tokens, context, overlapping=True)
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
    encoding: str = ""
    """Encoding of the files, as utf-8, utf-16, gb18030, big5, shift_jis or latin-1; by default a byte-order mark or the bytes tell."""
    tokenizer: Unit = "characters"
    """Tokenizer that is trained on the data, where no model brings its own."""
    vocabulary: int = 0
    """Largest number of words or pieces of words; 0 is 10,000. Of characters it keeps the most frequent and an unknown token for the
    others; 0 keeps all. Bytes need no limit."""
    context: int = 256
    """Tokens per example."""
    lanes: int = 0
    """Read the text in so many contiguous lanes, as stateful training wants it (truncated_bptt, with `context` tokens of back-propagation):
    each example goes on where the one of the batch before ended. As many as --train.batch; 0 for windows from anywhere."""
    shift: bool = False
    """Begin the lanes at another of the first tokens in each epoch, so that windows are cut elsewhere (random lengths serve this in
    AWD-LSTM)."""
    validation_context: int = 0
    """Tokens per validation example; 0 is `context`. A recurrent model may read more there than it is trained through."""

    def build(self) -> Data:
        return self.build_with(None)

    def build_with(self, tokenizer: Tokenizer | None) -> Data:
        check_share(self.validation)
        problems = Problems(encoding=check_encoding(self.encoding))
        exact = self.tokenizer == "bytes"
        read = partial(read_whole, problems=problems, exact=exact)
        train, validation = map_splits(read, self.path, self.validation_path or self.path)
        if not self.validation_path:
            train, validation = train.split(self.validation)
        return language_data(
            train,
            validation,
            self.tokenizer,
            self.vocabulary,
            self.context,
            problems,
            tokenizer,
            self.lanes,
            self.validation_context,
            self.shift,
        )
