"""Image data: a folder with a subfolder per class, loose image files, IDX files, CIFAR's binary files, contact sheets.

All images are one uint8 tensor; batches become floats in [0, 1] on the device of the model.

Batch: image (B, C, H, W), or (B, C * H * W) where flat, float32 in [0, 1] unless a mean and a deviation are set, black and white where
they are binarised; label (B,) int64, UNLABELLED where unknown. With mixup, also the entries of data/images/mixup.py.
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
from weft.data.images.folder import MODES, DecodeOptions, read_folder
from weft.data.images.idx_cifar import LabelledImages, cifar_files, idx_files, read_cifar, read_idx
from weft.data.images.mixup import MixupDataset
from weft.data.images.sheets import read_sheets, sheet_files
from weft.data.io.files import locate, show
from weft.data.split import balanced, check_share, hide_labels, hold_out, repeat_labelled
from weft.data.tokenizers.base import ClassNames, Tokenizer

ImageReader = Callable[[Problems], LabelledImages]
PICKLED = ({"data_batch_1"}, {"batches.meta"}, {"meta", "train"})
"""Files by which the pickled Python versions of CIFAR are recognised."""
VALIDATION = ("val", "valid", "validation", "dev")


@dataclass(frozen=True, kw_only=True)
class ImagesConfig(DataConfig):
    model_preprocessing: ClassVar[tuple[str, ...]] = ("size", "squash", "crop_size", "channels", "mean", "std", "binarise")

    path: str = ""
    """A folder: one subfolder of images per class (or train/ and val/ or test/ of such), loose images, IDX, CIFAR binary files."""
    validation_path: str = ""
    """A folder of the same kind to validate on; by default a subfolder or a share of `path`."""
    size: int = 0
    """Side in pixels to which images are resized, after a centre crop to a square; 0 keeps their sizes, which must be equal."""
    squash: bool = False
    """Resize both sides to `size` without cropping."""
    crop_size: int = 0
    """Side of the crop that is taken: at random in training, the centre in validation; 0 for no crop."""
    channels: Literal[0, 1, 3, 4] = 0
    """1 for grey, 3 for colour, 4 for colour and alpha; 0 as in the files."""
    mean: tuple[float, ...] = ()
    """Mean of each channel, subtracted from pixels in [0, 1]; empty for no normalisation."""
    std: tuple[float, ...] = ()
    """Standard deviation of each channel, by which the difference is divided."""
    binarise: Binarise = "none"
    """threshold: pixels are 1 where at least half bright, else 0; dynamic: 1 with their brightness as the chance, drawn anew each time."""
    flat: bool = False
    """Images as rows of numbers instead of (channels, height, width)."""
    validation: float = 0.1
    """Share of the training images held out for validation, where the folder has no validation split."""
    validate_on: Literal["train", "test"] = "train"
    """Validate on images held out from training, or on the test files (t10k, test_batch.bin, test.bin, test/)."""
    examples: int = 0
    """Largest number of training images, spread evenly over the classes; 0 for all."""
    labelled: float = 1.0
    """Share of the training images whose label is kept, spread evenly over the classes; validation keeps all."""
    repeat_labelled: int = 1
    """How often each labelled image occurs in an epoch, where others are unlabelled, so that few labels are seen often."""
    class_names: tuple[str, ...] = ()
    """The classes in their order; by default those of a trained model, else those of the files, sorted."""
    augment: Augment = field(default_factory=Augment)
    """Data augmentation of the training images."""
    mixup: float = 0.0
    """Probability that a training image and its label are mixed with another (half mixup, half CutMix); for classifiers."""

    def build(self) -> Data:
        return self.build_with(None)

    def build_with(self, tokenizer: Tokenizer | None) -> Data:
        self._check()
        problems = Problems()
        model_classes = tokenizer.names if isinstance(tokenizer, ClassNames) else []
        train, validation_images = self._read(problems, list(self.class_names) or model_classes)
        chosen_rows = np.sort(balanced(train.labels, "examples")[: self.examples or None])
        labels = hide_labels(train.labels[chosen_rows], self.labelled)
        chosen = repeat_labelled(labels, self.repeat_labelled)
        pixels, labels = to_tensor(train.pixels[chosen_rows[chosen]], self.size, self.channels), labels[chosen]
        validation_pixels = to_tensor(validation_images.pixels, self.size, pixels.size(1)) if len(validation_images.labels) else pixels[:0]
        if pixels.shape[1:] != validation_pixels.shape[1:]:
            raise DataError(
                f"validation images are {size_text(validation_pixels)}, training images {size_text(pixels)}; set one with --data.size"
            )
        first = self._dataset(pixels, labels, self.augment)
        first = MixupDataset(first, self.mixup) if self.mixup else first
        validation = self._dataset(validation_pixels, validation_images.labels, None) if len(validation_pixels) else None
        return Data(first, validation, self._facts(pixels, train.names, validation), ClassNames(train.names), problems)

    def _check(self) -> None:
        self.augment.check()
        check_share(self.validation)
        if not 0.0 <= self.mixup <= 1.0:
            raise ConfigError(f"--data.mixup is a probability from 0 to 1, not {self.mixup}")
        if self.mixup and self.flat:
            raise ConfigError("--data.mixup cuts rectangles out of images; leave out --data.flat")
        for name in ("size", "crop_size", "examples"):
            if getattr(self, name) < 0:
                raise ConfigError(f"--data.{name} must not be negative, not {getattr(self, name)}")
        if len(self.mean) != len(self.std) or not all(map(math.isfinite, self.mean)) or not all(0 < d < math.inf for d in self.std):
            raise ConfigError(f"--data.mean and --data.std are a number, and one above 0, for each channel, not {self.mean} and {self.std}")

    @property
    def decode_options(self) -> DecodeOptions:
        return DecodeOptions(self.size, self.channels, self.squash)

    def _read(self, problems: Problems, names: list[str]) -> tuple[LabelledImages, LabelledImages]:
        """Training and validation images, their classes numbered as in `names` where given."""
        test = self.validate_on == "test"
        splits = find_splits(locate(self.path), self.decode_options)
        images = read_split(splits, "train", self.path, problems)
        images = align(images, names, problems) if names else images
        if not len(images.labels):
            few = ", ".join(names[:10])
            raise DataError(f"{show(self.path)}: has no image of a class that the model knows ({few}); name others with --data.class-names")
        if self.validation_path == self.path and not test:
            return images, images
        if self.validation_path:
            splits = find_splits(locate(self.validation_path), self.decode_options)
            return images, align(read_split(splits, "test" if test else "train", self.validation_path, problems), images.names, problems)
        if test or "validation" in splits:
            return images, align(read_split(splits, "test" if test else "validation", self.path, problems), images.names, problems)
        train, validation_images = (
            LabelledImages(images.pixels[i], images.labels[i], images.names) for i in hold_out(images.labels, self.validation, problems)
        )
        return train, validation_images

    def _dataset(self, pixels: Tensor, labels: np.ndarray, augment: Augment | None) -> Dataset:
        if self.crop_size > min(pixels.shape[-2:]):
            raise ConfigError(f"--data.crop_size {self.crop_size} is larger than the images, which are {size_text(pixels)}")
        return TensorDataset({"image": pixels, "label": torch.from_numpy(labels)}, self.transform(pixels, augment))

    def transform(self, pixels: Tensor, augment: Augment | None = None) -> Pixels:
        """The transform from bytes (N, C, H, W) to the model's input."""
        if self.mean and len(self.mean) != pixels.size(1):
            raise ConfigError(
                f"--data.mean is of {len(self.mean)} channels, but the images have {pixels.size(1)}; choose with --data.channels"
            )
        return Pixels(augment, self.crop_size, self.flat, self.mean, self.std, self.binarise)

    def _facts(self, pixels: Tensor, names: list[str], validation: Dataset | None) -> dict[str, Any]:
        channels, height, width = pixels.shape[1:]
        shape = (channels, self.crop_size or height, self.crop_size or width)
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
    """The transform of a batch: bytes to floats in [0, 1], augmentation, binarisation, normalisation."""

    augment: Augment | None
    window: int
    flat: bool
    mean: tuple[float, ...] = ()
    deviation: tuple[float, ...] = ()
    binarise: Binarise = "none"

    def __call__(self, batch: Batch, key: Tensor) -> Batch:
        image = batch["image"]  # (B, C, H, W) uint8
        if self.augment:
            image = changes.transform_geometry(image, random.fold(key, "augment"), self.augment, self.window)
        elif self.window:
            image = changes.centre_crop(image, self.window)
        image = image.float() / 255
        if self.augment:
            image = changes.transform_values(image, random.fold(key, "augment"), self.augment)
        image = binarise(image, key, self.binarise)
        if self.mean:  # Python floats, as a CUDA graph cannot copy a tensor from the host
            image = torch.stack([(c - m) / d for c, m, d in zip(image.unbind(1), self.mean, self.deviation, strict=True)], dim=1)
        return {**batch, "image": image.flatten(1) if self.flat else image}


