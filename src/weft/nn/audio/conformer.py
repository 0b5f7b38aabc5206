"""Conformer, an encoder of sound out of attention and convolutions (Gulati et al., 2020, arXiv:2005.08100).

Where the paper normalises the inside of its convolution over the batch, this does over the channels of each frame, so that no row depends
on the rows beside it. Frames are subsampled by convolutions over time, each of which halves their number, and whose channels are the
features.

Shapes: B batch, T frames, M features, D width, H heads, K head width.
"""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.nn import init
from weft.nn.attention import fused_attention, padding_mask
from weft.nn.dropout import Dropout
from weft.nn.feed_forward import FeedForward
from weft.nn.norm import LayerNorm


def inside(lengths: Tensor | None, x: Tensor) -> Tensor | None:
    """lengths (B,), x (B, T, …) -> True where a frame is no padding (B, T, 1)."""
    return None if lengths is None else (torch.arange(x.size(1), device=x.device) < lengths[:, None])[:, :, None]


def zero_padding(x: Tensor, lengths: Tensor | None) -> Tensor:
    """x (B, T, D) with zeros in the place of padding, which convolutions would spread."""
    kept = inside(lengths, x)
    return x if kept is None else x.masked_fill(~kept, 0.0)


def sinusoidal(position: Tensor, width: int) -> Tensor:
    """Sines and cosines of distances (N,), also negative ones -> (N, D)."""
    rate = 10000.0 ** (-torch.arange(0, width, 2, device=position.device) / width)
    angle = position[:, None] * rate
    return torch.cat([angle.sin(), angle.cos()], -1)[:, :width]


class Subsampling(nn.Module):
    """Convolutions of three frames, each at every second one, and a product with a vector for each frame at the end."""

    def __init__(self, features: int, width: int, factor: int):
        super().__init__()
        downsamplings = factor.bit_length() - 1
        sizes = [features, *[width] * downsamplings]
        self.convolutions = nn.ModuleList(nn.Conv1d(a, b, 3, stride=2, padding=1) for a, b in pairwise(sizes))
        self.linear = nn.Linear(sizes[-1], width)

    def lengths(self, lengths: Tensor) -> Tensor:
        """Frames (B,) -> what is left of them (B,)."""
        for _ in self.convolutions:
            lengths = (lengths + 1) // 2
        return lengths

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """x (B, T, M), lengths (B,) -> (B, T', D), lengths (B,)."""
        for convolution in self.convolutions:
            x = F.silu(convolution(zero_padding(x, lengths).mT).mT)
            lengths = None if lengths is None else (lengths + 1) // 2
        return self.linear(zero_padding(x, lengths)), lengths


