"""Random changes of training images that leave their class alone: noise, flip, crop, rotation, scale, shear, colour, tones, holes.

Each image is changed by its own key, so the result does not depend on how a batch was cut, and a whole batch is changed at
once on its device. Flips and crops move whole pixels and are exact; rotation, scale and shear interpolate (bilinear, black outside).
Cropping a window at random, and ten windows for evaluation, follow Krizhevsky et al. (2012) and He et al. (2015,
arXiv:1512.03385).

Shapes: B batch, C channels, H and W height and width, h and w those of the window that is cut.
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
from weft.data.images.tone_augment import retone


@dataclass(frozen=True, kw_only=True)
class Augment(Config):
    noise: float = 0.0
    """Deviation of Gaussian noise added to pixels from 0 to 1; the sum is clipped to that range."""
    flip: float = 0.0
    """Chance that an image is mirrored, left to right."""
    crop: int = 0
    """Pixels of black border put around an image before a window of its own size is cut from it at random."""
    rotate: float = 0.0
    """Largest rotation in either direction, in degrees."""
    scale: tuple[float, float] = (1.0, 1.0)
    """Smallest and largest factor by which an image is resized."""
    colour: float = 0.0
    """Largest share by which brightness, contrast and saturation grow or shrink, each by its own."""
    shear: float = 0.0
    """Largest distance by which a line moves along its neighbour, in either direction, as a share of the distance between them."""
    tones: float = 0.0
    """Chance that the tones of an image are changed in one of the ways of data/images/tone_augment.py."""
    erase: float = 0.0
    """Chance that a rectangle of an image is replaced by noise."""

    def check(self) -> None:
        """Refuse values that mean nothing."""
        for name in ("flip", "tones", "erase"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ConfigError(f"--data.augment.{name} is a chance from 0 to 1, not {getattr(self, name)}")
        if not 0.0 < self.scale[0] <= self.scale[1] < math.inf:
            raise ConfigError(f"--data.augment.scale must be two factors above 0, the smaller first, not {self.scale}")
        if not 0.0 <= self.colour <= 1.0:
            raise ConfigError(f"--data.augment.colour is a share from 0 to 1, not {self.colour}")
        for name in ("noise", "crop", "rotate", "shear"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ConfigError(f"--data.augment.{name} must not be negative, not {getattr(self, name)}")

    @property
    def interpolates(self) -> bool:
        return self.rotate > 0 or self.shear > 0 or self.scale != (1.0, 1.0)


def move(image: Tensor, key: Tensor, settings: Augment, window: int = 0) -> Tensor:
    """image (B, C, H, W) of any type and key (B,) -> (B, C, h, w), flipped, cropped, rotated, scaled and sheared as the keys say."""
    height, width = image.shape[-2:]
    size = (window or height, window or width)
    mirrored = random.uniform(random.fold(key, "flip")) < settings.flip
    if not settings.interpolates:
        if not (settings.crop or settings.flip or window):
            return image
        top = random.integers(random.fold(key, "top"), height - size[0] + 2 * settings.crop + 1) - settings.crop
        left = random.integers(random.fold(key, "left"), width - size[1] + 2 * settings.crop + 1) - settings.crop
        return cut(image, top, left, mirrored, size)
    angle = (random.uniform(random.fold(key, "angle")) * 2 - 1) * math.radians(settings.rotate)
    low, high = settings.scale
    factor = low + (high - low) * random.uniform(random.fold(key, "scale"))
    room = torch.stack([(width - size[1] / factor).clamp(min=0), (height - size[0] / factor).clamp(min=0)], dim=1) / 2  # (B, 2)
    shift = (random.uniform(random.fold(key, "shift"), 2) * 2 - 1) * ((room if window else 0) + settings.crop)
    shear = (random.uniform(random.fold(key, "shear"), 2) * 2 - 1) * settings.shear
    return warp(image, angle, factor, shift, mirrored, size, shear)


def cut(image: Tensor, top: Tensor, left: Tensor, mirrored: Tensor, size: tuple[int, int]) -> Tensor:
    """Windows (B, C, h, w) of image (B, C, H, W), their upper left corners at (top, left), each (B,); black outside the image."""
    height, width = image.shape[-2:]
    rows = top[:, None] + torch.arange(size[0], device=image.device)  # (B, h)
    columns = left[:, None] + torch.arange(size[1], device=image.device)  # (B, w)
    columns = torch.where(mirrored[:, None], columns.flip(1), columns)
    inside = ((rows >= 0) & (rows < height))[:, :, None] & ((columns >= 0) & (columns < width))[:, None, :]  # (B, h, w)
    place = rows.clamp(0, height - 1)[:, :, None] * width + columns.clamp(0, width - 1)[:, None, :]  # (B, h, w)
    flat = place.flatten(1)[:, None].expand(-1, image.size(1), -1)  # (B, C, h * w)
    return image.flatten(2).gather(2, flat).view(*image.shape[:2], *size) * inside[:, None]


def warp(
    image: Tensor, angle: Tensor, factor: Tensor, shift: Tensor, mirrored: Tensor, size: tuple[int, int], shear: Tensor | None = None
) -> Tensor:
    """The image turned anticlockwise by angle (B,) in radians and enlarged by factor (B,), seen through a window of the size.

    shift (B, 2) is where the window's centre lies from that of the image, right and down, in pixels of the image. shear (B, 2) is how
    much further right the image is read for each pixel down, and then how much further down for each pixel right.
    """
    height, width = image.shape[-2:]
    down = torch.arange(size[0], device=image.device) - (size[0] - 1) / 2  # (h,)
    right = torch.arange(size[1], device=image.device) - (size[1] - 1) / 2  # (w,)
    right = torch.where(mirrored[:, None], -right, right)[:, None, :]  # (B, 1, w)
    down = down[None, :, None]  # (1, h, 1)
    if shear is not None:
        right = right + shear[:, 0, None, None] * down  # (B, h, w)
        down = down + shear[:, 1, None, None] * right
    cosine, sine = ((wave(angle) / factor)[:, None, None] for wave in (torch.cos, torch.sin))
    x = cosine * right - sine * down + shift[:, 0, None, None]  # (B, h, w), from the centre of the image
    y = sine * right + cosine * down + shift[:, 1, None, None]
    grid = torch.stack((2 * x / width, 2 * y / height), dim=-1)
    return F.grid_sample(image.float(), grid, mode="bilinear", padding_mode="zeros", align_corners=False)


def repaint(image: Tensor, key: Tensor, settings: Augment) -> Tensor:
    """image (B, C, H, W) in [0, 1] with other values at the same places."""
    for change, amount in {add_noise: settings.noise, relight: settings.colour, retone: settings.tones, erase: settings.erase}.items():
        image = change(image, key, amount) if amount else image
    return image


def add_noise(image: Tensor, key: Tensor, deviation: float) -> Tensor:
    """image (B, C, H, W) in [0, 1] plus Gaussian noise, clipped to [0, 1]."""
    return (image + deviation * random.normal(random.fold(key, "noise"), *image.shape[1:])).clamp(0.0, 1.0)


def relight(image: Tensor, key: Tensor, share: float) -> Tensor:
    """image (B, C, H, W) in [0, 1] in other light: brighter or darker, with more or less contrast and colour."""
    factors = 1 + share * (2 * random.uniform(random.fold(key, "colour"), 3) - 1)  # (B, 3)
    brightness, contrast, saturation = factors[:, :, None, None, None].unbind(1)  # each (B, 1, 1, 1)
    image = image * brightness
    image = torch.lerp(image.mean((1, 2, 3), keepdim=True), image, contrast)
    return torch.lerp(image.mean(1, keepdim=True), image, saturation).clamp(0.0, 1.0)


def erase(image: Tensor, key: Tensor, chance: float) -> Tensor:
    """image (B, C, H, W) in [0, 1] with a rectangle of noise in some (Zhong et al., 2017, arXiv:1708.04896): a fiftieth to a third of the
    area, three times as long as wide at most."""
    key = random.fold(key, "erase")
    area, shape, *middle = random.uniform(random.fold(key, "rectangle"), 4).unbind(1)  # each (B,)
    side, longer = (0.02 + (1 / 3 - 0.02) * area).sqrt(), 3 ** (shape - 0.5)
    lengths = (side * longer).clamp(max=1.0), (side / longer).clamp(max=1.0)
    inside = [
        ((torch.arange(size, device=key.device) + 0.5) / size - (length / 2 + (1 - length) * place)[:, None]).abs() < length[:, None] / 2
        for size, length, place in zip(image.shape[-2:], lengths, middle, strict=True)
    ]  # (B, H) and (B, W)
    hole = inside[0][:, :, None] & inside[1][:, None, :] & (random.uniform(random.fold(key, "whether")) < chance)[:, None, None]
    return torch.where(hole[:, None], random.uniform(random.fold(key, "noise"), *image.shape[1:]), image)


def centre(image: Tensor, window: int) -> Tensor:
    """The middle window (…, h, h) of image (…, H, W)."""
    top, left = ((side - window) // 2 for side in image.shape[-2:])
    return image[..., top : top + window, left : left + window]


def ten_crops(image: Tensor, window: int) -> Tensor:
    """The four corners and the centre of image (B, C, H, W), and their mirror images: (B, 10, C, h, h)."""
    low, right = (side - window for side in image.shape[-2:])
    corners = [image[..., top : top + window, left : left + window] for top in (0, low) for left in (0, right)]
    five = torch.stack([*corners, centre(image, window)], dim=1)
    return torch.cat((five, five.flip(-1)), dim=1)
