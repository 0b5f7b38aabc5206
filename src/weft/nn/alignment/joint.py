"""A transducer's joint over all frames and labels, some frames at a time, so that logits are never there all at once.

Shapes: B batch, T frames, U labels, D width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from weft.nn.checkpointed import checkpointed

Joiner = Callable[[Tensor, Tensor], Tensor]
"""States of frames (B, T, 1, D) and of the labels so far (B, 1, U + 1, D), or as many of both -> logits (B, T, U + 1, V)."""


def joint_log_probs(joiner: Joiner, frames: Tensor, symbols: Tensor, labels: Tensor, blank: int, step: int) -> tuple[Tensor, Tensor]:
    """States of frames (B, T, D) and of the labels so far (B, U + 1, D), labels (B, U) -> log-probability of a blank (B, T, U + 1) and of
    the next label (B, T, U). Logits are made for `step` frames at a time, and again in the backward pass."""
    own = labels[:, None, :, None]

    def some(part: Tensor) -> Tensor:
        """(B, t, D) -> both, one behind the other (B, t, 2 U + 1)."""
        logits = joiner(part[:, :, None], symbols[:, None])
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        whole = logits.logsumexp(-1)
        label = logits[:, :, :-1].gather(3, own.expand(-1, part.size(1), -1, -1)).squeeze(3)
        return torch.cat([logits[..., blank] - whole, label - whole[:, :, :-1]], -1)

    found = torch.cat([checkpointed("full", some, part) for part in torch.split(frames, max(1, step), 1)], 1)
    return found[:, :, : symbols.size(1)], found[:, :, symbols.size(1) :]
