"""Images drawn by a model, side by side in one PNG.

Shapes: N images, C channels, H height, W width.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from weft.core import random
from weft.core.errors import CapabilityError, ConfigError, require
from weft.models.base import Model, Samples, SamplesClass, need

SIDE = 64
"""Pixels an image is enlarged to, so that an 8 by 8 digit can be seen."""


def draw(model: nn.Module, n: int = 64, seed: int = 0, label: int | None = None) -> Tensor:
    """n samples (N, ...) of a model, all of one class where a label is given, each a function of (seed, its number) alone."""
    return draw_keys(model, keys(model, n, seed), label)


@torch.inference_mode()
def draw_keys(model: nn.Module, key: Tensor, label: int | None = None) -> Tensor:
    """A sample for each key (N,), all of one class where a label is given: (N, ...)."""
    need(model, Samples if label is None else SamplesClass)
    drawn: Tensor = model.sample(key) if label is None else model.sample_class(key, torch.full_like(key, label))  # type: ignore[operator]
    return drawn


def keys(model: Model, n: int, seed: int) -> Tensor:
    """Keys (N,) of a seed, where the model lives."""
    if n < 1:
        raise ConfigError(f"n must be at least 1, not {n}")
    return random.keys(random.seed_of(seed, "sample"), torch.arange(n)).to(next(model.parameters()).device)


def class_number(label: str, names: Sequence[str], classes: int) -> int:
    """The number of a class that is given by its name or number."""
    number = names.index(label) if label in names else int(label) if label.isdecimal() and len(label) < 10 else -1
    if not 0 <= number < classes:
        few = f", which are {', '.join(names[:10])}{', …' if len(names) > 10 else ''}" if names else f", which are 0 to {classes - 1}"
        raise ConfigError(f"{label!r} is none of the classes{few}")
    return number


def as_images(samples: Tensor) -> np.ndarray:
    """Samples in [0, 1] as (N, H, W, C) bytes; flat ones are taken to be square and grey."""
    side = math.isqrt(samples[0].numel())
    if samples.ndim == 2 and side * side == samples.size(1):
        samples = samples.view(-1, 1, side, side)
    if samples.ndim != 4 or samples.size(1) not in (1, 3):
        raise CapabilityError(
            f"what this model draws has the shape {tuple(samples.shape[1:])}, which is no image (1 or 3, height, width) that could be shown"
        )
    images: np.ndarray = (samples.float().clamp(0, 1) * 255).round().byte().permute(0, 2, 3, 1).cpu().numpy()
    return images


def tile(images: np.ndarray, columns: int = 0) -> np.ndarray:
    """Images (N, H, W, C), enlarged and with a gap between them, as one picture (H', W', C)."""
    n, h, w, c = images.shape
    columns = columns or math.ceil(math.sqrt(n))
    rows, scale = math.ceil(n / columns), max(1, SIDE // max(h, w))
    gap = max(2, scale * h // 16)
    sheet = np.full((rows * (h * scale + gap) + gap, columns * (w * scale + gap) + gap, c), 64, dtype=np.uint8)
    for number, image in enumerate(images):
        top, left = gap + number // columns * (h * scale + gap), gap + number % columns * (w * scale + gap)
        sheet[top : top + h * scale, left : left + w * scale] = image.repeat(scale, 0).repeat(scale, 1)
    return sheet


def png(samples: Tensor, columns: int = 0) -> bytes:
    """Samples as the bytes of one PNG file."""
    return encoded(tile(as_images(samples), columns))


def pngs(samples: Tensor, scale: int = 1) -> list[bytes]:
    """Each of the samples as the bytes of a PNG file of its own, its pixels as squares of `scale` pixels."""
    return [encoded(image.repeat(scale, 0).repeat(scale, 1)) for image in as_images(samples)]


def encoded(picture: np.ndarray) -> bytes:
    """A picture (H, W, C) of bytes as those of a PNG file."""
    pillow: Any = require("PIL.Image", "images")
    stream = io.BytesIO()
    pillow.fromarray(picture[..., 0] if picture.shape[2] == 1 else picture).save(stream, "PNG", optimize=True)
    return stream.getvalue()
