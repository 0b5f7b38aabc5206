"""Swin Transformer (Liu et al., ICCV 2021, arXiv:2103.14030): attention inside windows that shift from block to block.

A patch sees only its own window of T = window² patches, so the cost grows with the number of patches and not with its square;
every other block rolls the map by half a window, which joins neighbours. Between stages four patches become one.
Shapes: B batch, C channels, Y rows and X columns of patches, N windows of T patches, D width, H heads, K head width.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.core.errors import ConfigError
from weft.models.base import ModelConfig, check_shares, check_sizes
from weft.nn import init
from weft.nn.attention import fused_attention
from weft.nn.dropout import Dropout
from weft.nn.feed_forward import Activation, FeedForward
from weft.nn.norm import LayerNorm


@dataclass(frozen=True, kw_only=True)
class SwinConfig(ModelConfig):
    of_task = ("classes",)

    image: tuple[int, ...] = ()
    """Shape of an image, (channels, height, width); () takes it from the data."""
    classes: int = 0
    """Number of classes; 0 takes it from the data."""
    patch: int = 4
    """Side of a patch in pixels; an image is padded with zeros to a multiple of it."""
    window: int = 7
    """Side of a window in patches; a map is padded with zeros to a multiple of it, and a smaller map is one window."""
    layers: tuple[int, ...] = (2, 2, 6, 2)
    """Number of blocks in each stage."""
    heads: tuple[int, ...] = (3, 6, 12, 24)
    """Attention heads in each stage."""
    width: int = 96
    """Size D of the states in the first stage; it doubles from stage to stage."""
    mlp_ratio: int = 4
    """Width of the feed-forward layers (MLP), as a multiple of D."""
    activation: Activation = "gelu"
    """Non-linearity of the feed-forward layers."""
    dropout: float = 0.0
    """Share of the embedding and of each residual branch zeroed in training."""
    attention_dropout: float = 0.0
    """Share of the attention weights zeroed in training."""
    drop_path: float = 0.1
    """Stochastic depth: chance that an example skips a residual branch in training, 0 in the first block, rising to this in the last."""
    init_std: float = 0.02
    """Standard deviation of the initial weights; a narrow model learns sooner from larger ones, about 1 / sqrt(D)."""

    def build(self) -> Swin:
        return Swin(self)


def window_partition(x: Tensor, window: int) -> Tensor:
    """x (B, Y, X, D), its sides multiples of the window -> (B, N, T, D), windows row by row."""
    b, rows, columns, d = x.shape
    x = x.view(b, rows // window, window, columns // window, window, d)
    return x.transpose(2, 3).reshape(b, -1, window * window, d)


def window_reverse(windows: Tensor, window: int, rows: int, columns: int) -> Tensor:
    """The windows (B, N, T, D) of a map as the map (B, Y, X, D)."""
    b, _, _, d = windows.shape
    x = windows.view(b, rows // window, columns // window, window, window, d)
    return x.transpose(2, 3).reshape(b, rows, columns, d)


def roll(x: Tensor, shift: int) -> Tensor:
    """x (B, Y, X, D) moved down and right by `shift` patches; what leaves comes in again on the other side."""
    return x.roll((shift, shift), (1, 2)) if shift else x


def offsets(window: int, largest: int) -> Tensor:
    """(T, T): for a query and a key of one window, the row of a table that has a row for each (rows apart, columns apart).

    Both numbers run from 1 - largest to largest - 1.
    """
    side = torch.arange(window)
    place = torch.stack(torch.meshgrid(side, side, indexing="ij"), dim=-1).flatten(0, 1)  # (T, 2)
    apart = place[:, None] - place + largest - 1  # (T, T, 2)
    return apart[..., 0] * (2 * largest - 1) + apart[..., 1]


def shift_mask(window: int, shift: int, rows: int, columns: int) -> Tensor:
    """(N, T, T): True where two patches of a window were neighbours before the map was rolled by -shift.

    The last windows hold patches from opposite ends of the map, which do not see each other.
    """
    low, right = torch.arange(rows) >= rows - shift, torch.arange(columns) >= columns - shift
    end = 2 * low[:, None] + right  # (Y, X): which of the four ends a patch comes from
    end = window_partition(end[None, ..., None], window)[0, ..., 0]  # (N, T)
    return end[:, :, None] == end[:, None]


class WindowAttention(nn.Module):
    """Attention inside windows, with a learned bias for how far apart query and key are."""

    attention_fn = staticmethod(fused_attention)
    """What queries find among keys and values. `kernels.select` may put another function there that computes the same."""

    def __init__(self, width: int, heads: int, window: int, *, dropout: float = 0.0):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.bias = nn.Embedding((2 * window - 1) ** 2, heads)

    def forward(self, x: Tensor, offsets: Tensor, seen: Tensor | None = None) -> Tensor:
        """x (B, N, T, D), offsets (T, T) into the table, seen (N, T, T) True where a key may be seen -> (B, N, T, D)."""
        b, n, t, d = x.shape
        bias = self.bias(offsets).movedim(-1, 0).expand(n, -1, -1, -1)  # (N, H, T, T)
        if seen is not None:
            bias = bias.masked_fill(~seen[:, None], float("-inf"))
        qkv = self.qkv(x).view(b, n, t, 3, self.heads, -1).permute(3, 0, 1, 4, 2, 5)
        q, k, v = qkv.flatten(2, 3)  # each (B, N * H, T, K): to the kernel a window is one more head, so one bias serves all images
        dropout = self.dropout if self.training else 0.0
        mixed = self.attention_fn(q, k, v, dropout=dropout, bias=bias.flatten(0, 1))
        out: Tensor = self.out(mixed.view(b, n, self.heads, t, -1).transpose(2, 3).reshape(b, n, t, d))
        return out


class StochasticDepth(nn.Module):
    """Drop path (Huang et al., 2016, arXiv:1603.09382), drawn otherwise than `nn.dropout.DropPath`, which trained Swins depend on."""

    def __init__(self, share: float):
        super().__init__()
        self.share = share

    def forward(self, branch: Tensor) -> Tensor:
        """branch (B, ...) -> the same shape, whole rows zeroed and the others scaled so that the mean stays."""
        if not self.training or not self.share:
            return branch
        kept = torch.rand(len(branch), *(1,) * (branch.ndim - 1), device=branch.device) >= self.share
        return branch * (kept / (1 - self.share)).to(branch.dtype)


class SwinBlock(nn.Module):
    """x + attention inside windows, x + feed-forward, a norm before each.

    Neither a map that is one window nor a window of one patch can be shifted.
    """

    offsets: Tensor
    seen: Tensor | None

    def __init__(self, config: SwinConfig, stage: int, grid: tuple[int, int], *, shifted: bool, drop_path: float):
        super().__init__()
        c, width = config, config.width * 2**stage
        self.window = min(c.window, *grid)
        self.shift = c.window // 2 if shifted and min(grid) > c.window else 0
        self.padded = [side + -side % self.window for side in grid]
        self.attention = WindowAttention(width, c.heads[stage], c.window, dropout=c.attention_dropout)
        self.feedforward = FeedForward(width, c.mlp_ratio * width, activation=c.activation)
        self.norm1, self.norm2 = LayerNorm(width), LayerNorm(width)
        self.dropout, self.drop_path = Dropout(c.dropout), StochasticDepth(drop_path)
        self.register_buffer("offsets", offsets(self.window, c.window), persistent=False)
        seen = shift_mask(self.window, self.shift, *self.padded) if self.shift else None
        self.register_buffer("seen", seen, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, Y, X, D) -> (B, Y, X, D)."""
        x = x + self.drop_path(self.dropout(self.attend(self.norm1(x))))
        out: Tensor = x + self.drop_path(self.dropout(self.feedforward(self.norm2(x))))
        return out

    def attend(self, x: Tensor) -> Tensor:
        """x (B, Y, X, D) -> (B, Y, X, D): pad, shift, cut into windows, attend, and all of it back."""
        rows, columns = x.shape[1:3]
        x = F.pad(x, (0, 0, 0, self.padded[1] - columns, 0, self.padded[0] - rows))
        windows = window_partition(roll(x, -self.shift), self.window)
        mixed = window_reverse(self.attention(windows, self.offsets, self.seen), self.window, *self.padded)
        return roll(mixed, self.shift)[:, :rows, :columns]


