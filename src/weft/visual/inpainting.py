"""Images of which a part is missing, filled in by a model.

Shapes: B images, C channels, H height, W width.
"""

from __future__ import annotations

import torch
from torch import Tensor

from weft.core import random
from weft.core.errors import ConfigError
from weft.models.base import Inpaints, need

MASKS = ("lower", "upper", "left", "right", "middle")
HIDDEN = 0.5
"""How a missing pixel is shown."""


def known_part(mask: str, height: int, width: int) -> Tensor:
    """What is known (H, W) of an image of which the part of this name is missing."""
    if mask not in MASKS:
        raise ConfigError(f"mask: expected one of {', '.join(MASKS)}, not {mask!r}")
    row, column = torch.arange(height)[:, None].expand(height, width), torch.arange(width).expand(height, width)
    missing = {
        "lower": row >= height // 2,
        "upper": row < height // 2,
        "left": column < width // 2,
        "right": column >= width // 2,
        "middle": (row - (height - 1) / 2).abs().lt(height / 4) & (column - (width - 1) / 2).abs().lt(width / 4),
    }[mask]
    return ~missing


@torch.no_grad()
def inpaint(model: Inpaints, x: Tensor, known: Tensor, n: int = 1, seed: int = 0) -> Tensor:
    """x (B, C, H, W) in [0, 1], known (H, W) -> (B, 1 + n, C, H, W): each image, what is missing grey, and n completions of it.

    What a completion draws is a function of (seed, image, its number among the n) alone.
    """
    need(model, Inpaints)
    if n < 1:
        raise ConfigError(f"n must be at least 1, not {n}")
    device = next(model.parameters()).device
    x = as_read(model, x).to(device)
    seen = known.to(device).expand_as(x)
    base = random.keys(random.seed_of(seed, "complete"), torch.arange(len(x))).to(device)
    made = [model.inpaint(x, seen, random.fold(base, number)).float() for number in range(n)]
    return torch.stack([torch.where(seen, x, torch.full_like(x, HIDDEN)), *made], dim=1)


def as_read(model: object, x: Tensor) -> Tensor:
    """x in [0, 1] in the levels of a model that knows so many: two for one of two-valued units."""
    levels = getattr(model, "levels", 2 if hasattr(model, "values") else 0)
    return (x * (levels - 1)).round() / (levels - 1) if levels else x
