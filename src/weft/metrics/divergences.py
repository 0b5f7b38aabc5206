"""How far apart two distributions are, in closed form: Jensen-Shannon on atoms, Wasserstein on the line.

With D at its best, the value of the adversarial game is C(G) = 2 JSD(p_data, p_g) - log 4 (Goodfellow et al., 2014), least where both
are equal. For distributions with no point in common the Jensen-Shannon divergence is log 2 whatever their distance, so it has no
slope; the Wasserstein distance is the distance itself (Arjovsky et al., 2017).
Shapes: K atoms, N samples.
"""

from __future__ import annotations

import torch
from torch import Tensor


def kl(p: Tensor, q: Tensor) -> Tensor:
    """KL(p || q) of distributions (..., K), in nats; 0 log 0 is 0."""
    return (torch.xlogy(p, p) - torch.xlogy(p, q)).sum(-1)


def jensen_shannon(p: Tensor, q: Tensor) -> Tensor:
    """Half KL(p || m) + half KL(q || m) with m = (p + q) / 2, in nats: from 0 to log 2, and its root is a metric."""
    middle = (p + q) / 2
    return (kl(p, middle) + kl(q, middle)) / 2


def wasserstein(first: Tensor, second: Tensor) -> Tensor:
    """Least mean distance by which N numbers must be moved to become N others: both sorted, each to its rank."""
    return (first.sort(-1).values - second.sort(-1).values).abs().mean(-1)


def wasserstein_on_line(p: Tensor, q: Tensor, places: Tensor) -> Tensor:
    """The same for weights p and q (K,) at ascending places (K,): the area between the cumulative distributions."""
    gap = (p - q).cumsum(-1)[..., :-1].abs()
    return (gap * places.diff()).sum(-1)


def dual_value(potential: Tensor, p: Tensor, q: Tensor) -> Tensor:
    """E_p f - E_q f of a potential f (K,): at most the distance where |f(x) - f(y)| <= |x - y| (Kantorovich & Rubinstein)."""
    return ((p - q) * potential).sum(-1)
