"""MADE (Germain et al., 2015, arXiv:1502.03509) and the affine autoregressive layer built on it.

Number i of the output depends on the numbers before i of the input alone, for all i in one pass: every unit has a degree, and a
weight is kept only where what it leads to may know what it comes from.

Shapes: B batch, X numbers of an example.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.nn import init
from weft.nn.bijections import Bijection, bounded


class MaskedLinear(nn.Linear):
    """A linear layer some of whose weights are held at zero."""

    mask: Tensor

    def __init__(self, mask: Tensor):
        """The mask is (outputs, inputs)."""
        super().__init__(mask.size(1), mask.size(0))
        init.xavier_uniform(self.weight)
        nn.init.zeros_(self.bias)
        self.register_buffer("mask", mask.float(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight * self.mask, self.bias)


class MADE(nn.Module):
    """A perceptron that gives `outputs` numbers for each number of x, each a function of the numbers before it alone."""

    def __init__(self, features: int, hidden: Sequence[int], outputs: int):
        super().__init__()
        own = torch.arange(features)
        degrees = [own, *(torch.arange(size) % max(1, features - 1) for size in hidden)]
        masks = [after[:, None] >= before for before, after in pairwise(degrees)]
        masks.append((own[:, None] > degrees[-1]).repeat(outputs, 1))
        self.layers = nn.ModuleList(map(MaskedLinear, masks))
        nn.init.zeros_(self.layers[-1].weight)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        """x (B, X) -> (B, outputs * X), all of one kind side by side."""
        for layer in self.layers[:-1]:
            x = layer(x).relu()
        out: Tensor = self.layers[-1](x)
        return out


class Autoregressive(Bijection):
    """z_i = (x_i - mean_i) exp(-scale_i), mean and scale from the x before i: one pass from x to z, X passes back."""

    def __init__(self, features: int, hidden: Sequence[int]):
        super().__init__()
        self.network = MADE(features, hidden, outputs=2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, scale = self._decide(x)
        return (x - mean) * (-scale).exp(), -scale.sum(1)

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Pass i finds x_i, as all before it are known."""
        x, scale = torch.zeros_like(z), z
        position = torch.arange(z.size(1), device=z.device)
        for i in range(z.size(1)):
            mean, scale = self._decide(x)
            x = torch.where(position <= i, z * scale.exp() + mean, 0.0)
        return x, scale.sum(1)

    def _decide(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, scale = self.network(x).to(x.dtype).chunk(2, dim=1)
        return mean, bounded(scale)
