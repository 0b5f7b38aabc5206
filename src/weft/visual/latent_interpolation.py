"""Walks through the latents of a model: from one draw to the next, or along one dimension at a time.

Latents drawn from N(0, I) in many dimensions lie near a sphere, so the way between two of them is an arc (Shoemake, 1985; White,
2016, arXiv:1609.04468); a straight line would lead through lengths that the model has never met.
Shapes: R rows of the sheet, S steps of a walk, Z latent.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from weft.models.base import HasLatents, Inverts, Samples, need, offers
from weft.visual.grids import keys

STEPS = 10
"""Images of one walk."""
FAR = 3.0
"""Standard deviations that a dimension is moved in either direction."""


def arc(first: Tensor, second: Tensor, steps: int) -> Tensor:
    """The way from first (R, Z) to second (R, Z) at equal angles, lengths between theirs: (R, S, Z); both ends belong to it."""
    share = torch.linspace(0, 1, steps, device=first.device).view(1, -1, 1)
    lengths = [torch.linalg.vector_norm(z, dim=1).clamp(min=1e-12).view(-1, 1, 1) for z in (first, second)]
    one, two = (z.unsqueeze(1) / length for z, length in zip((first, second), lengths, strict=True))
    angle = (one * two).sum(-1, keepdim=True).clamp(-1 + 1e-6, 1 - 1e-6).acos()
    direction = (((1 - share) * angle).sin() * one + (share * angle).sin() * two) / angle.sin()
    way: Tensor = direction * ((1 - share) * lengths[0] + share * lengths[1])
    return way


@torch.inference_mode()
def interpolate(model: nn.Module, rows: int = 8, steps: int = STEPS, seed: int = 0) -> Tensor:
    """Examples (R * S, ...) on the ways between neighbouring draws, one way per row."""
    drawn = latents(model, rows + 1, seed)
    flat = drawn.flatten(1)
    path = arc(flat[:-1], flat[1:], steps)
    return show(model, path.reshape(-1, *drawn.shape[1:]))


@torch.inference_mode()
def traverse(model: nn.Module, rows: int = 8, steps: int = STEPS, seed: int = 0) -> Tensor:
    """Examples (R * S, ...) where one dimension of a single draw goes from -FAR to FAR, another one in each row."""
    start = latents(model, 1, seed)
    flat = start.flatten(1)
    rows = min(rows, flat.size(1))
    path = flat.repeat(rows * steps, 1).view(rows, steps, -1)
    chosen = torch.arange(rows, device=flat.device)
    path[chosen, :, chosen] = torch.linspace(-FAR, FAR, steps, device=flat.device)
    return show(model, path.reshape(-1, *start.shape[1:]))


def latents(model: Any, n: int, seed: int) -> Tensor:
    """Latents (n, ...) of the model's own draws; an invertible model finds them from examples that it draws."""
    key = keys(model, n, seed)
    if offers(model, Inverts) and not offers(model, HasLatents):
        need(model, Samples)
        found: Tensor = model.to_latent(model.sample(key))
        return found
    need(model, HasLatents)
    drawn: Tensor = model.latents(key)
    return drawn


def show(model: nn.Module, z: Tensor) -> Tensor:
    shown: Tensor = model.to_data(z)  # type: ignore[operator]
    return shown
