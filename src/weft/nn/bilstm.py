"""States read once more by an LSTM in each direction (Graves & Schmidhuber, 2005), as long as each sequence is.

Shapes: B batch, T time, D width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class BothWays(nn.Module):
    """The first half of a state tells what stands before it, the second half what follows."""

    def __init__(self, width: int):
        super().__init__()
        self.middle = width // 2
        self.there = nn.LSTM(width, self.middle, batch_first=True)
        self.back = nn.LSTM(width, width - self.middle, batch_first=True)

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """x (B, T, D), lengths (B,) -> (B, T, D); what stands behind a sequence is not read."""
        place = torch.arange(x.size(1), device=x.device).expand(x.shape[:2])  # (B, T)
        last = (lengths if lengths is not None else place.new_full((len(x),), x.size(1)))[:, None] - 1
        order = torch.where(place <= last, last - place, place)[..., None]  # (B, T, 1), its own inverse
        with torch.autocast(x.device.type, enabled=False):
            x = x.float()
            there, back = self.there(x)[0], self.back(x.gather(1, order.expand_as(x)))[0]
            return torch.cat((there, back.gather(1, order.expand_as(back))), dim=-1)
