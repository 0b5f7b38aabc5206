"""Named weight initialisations."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


@torch.no_grad()
def normal(weight: Tensor, std: float = 0.02) -> None:
    """N(0, std²), as in GPT-2 and BERT."""
    weight.normal_(0.0, std)


@torch.no_grad()
def xavier_uniform(weight: Tensor) -> None:
    """U(-a, a) with a = sqrt(6 / (fan in + fan out)): keeps the variance through linear layers (Glorot & Bengio, 2010)."""
    nn.init.xavier_uniform_(weight)


@torch.no_grad()
def he(weight: Tensor) -> None:
    """N(0, 2 / fan in): keeps the variance through ReLU layers (He et al., 2015)."""
    nn.init.kaiming_normal_(weight, nonlinearity="relu")


@torch.no_grad()
def residual(weight: Tensor, layers: int, std: float = 0.02) -> None:
    """N(0, std² / 2L): the sum of 2L residual branches keeps the size of one (GPT-2)."""
    weight.normal_(0.0, std / math.sqrt(2 * layers))


@torch.no_grad()
def spectral_radius(weight: Tensor, radius: float = 1.0) -> None:
    """A random square matrix whose largest eigenvalue has this absolute value (recurrent weights)."""
    weight.normal_()
    weight.mul_(radius / torch.linalg.eigvals(weight).abs().max())


@torch.no_grad()
def chrono(forget_bias: Tensor, longest: int) -> None:
    """log U(1, T - 1): forget gates that keep for up to T steps from the beginning (Tallec & Ollivier, 2018, arXiv:1804.11188)."""
    forget_bias.uniform_(1.0, max(longest - 1.0, 1.5)).log_()


NAMED = {"normal": normal, "xavier_uniform": xavier_uniform, "he": he, "spectral_radius": spectral_radius}
