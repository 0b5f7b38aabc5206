"""Data augmentation of images: noise, flip, crop, rotation, scale, shear, colour jitter, tones, random erasing.

Each image is augmented by its own key, so the result does not depend on how a batch is split; a whole batch is processed at
once on its device. Flips and crops move whole pixels and are exact; rotation, scale and shear interpolate (bilinear, black outside).
Cropping a window at random, and ten windows for evaluation, follow Krizhevsky et al. (2012) and He et al. (2015,
arXiv:1512.03385).

Shapes: B batch, C channels, H and W height and width, h and w those of the crop.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.core import random
from weft.core.config import Config
from weft.core.errors import ConfigError
from weft.data.images.tone_augment import augment_tones


@dataclass(frozen=True, kw_only=True)
class Augment(Config):
    noise: float = 0.0
    """Deviation of Gaussian noise added to pixels from 0 to 1; the sum is clipped to that range."""
    flip: float = 0.0
    """Probability of a horizontal flip."""
    crop: int = 0
    """Pixels of black padding around an image before a random crop of its own size."""
    rotate: float = 0.0
    """Largest rotation in either direction, in degrees."""
    scale: tuple[float, float] = (1.0, 1.0)
    """Smallest and largest factor by which an image is resized."""
    color_jitter: float = 0.0
    """Color jitter: largest relative change of brightness, contrast and saturation, each independently."""
    shear: float = 0.0
    """Largest shear in either direction: shift of a line relative to its neighbour, as a share of their distance."""
    tones: float = 0.0
    """Probability of one of the tone augmentations of data/images/tone_augment.py."""
    erase: float = 0.0
    """Probability of random erasing: a rectangle is replaced by noise."""

    def check(self) -> None:
        """Refuse invalid values."""
        for name in ("flip", "tones", "erase"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ConfigError(f"--data.augment.{name} is a probability from 0 to 1, not {getattr(self, name)}")
        if not 0.0 < self.scale[0] <= self.scale[1] < math.inf:
            raise ConfigError(f"--data.augment.scale must be two factors above 0, the smaller first, not {self.scale}")
        if not 0.0 <= self.color_jitter <= 1.0:
            raise ConfigError(f"--data.augment.color_jitter is a share from 0 to 1, not {self.color_jitter}")
        for name in ("noise", "crop", "rotate", "shear"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ConfigError(f"--data.augment.{name} must not be negative, not {getattr(self, name)}")

    @property
    def interpolates(self) -> bool:
        return self.rotate > 0 or self.shear > 0 or self.scale != (1.0, 1.0)


def transform_geometry(image: Tensor, key: Tensor, settings: Augment, window: int = 0) -> Tensor:
    """image (B, C, H, W) of any type and key (B,) -> (B, C, h, w), flipped, cropped, rotated, scaled and sheared as the keys say."""
    height, width = image.shape[-2:]
    size = (window or height, window or width)
    flipped = random.uniform(random.fold(key, "flip")) < settings.flip
    if not settings.interpolates:
        if not (settings.crop or settings.flip or window):
            return image
        top = random.integers(random.fold(key, "top"), height - size[0] + 2 * settings.crop + 1) - settings.crop
        left = random.integers(random.fold(key, "left"), width - size[1] + 2 * settings.crop + 1) - settings.crop
        return crop_windows(image, top, left, flipped, size)
    angle = (random.uniform(random.fold(key, "angle")) * 2 - 1) * math.radians(settings.rotate)
    low, high = settings.scale
    factor = low + (high - low) * random.uniform(random.fold(key, "scale"))
    margin = torch.stack([(width - size[1] / factor).clamp(min=0), (height - size[0] / factor).clamp(min=0)], dim=1) / 2  # (B, 2)
    shift = (random.uniform(random.fold(key, "shift"), 2) * 2 - 1) * ((margin if window else 0) + settings.crop)
    shear = (random.uniform(random.fold(key, "shear"), 2) * 2 - 1) * settings.shear
    return affine(image, angle, factor, shift, flipped, size, shear)


def crop_windows(image: Tensor, top: Tensor, left: Tensor, flipped: Tensor, size: tuple[int, int]) -> Tensor:
    """Crops (B, C, h, w) of image (B, C, H, W), their upper left corners at (top, left), each (B,); black outside the image."""
    height, width = image.shape[-2:]
    rows = top[:, None] + torch.arange(size[0], device=image.device)  # (B, h)
    columns = left[:, None] + torch.arange(size[1], device=image.device)  # (B, w)
    columns = torch.where(flipped[:, None], columns.flip(1), columns)
    inside = ((rows >= 0) & (rows < height))[:, :, None] & ((columns >= 0) & (columns < width))[:, None, :]  # (B, h, w)
    source_index = rows.clamp(0, height - 1)[:, :, None] * width + columns.clamp(0, width - 1)[:, None, :]  # (B, h, w)
    flat = source_index.flatten(1)[:, None].expand(-1, image.size(1), -1)  # (B, C, h * w)
    return image.flatten(2).gather(2, flat).view(*image.shape[:2], *size) * inside[:, None]


def affine(
    image: Tensor, angle: Tensor, factor: Tensor, shift: Tensor, flipped: Tensor, size: tuple[int, int], shear: Tensor | None = None
) -> Tensor:
    """The image rotated anticlockwise by angle (B,) in radians and enlarged by factor (B,), cropped to size.

    shift (B, 2) is where the window's centre lies from that of the image, right and down, in pixels of the image. shear (B, 2) is how
    much further right the image is read for each pixel down, and then how much further down for each pixel right.
    """
    height, width = image.shape[-2:]
    down = torch.arange(size[0], device=image.device) - (size[0] - 1) / 2  # (h,)
    right = torch.arange(size[1], device=image.device) - (size[1] - 1) / 2  # (w,)
    right = torch.where(flipped[:, None], -right, right)[:, None, :]  # (B, 1, w)
    down = down[None, :, None]  # (1, h, 1)
    if shear is not None:
        right = right + shear[:, 0, None, None] * down  # (B, h, w)
        down = down + shear[:, 1, None, None] * right
    cosine, sine = ((wave(angle) / factor)[:, None, None] for wave in (torch.cos, torch.sin))
    x = cosine * right - sine * down + shift[:, 0, None, None]  # (B, h, w), from the centre of the image
    y = sine * right + cosine * down + shift[:, 1, None, None]
    grid = torch.stack((2 * x / width, 2 * y / height), dim=-1)
    return F.grid_sample(image.float(), grid, mode="bilinear", padding_mode="zeros", align_corners=False)


def transform_values(image: Tensor, key: Tensor, settings: Augment) -> Tensor:
    """image (B, C, H, W) in [0, 1] with changed values: noise, colour, tones, erasing."""
    for change, amount in {
        add_noise: settings.noise,
        jitter_colour: settings.color_jitter,
        augment_tones: settings.tones,
        erase: settings.erase,
    }.items():
        image = change(image, key, amount) if amount else image
    return image


def add_noise(image: Tensor, key: Tensor, deviation: float) -> Tensor:
    """image (B, C, H, W) in [0, 1] plus Gaussian noise, clipped to [0, 1]."""
    return (image + deviation * random.normal(random.fold(key, "noise"), *image.shape[1:])).clamp(0.0, 1.0)


def jitter_colour(image: Tensor, key: Tensor, share: float) -> Tensor:
    """Color jitter: largest relative change of brightness, contrast and saturation, each independently."""
    factors = 1 + share * (2 * random.uniform(random.fold(key, "colour"), 3) - 1)  # (B, 3)
    brightness, contrast, saturation = factors[:, :, None, None, None].unbind(1)  # each (B, 1, 1, 1)
    image = image * brightness
    image = torch.lerp(image.mean((1, 2, 3), keepdim=True), image, contrast)
    return torch.lerp(image.mean(1, keepdim=True), image, saturation).clamp(0.0, 1.0)


def erase(image: Tensor, key: Tensor, chance: float) -> Tensor:
    """Random erasing (Zhong et al., 2017, arXiv:1708.04896): image (B, C, H, W) in [0, 1] with a rectangle of noise in some, of a fiftieth
    to a third of the area, three times as long as wide at most."""
    key = random.fold(key, "erase")
    area, shape, *centres = random.uniform(random.fold(key, "rectangle"), 4).unbind(1)  # each (B,)
    side, longer = (0.02 + (1 / 3 - 0.02) * area).sqrt(), 3 ** (shape - 0.5)
    lengths = (side * longer).clamp(max=1.0), (side / longer).clamp(max=1.0)
    inside = [
        ((torch.arange(size, device=key.device) + 0.5) / size - (length / 2 + (1 - length) * position)[:, None]).abs() < length[:, None] / 2
        for size, length, position in zip(image.shape[-2:], lengths, centres, strict=True)
    ]  # (B, H) and (B, W)
    rectangle = inside[0][:, :, None] & inside[1][:, None, :] & (random.uniform(random.fold(key, "whether")) < chance)[:, None, None]
    return torch.where(rectangle[:, None], random.uniform(random.fold(key, "noise"), *image.shape[1:]), image)


def centre_crop(image: Tensor, window: int) -> Tensor:
    """The centre crop (…, h, h) of image (…, H, W)."""
    top, left = ((side - window) // 2 for side in image.shape[-2:])
    return image[..., top : top + window, left : left + window]


def ten_crops(image: Tensor, window: int) -> Tensor:
    """The four corners and the centre of image (B, C, H, W), and their mirror images: (B, 10, C, h, h)."""
    low, right = (side - window for side in image.shape[-2:])
    corners = [image[..., top : top + window, left : left + window] for top in (0, low) for left in (0, right)]
    five = torch.stack([*corners, centre_crop(image, window)], dim=1)
    return torch.cat((five, five.flip(-1)), dim=1)
