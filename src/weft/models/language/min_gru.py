"""Language model of minimal recurrent units, minGRU and minLSTM, that train in parallel over time (Feng et al., 2024, arXiv:2410.01201).

Gates look at the input alone, so a state is a linear function of the one before it, h = f h + i g(x), and all steps of a window are one
scan, computed in logarithms (Heinsen, 2023, arXiv:2311.06281); a text is continued step by step. Shapes: B batch, T time, D width,
H inner width, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.core.errors import ConfigError
from weft.models.base import ModelConfig, check_shares, check_sizes
from weft.nn import init
from weft.nn.dropout import Dropout
from weft.nn.feed_forward import FeedForward
from weft.nn.norm import RMSNorm
from weft.nn.state import RecurrentState

LEAST = 1e-30
"""In whose place a state of 0 has a logarithm."""
SHUT = -1e4
"""The logarithm of a gate that lets nothing through."""


@dataclass(frozen=True, kw_only=True)
class MinGRUConfig(ModelConfig):
    vocabulary: int = 0
    """Number of tokens V; 0 takes it from the data."""
    cell: Literal["min_gru", "min_lstm"] = "min_gru"
    """One gate z, with f = 1 - z and i = z, or two whose sum is made 1."""
    layers: int = 3
    """Number of blocks, each a recurrent unit and a feed-forward layer."""
    width: int = 192
    """Size D of the residual stream."""
    expansion: float = 1.5
    """Inner width H of the recurrent unit, over the width."""
    ffn_width: int = 0
    """Width of the feed-forward layer; 0 is four times the width."""
    tie_embeddings: bool = True
    """Share the embedding with the output head."""
    dropout: float = 0.0
    """Share of the embedding and of each residual branch zeroed in training."""

    def build(self) -> MinGRULM:
        return MinGRULM(self)


class MinRNN(nn.Module):
    """minGRU or minLSTM between two linear layers."""

    def __init__(self, cell: str, width: int, inner: int):
        super().__init__()
        self.cell, self.inner = cell, inner
        self.gates = nn.Linear(width, inner * (2 if cell == "min_gru" else 3))
        self.out = nn.Linear(inner, width)

    def log_gates(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """x (B, T, D) -> log f, log i, log g, each (B, T, H) in fp32."""
        parts = self.gates(x).float().chunk(2 if self.cell == "min_gru" else 3, -1)
        if self.cell == "min_gru":
            log_f, log_i = F.logsigmoid(-parts[0]), F.logsigmoid(parts[0])
        else:  # f / (f + i) and i / (f + i) of two sigmoids
            difference = F.logsigmoid(parts[0]) - F.logsigmoid(parts[1])
            log_f, log_i = F.logsigmoid(difference), F.logsigmoid(-difference)
        return log_f, log_i, log_candidate(parts[-1])

    def forward(self, x: Tensor, h: Tensor, inside: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """x (B, T, D), h (B, H), inside (B, T): whether a step is real -> outputs (B, T, D) and h after the last real step."""
        log_f, log_i, log_g = self.log_gates(x)
        if inside is not None:
            log_f, log_i = log_f.masked_fill(~inside[..., None], 0.0), log_i.masked_fill(~inside[..., None], SHUT)
        states = step(log_f, log_i + log_g, h) if x.size(1) == 1 else scan(log_f, log_i + log_g, h)
        return self.out(states.to(x.dtype)), states[:, -1]


def log_candidate(x: Tensor) -> Tensor:
    """log g(x), where g(x) = x + 1/2 above 0 and sigmoid(x) below, which is continuous and positive."""
    return torch.where(x >= 0, (F.relu(x) + 0.5).log(), F.logsigmoid(x))


def scan(log_f: Tensor, log_v: Tensor, h: Tensor) -> Tensor:
    """log f and log v (B, T, H), h (B, H) -> all h_t = f_t h_(t-1) + v_t (B, T, H) at once."""
    total = log_f.cumsum(1)
    begin = h.float().clamp(min=LEAST).log()[:, None]
    return (total + torch.cat([begin, log_v - total], 1).logcumsumexp(1)[:, 1:]).exp()


def step(log_f: Tensor, log_v: Tensor, h: Tensor) -> Tensor:
    """As `scan`, one step after the other."""
    states = []
    h = h.float()
    for f, v in zip(log_f.exp().unbind(1), log_v.exp().unbind(1), strict=True):
        h = f * h + v
        states.append(h)
    return torch.stack(states, 1)


class MinGRUBlock(nn.Module):
    """A recurrent unit and a feed-forward layer, each a residual branch behind a norm."""

    def __init__(self, config: MinGRUConfig):
        super().__init__()
        c = config
        self.norm1, self.norm2 = RMSNorm(c.width, eps=1e-5), RMSNorm(c.width, eps=1e-5)
        self.rnn = MinRNN(c.cell, c.width, round(c.expansion * c.width))
        self.ffn = FeedForward(c.width, c.ffn_width or 4 * c.width)
        self.dropout = Dropout(c.dropout)

    def forward(self, x: Tensor, h: Tensor, inside: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """x (B, T, D), h (B, H) -> (B, T, D), h after the last step."""
        outputs, h = self.rnn(self.norm1(x), h, inside)
        x = x + self.dropout(outputs)
        return x + self.dropout(self.ffn(self.norm2(x))), h


class MinGRULM(nn.Module):
    """Next-token logits from the tokens so far, through a state of constant size."""

    token_tables = ("embed.weight", "head.weight")
    """What has a row for each token, and grows where finetuning adds tokens."""

    def __init__(self, config: MinGRUConfig):
        super().__init__()
        c = self.config = config
        check_sizes(c, vocabulary=1, layers=1, width=1, ffn_width=0)
        if not c.expansion * c.width >= 1:
            raise ConfigError(f"--model.expansion {c.expansion} leaves no unit of a --model.width {c.width}; make one of them larger")
        check_shares(c, "dropout")
        self.embed = nn.Embedding(c.vocabulary, c.width)
        self.blocks = nn.ModuleList(MinGRUBlock(c) for _ in range(c.layers))
        self.norm = RMSNorm(c.width, eps=1e-5)
        self.head = nn.Linear(c.width, c.vocabulary, bias=False)
        self.dropout = Dropout(c.dropout)
        for name, parameter in self.named_parameters():
            if name.endswith(("out.weight", "down.weight")):
                init.residual(parameter, c.layers)
            elif parameter.ndim == 2:
                init.normal(parameter)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)
        if c.tie_embeddings:
            self.head.weight = self.embed.weight

    @property
    def inner(self) -> int:
        return round(self.config.expansion * self.config.width)

    def new_state(self) -> RecurrentState:
        """An empty state for `hidden`: h0 of the first block, and so on, in fp32."""
        return RecurrentState({f"h{number}": (self.inner,) for number in range(len(self.blocks))}, self.embed.weight.float())

    def hidden(self, ids: Tensor, state: RecurrentState | None = None, lengths: Tensor | None = None) -> Tensor:
        """ids (B, T), of which `lengths` (B,) are real -> the last block's normed states (B, T, D); with a state, behind what it holds."""
        inside = None if lengths is None else torch.arange(ids.size(1), device=ids.device) < lengths[:, None]
        x, ends = self.dropout(self.embed(ids)), dict[str, Tensor]()
        for number, block in enumerate(self.blocks):
            name = f"h{number}"
            x, ends[name] = block(x, state.tensors[name] if state else x.new_zeros(len(x), self.inner), inside)
        if state:
            state.update(**ends)
        out: Tensor = self.norm(x)
        return out

    def forward(self, ids: Tensor) -> Tensor:
        """ids (B, T) -> logits (B, T, V)."""
        logits: Tensor = self.head(self.hidden(ids))
        return logits


TINY = MinGRUConfig(layers=2, width=32)
"""Small enough for a test."""
PRESETS = {"tiny": TINY}
