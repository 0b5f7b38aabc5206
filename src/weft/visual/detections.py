"""Images with the boxes that a model found in them, in the colour of their class."""

from __future__ import annotations

import torch
from torch import Tensor

from weft.models.base import Detects

COLOURS = ((1.0, 0.2, 0.2), (0.2, 1.0, 0.2), (0.3, 0.5, 1.0), (1.0, 1.0, 0.2), (1.0, 0.3, 1.0), (0.2, 1.0, 1.0))
"""By class, again and again."""
SCALE = 2
"""How many times larger images are shown, so that frames are thin."""


@torch.no_grad()
def detected(model: Detects, images: Tensor, least: float = 0.5) -> Tensor:
    """Images (N, C, S, S) in [0, 1] -> (N, 3, S', S') with a frame around every object that the model is so sure of."""
    logits, boxes = model.detect(images)
    shares = logits.float().softmax(-1)[..., :-1]
    confidence, kind = shares.max(-1)
    shown = images.float().repeat_interleave(SCALE, 2).repeat_interleave(SCALE, 3).cpu()
    shown = shown.expand(-1, 3, -1, -1).clone()
    for image, sure, kinds, places in zip(shown, confidence.cpu(), kind.cpu(), boxes.float().cpu(), strict=True):
        for number in (sure >= least).nonzero().flatten().tolist():
            frame(image, places[number], COLOURS[int(kinds[number]) % len(COLOURS)])
    return shown


def frame(image: Tensor, box: Tensor, colour: tuple[float, ...]) -> None:
    """Draw a box (4,) on an image (3, S, S)."""
    height, width = image.shape[1:]
    x, y, w, h = box.tolist()
    left, right = (min(max(round(edge * width), 0), width - 1) for edge in (x - w / 2, x + w / 2))
    top, bottom = (min(max(round(edge * height), 0), height - 1) for edge in (y - h / 2, y + h / 2))
    paint = torch.tensor(colour)[:, None]
    image[:, top, left : right + 1] = paint
    image[:, bottom, left : right + 1] = paint
    image[:, top : bottom + 1, left] = paint
    image[:, top : bottom + 1, right] = paint