def find_splits(folder: Path, options: DecodeOptions) -> dict[str, ImageReader]:
    """Readers of the splits of a folder: "train", and "validation" or "test" where it has them; nothing is read yet."""
    if not folder.is_dir():
        raise DataError(f"{show(folder)}: is a file; images are read from a folder, name it with --data.path")
    try:
        names = {entry.name for entry in folder.iterdir()}
    except OSError as error:
        raise DataError(f"{show(folder)}: cannot be read ({error.strerror})") from error
    if packed := idx_files(folder):
        return {split: partial(read_idx, path) for split, path in packed.items()}
    if binary := cifar_files(folder):
        return {split: partial(read_cifar, paths) for split, paths in binary.items()}
    if sheets := sheet_files(folder):
        return {split: partial(read_sheets, path) for split, path in sheets.items()}
    if pickles := [
        name
        for names_of_version in PICKLED
        for name in sorted(names_of_version)
        if all((folder / other).is_file() for other in names_of_version)
    ]:
        raise DataError(f"{show(folder)}: {pickles[0]} is a Python pickle, which is never opened; use the binary version of CIFAR (*.bin)")
    subfolders = {name for name in names if (folder / name).is_dir() and not name.startswith((".", "__"))}
    if "train" in subfolders and len(subfolders) > 1 and subfolders <= {"train", "test", *VALIDATION}:
        splits = {"validation" if name in VALIDATION else name: folder / name for name in sorted(subfolders)}
    else:
        splits = {"train": folder}
    return {split: partial(read_folder, path, options) for split, path in splits.items()}


