"""Pointer network: a decoder whose outputs are positions of its input (Vinyals et al., 2015, arXiv:1506.03134).

Inputs are read one after the other by a recurrent network in both directions, or as a set, each by itself or through blocks of attention
without positions, then summed up by a process block (Vinyals et al., 2016, arXiv:1511.06391). A recurrent decoder reads what was
pointed at last, and an additive attention over the inputs, and an end beside them, is its output.

Shapes: B batch, N inputs, F features, D width, T steps; positions count from 1, 0 is the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from weft.core.errors import ConfigError
from weft.models.base import ModelConfig, check_sizes
from weft.nn.attention import SelfAttention, padding_mask
from weft.nn.block import Block
from weft.nn.feed_forward import FeedForward
from weft.nn.norm import LayerNorm
from weft.nn.recurrent import Recurrent
from weft.nn.rnn_attention import AdditiveScore, RNNAttention

END = 0


@dataclass(frozen=True, kw_only=True)
class PointerNetworkConfig(ModelConfig):
    features: int = 0
    """Numbers F of an input; 0 takes it from the data."""
    width: int = 128
    """Width D of all states."""
    encoder: Literal["recurrent", "set"] = "recurrent"
    """Read inputs one after the other in both directions, or as a set, whose order means nothing."""
    layers: int = 1
    """Recurrent layers, or blocks of attention of a set; with 0, each input of a set is read by itself."""
    heads: int = 4
    """Attention heads of a block of a set."""
    process_steps: int = 3
    """How often the process block looks at a set before anything is pointed at."""
    cell: Literal["rnn", "lstm", "gru"] = "lstm"
    """Cell of encoder and decoder."""
    mask_chosen: bool = False
    """Never point at an input again."""

    def build(self) -> PointerNetwork:
        return PointerNetwork(self)


class RecurrentEncoder(nn.Module):
    """Inputs one after the other, in both directions."""

    def __init__(self, config: PointerNetworkConfig):
        super().__init__()
        c = config
        self.read = Recurrent(c.cell, c.width, c.width, c.layers, bidirectional=True)
        self.states, self.last = nn.Linear(2 * c.width, c.width), nn.Linear(2 * c.width, c.width)

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """x (B, N, D), lengths (B,) -> states (B, N, D), and what is known of all of them (B, D)."""
        states, end = self.read(x, lengths)
        return x + self.states(states), torch.tanh(self.last(end["h"][:, -2:].flatten(1)))


class SetEncoder(nn.Module):
    """Inputs at once, in no order."""

    def __init__(self, config: PointerNetworkConfig):
        super().__init__()
        c = config
        self.blocks = nn.ModuleList(
            Block(SelfAttention(c.width, c.heads, causal=False), FeedForward(c.width, 4 * c.width), partial(LayerNorm, c.width))
            for _ in range(c.layers)
        )
        self.norm = LayerNorm(c.width) if c.layers else nn.Identity()
        self.steps = c.process_steps
        self.first = nn.Parameter(torch.zeros(c.width))
        self.process = Recurrent(c.cell, c.width, c.width)
        self.glimpse = RNNAttention("scaled_dot", c.width, c.width)

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """x (B, N, D), lengths (B,) -> states (B, N, D), and what is known of all of them (B, D)."""
        mask = padding_mask(lengths, x.size(1))
        for block in self.blocks:
            x = block(x, mask)
        x = self.norm(x)
        keys, there = self.glimpse.project(x), None if mask is None else mask[:, 0, 0]
        read, state = self.first.expand(len(x), 1, -1), None
        for _ in range(self.steps):
            query, state = self.process(read, None, state)
            read, _ = self.glimpse(query, keys, x, there)
        return x, read[:, 0]


class PointerNetwork(nn.Module):
    """Logits of the next position, given those before it."""

    compile = False  # type: ignore[assignment]  # the loop over steps would be unrolled

    def __init__(self, config: PointerNetworkConfig):
        super().__init__()
        c = self.config = config
        check_sizes(c, features=1, width=1, layers=int(c.encoder == "recurrent"), heads=1, process_steps=1)
        if c.encoder == "set" and c.width % c.heads:
            raise ConfigError(f"model.width {c.width} is not a multiple of model.heads {c.heads}")
        self.embed = nn.Linear(c.features, c.width)
        self.encoder = RecurrentEncoder(c) if c.encoder == "recurrent" else SetEncoder(c)
        self.bridge = nn.Linear(c.width, c.width)
        self.end, self.start = (nn.Parameter(torch.randn(c.width) * c.width**-0.5) for _ in range(2))
        self.decoder = Recurrent(c.cell, c.width, c.width)
        self.score = AdditiveScore(c.width, c.width, c.width)

    def encode(self, points: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """points (B, N, F), lengths (B,) -> the end and the inputs (B, N + 1, D), which are there (B, N + 1), the decoder's first state."""
        there = torch.arange(points.size(1) + 1, device=points.device) <= lengths[:, None]
        points = points.masked_fill(~there[:, 1:, None], 0.0)  # what is padding may be anything
        states, known = self.encoder(self.embed(points), lengths)
        first = torch.tanh(self.bridge(known)).unsqueeze(1)
        state = {name: first if name == "h" else torch.zeros_like(first) for name in self.decoder.state_shapes}
        return torch.cat([self.end.expand(len(points), 1, -1).to(states.dtype), states], 1), there, state

    def point_from(self, hidden: Tensor, keys: Tensor, allowed: Tensor) -> Tensor:
        """Decoder states (B, T, D), keys (B, N + 1, D), allowed (B, T or 1, N + 1) -> logits (B, T, N + 1)."""
        scores: Tensor = self.score(hidden, keys)
        return scores.float().masked_fill(~allowed, float("-inf"))

    def pointer_logits(self, points: Tensor, lengths: Tensor, order: Tensor) -> Tensor:
        """points (B, N, F), lengths (B,), order (B, T), below 0 where it is padding -> logits of each of its positions (B, T, N + 1)."""
        inputs, there, state = self.encode(points, lengths)
        before = order[:, :-1].clamp(min=END)  # (B, T - 1)
        read = inputs.gather(1, before.unsqueeze(-1).expand(-1, -1, inputs.size(-1)))
        hidden, _ = self.decoder(torch.cat([self.start.expand_as(inputs[:, :1]).to(read.dtype), read], 1), None, state)
        allowed = there[:, None]
        if self.config.mask_chosen:
            chosen = torch.zeros(*order.shape, there.size(1), dtype=torch.bool, device=order.device)
            chosen[:, 1:] = nn.functional.one_hot(before, there.size(1)).cumsum(1) > 0
            chosen[..., END] = False
            allowed = allowed & ~chosen
        return self.point_from(hidden, self.score.project(inputs), allowed)

    def forward(self, points: Tensor, lengths: Tensor, order: Tensor) -> Tensor:
        """As `pointer_logits`."""
        return self.pointer_logits(points, lengths, order)

    def point(self, points: Tensor, lengths: Tensor) -> Tensor:
        """points (B, N, F), lengths (B,) -> the likeliest position at each step (B, N + 1): from the first end on, the end."""
        inputs, there, state = self.encode(points, lengths)
        keys, allowed = self.score.project(inputs), there
        read, row = self.start.expand_as(inputs[:, :1]).to(inputs.dtype), torch.arange(len(points), device=points.device)
        found: list[Tensor] = []
        for _ in range(inputs.size(1)):
            hidden, state = self.decoder(read, None, state)
            chosen = self.point_from(hidden, keys, allowed[:, None])[:, 0].argmax(-1)
            if found:
                chosen = chosen.masked_fill(found[-1] == END, END)
            found.append(chosen)
            read = inputs[row, chosen].unsqueeze(1)
            if self.config.mask_chosen:
                again = nn.functional.one_hot(chosen, inputs.size(1)).bool()
                again[:, END] = False
                allowed = allowed & ~again
        return torch.stack(found, 1)


PRESETS = {"tiny": PointerNetworkConfig(width=16)}
