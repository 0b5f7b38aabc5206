"""How like the data generated examples are, from sums over batches: moments of pixels, or the modes that points fall into."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.core.errors import ConfigError
from weft.metrics.image_distances import frechet_distance

SIDE = 16
"""Images with longer sides are averaged down to at most this before their pixels' moments are taken."""
NEAR = 3.0
"""Deviations from the centre of a mode within which a sample is good."""


def moments(name: str, x: Tensor) -> dict[str, Tensor]:
    """Examples (B, ...) -> sums of x and of x xᵀ, named after what they are of."""
    flat = small(x).flatten(1).double()  # (B, X); autocast leaves float64 alone
    return {f"{name}_first": flat.sum(0), f"{name}_second": flat.mT @ flat}


def frechet(means: dict[str, Tensor], prefix: str) -> dict[str, float]:
    """The distance of real from generated pixels, where both moments were measured."""
    parts = [means.get(f"{prefix}{name}") for name in ("real_first", "real_second", "fake_first", "fake_second")]
    return {} if any(part is None for part in parts) else {"frechet_pixels": frechet_distance(*parts)}  # type: ignore[arg-type]


def small(x: Tensor) -> Tensor:
    """Images (B, C, H, W) averaged down to sides of at most SIDE; anything else as it is."""
    factor = -(-max(x.shape[-2:]) // SIDE) if x.ndim == 4 else 1
    return F.avg_pool2d(x.float(), factor, ceil_mode=True) if factor > 1 else x


def near_modes(points: Tensor, centres: Sequence[float], spread: float) -> Tensor:
    """points (B, ...), K centres in a row -> how many lie within NEAR deviations of each centre, and how many of none, (K + 1,)."""
    flat = points.flatten(1).float()
    if len(centres) % flat.size(1):
        raise ConfigError(f"--objective.centres has {len(centres)} numbers, which are no points of {flat.size(1)} dimensions")
    modes = flat.new_tensor(centres).view(-1, flat.size(1))  # (K, X)
    good = ((flat[:, None] - modes).norm(dim=2) < NEAR * spread).float()  # (B, K)
    return torch.cat([good, 1 - good.amax(1, keepdim=True)], dim=1).sum(0)


def coverage(shares: Tensor) -> dict[str, float]:
    """Shares (K + 1,) of samples near each mode and near none -> modes with a tenth of their part, good samples, and how far from even."""
    modes, lost = shares[:-1].double(), float(shares[-1])
    fair = 1 / len(modes)
    away = 0.5 * (float((modes - fair).abs().sum()) + lost)
    return {"modes": float((modes >= 0.1 * fair).sum()), "good": 1 - lost, "imbalance": away}
