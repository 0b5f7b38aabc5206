"""Prompts that begin alike are read once: what was read for one is copied for the next.

Kept are the last few prompts, as rows of a reader each. Reading on from a copy gives what reading anew gives.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from weft.inference.runner import ModelRunner

LEAST = 16
"""Tokens that two prompts must have in common to be worth a copy."""


class PrefixCache:
    def __init__(self, model: Any, most: int):
        """most: prompts to keep; 0 keeps none."""
        self.model, self.most = model, most
        self.kept: OrderedDict[tuple[int, ...], ModelRunner] = OrderedDict()  # least recently used first
        self.found = 0
        """Tokens that did not have to be read again."""

    def start(self, reader: ModelRunner, ids: tuple[int, ...]) -> None:
        """Add a row to a reader that holds as much of a prompt as is known, but for its last token at least."""
        best = max(self.kept, key=lambda other: common(ids, other), default=())
        length = min(common(ids, best), len(ids) - 1)
        if length < LEAST:
            reader.add_rows(1)
            return
        self.kept.move_to_end(best)
        self.found += length
        reader.join(self.kept[best])
        reader.cut(len(reader) - 1, length)

    def keep(self, reader: ModelRunner, row: int, ids: tuple[int, ...]) -> None:
        """Remember the prompt that a row of a reader holds."""
        if not self.most or len(ids) < LEAST or reader.cache is None or ids in self.kept:
            return
        copy = ModelRunner(self.model)
        copy.join(reader, row)
        copy.cut(0, len(ids))
        self.kept[ids] = copy
        while len(self.kept) > self.most:
            self.kept.popitem(last=False)


def common(first: tuple[int, ...], second: tuple[int, ...]) -> int:
    """How many tokens two prompts begin with alike."""
    return next((place for place, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(len(first), len(second)))
