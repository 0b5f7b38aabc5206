"""Token sequences of one text or two with the special tokens of a pretrained model.

    BERT  [CLS] first [SEP]        [CLS] first [SEP] second [SEP]                 (Devlin et al., 2018)
    GPT   [start] first [extract]  [start] first [delimiter] second [extract]     (Radford et al., 2018)

What exceeds the context is truncated from the end of the longer text, token by token; of the second where both are as long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from weft.core.errors import DataError
from weft.data.base import Batch, Dataset, Problems
from weft.data.text.ragged import Ragged
from weft.data.tokenizers.base import Tokenizer
from weft.data.tokenizers.encoder_tokens import special_tokens_of
from weft.data.tokenizers.unknown import reason

TOGETHER = 1024
"""Examples that are encoded at once."""


class Texts(NamedTuple):
    """One text or two, and their location in the file."""

    parts: tuple[str, ...]
    location: str


class Packed:
    """Token sequences: their ids, and the position in each at which the second text begins (N,), the length where there is none."""

    def __init__(self, ids: Ragged, seconds: Tensor):
        self.ids, self.seconds = ids, seconds

    def __len__(self) -> int:
        return len(self.seconds)

    def rows(self, index: Tensor) -> Batch:
        """index (B,) -> ids and segments (B, T), padded to the longest of all sequences, and lengths (B,)."""
        ids, lengths = self.ids.rows(index).long(), self.ids.sizes.index_select(0, index)
        position = torch.arange(ids.size(1), device=index.device)
        in_second = (position >= self.seconds.index_select(0, index)[:, None]) & (position < lengths[:, None])
        return {"ids": ids, "segments": in_second.long(), "lengths": lengths}

    def to(self, device: torch.device) -> Packed:
        return Packed(self.ids.to(device), self.seconds.to(device))


class LabelledSequences(Dataset):
    """Token sequences with labels (B,); an example may have several sequences, N for each label."""

    def __init__(self, packed: Packed, label: Tensor):
        """packed: the sequences of each example, one after the other."""
        self.packed, self.label = packed, label
        self.number = max(1, len(packed) // max(1, len(label)))

    def __len__(self) -> int:
        return len(self.label)

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        """As `Packed.rows` or, where an example has several sequences, with ids (B, N, T) and lengths (B, N)."""
        each = (index[:, None] * self.number + torch.arange(self.number, device=index.device)).flatten()  # (B N,)
        rows = self.packed.rows(each)
        if self.number > 1:
            rows = {name: part.view(-1, self.number, *part.shape[1:]) for name, part in rows.items()}
        return {**rows, "label": self.label.index_select(0, index)}

    def to(self, device: torch.device) -> Dataset:
        return LabelledSequences(self.packed.to(device), self.label.to(device))

    @property
    def device(self) -> torch.device:
        return self.label.device


class SequenceTemplate(NamedTuple):
    """Special tokens of a sequence: before the first text, between two, after the last, and padding."""

    start: int
    separator: int
    end: int
    padding: int


def sequence_template(tokenizer: Tokenizer) -> SequenceTemplate:
    """The special tokens of the model that a tokenizer belongs to."""
    special = getattr(tokenizer, "special_tokens", {})
    if "extract" in special:  # its model attends to nothing after [extract], so any token may be the padding
        return SequenceTemplate(special["start"], special["delimiter"], special["extract"], special["extract"])
    ids = special_tokens_of(tokenizer)
    return SequenceTemplate(ids.cls, ids.sep, ids.sep, ids.padding)


def pack(texts: Iterable[Texts], tokenizer: Tokenizer, context: int, problems: Problems) -> Packed:
    """Sequences of at most `context` tokens; truncated texts are counted."""
    template = sequence_template(tokenizer)
    rows, seconds = [np.zeros(0, dtype=np.int64)], []
    for text, parts in encoded(texts, tokenizer, problems):
        sizes = truncated_lengths([len(part) for part in parts], context - 1 - len(parts))
        if sum(sizes) < sum(map(len, parts)):
            problems.add(f"texts truncated to {context} tokens", text.location)
        delimiters = [template.separator] * (len(parts) - 1) + [template.end]
        ended = [np.append(part[:size], delimiter) for part, size, delimiter in zip(parts, sizes, delimiters, strict=True)]
        rows.append(np.concatenate(([template.start], *ended)))
        seconds.append(1 + len(ended[0]))
    lengths = torch.tensor([len(row) for row in rows[1:]], dtype=torch.int64)
    values = torch.from_numpy(np.concatenate(rows).astype(np.int32))
    return Packed(Ragged(values, lengths, template.padding), torch.tensor(seconds, dtype=torch.int64))


def encoded(texts: Iterable[Texts], tokenizer: Tokenizer, problems: Problems) -> Iterator[tuple[Texts, list[np.ndarray]]]:
    """Each with the tokens of its parts; characters without one, as of a character model, are counted."""
    texts = iter(texts)
    while some := list(islice(texts, TOGETHER)):
        for text in some:
            for part in text.parts:
                if unknown := tokenizer.unknown(part):
                    problems.add("texts with " + reason(tokenizer, unknown[0]), text.location)
        ids = iter(tokenizer.encode_batch([part for text in some for part in text.parts]))
        for text in some:
            yield text, list(islice(ids, len(text.parts)))


def can_encode(text: str, tokenizer: Tokenizer) -> bool:
    """Whether every character of a text has a token of its own."""
    try:
        tokenizer.encode(text)
    except DataError:
        return False
    return not tokenizer.unknown(text)


def truncated_lengths(sizes: list[int], limit: int) -> list[int]:
    """The lengths to which one text or two of these sizes are truncated."""
    if len(sizes) == 1:
        return [min(sizes[0], limit)]
    first, second = sizes
    second = min(second, max(limit - first, limit // 2))
    return [min(first, limit - second), second]
