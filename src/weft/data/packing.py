"""A text, or two, as BERT reads them: [CLS] first [SEP], or [CLS] first [SEP] second [SEP] (Devlin et al., 2018).

What does not fit is cut from the end of the longer of the two, token by token; of the second where both are as long.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from weft.data.base import Batch, Problems
from weft.data.encoder_tokens import marks_of
from weft.data.ragged import Ragged
from weft.data.tokenizers import Tokenizer


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


def pack(texts: Iterable[Texts], tokenizer: Tokenizer, context: int, problems: Problems) -> Packed:
    """Sequences of at most `context` tokens; texts that had to be cut are counted."""
    marks = marks_of(tokenizer)
    rows, seconds = [np.zeros(0, dtype=np.int64)], []
    for text in texts:
        parts = [tokenizer.encode(part) for part in text.parts]
        sizes = kept([len(part) for part in parts], context - 1 - len(parts))
        if sum(sizes) < sum(map(len, parts)):
            problems.add(f"texts cut to {context} tokens", text.place)
        ended = [np.append(part[:size], marks.sep) for part, size in zip(parts, sizes, strict=True)]
        rows.append(np.concatenate(([marks.cls], *ended)))
        seconds.append(1 + len(ended[0]))
    lengths = torch.tensor([len(row) for row in rows[1:]], dtype=torch.int64)
    values = torch.from_numpy(np.concatenate(rows).astype(np.int32))
    return Packed(Ragged(values, lengths, marks.padding), torch.tensor(seconds, dtype=torch.int64))


def kept(sizes: list[int], room: int) -> list[int]:
    """How much stays of one text or two of these sizes."""
    if len(sizes) == 1:
        return [min(sizes[0], room)]
    first, second = sizes
    second = min(second, max(room - first, room // 2))
    return [min(first, room - second), second]
