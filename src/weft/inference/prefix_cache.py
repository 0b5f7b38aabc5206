"""Prompts that begin alike are read once: the state after one is copied for the next.

A KV cache can be cut to any prefix, so the snapshot of a whole prompt serves all that begin like it. A recurrent state is known only where
a snapshot was taken: at the last block of a prompt, and at the block where a prompt left one that came before.
"""

from __future__ import annotations

from collections import OrderedDict

from weft.inference.runner import ModelRunner
from weft.nn.state import Snapshot

LEAST = 16
"""Tokens that two prompts must have in common to be worth a copy."""
BLOCK = 16
"""Snapshots of a state that cannot be truncated are taken at multiples of so many tokens."""


class PrefixCache:
    """Snapshots of the last few prompts, the least recently used first."""

    def __init__(self, size: int, block: int = 1):
        """size: snapshots to keep; 0 keeps none. block: prefixes are shared in multiples of so many tokens, which are those that prompts
        are read by where a prefix must give what reading all of a prompt gives, to the last bit."""
        self.size, self.block = size, block
        self.entries: OrderedDict[tuple[int, ...], Snapshot] = OrderedDict()
        self.hit_tokens = 0
        """Tokens that did not have to be read again."""

    def add_row(self, runner: ModelRunner, ids: tuple[int, ...]) -> list[int]:
        """Begin a row with as much of a prompt as is known, but for its last token at least -> where snapshots of the row are wanted."""
        state = runner.state
        runner.add_rows(1)
        if state is None:
            return []
        block = BLOCK if self.block == 1 and not state.can_truncate else self.block
        common = {entry: min(common_prefix(ids, entry), len(ids) - 1) for entry in self.entries}
        usable = {entry: size // block * block for entry, size in common.items()}
        branch = max(usable.values(), default=0)
        if not state.can_truncate:
            usable = {entry: len(entry) for entry, size in common.items() if len(entry) <= size and not len(entry) % self.block}
        best = max(usable, key=lambda entry: usable[entry], default=())
        length = usable.get(best, 0)
        if length >= LEAST:
            self.entries.move_to_end(best)
            self.hit_tokens += length
            runner.restore(len(runner) - 1, ids[:length], self.entries[best])
        if not self.size or state.can_truncate:
            return []
        return sorted({end for end in (branch, (len(ids) - 1) // block * block) if end >= max(LEAST, length + 1)})

    def keep(self, runner: ModelRunner, row: int) -> None:
        """Take a snapshot of what a row holds now."""
        ids = tuple(runner.ids[row])
        if not self.size or len(ids) < LEAST or runner.state is None or runner.state.lengths[row] != len(ids) or ids in self.entries:
            return
        self.entries[ids] = runner.state.snapshot(row)
        while len(self.entries) > self.size:
            self.entries.popitem(last=False)


def common_prefix(first: tuple[int, ...], second: tuple[int, ...]) -> int:
    """How many tokens two prompts begin with alike."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((position for position, (a, b) in pairs if a != b), min(len(first), len(second)))
