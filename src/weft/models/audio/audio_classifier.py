"""Convolutions over the frames of a sound that name its class, whatever its length.

Residual blocks see time and frequency; between them both are halved. The states of the last are averaged over time, and the largest of
each taken, so that it matters little when something is heard (as in x-vectors, Snyder et al., 2018). Norms go over the channels of each
place, and what lies behind the end of a sound is 0 before every convolution, so that neither padding nor the rest of a batch changes an
answer.

Shapes: B batch, T frames, M features of a frame, D channels, C classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.core.errors import ConfigError
from weft.models.base import ModelConfig, check_shares, check_sizes
from weft.nn.dropout import Dropout
from weft.nn.norm import LayerNorm

LEAST = -0.2785
"""What silu never falls below."""


@dataclass(frozen=True, kw_only=True)
class AudioClassifierConfig(ModelConfig):
    of_task = ("classes",)

    features: int = 0
    """Features M of a frame; 0 takes it from the data."""
    classes: int = 0
    """Number of classes C; 0 takes it from the data."""
    channels: tuple[int, ...] = (16, 32, 64)
    """Channels D at each resolution of time and frequency, each half the one before."""
    width: int = 128
    """Size of a state of time before the states are pooled."""
    dropout: float = 0.2
    """Share of the pooled states zeroed in training."""

    def build(self) -> AudioClassifier:
        return AudioClassifier(self)


class Residual(nn.Module):
    """x + a small change of it, by two convolutions over time and frequency."""

    def __init__(self, channels: int):
        super().__init__()
        self.norm = LayerNorm(channels)
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor, inside: Tensor) -> Tensor:
        """x (B, D, T, M), inside (B, 1, T, 1) -> the same shape, 0 where it is not inside."""
        normed: Tensor = self.norm(x.movedim(1, -1)).movedim(-1, 1)
        change: Tensor = self.second(F.silu(self.first(normed * inside)) * inside)
        return (x + change) * inside


class AudioClassifier(nn.Module):
    task_parts = ("head",)
    """What starts afresh when other classes are learned."""

    def __init__(self, config: AudioClassifierConfig):
        super().__init__()
        c = self.config = config
        check_sizes(c, features=1, classes=1, width=1)
        if not c.channels or min(c.channels) < 1:
            raise ConfigError(f"--model.channels must be one number or more of at least 1, not {c.channels}")
        check_shares(c, "dropout")
        self.first = nn.Conv2d(1, c.channels[0], 3, padding=1)
        self.blocks = nn.ModuleList(Residual(channels) for channels in c.channels)
        self.down = nn.ModuleList(nn.Conv2d(before, after, 3, stride=2, padding=1) for before, after in pairwise(c.channels))
        high = c.features
        for _ in self.down:
            high = -(-high // 2)
        self.state = nn.Linear(c.channels[-1] * high, c.width)
        self.dropout = Dropout(c.dropout)
        self.head = nn.Linear(2 * c.width, c.classes)

    def embed_sound(self, source: Tensor, lengths: Tensor | None = None) -> Tensor:
        """source (B, T, M), lengths (B,) -> mean and largest of the states of each sound (B, 2 width)."""
        if lengths is None:
            lengths = torch.full((len(source),), source.size(1), device=source.device)
        x = source[:, None]
        inside = within(x, lengths)
        x = self.first(x * inside) * inside
        for number, block in enumerate(self.blocks):
            if number:
                lengths = (lengths + 1) // 2
                x = self.down[number - 1](x)
                inside = within(x, lengths)
                x = x * inside
            x = block(x, inside)
        states = F.silu(self.state(x.movedim(1, 2).flatten(2)))  # (B, T', width)
        here = inside[:, 0]  # (B, T', 1)
        mean = (states * here).sum(1) / lengths.clamp(min=1)[:, None]
        largest = states.masked_fill(here == 0, LEAST).amax(1)
        return torch.cat((mean, largest), 1)

    def classify(self, source: Tensor, lengths: Tensor | None = None) -> Tensor:
        """source (B, T, M), lengths (B,) -> class logits (B, C)."""
        logits: Tensor = self.head(self.dropout(self.embed_sound(source, lengths)))
        return logits

    def forward(self, source: Tensor, lengths: Tensor | None = None) -> Tensor:
        """source (B, T, M), lengths (B,) -> class logits (B, C)."""
        return self.classify(source, lengths)


def within(x: Tensor, lengths: Tensor) -> Tensor:
    """x (B, D, T, M), lengths (B,) -> 1 for the frames of each sound, 0 behind them (B, 1, T, 1)."""
    return (torch.arange(x.size(2), device=x.device) < lengths[:, None]).to(x.dtype)[:, None, :, None]


TINY = AudioClassifierConfig(features=40, classes=10, channels=(4, 8), width=16)
"""Small enough for a test."""
PRESETS = {"tiny": TINY}
