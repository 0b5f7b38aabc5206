"""A character tokenizer with PAD and MASK, and the sequences of both stages of the birthplace task.

A row of characters is arranged as: prefix MASK suffix MASK hidden [MASK] PAD …. Span corruption hides a span of a document;
a question is a row with nothing hidden: question MASK place MASK PAD ….
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from weft.core.errors import DataError
from weft.data.base import IGNORE, Batch
from weft.data.text.token_windows import as_tensor
from weft.data.tokenizers.base import CharacterTokenizer, Tokenizer

PAD_CHARACTER, MASK_CHARACTER = "\u25a1", "\u2047"
PAD, MASK = 0, 1


class BirthplaceCharacters(CharacterTokenizer):
    """PAD and MASK, then one id per character of the training text, in code-point order."""

    name = "birthplace_characters"

    def __init__(self, characters: str):
        if characters[:2] != PAD_CHARACTER + MASK_CHARACTER:
            raise ValueError(f"the first two characters must be {PAD_CHARACTER!r} and {MASK_CHARACTER!r}, not {characters[:2]!r}")
        super().__init__(characters)

    @classmethod
    def train(cls, text: str, limit: int = 0) -> Tokenizer:
        refuse_special_characters(text)
        return cls(PAD_CHARACTER + MASK_CHARACTER + "".join(sorted(set(text))))


def refuse_special_characters(text: str) -> None:
    for character, use in ((PAD_CHARACTER, "padding"), (MASK_CHARACTER, "the masked part")):
        if (position := text.find(character)) >= 0:
            line = text.count("\n", 0, position) + 1
            raise DataError(
                f"line {line} of the text holds {character!r} (U+{ord(character):04X}), which stands for {use}; remove it from the text"
            )


def as_birthplace_characters(tokenizer: Tokenizer | None) -> BirthplaceCharacters | None:
    """The tokenizer of a trained model, refused unless it has PAD and MASK."""
    if tokenizer is None or isinstance(tokenizer, BirthplaceCharacters):
        return tokenizer
    raise DataError(
        f"the model was trained on {tokenizer.name!r} tokens, but these data need 'birthplace_characters'; train it on them first"
    )


@dataclass
class MaskedSpan:
    """The part used of each row, and the masked span in it, all (B,): `length` ids from `start`, `hidden` of them after the first `before`.

    skipped: a position in the row and the number of ids left out there; length and before do not count these.
    """

    start: Tensor
    length: Tensor
    before: Tensor
    hidden: Tensor
    skipped: tuple[Tensor, Tensor] | None = None


@dataclass
class PackedRows:
    """Rows of ids concatenated in tokens (M,): row i begins at starts[i] and has sizes[i] ids. A PAD is before and after all."""

    tokens: Tensor
    starts: Tensor
    sizes: Tensor

    @classmethod
    def pack(cls, texts: list[str], tokenizer: Tokenizer) -> PackedRows:
        ids = np.concatenate(([PAD], tokenizer.encode("".join(texts)), [PAD]))
        sizes = np.array([len(text) for text in texts], dtype=np.int64)
        dtype = np.int32 if len(ids) < 2**31 - 2**20 else np.int64  # the dtype of index arithmetic; int32 halves the memory traffic
        starts = (1 + sizes.cumsum() - sizes).astype(dtype)
        return cls(as_tensor(ids, tokenizer.size), torch.from_numpy(starts), torch.from_numpy(sizes.astype(dtype)))

    def __len__(self) -> int:
        return len(self.sizes)

    def to(self, device: torch.device) -> PackedRows:
        return PackedRows(self.tokens.to(device), self.starts.to(device), self.sizes.to(device))

    def move_hidden_to_end(self, span: MaskedSpan, context: int, final_mask: bool = False) -> Tensor:
        """Sequences with the masked span moved to the end: prefix MASK suffix MASK hidden -> (B, context).

        With `final_mask`, a MASK follows the masked span, unless it is empty.
        """
        start, length, before, hidden = span.start, span.length, span.before, span.hidden
        t = torch.arange(context, device=start.device, dtype=start.dtype)
        second = length - hidden + 1  # position of the second MASK
        end = length + 2 + (hidden > 0) if final_mask else length + 2
        suffix_offset, hidden_offset = start + hidden - 1, start + before - second - 1
        shift = torch.where(t <= second[:, None], suffix_offset[:, None], hidden_offset[:, None])
        source = t + torch.where(t <= before[:, None], start[:, None], shift)
        if span.skipped is not None:
            skip_from, skip_length = span.skipped
            source = torch.where(t < skip_from[:, None], source, source + skip_length[:, None])
        source.masked_fill_(t >= end[:, None], 0)  # a PAD
        ids = self.tokens.index_select(0, source.view(-1)).view(source.shape).long()
        is_mask = (t == before[:, None]) | (t == second[:, None])
        if final_mask:
            is_mask |= t == end[:, None] - 1
        return ids.masked_fill_(is_mask, MASK)


def shifted(sequence: Tensor, first: Tensor | None = None) -> Batch:
    """A sequence (B, T) as ids and shifted targets (B, T - 1); PAD and positions before first (B,) are ignored."""
    targets = sequence[:, 1:]
    ignored = targets == PAD
    if first is not None:
        ignored |= torch.arange(1, sequence.shape[1], device=first.device, dtype=first.dtype) < first[:, None]
    return {"ids": sequence[:, :-1], "targets": targets.masked_fill(ignored, IGNORE)}
