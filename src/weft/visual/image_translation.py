"""Images beside what an image translation model makes of them.

Shapes: N images, C channels, S side of an image.
"""

from __future__ import annotations

import torch
from torch import Tensor

from weft.models.base import TranslatesImages


@torch.no_grad()
def source_and_translation(model: TranslatesImages, batch: dict[str, Tensor]) -> Tensor:
    """Each image of a batch as it was, translated, and as it should be, (3 N, C, S, S); where that is not known, brought back again."""
    first = batch["source"] if "source" in batch else batch["image"]
    made = model.translate(first, "a2b")
    if (last := batch["image"] if "source" in batch else batch.get("truth")) is None:
        last = model.translate(made, "b2a")
    channels = max(part.size(1) for part in (first, made, last))
    parts = [part.expand(-1, channels, -1, -1) for part in (first, made, last)]
    return torch.stack(parts, dim=1).flatten(0, 1)
