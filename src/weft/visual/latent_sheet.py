"""A sheet of latents between four (Dinh et al., 2017, section 4.2), along arcs, so that lengths stay those that a model knows.

z(α, β) = cos α (cos β z0 + sin β z1) + sin α (cos β z2 + sin β z3), for angles from 0 to π / 2. Where the four are at right angles to
each other and of equal length, as draws from N(0, I) in many dimensions nearly are, so is everything between them.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def between_corners(corners: Tensor, rows: int = 8, columns: int = 8) -> Tensor:
    """Latents corners (4, Z) -> (rows, columns, Z) with the four in the corners: z0 and z1 above, z2 and z3 below."""
    down = torch.linspace(0, math.pi / 2, rows, device=corners.device, dtype=corners.dtype).view(-1, 1, 1)
    across = torch.linspace(0, math.pi / 2, columns, device=corners.device, dtype=corners.dtype).view(1, -1, 1)
    above = across.cos() * corners[0] + across.sin() * corners[1]
    below = across.cos() * corners[2] + across.sin() * corners[3]
    return down.cos() * above + down.sin() * below
