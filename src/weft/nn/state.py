"""Keys and values of what was read already, so that every token is read once.

A row holds a sequence, from its first token on. New tokens of all rows are read together as ids (B, T): those of row b stand at
lengths[b], lengths[b] + 1, …. Rows with fewer new tokens are filled up on the right; what that writes is not counted, so nothing
sees it and the next tokens overwrite it.

Shapes: B rows, T new tokens, S places of a row, L layers, G groups of heads that share keys, K head width.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

GRAIN = 64
"""Rows grow by so many places at a time."""


class LayerKV(NamedTuple):
    """One layer's part of a cache during a reading."""

    keys: Tensor
    """(B, G, S, K), as are the values; both are written in place."""
    values: Tensor
    place: Tensor
    """Of the new tokens (B, T)."""

    def add(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """New keys and values (B, G, T, K) -> those of all places (B, G, S, K)."""
        row = torch.arange(len(keys), device=keys.device)[:, None]  # beside place (B, T), with all groups between the two
        for held, new in ((self.keys, keys), (self.values, values)):  # scatter would copy all that is held
            held[row, :, self.place] = new.transpose(1, 2).to(held.dtype)
        return self.keys, self.values


class Reading(NamedTuple):
    """What a model needs to read T new tokens of each row."""

    place: Tensor
    """Where they stand (B, T)."""
    mask: Tensor
    """True where one of them sees a place (B, 1, T, S)."""
    stores: list[LayerKV]
    """One for each layer."""


class Past(NamedTuple):
    """What a layer of a decoder beside an encoder has read before; nothing, where a whole target is read at once."""

    seen: Tensor | None = None
    """True where a new token sees a place (B, 1, T, S)."""
    store: LayerKV | None = None
    source: tuple[Tensor, Tensor] | None = None
    """Keys and values of the source."""


NOTHING = Past()


class KVCache:
    """All layers' keys and values of the sequences that are being continued."""

    def __init__(self, layers: int, groups: int, head: int, room: int, like: Tensor):
        """room: most tokens of a row. like: a tensor on the device and in the precision to keep them in."""
        self.room, self.lengths = room, list[int]()
        self.parts = like.new_zeros(2, layers, 0, groups, 1, head)  # keys and values (2, L, B or more, G, S + 1, K)
        self.memory: dict[int, tuple[Tensor, Tensor]] = {}
        """What the layers of a decoder look at in their source, each (B, H, S, K); made at the first reading."""

    def read(self, t: int) -> Reading:
        """Make room for t new tokens in each row."""
        rows, longest = len(self.lengths), max(self.lengths, default=0) + t
        size = min(-(-longest // GRAIN) * GRAIN, self.room)
        self._grow(rows, size)
        # one place more than a row has tokens belongs to none: what fills up a row that is nearly full is written there
        parts = self.parts[:, :, :rows] if longest > size else self.parts[:, :, :rows, :, :size]
        device = parts.device
        place = torch.tensor(self.lengths, device=device)[:, None] + torch.arange(t, device=device)
        mask = torch.arange(parts.size(4), device=device) <= place[:, None, :, None]
        where = place.clamp(max=parts.size(4) - 1)
        return Reading(place, mask, [LayerKV(keys, values, where) for keys, values in zip(*parts, strict=True)])

    def make_room(self, rows: int, places: int) -> None:
        """Hold so many rows and places at least, as a step that is captured wants them."""
        self._grow(rows, min(-(-places // GRAIN) * GRAIN, self.room))

    def count(self, tokens: Sequence[int]) -> None:
        """So many of the tokens that were read in each row are its own."""
        self.lengths = [before + more for before, more in zip(self.lengths, tokens, strict=True)]

    def add_rows(self, number: int) -> None:
        """Begin so many empty sequences, behind the others."""
        self.lengths += [0] * number
        self._grow(len(self.lengths), 0)

    def row(self, number: int) -> KVCache:
        """A row by itself, in the same memory."""
        alone = copy.copy(self)
        alone.parts, alone.lengths = self.parts[:, :, number : number + 1], self.lengths[number : number + 1]
        return alone

    def join(self, other: KVCache, row: int | None = None) -> None:
        """Copy the rows of another cache, or one of them, behind one's own."""
        taken = range(len(other.lengths)) if row is None else range(row, row + 1)
        before, more, long = len(self.lengths), len(taken), min(other.parts.size(4) - 1, self.room)
        self._grow(before + more, long)
        self.parts[:, :, before : before + more, :, :long] = other.parts[:, :, taken.start : taken.stop, :, :long]
        self.lengths += [other.lengths[row] for row in taken]

    @torch.inference_mode()
    def cut(self, row: int, length: int) -> None:
        """Forget what a row holds from so many tokens on."""
        before = self.lengths[row]
        if before > length:
            self.parts[:, :, row, :, length:before] = 0.0  # see `drop`
            self.lengths[row] = length

    def take(self, rows: Sequence[int]) -> None:
        """Keep these rows in this order; one may be taken more than once, as a beam does."""
        index = torch.tensor(rows, dtype=torch.int64, device=self.parts.device)
        self.lengths = [self.lengths[row] for row in rows]
        self.parts = self.parts.index_select(2, index)
        self.memory = {layer: (keys[index], values[index]) for layer, (keys, values) in self.memory.items()}

    @torch.inference_mode()
    def drop(self, row: int) -> None:
        """End a sequence. The last one takes its row; all others stay where they are."""
        last = len(self.lengths) - 1
        self.parts[:, :, row] = self.parts[:, :, last]
        self.parts[:, :, last] = 0.0  # hidden from the sequence that comes next, but a weight of 0 times NaN is NaN
        self.lengths[row] = self.lengths[last]
        self.lengths.pop()

    def pasts(self, t: int, sources: Sequence[Callable[[], tuple[Tensor, Tensor]]]) -> tuple[Tensor, Tensor, list[Past]]:
        """As `read`, for layers that look at a source too, whose keys and values are made at the first reading."""
        place, mask, stores = self.read(t)
        for layer, make in enumerate(sources):
            if layer not in self.memory:
                self.memory[layer] = make()
        return place, mask, [Past(mask, store, self.memory[layer]) for layer, store in enumerate(stores)]

    def _grow(self, rows: int, places: int) -> None:
        """Room for so many rows and places, and the place that belongs to no token."""
        has, long = self.parts.size(2), self.parts.size(4) - 1
        if rows > has or places > long:
            shape = list(self.parts.shape)
            if rows > has:
                shape[2] = max(rows, has * 2)
            if places > long:  # half as much again, so that a long text is copied a few times only
                shape[4] = max(places, min(long * 3 // 2, self.room)) + 1
            grown = self.parts.new_zeros(shape)
            grown[:, :, :has, :, :long] = self.parts[:, :, :, :, :long]
            self.parts = grown
