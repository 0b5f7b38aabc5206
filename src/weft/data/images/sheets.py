"""Contact sheets: pictures of many equal square tiles, row by row, NAME_*.webp with their labels in NAME_labels.npz."""

from __future__ import annotations

import io
import math
from pathlib import Path

import numpy as np

from weft.core.errors import DataError
from weft.data.base import Problems
from weft.data.images.folder import DecodeOptions, decode_images
from weft.data.images.idx_cifar import LabelledImages
from weft.data.io.files import read_bytes, reason, show
from weft.data.split import number_classes


def sheet_files(folder: Path) -> dict[str, Path]:
    """The label files NAME_labels.npz that have contact sheets NAME_*.webp beside them, by NAME."""
    names = {path: path.name.removesuffix("_labels.npz") for path in sorted(folder.glob("*_labels.npz"))}
    return {name: path for path, name in names.items() if any(folder.glob(f"{name}_*.webp"))}


def read_sheets(labels: Path, problems: Problems) -> LabelledImages:
    """The tiles of NAME_*.webp in order, as many as NAME_labels.npz has labels; the side of a tile follows from their number."""
    name = labels.name.removesuffix("_labels.npz")
    values = _npz_labels(labels)
    files = sorted(labels.parent.glob(f"{name}_*.webp"))
    sheets = decode_images(files, DecodeOptions(channels=3), problems)
    readable = [sheet for sheet in sheets if sheet is not None]
    if len(readable) < len(files):
        raise DataError(f"{show(labels.parent)}: {len(files) - len(readable)} of {len(files)} contact sheets of {name!r} cannot be read")
    side = math.isqrt(sum(sheet.shape[0] * sheet.shape[1] for sheet in readable) // len(values))
    if not side or any(sheet.shape[0] % side or sheet.shape[1] % side for sheet in readable):
        raise DataError(f"{show(labels)}: {len(values)} labels do not divide the sheets {name}_*.webp into equal square tiles")
    tiles = np.concatenate([_tiles(sheet, side) for sheet in readable])
    if len(tiles) != len(values):
        raise DataError(f"{show(labels)}: has {len(values)} labels, but the sheets hold {len(tiles)} tiles of {side}x{side}")
    numbers, names = number_classes([str(value) for value in values.tolist()])
    return LabelledImages(tiles.transpose(0, 3, 1, 2), numbers, names)


def _npz_labels(path: Path) -> np.ndarray:
    data = io.BytesIO(read_bytes(path))
    try:
        with np.load(data, allow_pickle=False) as content:
            values = np.asarray(content["labels"])
    except Exception as error:  # zip and array headers fail in many ways
        raise DataError(f"{show(path)}: no labels can be read from it ({reason(error)})") from error
    if values.ndim != 1 or not len(values) or not np.issubdtype(values.dtype, np.integer):
        raise DataError(f"{show(path)}: labels must be one row of whole numbers, not {values.dtype} of shape {values.shape}")
    return values


def _tiles(sheet: np.ndarray, side: int) -> np.ndarray:
    """sheet (H, W, C) -> (N, side, side, C), row by row."""
    rows, columns = sheet.shape[0] // side, sheet.shape[1] // side
    return sheet.reshape(rows, side, columns, side, -1).transpose(0, 2, 1, 3, 4).reshape(rows * columns, side, side, -1)