def read_split(splits: dict[str, ImageReader], split: str, path: str, problems: Problems) -> LabelledImages:
    if split not in splits:
        raise DataError(f"{show(path)}: has no {split} split; it has {' and '.join(splits)}")
    return splits[split](problems)


def align(images: LabelledImages, names: list[str], problems: Problems) -> LabelledImages:
    """The images with classes numbered as in `names`; those of other classes are counted and left out."""
    no_class = len(names)
    index_of = {name: index for index, name in enumerate(names)}
    known = [index_of.get(name, no_class) for name in images.names]
    new_labels = np.array([*known, UNLABELLED], dtype=np.int64)  # the last is for label -1
    labels = new_labels[images.labels]
    for name in sorted(set(images.names) - set(names)):
        count = int((images.labels == images.names.index(name)).sum())
        problems.add("images of a class that training does not have, left out", repr(name), count)
    is_known = labels != no_class
    return LabelledImages(images.pixels[is_known], labels[is_known], names)


def size_text(pixels: Tensor) -> str:
    return f"{pixels.shape[-1]}x{pixels.shape[-2]}"


def to_tensor(pixels: np.ndarray, size: int, channels: int) -> Tensor:
    """pixels (N, C, H, W) as a uint8 tensor, resized and converted to this size and number of channels; 0 keeps them."""
    image = torch.from_numpy(np.array(pixels, order="C"))
    if channels and image.size(1) != channels:
        image = convert_channels(image, channels)
    if size and tuple(image.shape[-2:]) != (size, size):
        scaled = (
            F.interpolate(part.float(), (size, size), mode="bilinear", antialias=True) for part in image.chunk(-(-len(image) // 4096))
        )
        image = torch.cat([part.round().clamp(0, 255).to(torch.uint8) for part in scaled])
    return image


def convert_channels(image: Tensor, channels: int) -> Tensor:
    """(N, C, H, W) uint8 with another number of channels: grey by the luminance of ITU-R 601, a new alpha channel is opaque."""
    if channels == 1:
        weights = torch.tensor([0.299, 0.587, 0.114]).view(3, 1, 1)
        return torch.cat(
            [(part[:, :3].float() * weights).sum(1, keepdim=True).round().to(torch.uint8) for part in image.chunk(-(-len(image) // 4096))]
        )
    colour = image.expand(-1, 3, -1, -1) if image.size(1) == 1 else image[:, :3]
    return torch.cat((colour, torch.full_like(colour[:, :1], 255)), dim=1) if channels == max(MODES) else colour.contiguous()
