"""Characters with two marks between them, and the sequence both stages of the birthplace task are made of.

A row of characters is arranged as: prefix MASK suffix MASK hidden [MASK] PAD …. Span corruption hides a piece of a document;
a question is a row with nothing hidden: question MASK place MASK PAD ….
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from weft.core.errors import DataError
from weft.data.base import IGNORE, Batch
from weft.data.text.windows import as_tensor
from weft.data.tokenizers.base import CharacterTokenizer, Tokenizer

PAD_MARK, MASK_MARK = "\u25a1", "\u2047"
PAD, MASK = 0, 1


class MarkedCharacters(CharacterTokenizer):
    """The marks PAD and MASK, then one id per character that the training text has, in code-point order."""

    name = "marked_characters"

    def __init__(self, characters: str):
        if characters[:2] != PAD_MARK + MASK_MARK:
            raise ValueError(f"the first two characters must be {PAD_MARK!r} and {MASK_MARK!r}, not {characters[:2]!r}")
        super().__init__(characters)
        self._order = np.argsort(self._points)  # the marks come first as ids, but not as code points
        self._points = self._points[self._order]

    @classmethod
    def train(cls, text: str, limit: int = 0) -> Tokenizer:
        refuse_marks(text)
        return cls(PAD_MARK + MASK_MARK + "".join(sorted(set(text))))

    def encode(self, text: str) -> np.ndarray:
        ids: np.ndarray = self._order[super().encode(text)]
        return ids


def refuse_marks(text: str) -> None:
    for mark, use in ((PAD_MARK, "padding"), (MASK_MARK, "the masked part")):
        if (position := text.find(mark)) >= 0:
            line = text.count("\n", 0, position) + 1
            raise DataError(f"line {line} of the text holds {mark!r} (U+{ord(mark):04X}), which marks {use}; take it out of the text")


def known(tokenizer: Tokenizer | None) -> MarkedCharacters | None:
    """The tokenizer of a model that exists already, which must have the marks."""
    if tokenizer is None or isinstance(tokenizer, MarkedCharacters):
        return tokenizer
    raise DataError(f"the model was trained on {tokenizer.name!r} tokens, but these data need 'marked_characters'; train it on them first")


@dataclass
class Piece:
    """What is used of each row, all (B,): length ids from start on, of which those hidden after the ones before are moved to the end.

    Skipped: an opening after which so many ids of the row are left out; length and before do not count these.
    """

    start: Tensor
    length: Tensor
    before: Tensor
    hidden: Tensor
    skipped: tuple[Tensor, Tensor] | None = None


@dataclass
class Rows:
    """Rows of ids held end to end in tokens (M,): row i begins at starts[i] and has sizes[i]. A PAD stands before and after all."""

    tokens: Tensor
    starts: Tensor
    sizes: Tensor

    @classmethod
    def pack(cls, texts: list[str], tokenizer: Tokenizer) -> Rows:
        ids = np.concatenate(([PAD], tokenizer.encode("".join(texts)), [PAD]))
        sizes = np.array([len(text) for text in texts], dtype=np.int64)
        kind = np.int32 if len(ids) < 2**31 - 2**20 else np.int64  # places are computed in it; small ones make half the traffic
        starts = (1 + sizes.cumsum() - sizes).astype(kind)
        return cls(as_tensor(ids, tokenizer.size), torch.from_numpy(starts), torch.from_numpy(sizes.astype(kind)))

    def __len__(self) -> int:
        return len(self.sizes)

    def to(self, device: torch.device) -> Rows:
        return Rows(self.tokens.to(device), self.starts.to(device), self.sizes.to(device))

    def arrange(self, piece: Piece, context: int, closing: bool = False) -> Tensor:
        """Each piece of a row with what is hidden moved to its end -> (B, context).

        A closing MASK ends what was hidden; where nothing was, there is none.
        """
        start, length, before, hidden = piece.start, piece.length, piece.before, piece.hidden
        t = torch.arange(context, device=start.device, dtype=start.dtype)
        second = length - hidden + 1  # where the second MASK stands
        end = length + 2 + (hidden > 0) if closing else length + 2
        suffix, moved = start + hidden - 1, start + before - second - 1
        shift = torch.where(t <= second[:, None], suffix[:, None], moved[:, None])
        place = t + torch.where(t <= before[:, None], start[:, None], shift)
        if piece.skipped is not None:
            opening, left_out = piece.skipped
            place = torch.where(t < opening[:, None], place, place + left_out[:, None])
        place.masked_fill_(t >= end[:, None], 0)  # a PAD
        ids = self.tokens.index_select(0, place.view(-1)).view(place.shape).long()
        marked = (t == before[:, None]) | (t == second[:, None])
        if closing:
            marked |= t == end[:, None] - 1
        return ids.masked_fill_(marked, MASK)


def shifted(sequence: Tensor, first: Tensor | None = None) -> Batch:
    """A sequence (B, T) as a batch of ids and targets (B, T - 1); PAD is no target, nor is what stands before place first (B,)."""
    after = sequence[:, 1:]
    ignored = after == PAD
    if first is not None:
        ignored |= torch.arange(1, sequence.shape[1], device=first.device, dtype=first.dtype) < first[:, None]
    return {"ids": sequence[:, :-1], "targets": after.masked_fill(ignored, IGNORE)}
