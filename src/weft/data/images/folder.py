"""Image folders, one subfolder per class, decoded in threads into one array.

Shapes: N images, C channels, H and W height and width.
"""

from __future__ import annotations

import io
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from weft.core import untrusted
from weft.core.errors import DataError, require
from weft.data.base import UNLABELLED, Problems
from weft.data.images.idx_cifar import LabelledImages
from weft.data.io.files import reason, show, walk
from weft.data.split import number_classes

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm")
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
"""Of the files with these suffixes, whatever they say of themselves: of others some have a program read them, as PostScript does."""
MOST_PIXELS = 89_478_485
"""Of an image; Pillow's own limit, beyond which a file is taken for one that is small and unpacks to something huge."""
MODES = {1: "L", 3: "RGB", 4: "RGBA"}


class DecodeOptions(NamedTuple):
    """Size and channels of decoded images."""

    size: int = 0
    """Side in pixels; 0 keeps the size of the files."""
    channels: int = 0
    """A key of MODES; 0 as in the files."""
    squash: bool = False
    """Resize both sides to `size`, instead of a centre crop to a square."""


def read_folder(folder: Path, options: DecodeOptions, problems: Problems) -> LabelledImages:
    """Image files; the subfolder of `folder` that a file lies in is its class, and a file outside them is unlabelled."""
    files = walk(folder, SUFFIXES, problems)
    if not files:
        raise DataError(f"{show(folder)}: the folder holds no image ({', '.join(SUFFIXES)}), no IDX and no CIFAR binary file")
    images = decode_images(files, options, problems)
    files = [file for file, pixels in zip(files, images, strict=True) if pixels is not None]
    if not files:
        raise DataError(f"{show(folder)}: none of its images can be read; are they damaged?{problems.summary()}")
    arrays = _same_size([pixels for pixels in images if pixels is not None], files, folder)
    classes = [file.relative_to(folder).parts[0] if file.parent != folder else None for file in files]
    numbers, names = number_classes([show(name) for name in classes if name is not None])
    labels = np.full(len(files), UNLABELLED, dtype=np.int64)
    labels[[name is not None for name in classes]] = numbers
    for file in [file for file, name in zip(files, classes, strict=True) if name is None and names]:
        problems.add("images outside the class folders, taken as unlabelled", show(file))
    _note_empty_classes(folder, set(classes), problems)
    return LabelledImages(np.stack(arrays).transpose(0, 3, 1, 2), labels, names)


def decode_images(files: list[Path], options: DecodeOptions, problems: Problems) -> list[np.ndarray | None]:
    """Every file as (H, W, C), or None where it cannot be read."""
    results = decode_each(files, options)
    for file, result in zip(files, results, strict=True):
        if isinstance(result, str):
            problems.add("images that cannot be read", f"{show(file)} ({result})")
    return [None if isinstance(result, str) else result for result in results]


def decode_each(files: Sequence[Path | BytesIO], options: DecodeOptions) -> list[np.ndarray | str]:
    """Every file, or content of one, as (H, W, C), or why it cannot be read. Decoders release the GIL, so threads help."""
    library, exif_transpose = require("PIL.Image", "images"), require("PIL.ImageOps", "images").exif_transpose
    with warnings.catch_warnings(), ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", library.DecompressionBombWarning)
        return list(pool.map(partial(decode_image, library=library, exif_transpose=exif_transpose, options=options), files))


def decode_image(file: Path | BytesIO, library: Any, exif_transpose: Callable[[Any], Any], options: DecodeOptions) -> np.ndarray | str:
    """(H, W, C) uint8 of these options, rotated by its EXIF orientation; or the error of the file."""
    square = (options.size, options.size)
    try:
        with open_image(library, file) as image:
            if options.size:
                image.draft(None, square)
            image = eight_bits(exif_transpose(image), library)
            grey = image.mode in ("1", "L", "LA")
            image = image.convert(MODES[options.channels or (1 if grey else 3)])
            if options.size and image.size != square:
                box = (0, 0, *image.size) if options.squash else _centre_square(*image.size)
                image = image.resize(square, library.Resampling.BILINEAR, box=box, reducing_gap=3.0)
            return np.asarray(image).reshape(image.height, image.width, -1)
    except Exception as error:  # decoders raise many kinds of exceptions on damaged files
        return reason(error)


@contextmanager
def open_image(library: Any, place: Path | io.BytesIO) -> Iterator[Any]:
    """A file or its content as an image that is not decoded yet; a ValueError where it would be too large."""
    with untrusted.open_regular(place) if isinstance(place, Path) else place as file, library.open(file, formats=FORMATS) as image:
        if image.width * image.height > MOST_PIXELS:
            raise ValueError(f"{image.width}x{image.height} pixels, more than {MOST_PIXELS:,}")
        yield image


def eight_bits(image: Any, library: Any) -> Any:
    if image.mode.startswith("I;16"):
        return library.fromarray((np.asarray(image).astype(np.uint16) >> 8).astype(np.uint8))
    if image.mode in ("I", "F"):
        raise ValueError(f"pixels of type {image.mode!r}, not 8 or 16 bits")
    return image


def _centre_square(width: int, height: int) -> tuple[float, float, float, float]:
    """The centre square: left, top, right and bottom."""
    side = min(width, height)
    left, top = (width - side) / 2, (height - side) / 2
    return left, top, left + side, top + side


def _same_size(arrays: list[np.ndarray], files: list[Path], folder: Path) -> list[np.ndarray]:
    """All arrays as (H, W, C); grey ones among colour are repeated. Different sizes are an error that names two files."""
    sizes = Counter(array.shape[:2] for array in arrays)
    if len(sizes) > 1:
        common = sizes.most_common(1)[0][0]
        index = next(i for i, array in enumerate(arrays) if array.shape[:2] != common)
        raise DataError(
            f"{show(folder)}: images of {len(sizes)} different sizes ({sizes[common]} of {common[1]}x{common[0]}, but {show(files[index])} "
            f"is {arrays[index].shape[1]}x{arrays[index].shape[0]}); choose one side in pixels with --data.size, for example --data.size 32"
        )
    channels = max(array.shape[2] for array in arrays)
    return [array if array.shape[2] == channels else array.repeat(channels, axis=2) for array in arrays]


def _note_empty_classes(folder: Path, with_images: set[str | None], problems: Problems) -> None:
    for entry in sorted(folder.iterdir()):
        if entry.is_dir() and not entry.name.startswith((".", "__")) and entry.name not in with_images:
            problems.add("class folders without a usable image", show(entry))
