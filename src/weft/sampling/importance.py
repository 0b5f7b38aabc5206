"""Importance sampling: means under p from draws of q, each weighted by p(x) / q(x).

With p normalised, the plain mean of f w is unbiased. A p that is known up to a factor needs self-normalised weights, whose
answer is biased for any finite number of draws but goes to the truth. The plain variance is least where q is in proportion to
|f| p, not to p (Kahn & Marshall, 1953).

Shapes: N draws of q; `values` f(x) (N,); `log_weights` log p(x) - log q(x) (N,), in float64 where it matters.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from weft.core.errors import DataError


@dataclass(frozen=True)
class Estimate:
    """A mean and its standard error, estimated from the same draws."""

    mean: Tensor
    error: Tensor


def check(log_weights: Tensor, values: Tensor | None = None) -> None:
    """Refuse what is not one number for each draw: a column beside a row would become a table of all pairs."""
    shapes = {"log_weights": log_weights, **({} if values is None else {"values": values})}
    if any(given.ndim != 1 or len(given) != len(log_weights) or not len(given) for given in shapes.values()):
        found = " and ".join(f"{name} {tuple(given.shape)}" for name, given in shapes.items())
        raise DataError(f"importance sampling takes one number for each of at least one draw, (N,), not {found}")


def standard_error(terms: Tensor) -> Tensor:
    """Of the mean of terms (N,); of a single one it is not known, NaN."""
    return terms.std() / len(terms) ** 0.5 if len(terms) > 1 else torch.full_like(terms[0], torch.nan)


def plain(values: Tensor, log_weights: Tensor) -> Estimate:
    """The mean of f under a normalised p: unbiased."""
    check(log_weights, values)
    terms = values * log_weights.exp()
    return Estimate(terms.mean(), standard_error(terms))


def self_normalised(values: Tensor, log_weights: Tensor) -> Estimate:
    """The mean of f under a p known up to a factor: consistent, not unbiased. The error is that of a ratio of two means."""
    check(log_weights, values)
    shares = log_weights.softmax(0)
    mean = (shares * values).sum()
    return Estimate(mean, (shares * (values - mean)).square().sum().sqrt())


def log_mean(log_weights: Tensor) -> Estimate:
    """The logarithm of the mean weight, which is log Z of an unnormalised p; low on average, by Jensen's inequality.

    Its error is the relative error of the mean weight.
    """
    check(log_weights)
    shares, number = log_weights.softmax(0), len(log_weights)
    mean = log_weights.logsumexp(0) - torch.tensor(float(number), dtype=log_weights.dtype, device=log_weights.device).log()
    return Estimate(mean, standard_error(number * shares))


def effective_sample_size(log_weights: Tensor) -> Tensor:
    """(Σ w)² / Σ w²: as many draws of p itself would say about as much (Kong, 1992). From 1 to N; 0 where no draw has any weight."""
    check(log_weights)
    found = 1 / log_weights.softmax(0).square().sum()
    return torch.where((log_weights == -torch.inf).all(), torch.zeros_like(found), found)
