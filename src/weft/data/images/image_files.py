"""Image files as inputs of a model, in its size and channels.

Shapes: N images, C channels, H height, W width.
"""

from __future__ import annotations

from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np

from weft.core.errors import CapabilityError, DataError
from weft.data.base import Problems
from weft.data.images.folder import MODES, SUFFIXES, DecodeOptions, decode_images
from weft.data.io.files import show, walk


def image_shape(config: Any) -> tuple[int, int, int]:
    """The image shape (C, H, W) of a model of these settings; refused where it has none."""
    features = getattr(config, "features", 0)
    shape = tuple(getattr(config, "image", ())) or ((1, isqrt(features), isqrt(features)) if isqrt(features) > 2 else ())
    if len(shape) != 3 or shape[0] not in (1, 3) or (features and features != shape[0] * shape[1] * shape[2]):
        raise CapabilityError(f"this is no model of images: its examples have {features or 'no fixed number of'} features")
    return shape[0], shape[1], shape[2]


def read_images(path_name: str, shape: tuple[int, ...], squash: bool = False) -> tuple[list[Path], np.ndarray]:
    """A file, or those of a folder, as (N, C, H, W) in [0, 1]. squash: resize both sides, else centre crop to a square."""
    channels, height, width = shape
    if height != width or channels not in MODES:
        raise DataError(f"files are read for square images of 1, 3 or 4 channels, not for those of shape {shape}")
    path, problems = Path(path_name).expanduser(), Problems()
    if not path.exists():
        raise DataError(f"{show(path_name)}: there is no such file or folder")
    files = walk(path, SUFFIXES, problems) if path.is_dir() else [path]
    if not files:
        raise DataError(f"{show(path_name)}: the folder holds no image ({', '.join(SUFFIXES)})")
    images = decode_images(files, DecodeOptions(height, channels, squash), problems)
    if lines := problems.lines():
        raise DataError("; ".join(lines))
    return files, np.stack([pixels for pixels in images if pixels is not None]).transpose(0, 3, 1, 2).astype(np.float32) / 255
