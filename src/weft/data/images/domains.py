"""Two unpaired domains of images: original images, and others restyled by a fixed rule that is not given to the model.

The first half of the images is of one domain, the second half of the other. As the rule is known, translations can
be measured; training does not use it.
Batch: image (B, C, S, S) and label (B,) of the first domain; other and other_label of the second; truth, `image` in the other style.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from weft.core import random
from weft.core.errors import ConfigError, DataError
from weft.data.base import Batch, Data, DataConfig, Dataset
from weft.data.images.paired import base_images

INK, PAPER = (0.95, 0.85, 0.1), (0.1, 0.2, 0.6)
"""Colours of what is bright and of what is dark, red, green and blue."""
Style = Literal["invert", "colour"]


@dataclass(frozen=True, kw_only=True)
class DomainsConfig(DataConfig):
    path: str = ""
    """A folder of images, as of the images data; "" takes scikit-learn's digits."""
    style: Style = "colour"
    """The second domain: bright for dark, or grey on a scale from blue to yellow."""
    size: int = 0
    """Side in pixels to which images of a folder are scaled; 0 leaves them."""
    validation: float = 0.2
    """Share of the images held out for validation."""
    validate_on: Literal["train", "test"] = "train"
    """Validate on images held out from training, or on the test files of a folder."""

    def build(self) -> Data:
        if self.size < 0:
            raise ConfigError(f"--data.size must not be negative, not {self.size}")
        inner = base_images(self.path, self.size, self.validation, self.validate_on).build()
        if len(inner.train) < 2:
            raise DataError(f"{self.path}: two domains need at least two images")
        _, height, width = inner.info["image"]
        channels = 3 if self.style == "colour" else 1
        facts = {**inner.info, "image": (channels, height, width), "features": channels * height * width}
        validation = Domains(inner.validation, self.style, whole=True) if inner.validation else None
        return Data(Domains(inner.train, self.style), validation, facts, inner.tokenizer, inner.problems)


class Domains(Dataset):
    """Images of both domains; with `whole` every image is in the first domain, else no image is in both."""

    def __init__(self, inner: Dataset, style: Style, whole: bool = False):
        self.inner, self.style, self.whole = inner, style, whole

    def __len__(self) -> int:
        return len(self.inner) if self.whole else len(self.inner) // 2

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        first = 0 if self.whole else len(self)
        chosen = first + random.integers(random.fold(key, "other"), len(self.inner) - first)
        first_domain, second_domain = self.inner.batch(index, key), self.inner.batch(chosen, key)
        image, other = first_domain["image"], restyle(second_domain["image"], self.style)
        expanded = image.expand(-1, other.size(1), -1, -1)
        labels = {"label": first_domain["label"], "other_label": second_domain["label"]}
        return {"image": expanded, "other": other, "truth": restyle(image, self.style), **labels}

    def to(self, device: torch.device) -> Dataset:
        return Domains(self.inner.to(device), self.style, self.whole)

    @property
    def device(self) -> torch.device:
        return self.inner.device


def restyle(image: Tensor, style: Style) -> Tensor:
    """Grey images (B, 1, S, S) in [0, 1] in the second domain's style, (B, 1 or 3, S, S)."""
    if style == "invert":
        return 1 - image
    return torch.cat([low + (high - low) * image for low, high in zip(PAPER, INK, strict=True)], dim=1)


def to_grey(image: Tensor, style: Style) -> Tensor:
    """The inverse of `restyle`, (B, 1 or 3, S, S) -> (B, 1, S, S) in [0, 1]."""
    if style == "invert":
        return 1 - image
    channels = [(channel - low) / (high - low) for channel, low, high in zip(image.unbind(1), PAPER, INK, strict=True)]
    return torch.stack(channels, dim=1).mean(1, keepdim=True).clamp(0, 1)
