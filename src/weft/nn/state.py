"""What a generating model carries from token to token, so that each is read once: a KV cache, a recurrent state, an encoder's output.

A row holds a sequence, from its first token on. New tokens of all rows are read together as ids (B, T): those of row b have the positions
lengths[b], lengths[b] + 1, …. Rows with fewer new tokens are padded on the right; the model is told how many of its new tokens are real,
and after it has read them `count` adds these to the lengths.

Shapes: B rows, T new tokens, S positions of a row, L layers, G groups of heads that share keys, K head width, D width.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.core.errors import CapabilityError

GRAIN = 64
"""The capacity of a KV cache grows by so many positions at a time."""


@dataclass(frozen=True)
class Snapshot:
    """A copy of what a state holds of the first `length` tokens of a row, which later tokens do not change."""

    length: int
    tensors: Mapping[str, Tensor]
    """Without the dimension of the rows."""


class SequenceState(Protocol):
    """A batch of sequences, a row each, as far as a model has read them."""

    lengths: list[int]
    """Tokens that each row holds."""

    @property
    def limit(self) -> int | None:
        """Most tokens of a row; None where there is no limit."""

    @property
    def can_truncate(self) -> bool:
        """Whether a row can forget its last tokens; where it cannot, a snapshot taken before them is restored."""

    def reserve(self, rows: int, tokens: int) -> None:
        """Make room for so many rows of so many tokens, so that nothing has to grow meanwhile."""

    def count(self, tokens: Sequence[int]) -> None:
        """So many of the new tokens that were read in each row are real."""

    def add_rows(self, number: int) -> None:
        """Begin so many empty sequences, behind the others."""

    def row(self, number: int) -> Self:
        """A row by itself, in the same memory."""

    def select(self, rows: Sequence[int]) -> None:
        """Keep these rows in this order; one may be taken more than once, as beam search does."""

    def drop(self, row: int) -> None:
        """End a sequence. The last row takes its place; all others stay where they are."""

    def join(self, other: Self, row: int | None = None) -> None:
        """Copy the rows of another state, or one of them, behind one's own."""

    def truncate(self, row: int, length: int) -> None:
        """Keep the first `length` tokens of a row only."""

    def snapshot(self, row: int, length: int | None = None) -> Snapshot:
        """A copy of a row, or of its first `length` tokens where the state can be truncated."""

    def restore(self, row: int, snapshot: Snapshot, length: int | None = None) -> None:
        """Put a snapshot, or its first `length` tokens where the state can be truncated, in the place of what a row holds."""


