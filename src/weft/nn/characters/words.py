"""Words out of a stream of characters: where each begins, and its characters as bilm-tf has them (Peters et al., 2018).

The ids are those of data.tokenizers.word_characters. Shapes: B batch, T characters of a text, W words, C characters of a word.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

BOS, EOS, BOW, EOW, PAD_CHARACTER = 257, 258, 259, 260, 261
CHARACTERS, LONGEST = 262, 50


class Words(NamedTuple):
    characters: Tensor
    """(B, W, C) int64: BOW, the bytes, EOW, then PAD_CHARACTER; a sentence's ends are words of their own; 0 where there is no word."""
    lengths: Tensor
    """(B,) words of each text."""
    word: Tensor
    """(B, T) the word that each character belongs to; -1 of padding."""

    def spread(self, states: Tensor) -> Tensor:
        """Of words (B, W, D) -> of the characters of each (B, T, D), 0 of padding."""
        index = self.word.clamp(min=0)[..., None].expand(-1, -1, states.size(-1))
        return states.gather(1, index).masked_fill((self.word < 0)[..., None], 0.0)


def split_words(ids: Tensor, lengths: Tensor | None = None, window: int = 1, most: int = 0) -> Words:
    """ids (B, T), lengths (B,) -> the words.

    W is the most that a text of the batch has, and C as small as leaves `window` characters of padding behind the longest word, or LONGEST.
    With `most` no shape depends on what the texts are: W is that, and C is LONGEST.
    """
    b, t = ids.shape
    position = torch.arange(t, device=ids.device)
    if lengths is not None:
        ids = ids.masked_fill(position >= lengths[:, None], 0)
    boundary = (ids == BOS) | (ids == EOS)  # a word by itself
    begins = boundary | (ids == BOW)
    word = begins.cumsum(1) - 1  # (B, T)
    real = (ids > 0) & (word >= 0)
    first = torch.where(begins, position, 0).cummax(1).values
    column = torch.where(boundary, 1, position - first)  # in its word, behind BOW
    inside = real & (ids != BOW) & (column < LONGEST - 1)
    number = begins.sum(1)
    width = most or max(1, int(number.max()))
    row = word.clamp(0, width - 1) + torch.arange(b, device=ids.device)[:, None] * width  # (B, T) of the B * W words
    size = ids.new_zeros(b * width).scatter_add_(0, row.flatten(), inside.flatten().long())
    longest = LONGEST if most else min(LONGEST, int(size.max()) + 2 + window)
    characters = ids.new_full((b * width * longest + 1,), PAD_CHARACTER)  # one more, for what belongs to no word
    characters.scatter_(0, torch.where(inside, row * longest + column, b * width * longest).flatten(), ids.flatten())
    characters = characters[:-1].view(b * width, longest)
    characters[:, 0] = BOW
    characters.scatter_(1, size[:, None].clamp(max=longest - 2) + 1, EOW)
    there = torch.arange(width, device=ids.device) < number[:, None]  # (B, W)
    return Words(characters.view(b, width, longest).masked_fill(~there[..., None], 0), number.clamp(max=width), word.masked_fill(~real, -1))
