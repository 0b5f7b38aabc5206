"""Folders of image files, one subfolder a class, decoded in threads into one array.

Shapes: N images, C channels, H and W height and width.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from weft.core.errors import DataError, require
from weft.data.base import UNLABELLED, Problems
from weft.data.images.idx_cifar import Images
from weft.data.io.files import reason, show, walk
from weft.data.split import number_classes

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm")
MODES = {1: "L", 3: "RGB", 4: "RGBA"}


class Wanted(NamedTuple):
    """What images are to become."""

    size: int = 0
    """Side in pixels; 0 leaves them as they are."""
    channels: int = 0
    """A key of MODES; 0 as the files have it."""
    squash: bool = False
    """Both sides are scaled to `size`, instead of the shorter one with the middle square cut out."""


def read_folder(folder: Path, wanted: Wanted, problems: Problems) -> Images:
    """Image files; the subfolder of `folder` that a file lies in is its class, and one that lies in none is unlabelled."""
    files = walk(folder, SUFFIXES, problems)
    if not files:
        raise DataError(f"{show(folder)}: the folder holds no image ({', '.join(SUFFIXES)}), no IDX and no CIFAR binary file")
    found = open_all(files, wanted, problems)
    files = [file for file, pixels in zip(files, found, strict=True) if pixels is not None]
    if not files:
        raise DataError(f"{show(folder)}: none of its images can be read; are they damaged?{problems.told()}")
    arrays = _same_size([pixels for pixels in found if pixels is not None], files, folder)
    groups = [file.relative_to(folder).parts[0] if file.parent != folder else None for file in files]
    numbers, names = number_classes([show(group) for group in groups if group is not None])
    labels = np.full(len(files), UNLABELLED, dtype=np.int64)
    labels[[group is not None for group in groups]] = numbers
    for file in [file for file, group in zip(files, groups, strict=True) if group is None and names]:
        problems.add("images beside the folders of classes, taken as unlabelled", show(file))
    _note_empty_classes(folder, set(groups), problems)
    return Images(np.stack(arrays).transpose(0, 3, 1, 2), labels, names)


def open_all(files: list[Path], wanted: Wanted, problems: Problems) -> list[np.ndarray | None]:
    """Every file as (H, W, C), or None where it cannot be read. Decoders leave the interpreter free, so threads help."""
    library, upright = require("PIL.Image", "images"), require("PIL.ImageOps", "images").exif_transpose
    with warnings.catch_warnings(), ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", library.DecompressionBombWarning)
        results = list(pool.map(partial(open_image, library=library, upright=upright, wanted=wanted), files))
    for file, result in zip(files, results, strict=True):
        if isinstance(result, str):
            problems.add("images that cannot be read", f"{show(file)} ({result})")
    return [None if isinstance(result, str) else result for result in results]


def open_image(file: Path, library: Any, upright: Callable[[Any], Any], wanted: Wanted) -> np.ndarray | str:
    """(H, W, C) uint8 as wanted, turned as the camera was held; or what is wrong with the file."""
    square = (wanted.size, wanted.size)
    try:
        with library.open(file) as image:
            if wanted.size:
                image.draft(None, square)
            image = eight_bits(upright(image), library)
            grey = image.mode in ("1", "L", "LA")
            image = image.convert(MODES[wanted.channels or (1 if grey else 3)])
            if wanted.size and image.size != square:
                box = (0, 0, *image.size) if wanted.squash else _middle(*image.size)
                image = image.resize(square, library.Resampling.BILINEAR, box=box, reducing_gap=3.0)
            return np.asarray(image).reshape(image.height, image.width, -1)
    except Exception as error:  # on a broken file decoders raise whatever they please
        return reason(error)


def eight_bits(image: Any, library: Any) -> Any:
    if image.mode.startswith("I;16"):
        return library.fromarray((np.asarray(image).astype(np.uint16) >> 8).astype(np.uint8))
    if image.mode in ("I", "F"):
        raise ValueError(f"pixels of type {image.mode!r}, not 8 or 16 bits")
    return image


def _middle(width: int, height: int) -> tuple[float, float, float, float]:
    """The middle square: left, top, right and bottom."""
    side = min(width, height)
    left, top = (width - side) / 2, (height - side) / 2
    return left, top, left + side, top + side


def _same_size(arrays: list[np.ndarray], files: list[Path], folder: Path) -> list[np.ndarray]:
    """All arrays as (H, W, C); grey ones among colour are repeated. Different sizes are an error that names two files."""
    sizes = Counter(array.shape[:2] for array in arrays)
    if len(sizes) > 1:
        usual = sizes.most_common(1)[0][0]
        odd = next(i for i, array in enumerate(arrays) if array.shape[:2] != usual)
        raise DataError(
            f"{show(folder)}: images of {len(sizes)} different sizes ({sizes[usual]} of {usual[1]}x{usual[0]}, but {show(files[odd])} "
            f"is {arrays[odd].shape[1]}x{arrays[odd].shape[0]}); choose one side in pixels with --data.size, for example --data.size 32"
        )
    deep = max(array.shape[2] for array in arrays)
    return [array if array.shape[2] == deep else array.repeat(deep, axis=2) for array in arrays]


def _note_empty_classes(folder: Path, used: set[str | None], problems: Problems) -> None:
    for entry in sorted(folder.iterdir()):
        if entry.is_dir() and not entry.name.startswith((".", "__")) and entry.name not in used:
            problems.add("class folders without a usable image", show(entry))