class RelativeAttention(nn.Module):
    """Attention whose scores know how far a key is from its query (Dai et al., 2019, arXiv:1901.02860): (q + u) k + (q + v) r."""

    def __init__(self, width: int, heads: int, *, dropout: float = 0.0):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.qkv = nn.Linear(width, 3 * width)
        self.position = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width)
        self.content_bias = nn.Parameter(torch.zeros(width))
        self.position_bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor, distances: Tensor, mask: Tensor | None = None) -> Tensor:
        """x (B, T, D), distances (2 T - 1, D) from the furthest behind to the furthest ahead, mask (B, 1, 1 or T, T) -> (B, T, D)."""
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).unbind(2)  # each (B, T, H, K)
        to_content, to_position = (q + bias.view(self.heads, -1) for bias in (self.content_bias, self.position_bias))
        r = self.position(distances).view(2 * t - 1, self.heads, d // self.heads).transpose(0, 1)  # (H, 2 T - 1, K)
        scale = (d // self.heads) ** -0.5
        scores = (to_position.transpose(1, 2) * scale) @ r.mT  # (B, H, T, 2 T - 1)
        mixed = fused_attention(
            to_content.transpose(1, 2),
            k.transpose(1, 2),
            v.transpose(1, 2),
            mask,
            dropout=self.dropout if self.training else 0.0,
            bias=by_key(scores),
        )
        out: Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return out


def by_key(scores: Tensor) -> Tensor:
    """Scores by distance (B, H, T, 2 T - 1), from the furthest key behind -> by key (B, H, T, T): query t is T - 1 - t distances late."""
    t, n = scores.shape[-2:]
    return scores.flatten(2)[:, :, t - 1 :].unfold(2, t, n - 1)  # each next row begins one distance earlier


class ConvolutionModule(nn.Module):
    """A gate, a convolution of each channel over time, and a product for each frame."""

    def __init__(self, width: int, kernel: int):
        super().__init__()
        self.gate_up = nn.Linear(width, 2 * width)
        self.depthwise = nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width)
        self.norm = LayerNorm(width)
        self.down = nn.Linear(width, width)

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """x (B, T, D), lengths (B,) -> (B, T, D)."""
        x = zero_padding(F.glu(self.gate_up(x), -1), lengths)
        out: Tensor = self.down(F.silu(self.norm(self.depthwise(x.mT).mT)))
        return out


class ConformerBlock(nn.Module):
    """Half a feed-forward network, attention, a convolution, and the other half."""

    def __init__(self, width: int, heads: int, ffn_width: int, kernel: int, *, dropout: float = 0.0):
        super().__init__()
        self.dropout = Dropout(dropout)
        self.first, self.second = (FeedForward(width, ffn_width, activation="silu") for _ in range(2))
        self.self_attention = RelativeAttention(width, heads, dropout=dropout)
        self.convolution = ConvolutionModule(width, kernel)
        self.norm1, self.norm2, self.norm3, self.norm4, self.norm = (LayerNorm(width) for _ in range(5))

    def forward(self, x: Tensor, distances: Tensor, mask: Tensor | None = None, lengths: Tensor | None = None) -> Tensor:
        """x (B, T, D), distances (2 T - 1, D), mask (B, 1, 1, T), lengths (B,) -> (B, T, D)."""
        x = x + 0.5 * self.dropout(self.first(self.norm1(x)))
        x = x + self.dropout(self.self_attention(self.norm2(x), distances, mask))
        x = x + self.dropout(self.convolution(self.norm3(x), lengths))
        x = x + 0.5 * self.dropout(self.second(self.norm4(x)))
        out: Tensor = self.norm(x)
        return out


class ConformerEncoder(nn.Module):
    """Frames of sound to states, of which there are fewer."""

    def __init__(
        self, features: int, width: int, layers: int, heads: int, ffn_width: int, kernel: int, factor: int, *, dropout: float = 0.0
    ):
        super().__init__()
        self.width = width
        self.subsampling, self.dropout = Subsampling(features, width, factor), Dropout(dropout)
        self.blocks = nn.ModuleList(ConformerBlock(width, heads, ffn_width, kernel, dropout=dropout) for _ in range(layers))
        self._initialise()

    def _initialise(self) -> None:
        for name, parameter in self.named_parameters():
            if parameter.ndim == 2:
                for product in parameter.detach().chunk(3 if name.endswith("qkv.weight") else 2 if name.endswith("gate_up.weight") else 1):
                    init.xavier_uniform(product)
            elif name.startswith("subsampling") and parameter.ndim == 3:
                nn.init.kaiming_normal_(parameter, nonlinearity="relu")  # states begin about as large as what is added to them
            elif name.endswith(".bias"):
                nn.init.zeros_(parameter)

    def lengths(self, lengths: Tensor) -> Tensor:
        """Frames (B,) -> states (B,)."""
        return self.subsampling.lengths(lengths)

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """x (B, T, M), lengths (B,) -> states (B, T', D); what is behind a row's last frame reaches none of its states."""
        x, lengths = self.subsampling(x, lengths)
        t = x.size(1)
        distances = sinusoidal(torch.arange(t - 1, -t, -1, device=x.device), self.width).to(x.dtype)
        x, mask = self.dropout(x), padding_mask(lengths, t)
        for block in self.blocks:
            x = block(x, distances, mask, lengths)
        return zero_padding(x, lengths)
