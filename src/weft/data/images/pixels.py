"""Images of your own: a folder with a subfolder per class, loose image files, IDX files, CIFAR's binary files, contact sheets.

All images are held as one tensor of bytes and become numbers in [0, 1] a batch at a time, on the device they are wanted on.

Batch: image (B, C, H, W), or (B, C * H * W) where flat, float32 in [0, 1] unless a mean and a deviation are set, black and white where
they are binarised; label (B,) int64, UNLABELLED where not known. Where images are mixed, also what data/images/mixup.py names.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from weft.core import random
from weft.core.errors import ConfigError, DataError
from weft.data.base import UNLABELLED, Batch, Data, DataConfig, Dataset, Problems, TensorDataset
from weft.data.images import augment as changes
from weft.data.images.augment import Augment
from weft.data.images.binarise import Binarise, binarise
from weft.data.images.folder import MODES, Wanted, read_folder
from weft.data.images.idx_cifar import Images, cifar_parts, idx_parts, read_cifar, read_idx
from weft.data.images.mixup import Mixed
from weft.data.images.sheets import read_sheets, sheet_parts
from weft.data.io.files import locate, show
from weft.data.split import balanced, check_share, hold_out, note_single_class, repeat_labelled, withhold
from weft.data.tokenizers.base import ClassNames, Tokenizer

Read = Callable[[Problems], Images]
PICKLED = ({"data_batch_1"}, {"batches.meta"}, {"meta", "train"})
"""Files by which the Python versions of CIFAR are known."""
VALIDATION = ("val", "valid", "validation", "dev")


@dataclass(frozen=True, kw_only=True)
class ImagesConfig(DataConfig):
    of_model: ClassVar[tuple[str, ...]] = ("size", "squash", "window", "channels", "mean", "deviation", "binarise")

    path: str = ""
    """A folder: one subfolder of images per class (or train/ and val/ or test/ of such), loose images, IDX, CIFAR binary files."""
    validation_path: str = ""
    """A folder of the same kind to validate on; by default a part or a share of `path`."""
    size: int = 0
    """Side in pixels to which images are scaled, the middle square cut out; 0 leaves them, and all must be equal."""
    squash: bool = False
    """Scale both sides to `size`, and cut nothing."""
    window: int = 0
    """Side of the part of an image that is shown: a random one in training, the middle in validation; 0 shows all of it."""
    channels: Literal[0, 1, 3, 4] = 0
    """1 for grey, 3 for colour, 4 for colour and opacity; 0 as the files have it."""
    mean: tuple[float, ...] = ()
    """Of each channel, subtracted from pixels in [0, 1]; none leaves them."""
    deviation: tuple[float, ...] = ()
    """Of each channel, by which the difference is divided."""
    binarise: Binarise = "none"
    """threshold: pixels are 1 where at least half bright, else 0; dynamic: 1 with their brightness as the chance, drawn anew each time."""
    flat: bool = False
    """Images as rows of numbers instead of (channels, height, width)."""
    validation: float = 0.1
    """Share of the training images kept for validation, where the folder has no part for it."""
    validate_on: Literal["train", "test"] = "train"
    """Validate on images kept from training, or on the test files (t10k, test_batch.bin, test.bin, test/)."""
    examples: int = 0
    """Largest number of training images, spread evenly over the classes; 0 for all."""
    labelled: float = 1.0
    """Share of the training images whose label is kept, spread evenly over the classes; validation keeps all."""
    repeat_labelled: int = 1
    """How often each labelled image stands in an epoch, where others are not labelled, so that few labels are seen often."""
    class_names: tuple[str, ...] = ()
    """The classes in their order; by default those the model knows already, else those of the files, sorted."""
    augment: Augment = field(default_factory=Augment)
    """Random changes of the training images."""
    mix: float = 0.0
    """Chance that a training image is mixed with another, and its class in the same measure; for models that tell the class."""

    def build(self) -> Data:
        return self.build_with(None)

    def build_with(self, tokenizer: Tokenizer | None) -> Data:
        self._check()
        problems = Problems()
        known = tokenizer.names if isinstance(tokenizer, ClassNames) else []
        train, held = self._read(problems, list(self.class_names) or known)
        keep = np.sort(balanced(train.labels, "examples")[: self.examples or None])
        labels = withhold(train.labels[keep], self.labelled)
        chosen = repeat_labelled(labels, self.repeat_labelled)
        pixels, labels = fit(train.pixels[keep[chosen]], self.size, self.channels), labels[chosen]
        others = fit(held.pixels, self.size, pixels.size(1)) if len(held.labels) else pixels[:0]
        if pixels.shape[1:] != others.shape[1:]:
            raise DataError(
                f"images to validate on are {sides(others)}, those to train on {sides(pixels)}; choose one side with --data.size"
            )
        first = self._dataset(pixels, labels, self.augment)
        first = Mixed(first, self.mix) if self.mix else first
        validation = self._dataset(others, held.labels, None) if len(others) else None
        note_single_class(train.names, problems)
        return Data(first, validation, self._facts(pixels, train.names, validation), ClassNames(train.names), problems)

    def _check(self) -> None:
        self.augment.check()
        check_share(self.validation)
        if not 0.0 <= self.mix <= 1.0:
            raise ConfigError(f"--data.mix is a chance from 0 to 1, not {self.mix}")
        if self.mix and self.flat:
            raise ConfigError("--data.mix cuts rectangles out of images; leave out --data.flat")
        for name in ("size", "window", "examples"):
            if getattr(self, name) < 0:
                raise ConfigError(f"--data.{name} must not be negative, not {getattr(self, name)}")
        if (
            len(self.mean) != len(self.deviation)
            or not all(map(math.isfinite, self.mean))
            or not all(0 < d < math.inf for d in self.deviation)
        ):
            raise ConfigError(
                f"--data.mean and --data.deviation are a number, and one above 0, for each channel, not {self.mean} and {self.deviation}"
            )

    @property
    def wanted(self) -> Wanted:
        return Wanted(self.size, self.channels, self.squash)

    def _read(self, problems: Problems, names: list[str]) -> tuple[Images, Images]:
        """Images to train and to validate on, their classes numbered as in `names` where there are any."""
        test = self.validate_on == "test"
        parts = find_parts(locate(self.path), self.wanted)
        whole = take(parts, "train", self.path, problems)
        whole = align(whole, names, problems) if names else whole
        if not len(whole.labels):
            few = ", ".join(names[:10])
            raise DataError(f"{show(self.path)}: has no image of a class that the model knows ({few}); name others with --data.class-names")
        if self.validation_path == self.path and not test:
            return whole, whole
        if self.validation_path:
            parts = find_parts(locate(self.validation_path), self.wanted)
            return whole, align(take(parts, "test" if test else "train", self.validation_path, problems), whole.names, problems)
        if test or "validation" in parts:
            return whole, align(take(parts, "test" if test else "validation", self.path, problems), whole.names, problems)
        train, held = (Images(whole.pixels[i], whole.labels[i], whole.names) for i in hold_out(whole.labels, self.validation, problems))
        return train, held

    def _dataset(self, pixels: Tensor, labels: np.ndarray, augment: Augment | None) -> Dataset:
        if self.window > min(pixels.shape[-2:]):
            raise ConfigError(f"--data.window {self.window} is larger than the images, which are {sides(pixels)}")
        return TensorDataset({"image": pixels, "label": torch.from_numpy(labels)}, self.transform(pixels, augment))

    def transform(self, pixels: Tensor, augment: Augment | None = None) -> Pixels:
        """How bytes (N, C, H, W) become what the model is shown."""
        if self.mean and len(self.mean) != pixels.size(1):
            raise ConfigError(
                f"--data.mean is of {len(self.mean)} channels, but the images have {pixels.size(1)}; choose with --data.channels"
            )
        return Pixels(augment, self.window, self.flat, self.mean, self.deviation, self.binarise)

    def _facts(self, pixels: Tensor, names: list[str], validation: Dataset | None) -> dict[str, Any]:
        channels, height, width = pixels.shape[1:]
        shape = (channels, self.window or height, self.window or width)
        return {
            "features": shape[0] * shape[1] * shape[2],
            "classes": len(names),
            "image": shape,
            "class_names": names,
            "training_examples": len(pixels),
            "validation_examples": len(validation) if validation else 0,
        }


@dataclass(frozen=True)
class Pixels:
    """Bytes to numbers in [0, 1], changed at random and counted in deviations from a mean where the settings say so."""

    augment: Augment | None
    window: int
    flat: bool
    mean: tuple[float, ...] = ()
    deviation: tuple[float, ...] = ()
    binarise: Binarise = "none"

    def __call__(self, batch: Batch, key: Tensor) -> Batch:
        image = batch["image"]  # (B, C, H, W) uint8
        if self.augment:
            image = changes.move(image, random.fold(key, "augment"), self.augment, self.window)
        elif self.window:
            image = changes.centre(image, self.window)
        image = image.float() / 255
        if self.augment:
            image = changes.repaint(image, random.fold(key, "augment"), self.augment)
        image = binarise(image, key, self.binarise)
        if self.mean:  # by numbers, not by a tensor, which a captured graph could not fetch
            image = torch.stack([(c - m) / d for c, m, d in zip(image.unbind(1), self.mean, self.deviation, strict=True)], dim=1)
        return {**batch, "image": image.flatten(1) if self.flat else image}


def find_parts(folder: Path, wanted: Wanted) -> dict[str, Read]:
    """What a folder holds, by part: "train", and "validation" or "test" where it has them; nothing is read yet."""
    if not folder.is_dir():
        raise DataError(f"{show(folder)}: is a file; images are read from a folder, name it with --data.path")
    try:
        names = {entry.name for entry in folder.iterdir()}
    except OSError as error:
        raise DataError(f"{show(folder)}: cannot be read ({error.strerror})") from error
    if packed := idx_parts(folder):
        return {part: partial(read_idx, path) for part, path in packed.items()}
    if binary := cifar_parts(folder):
        return {part: partial(read_cifar, paths) for part, paths in binary.items()}
    if sheets := sheet_parts(folder):
        return {part: partial(read_sheets, path) for part, path in sheets.items()}
    if pickled := [name for mark in PICKLED for name in sorted(mark) if all((folder / other).is_file() for other in mark)]:
        raise DataError(f"{show(folder)}: {pickled[0]} is a Python pickle, which is never opened; use the binary version of CIFAR (*.bin)")
    inside = {name for name in names if (folder / name).is_dir() and not name.startswith((".", "__"))}
    if "train" in inside and len(inside) > 1 and inside <= {"train", "test", *VALIDATION}:
        parts = {"validation" if name in VALIDATION else name: folder / name for name in sorted(inside)}
    else:
        parts = {"train": folder}
    return {part: partial(read_folder, place, wanted) for part, place in parts.items()}


def take(parts: dict[str, Read], part: str, path: str, problems: Problems) -> Images:
    if part not in parts:
        raise DataError(f"{show(path)}: has no {part} part; it has {' and '.join(parts)}")
    return parts[part](problems)


def align(images: Images, names: list[str], problems: Problems) -> Images:
    """The images with their classes numbered as in `names`; those of any other class are counted and left out."""
    other = len(names)
    number = {name: position for position, name in enumerate(names)}
    table = np.array([*(number.get(name, other) for name in images.names), UNLABELLED], dtype=np.int64)  # the last serves label -1
    labels = table[images.labels]
    for name in sorted(set(images.names) - set(names)):
        count = int((images.labels == images.names.index(name)).sum())
        problems.add("images of a class that training does not have, left out", repr(name), count)
    used = labels != other
    return Images(images.pixels[used], labels[used], names)


def sides(pixels: Tensor) -> str:
    return f"{pixels.shape[-1]}x{pixels.shape[-2]}"


def fit(pixels: np.ndarray, size: int, channels: int) -> Tensor:
    """pixels (N, C, H, W) as a tensor of bytes with the sides and channels asked for; 0 leaves them as they are."""
    image = torch.from_numpy(np.array(pixels, order="C"))
    if channels and image.size(1) != channels:
        image = recolour(image, channels)
    if size and tuple(image.shape[-2:]) != (size, size):
        scaled = (
            F.interpolate(part.float(), (size, size), mode="bilinear", antialias=True) for part in image.chunk(-(-len(image) // 4096))
        )
        image = torch.cat([part.round().clamp(0, 255).to(torch.uint8) for part in scaled])
    return image


def recolour(image: Tensor, channels: int) -> Tensor:
    """(N, C, H, W) uint8 with another number of channels: grey by the luminance of ITU-R 601, opaque where opacity is new."""
    if channels == 1:
        weights = torch.tensor([0.299, 0.587, 0.114]).view(3, 1, 1)
        return torch.cat(
            [(part[:, :3].float() * weights).sum(1, keepdim=True).round().to(torch.uint8) for part in image.chunk(-(-len(image) // 4096))]
        )
    colour = image.expand(-1, 3, -1, -1) if image.size(1) == 1 else image[:, :3]
    return torch.cat((colour, torch.full_like(colour[:, :1], 255)), dim=1) if channels == max(MODES) else colour.contiguous()