class LayerKV(NamedTuple):
    """One layer's part of a KV cache while new tokens are read."""

    keys: Tensor
    """(B, G, S, K), as are the values; both are written in place."""
    values: Tensor
    positions: Tensor
    """Of the new tokens (B, T)."""

    def update(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """New keys and values (B, G, T, K) -> those of all positions (B, G, S, K)."""
        row = torch.arange(len(keys), device=keys.device)[:, None]  # beside positions (B, T), with all groups between the two
        for cached, new in ((self.keys, keys), (self.values, values)):  # scatter would copy all that is cached
            cached[row, :, self.positions] = new.transpose(1, 2).to(cached.dtype)
        return self.keys, self.values


class AttentionMetadata(NamedTuple):
    """What attention needs to read T new tokens of each row."""

    positions: Tensor
    """Of the new tokens (B, T)."""
    mask: Tensor
    """True where a new token sees a position (B, 1, T, S)."""
    layers: list[LayerKV]


class DecoderLayerKV(NamedTuple):
    """Cached keys and values of one layer of a decoder beside an encoder; none, where a whole target is read at once."""

    mask: Tensor | None = None
    """True where a new token sees a position (B, 1, T, S)."""
    own: LayerKV | None = None
    cross: tuple[Tensor, Tensor] | None = None
    """Keys and values of the source."""


NO_CACHE = DecoderLayerKV()


class KVCache:
    """Keys and values of all layers."""

    can_truncate = True

    def __init__(self, layers: int, kv_heads: int, head: int, limit: int, like: Tensor):
        """like: a tensor on the device and in the precision to keep them in."""
        self.limit, self.lengths = limit, list[int]()
        self.kv = like.new_zeros(2, layers, 0, kv_heads, 1, head)  # keys and values (2, L, B or more, G, S + 1, K)

    def extend(self, t: int) -> AttentionMetadata:
        """Make room for t new tokens in each row."""
        rows, longest = len(self.lengths), max(self.lengths, default=0) + t
        size = min(-(-longest // GRAIN) * GRAIN, self.limit)
        self._grow(rows, size)
        # there is one position more than a row has tokens: the padding of a row that is nearly full is written there
        kv = self.kv[:, :, :rows] if longest > size else self.kv[:, :, :rows, :, :size]
        device = kv.device
        positions = torch.tensor(self.lengths, device=device)[:, None] + torch.arange(t, device=device)
        mask = torch.arange(kv.size(4), device=device) <= positions[:, None, :, None]
        written = positions.clamp(max=kv.size(4) - 1)
        return AttentionMetadata(positions, mask, [LayerKV(keys, values, written) for keys, values in zip(*kv, strict=True)])

    def reserve(self, rows: int, tokens: int) -> None:
        self._grow(rows, min(-(-tokens // GRAIN) * GRAIN, self.limit))

    def count(self, tokens: Sequence[int]) -> None:
        self.lengths = [before + more for before, more in zip(self.lengths, tokens, strict=True)]

    def add_rows(self, number: int) -> None:
        self.lengths += [0] * number
        self._grow(len(self.lengths), 0)

    def row(self, number: int) -> KVCache:
        alone = copy.copy(self)
        alone.kv, alone.lengths = self.kv[:, :, number : number + 1], self.lengths[number : number + 1]
        return alone

    def join(self, other: KVCache, row: int | None = None) -> None:
        taken = range(len(other.lengths)) if row is None else range(row, row + 1)
        before, more, long = len(self.lengths), len(taken), min(other.kv.size(4) - 1, self.limit)
        self._grow(before + more, long)
        self.kv[:, :, before : before + more, :, :long] = other.kv[:, :, taken.start : taken.stop, :, :long]
        self.lengths += [other.lengths[row] for row in taken]

    @torch.inference_mode()
    def truncate(self, row: int, length: int) -> None:
        before = self.lengths[row]
        if before > length:
            self.kv[:, :, row, :, length:before] = 0.0  # see `drop`
            self.lengths[row] = length

    def snapshot(self, row: int, length: int | None = None) -> Snapshot:
        length = self.lengths[row] if length is None else min(length, self.lengths[row])
        return Snapshot(length, {"kv": self.kv[:, :, row, :, :length].clone()})  # (2, L, G, S, K)

    def restore(self, row: int, snapshot: Snapshot, length: int | None = None) -> None:
        length = snapshot.length if length is None else min(length, snapshot.length)
        self.reserve(len(self.lengths), length)
        self.kv[:, :, row, :, :length] = snapshot.tensors["kv"][..., :length, :]
        self.lengths[row] = length

    def select(self, rows: Sequence[int]) -> None:
        index = torch.tensor(rows, dtype=torch.int64, device=self.kv.device)
        self.lengths = [self.lengths[row] for row in rows]
        self.kv = self.kv.index_select(2, index)

    @torch.inference_mode()
    def drop(self, row: int) -> None:
        last = len(self.lengths) - 1
        self.kv[:, :, row] = self.kv[:, :, last]
        self.kv[:, :, last] = 0.0  # hidden from the sequence that comes next, but a weight of 0 times NaN is NaN
        self.lengths[row] = self.lengths[last]
        self.lengths.pop()

    def _grow(self, rows: int, tokens: int) -> None:
        """Room for so many rows and positions, and the position that belongs to no token."""
        has, long = self.kv.size(2), self.kv.size(4) - 1
        if rows > has or tokens > long:
            shape = list(self.kv.shape)
            if rows > has:
                shape[2] = max(rows, has * 2)
            if tokens > long:  # half as much again, so that a long text is copied a few times only
                shape[4] = max(tokens, min(long * 3 // 2, self.limit)) + 1
            grown = self.kv.new_zeros(shape)
            grown[:, :, :has, :, :long] = self.kv[:, :, :, :, :long]
            self.kv = grown


class RecurrentState:
    """Tensors of a fixed size for each row, whatever its length, such as the hidden state and cell of an LSTM."""

    can_truncate = False
    limit = None

    def __init__(self, shapes: Mapping[str, tuple[int, ...]], like: Tensor):
        """shapes: of each tensor, without the rows; a sequence begins with zeros. like: a tensor on the device and in the precision."""
        self.lengths = list[int]()
        self.tensors = {name: like.new_zeros(0, *shape) for name, shape in shapes.items()}
        """Each (B, …): a model reads them here and gives the new ones to `update`."""

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor], lengths: Sequence[int] | None = None) -> RecurrentState:
        """A state of tensors (B, …) that exist, such as those that training carries from batch to batch."""
        made = cls.__new__(cls)
        made.tensors = dict(tensors)
        made.lengths = list(lengths) if lengths is not None else [0] * len(next(iter(made.tensors.values())))
        return made

    def update(self, **tensors: Tensor) -> None:
        """Put new tensors (B, …) in the place of the old: in their memory, unless a gradient goes through them."""
        for name, new in tensors.items():
            if torch.is_grad_enabled():
                self.tensors[name] = new
            else:
                self.tensors[name].copy_(new)

    def reserve(self, rows: int, tokens: int) -> None:
        """Nothing grows with the tokens."""

    def count(self, tokens: Sequence[int]) -> None:
        self.lengths = [before + more for before, more in zip(self.lengths, tokens, strict=True)]

    def add_rows(self, number: int) -> None:
        self.lengths += [0] * number
        self.tensors = {name: torch.cat([held, held.new_zeros(number, *held.shape[1:])]) for name, held in self.tensors.items()}

    def row(self, number: int) -> RecurrentState:
        return self.of({name: held[number : number + 1] for name, held in self.tensors.items()}, self.lengths[number : number + 1])

    def select(self, rows: Sequence[int]) -> None:
        self.lengths = [self.lengths[row] for row in rows]
        self.tensors = {name: held[list(rows)] for name, held in self.tensors.items()}

    def drop(self, row: int) -> None:
        last = len(self.lengths) - 1
        order = [last if number == row else number for number in range(last)]
        self.select(order)

    def join(self, other: RecurrentState, row: int | None = None) -> None:
        taken = slice(None) if row is None else slice(row, row + 1)
        self.tensors = {name: torch.cat([held, other.tensors[name][taken]]) for name, held in self.tensors.items()}
        self.lengths += other.lengths[taken]

    def truncate(self, row: int, length: int) -> None:
        if 0 < length < self.lengths[row]:
            raise CapabilityError(f"a recurrent state of {self.lengths[row]} tokens cannot be cut to {length}; restore a snapshot of them")
        if not length:
            for held in self.tensors.values():
                held[row] = 0
            self.lengths[row] = 0

    def snapshot(self, row: int, length: int | None = None) -> Snapshot:
        if length not in (None, self.lengths[row]):
            raise CapabilityError(f"a recurrent state knows its {self.lengths[row]} tokens only, not the first {length} of them")
        return Snapshot(self.lengths[row], {name: held[row].clone() for name, held in self.tensors.items()})

    def restore(self, row: int, snapshot: Snapshot, length: int | None = None) -> None:
        if length not in (None, snapshot.length):
            raise CapabilityError(f"a snapshot of {snapshot.length} tokens of a recurrent state cannot be restored to {length}")
        for name, held in self.tensors.items():
            held[row] = snapshot.tensors[name]
        self.lengths[row] = snapshot.length


class EncoderOutput:
    """What an encoder made of the sources, a row each."""

    def __init__(self) -> None:
        self.states: Tensor | None = None
        """(B, S, D), or (B, L, S, D) where each layer of the decoder looks at its own."""
        self.lengths = torch.zeros(0, dtype=torch.int64)
        """States of each row that are no padding (B,)."""

    def add(self, states: Tensor, lengths: Tensor) -> None:
        """Further rows, padded to the longest of all; the first ones as they are, so that nothing waits for the device."""
        if self.states is None:
            self.states, self.lengths = states, lengths
            return
        self.lengths = torch.cat([self.lengths.to(lengths.device), lengths])
        longest = int(self.lengths.max())
        both = (self.states, states)
        self.states = torch.cat([F.pad(each[..., :longest, :], (0, 0, 0, max(0, longest - each.size(-2)))) for each in both])

    def select(self, rows: Sequence[int]) -> None:
        if self.states is not None:
            index = torch.tensor(rows, dtype=torch.int64, device=self.states.device)
            self.states, self.lengths = self.states[index], self.lengths[index]


class EncoderDecoderState:
    """The encoder's output, the keys and values that cross-attention made of it, and the state of the decoder itself."""

    def __init__(self, decoder: KVCache | RecurrentState):
        self.decoder, self.encoder = decoder, EncoderOutput()
        self.cross_kv: dict[int, tuple[Tensor, Tensor]] = {}
        """Of each layer, (B, H, S, K) each; made when first asked for."""

    @property
    def lengths(self) -> list[int]:  # type: ignore[override]
        return self.decoder.lengths

    @property
    def limit(self) -> int | None:
        return self.decoder.limit

    @property
    def can_truncate(self) -> bool:
        return self.decoder.can_truncate

    def cross(self, layer: int, project: Callable[[], tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        """Keys and values of the sources for a layer, projected once."""
        if layer not in self.cross_kv:
            self.cross_kv[layer] = project()
        return self.cross_kv[layer]

    def extend(self, t: int, projections: Sequence[Callable[[], tuple[Tensor, Tensor]]]) -> tuple[Tensor, Tensor, list[DecoderLayerKV]]:
        """Make room for t new tokens in each row -> their positions (B, T), the mask (B, 1, T, S), and what each layer has cached."""
        assert isinstance(self.decoder, KVCache)
        positions, mask, layers = self.decoder.extend(t)
        cross = [self.cross(number, project) for number, project in enumerate(projections)]
        return positions, mask, [DecoderLayerKV(mask, own, source) for own, source in zip(layers, cross, strict=True)]

    def reserve(self, rows: int, tokens: int) -> None:
        self.decoder.reserve(rows, tokens)

    def count(self, tokens: Sequence[int]) -> None:
        self.decoder.count(tokens)

    def add_rows(self, number: int) -> None:
        raise CapabilityError("a target begins with its source; add both by add_sources")

    def add_sources(self, states: Tensor, lengths: Tensor) -> None:
        """Begin a target for each of these sources: the encoder's output (B, S, D) and its lengths (B,)."""
        self.encoder.add(states, lengths)
        self.decoder.add_rows(len(states))
        self.cross_kv.clear()  # of all sources, which now have another length

    def row(self, number: int) -> EncoderDecoderState:
        alone = EncoderDecoderState(self.decoder.row(number))
        assert self.encoder.states is not None
        alone.encoder.add(self.encoder.states[number : number + 1], self.encoder.lengths[number : number + 1])
        return alone

    def select(self, rows: Sequence[int]) -> None:
        self.decoder.select(rows)
        self.encoder.select(rows)
        index = torch.tensor(rows, dtype=torch.int64, device=self.encoder.lengths.device)
        self.cross_kv = {layer: (keys[index], values[index]) for layer, (keys, values) in self.cross_kv.items()}

    def drop(self, row: int) -> None:
        last = len(self.lengths) - 1
        self.select([last if number == row else number for number in range(last)])

    def join(self, other: EncoderDecoderState, row: int | None = None) -> None:
        taken = slice(None) if row is None else slice(row, row + 1)
        assert other.encoder.states is not None
        self.encoder.add(other.encoder.states[taken], other.encoder.lengths[taken])
        self.decoder.join(other.decoder, row)  # type: ignore[arg-type]
        self.cross_kv.clear()

    def truncate(self, row: int, length: int) -> None:
        self.decoder.truncate(row, length)

    def snapshot(self, row: int, length: int | None = None) -> Snapshot:
        """Of the target; a row keeps its source."""
        return self.decoder.snapshot(row, length)

    def restore(self, row: int, snapshot: Snapshot, length: int | None = None) -> None:
        self.decoder.restore(row, snapshot, length)