class PatchMerging(nn.Module):
    """Four neighbouring patches become one of twice the width."""

    def __init__(self, width: int):
        super().__init__()
        self.norm = LayerNorm(4 * width)
        self.reduce = nn.Linear(4 * width, 2 * width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, Y, X, D) -> (B, Y / 2, X / 2, 2 D); an odd side is padded with zeros."""
        x = F.pad(x, (0, 0, 0, x.size(2) % 2, 0, x.size(1) % 2))
        four = torch.cat([x[:, row::2, column::2] for column in (0, 1) for row in (0, 1)], dim=-1)
        merged: Tensor = self.reduce(self.norm(four))
        return merged


class Swin(nn.Module):
    """Class logits of an image, from the mean over the patches of the last stage."""

    task_parts = ("head.",)
    """What starts afresh when a model that was trained for other classes is finetuned."""

    def __init__(self, config: SwinConfig):
        super().__init__()
        c = self.config = config
        self._check()
        channels, height, width = c.image
        grid = (-(-height // c.patch), -(-width // c.patch))
        last = len(c.layers) - 1
        self.patches = nn.Conv2d(channels, c.width, kernel_size=c.patch, stride=c.patch)
        self.patch_norm = LayerNorm(c.width)
        self.dropout = Dropout(c.dropout)
        self.stages, self.merges = nn.ModuleList(), nn.ModuleList()
        for stage in range(len(c.layers)):
            self.stages.append(self._stage(stage, grid))
            self.merges.append(PatchMerging(c.width * 2**stage) if stage < last else nn.Identity())
            grid = (-(-grid[0] // 2), -(-grid[1] // 2))
        self.norm = LayerNorm(c.width * 2**last)
        self.head = nn.Linear(c.width * 2**last, c.classes)
        for name, parameter in self.named_parameters():
            if parameter.ndim > 1:
                init.normal(parameter, c.init_std)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)
        # a black image must not become zeros, of which every norm makes the gradient 300 times as large
        init.normal(self.patches.bias, c.init_std)  # type: ignore[arg-type]

    def _check(self) -> None:
        c = self.config
        check_sizes(c, classes=1, patch=1, window=1, width=1, mlp_ratio=1, init_std=0)
        check_shares(c, "dropout", "attention_dropout", "drop_path")
        if len(c.image) != 3 or min(c.image) < 1:
            raise ConfigError(f"--model.image must be channels, height and width, such as 3 224 224, not {c.image}")
        if not c.layers or len(c.layers) != len(c.heads) or min(c.layers + c.heads) < 1:
            raise ConfigError(f"--model.layers {c.layers} and --model.heads {c.heads} must each say a number for every stage")
        for stage, heads in enumerate(c.heads):
            if c.width * 2**stage % heads:
                raise ConfigError(f"--model.heads: {c.width * 2**stage}, the width of stage {stage + 1}, is not a multiple of {heads}")

    def _stage(self, stage: int, grid: tuple[int, int]) -> nn.Sequential:
        c = self.config
        before, steps = sum(c.layers[:stage]), max(sum(c.layers) - 1, 1)
        rates = [c.drop_path * (before + block) / steps for block in range(c.layers[stage])]
        blocks = [SwinBlock(c, stage, grid, shifted=block % 2 == 1, drop_path=rate) for block, rate in enumerate(rates)]
        return nn.Sequential(*blocks)

    def hidden(self, image: Tensor) -> Tensor:
        """image (B, C, height, width) -> the last stage's normed states (B, Y * X, D)."""
        if image.shape[1:] != self.config.image:
            raise ConfigError(f"an image of shape {tuple(image.shape[1:])} does not fit a model made for {self.config.image}")
        height, width = image.shape[2:]
        image = F.pad(image, (0, -width % self.config.patch, 0, -height % self.config.patch))
        x = self.dropout(self.patch_norm(self.patches(image).movedim(1, -1)))  # (B, Y, X, D)
        for stage, merge in zip(self.stages, self.merges, strict=True):
            x = merge(stage(x))
        states: Tensor = self.norm(x.flatten(1, 2))
        return states

    def forward(self, image: Tensor) -> Tensor:
        """image (B, C, height, width) -> class logits (B, classes)."""
        logits: Tensor = self.head(self.hidden(image).mean(1))
        return logits

    def classify(self, image: Tensor) -> Tensor:
        """image (B, C, height, width) -> class logits (B, classes)."""
        logits: Tensor = self(image)
        return logits


TINY = SwinConfig(patch=2, window=2, layers=(2, 2), heads=(2, 4), width=16)
"""Small enough for a test."""
PRESETS = {"tiny": TINY, "t": SwinConfig(image=(3, 224, 224), classes=1000)}
