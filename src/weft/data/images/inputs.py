"""Image files in the size and colours of a model.

Shapes: N images, C channels, H height, W width.
"""

from __future__ import annotations

from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np

from weft.core.errors import CapabilityError, DataError
from weft.data.base import Problems
from weft.data.images.folder import MODES, SUFFIXES, Wanted, open_all
from weft.data.io.files import show, walk


def image_shape(config: Any) -> tuple[int, int, int]:
    """The shape (C, H, W) of what a model of these settings draws or reads; refused where that is no image."""
    features = getattr(config, "features", 0)
    shape = tuple(getattr(config, "image", ())) or ((1, isqrt(features), isqrt(features)) if isqrt(features) > 2 else ())
    if len(shape) != 3 or shape[0] not in (1, 3) or (features and features != shape[0] * shape[1] * shape[2]):
        raise CapabilityError(f"this model is not one of images: its examples have {features or 'no fixed number of'} numbers")
    return shape[0], shape[1], shape[2]


def read_pictures(place: str, shape: tuple[int, ...], squash: bool = False) -> tuple[list[Path], np.ndarray]:
    """A file, or those of a folder, as (N, C, H, W) in [0, 1]. squash: both sides are scaled, else the middle square is cut out."""
    channels, height, width = shape
    if height != width or channels not in MODES:
        raise DataError(f"files are read for square images of 1, 3 or 4 channels, not for those of shape {shape}")
    path, problems = Path(place).expanduser(), Problems()
    if not path.exists():
        raise DataError(f"{show(place)}: there is no such file or folder")
    files = walk(path, SUFFIXES, problems) if path.is_dir() else [path]
    if not files:
        raise DataError(f"{show(place)}: the folder holds no image ({', '.join(SUFFIXES)})")
    opened = open_all(files, Wanted(height, channels, squash), problems)
    if lines := problems.lines():
        raise DataError("; ".join(lines))
    return files, np.stack([pixels for pixels in opened if pixels is not None]).transpose(0, 3, 1, 2).astype(np.float32) / 255
