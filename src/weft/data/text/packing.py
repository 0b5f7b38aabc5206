"""A text, or two, between the marks that a model is used to.

    BERT  [CLS] first [SEP]        [CLS] first [SEP] second [SEP]                 (Devlin et al., 2018)
    GPT   [start] first [extract]  [start] first [delimiter] second [extract]     (Radford et al., 2018)

What does not fit is cut from the end of the longer of the two, token by token; of the second where both are as long.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from weft.core.errors import DataError
from weft.data.base import Batch, Dataset, Problems
from weft.data.text.ragged import Ragged
from weft.data.tokenizers.base import Tokenizer
from weft.data.tokenizers.encoder_tokens import marks_of


class Texts(NamedTuple):
    """One text or two, and where they stand in their file."""

    parts: tuple[str, ...]
    place: str


class Packed:
    """Packed sequences: their ids, and where in each the second text begins (N,): at its end, where there is none."""

    def __init__(self, ids: Ragged, seconds: Tensor):
        self.ids, self.seconds = ids, seconds

    def __len__(self) -> int:
        return len(self.seconds)

    def rows(self, index: Tensor) -> Batch:
        """index (B,) -> ids and segments (B, T) for the longest of all sequences, lengths (B,)."""
        ids, lengths = self.ids.rows(index).long(), self.ids.sizes.index_select(0, index)
        place = torch.arange(ids.size(1), device=index.device)
        in_second = (place >= self.seconds.index_select(0, index)[:, None]) & (place < lengths[:, None])
        return {"ids": ids, "segments": in_second.long(), "lengths": lengths}

    def to(self, device: torch.device) -> Packed:
        return Packed(self.ids.to(device), self.seconds.to(device))


class LabelledSequences(Dataset):
    """Packed sequences and what is told of them, the label (B,); an example may have several sequences, N for each label."""

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


class Frame(NamedTuple):
    """Marks before the first text, between two, behind the last, and what fills up a sequence."""

    opening: int
    between: int
    closing: int
    padding: int


def frame_of(tokenizer: Tokenizer) -> Frame:
    """The marks around the texts of the model that a tokenizer belongs to."""
    known = getattr(tokenizer, "marks", {})
    if "extract" in known:  # its model looks at nothing behind that mark, so anything may fill up
        return Frame(known["start"], known["delimiter"], known["extract"], known["extract"])
    marks = marks_of(tokenizer)
    return Frame(marks.cls, marks.sep, marks.sep, marks.padding)


def pack(texts: Iterable[Texts], tokenizer: Tokenizer, context: int, problems: Problems) -> Packed:
    """Sequences of at most `context` tokens; texts that had to be cut are counted."""
    frame = frame_of(tokenizer)
    rows, seconds = [np.zeros(0, dtype=np.int64)], []
    for text in texts:
        parts = [encode_known(part, tokenizer, text.place, problems) for part in text.parts]
        sizes = kept([len(part) for part in parts], context - 1 - len(parts))
        if sum(sizes) < sum(map(len, parts)):
            problems.add(f"texts cut to {context} tokens", text.place)
        marks = [frame.between] * (len(parts) - 1) + [frame.closing]
        ended = [np.append(part[:size], mark) for part, size, mark in zip(parts, sizes, marks, strict=True)]
        rows.append(np.concatenate(([frame.opening], *ended)))
        seconds.append(1 + len(ended[0]))
    lengths = torch.tensor([len(row) for row in rows[1:]], dtype=torch.int64)
    values = torch.from_numpy(np.concatenate(rows).astype(np.int32))
    return Packed(Ragged(values, lengths, frame.padding), torch.tensor(seconds, dtype=torch.int64))


def encode_known(text: str, tokenizer: Tokenizer, place: str, problems: Problems) -> np.ndarray:
    """The tokens of a text; characters that its model has never met, as one that learned characters may, are left out."""
    try:
        return tokenizer.encode(text)
    except DataError:
        problems.add("texts with characters that the model does not know, which are left out", place)
    known = {letter for letter in set(text) if can_encode(letter, tokenizer)}
    return tokenizer.encode("".join(letter for letter in text if letter in known))


def can_encode(text: str, tokenizer: Tokenizer) -> bool:
    try:
        tokenizer.encode(text)
    except DataError:
        return False
    return True


def kept(sizes: list[int], room: int) -> list[int]:
    """How much stays of one text or two of these sizes."""
    if len(sizes) == 1:
        return [min(sizes[0], room)]
    first, second = sizes
    second = min(second, max(room - first, room // 2))
    return [min(first, room - second), second]
