"""Images packed in binary files: IDX, LeCun's format of MNIST, and the binary version of CIFAR-10 and CIFAR-100.

A CIFAR record is one label byte (two in CIFAR-100, the fine one last), then 1,024 bytes each of red, green and blue
(Krizhevsky, 2009).

Shapes: N images, C channels, H and W height and width.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from weft.core.errors import DataError
from weft.data.base import UNLABELLED, Problems
from weft.data.io.files import read_bytes, show
from weft.data.split import number_classes

IDX_NAME = re.compile(r".*(?P<split>train|t10k|test)-images[-.]idx3-ubyte(\.gz)?")


@dataclass
class LabelledImages:
    """Images (N, C, H, W) as uint8, labels (N,) as int64, and the names of the classes."""

    pixels: np.ndarray
    labels: np.ndarray
    names: list[str]


def idx_files(folder: Path) -> dict[str, Path]:
    """The IDX image files of a folder by split: "train" and "test"."""
    files: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        if match := IDX_NAME.fullmatch(path.name):
            split = "train" if match["split"] == "train" else "test"
            if split in files and path.with_suffix("").name != files[split].name:
                raise DataError(f"{show(folder)}: holds {files[split].name} and {path.name}; keep the files of one data set in a folder")
            files.setdefault(split, path)
    return files


def read_idx(path: Path, problems: Problems) -> LabelledImages:
    """Images of one IDX file and the labels of the file of the same name; images without a label file are unlabelled."""
    pixels = idx_array(path, 3, problems)[:, None]
    stem = path.name.replace("-images", "-labels").replace("idx3", "idx1").removesuffix(".gz")
    label_files = [path.with_name(name) for name in (stem, f"{stem}.gz") if path.with_name(name).exists()]
    if not label_files:
        problems.add("IDX images without a label file, read as unlabelled", show(path))
        return LabelledImages(pixels, np.full(len(pixels), UNLABELLED, dtype=np.int64), [])
    labels = idx_array(label_files[0], 1, problems)
    if len(labels) != len(pixels):
        problems.add("images without a label or labels without an image", show(path), abs(len(labels) - len(pixels)))
    count = min(len(labels), len(pixels))
    numbers, names = number_classes([str(label) for label in labels[:count].tolist()])
    return LabelledImages(pixels[:count], numbers, names)


def idx_array(path: Path, dimensions: int, problems: Problems) -> np.ndarray:
    """The array of an IDX file: two zero bytes, type (8 for bytes), number of dimensions, their sizes as big-endian int32."""
    data = read_bytes(path)
    start = 4 + 4 * dimensions
    if data[:4] != bytes((0, 0, 8, dimensions)) or len(data) < start:
        raise DataError(
            f"{show(path)}: is not an IDX file of bytes in {dimensions} dimensions (it starts with {data[:4].hex() or 'nothing'})"
        )
    shape = [int(size) for size in np.frombuffer(data, ">u4", dimensions, 4)]
    item_size = math.prod(shape[1:])
    usable = min(shape[0], (len(data) - start) // item_size) if item_size else 0
    if not usable:
        raise DataError(f"{show(path)}: holds no example (its header says {'x'.join(map(str, shape))}, {len(data) - start} bytes follow)")
    if usable < shape[0]:
        problems.add("examples missing from truncated files", f"{show(path)} ({usable} of {shape[0]} are there)", shape[0] - usable)
    return np.frombuffer(data, np.uint8, usable * item_size, start).reshape(usable, *shape[1:])


def cifar_files(folder: Path) -> dict[str, list[Path]]:
    """The binary CIFAR files of a folder by split: "train" and "test"."""
    files = {
        "train": [*sorted(folder.glob("data_batch_*.bin")), folder / "train.bin"],
        "test": [folder / "test_batch.bin", folder / "test.bin"],
    }
    found = {split: [path for path in paths if path.exists()] for split, paths in files.items()}
    return {split: paths for split, paths in found.items() if paths}


def read_cifar(paths: list[Path], problems: Problems) -> LabelledImages:
    """CIFAR-10 (one label byte) or, from train.bin and test.bin, CIFAR-100 (a coarse label byte, then the fine one)."""
    is_cifar100 = paths[0].name in ("train.bin", "test.bin")
    label_bytes, classes = (2, 100) if is_cifar100 else (1, 10)
    rows = [_cifar_rows(path, label_bytes, classes, problems) for path in paths]
    table = np.concatenate(rows)
    if not len(table):
        raise DataError(f"{show(paths[0])}: holds no complete CIFAR record of {label_bytes + 3072} bytes; is it a CIFAR binary file?")
    names = _cifar_names(paths[0].with_name("fine_label_names.txt" if is_cifar100 else "batches.meta.txt"), classes)
    return LabelledImages(table[:, label_bytes:].reshape(-1, 3, 32, 32), table[:, label_bytes - 1].astype(np.int64), names)


def _cifar_rows(path: Path, label_bytes: int, classes: int, problems: Problems) -> np.ndarray:
    size = label_bytes + 3072
    try:
        data = read_bytes(path)
    except DataError as error:
        problems.add("files that cannot be read", str(error))
        data = b""
    if len(data) % size:
        problems.add("incomplete records at the end of files", f"{show(path)} ({len(data) % size} bytes of {size})")
    table = np.frombuffer(data, np.uint8, len(data) // size * size).reshape(-1, size)
    invalid = np.flatnonzero(table[:, label_bytes - 1] >= classes)
    for record in invalid.tolist():
        problems.add("records whose label is out of range", f"{show(path)} (record {record + 1}, label {table[record, label_bytes - 1]})")
    return np.delete(table, invalid, axis=0)


def _cifar_names(path: Path, classes: int) -> list[str]:
    words = read_bytes(path).decode("utf-8", errors="replace").split() if path.is_file() else []
    return words if len(words) == classes else [str(number) for number in range(classes)]
