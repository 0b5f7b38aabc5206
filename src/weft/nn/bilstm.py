"""States read once more by an LSTM in each direction (Graves & Schmidhuber, 2005), as long as each sequence is.

Shapes: B batch, T time, D width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class BiLSTM(nn.Module):
    """The first half of a state tells what stands before it, the second half what follows."""

    def __init__(self, width: int):
        super().__init__()
        self.middle = width // 2
        self.forward_lstm = nn.LSTM(width, self.middle, batch_first=True)
        self.backward_lstm = nn.LSTM(width, width - self.middle, batch_first=True)

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """x (B, T, D), lengths (B,) -> (B, T, D); what stands behind a sequence is not read."""
        position = torch.arange(x.size(1), device=x.device).expand(x.shape[:2])  # (B, T)
        last = (lengths if lengths is not None else position.new_full((len(x),), x.size(1)))[:, None] - 1
        order = torch.where(position <= last, last - position, position)[..., None]  # (B, T, 1), its own inverse
        with torch.autocast(x.device.type, enabled=False):
            x = x.float()
            forward, backward = self.forward_lstm(x)[0], self.backward_lstm(x.gather(1, order.expand_as(x)))[0]
            return torch.cat((forward, backward.gather(1, order.expand_as(backward))), dim=-1)
