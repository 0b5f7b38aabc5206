"""Invertible layers that know the change of volume, the parts of normalising flows.

Every layer maps data x to z and says log |det dz/dx| of each example; `inverse` goes back and says log |det dx/dz|, which is
minus the same. Layers compose: their logarithms add up. Then log p(x) = log p(z) + log |det dz/dx|.

Shapes: B batch, X numbers of an example, C channels, H height, W width.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LIMIT = 4.0
"""Largest logarithm of the factor by which one layer may stretch a number."""


class Bijection(nn.Module):
    """Forward: x (B, ...) -> z and log |det dz/dx| (B,)."""

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """z -> x and log |det dx/dz| (B,)."""
        raise NotImplementedError


class Chain(Bijection):
    """One layer after the other."""

    def __init__(self, layers: Sequence[nn.Module]):
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        total = no_change(x)
        for layer in self.layers:
            x, change = layer(x)
            total = total + change
        return x, total

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        total = no_change(z)
        for layer in reversed(self.layers):
            z, change = layer.inverse(z)  # type: ignore[operator]
            total = total + change
        return z, total


class Inverse(Bijection):
    """A layer run backwards."""

    def __init__(self, layer: Bijection):
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.layer.inverse(x)

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        x, change = self.layer(z)
        return x, change


class Logit(Bijection):
    """z = logit(margin + (1 - 2 margin) x): numbers in [0, 1], and a margin on either side, to all of the line (Dinh et al., 2017).

    Nothing lies beyond the margins: the density is 0 there.
    """

    def __init__(self, margin: float):
        super().__init__()
        self.margin = margin

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        inside = 1 - 2 * self.margin
        below, above = self.margin + inside * x, self.margin + inside * (1 - x)
        low, high = (part.clamp(min=torch.finfo(x.dtype).tiny).log() for part in (below, above))
        outside = ((below <= 0) | (above <= 0)).flatten(1).any(1)
        return low - high, (math.log(inside) - low - high).flatten(1).sum(1).masked_fill(outside, -math.inf)

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        inside = 1 - 2 * self.margin
        change = F.logsigmoid(z) + F.logsigmoid(-z) - math.log(inside)
        return (z.sigmoid() - self.margin) / inside, change.flatten(1).sum(1)


class ReversePermutation(Bijection):
    """The numbers of a vector in reverse order, a permutation that leaves volumes alone."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.flip(1), no_change(x)

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        return self.forward(z)


class Squeeze(Bijection):
    """Each square of 2 by 2 pixels becomes one pixel of four times as many channels: (B, C, H, W) -> (B, 4 C, H / 2, W / 2)."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        b, c, h, w = x.shape  # F.pixel_unshuffle does the same, but leaves an empty batch as it is
        parts = x.reshape(b, c, h // 2, 2, w // 2, 2).permute(0, 1, 3, 5, 2, 4)
        return parts.reshape(b, 4 * c, h // 2, w // 2), no_change(x)

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        b, c, h, w = z.shape
        parts = z.reshape(b, c // 4, 2, 2, h, w).permute(0, 1, 4, 2, 5, 3)
        return parts.reshape(b, c // 4, 2 * h, 2 * w), no_change(z)


class ElementwiseAffine(Bijection):
    """z = exp(scale) (x + shift), learned for each number of a vector or each channel of an image.

    It does the work of the batch norms of Dinh et al. (2017), but an example's density depends on no other example.
    """

    def __init__(self, size: int):
        super().__init__()
        self.scale = nn.Parameter(torch.zeros(size))
        self.shift = nn.Parameter(torch.zeros(size))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        scale = along(self.scale, x)
        return (x + along(self.shift, x)) * scale.exp(), scale.expand(x.shape).flatten(1).sum(1)

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        scale = along(self.scale, z)
        return z * (-scale).exp() - along(self.shift, z), -scale.expand(z.shape).flatten(1).sum(1)


class AffineCoupling(Bijection):
    """Affine coupling (Dinh et al., 2017, arXiv:1605.08803): what the mask keeps decides how the rest is stretched and moved.

    z = x where the mask is 1, else x exp(s) + t, with s and t from a network that sees only what is kept. The Jacobian is
    triangular, its determinant the product of the exp(s); the network itself is never inverted.
    """

    mask: Tensor

    def __init__(self, mask: Tensor, network: nn.Module):
        """The mask is of the shape of an example; the network gives s and t, one after the other in dimension 1."""
        super().__init__()
        self.register_buffer("mask", mask.float(), persistent=False)
        self.network = network

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        scale, shift = self._decide(x)
        return x * scale.exp() + shift, scale.flatten(1).sum(1)

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        scale, shift = self._decide(z)
        return (z - shift) * (-scale).exp(), -scale.flatten(1).sum(1)

    def _decide(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """s and t, both 0 where the mask is 1."""
        scale, shift = self.network(x * self.mask).to(x.dtype).chunk(2, dim=1)
        return bounded(scale) * (1 - self.mask), shift * (1 - self.mask)


class Planar(nn.Module):
    """x = z + û tanh(w z + b) with a scalar w z + b (Rezende & Mohamed, 2015, arXiv:1505.05770).

    By the matrix determinant lemma det(I + h' û wᵀ) = 1 + h' w û. It is invertible where w û >= -1, which û sees to: u with its
    part along w changed so that w û = softplus(w u) - 1. There is no formula for the inverse, so it runs from z to x only.
    """

    def __init__(self, features: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features) / features**0.5)
        self.push = nn.Parameter(torch.randn(features) / features**0.5)
        self.bias = nn.Parameter(torch.zeros(()))

    def direction(self) -> Tensor:
        """û (X,)."""
        w, u = self.weight, self.push
        part = w @ u
        return u + (F.softplus(part) - 1 - part) * w / w.square().sum().clamp(min=1e-12)

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """z (B, X) -> x (B, X) and log |det dx/dz| (B,)."""
        height = ((z * self.weight).sum(1, keepdim=True) + self.bias).tanh()  # (B, 1)
        slope = 1 - height.square()
        determinant = height.square() + slope * F.softplus(self.weight @ self.push)  # 1 + h' w û, never negative when rounded
        return z + self.direction() * height, determinant.log().squeeze(1)


def no_change(x: Tensor) -> Tensor:
    """Zeros (B,)."""
    return torch.zeros(len(x), device=x.device, dtype=x.dtype)


def along(values: Tensor, x: Tensor) -> Tensor:
    """values (C,), one for each place of dimension 1 of x (B, C, ...), as something to be broadcast."""
    return values.view(1, -1, *[1] * (x.ndim - 2))


def bounded(scale: Tensor) -> Tensor:
    """Itself where small, never beyond LIMIT, so that one bad step cannot make everything infinite."""
    return LIMIT * (scale / LIMIT).tanh()


def normal_log_prob(z: Tensor) -> Tensor:
    """Log-density of N(0, I): z (B, ...) -> (B,)."""
    return -0.5 * (z.square() + math.log(2 * math.pi)).flatten(1).sum(1)


def checkerboard(height: int, width: int, first: int) -> Tensor:
    """(1, height, width) of ones and zeros in turn, `first` in the upper left corner."""
    rows, columns = torch.arange(height)[:, None], torch.arange(width)
    return ((rows + columns + first) % 2)[None]


def half_mask(size: int, first: int) -> Tensor:
    """(size,): ones in the first half if `first`, else in the second."""
    return (torch.arange(size) < size // 2) == bool(first)
