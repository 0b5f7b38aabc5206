"""How a foreign model of images is shown them (preprocessor_config.json).

Theirs is (pixel * rescale_factor - image_mean) / image_std, with pixels from 0 to 255; ours starts from pixels in [0, 1].
"""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

from weft.core.errors import CheckpointError
from weft.data.images.folder import MODES
from weft.data.images.pixels import ImagesConfig

FILE = "preprocessor_config.json"
BILINEAR = 2


def shown(data: ImagesConfig, image: tuple[int, ...], theirs: dict[str, Any] | None) -> ImagesConfig:
    """Our settings of the images for a model that reads (channels, height, width); without their file, pixels stay in [0, 1]."""
    channels, height, width = image
    size = height if height == width else 0  # other shapes must come as they are
    changes: dict[str, Any] = {"size": size, "crop_size": 0, "channels": channels if channels in MODES else 0}
    if theirs is not None:
        wanted = theirs.get("size")
        sides = wanted if isinstance(wanted, dict) else {"height": wanted}
        larger = sides.get("shortest_edge") or sides.get("height")
        if theirs.get("do_center_crop") and isinstance(larger, int) and larger > size > 0:
            changes |= {"size": larger, "crop_size": size}
        changes |= {"squash": "shortest_edge" not in sides, **normalisation(theirs, channels)}
    return dataclasses.replace(data, **changes)


def normalisation(theirs: dict[str, Any], channels: int) -> dict[str, tuple[float, ...]]:
    """Mean and deviation of pixels in [0, 1]; what their file leaves out is as in their ViTImageProcessor."""
    largest = 255 * numbers(theirs, "rescale_factor", 1 / 255, 1)[0] if theirs.get("do_rescale", True) else 255.0
    mean, deviation = [0.0] * channels, [1.0] * channels
    if theirs.get("do_normalize", True):
        mean, deviation = (numbers(theirs, name, 0.5, channels) for name in ("image_mean", "image_std"))
    if min(largest, *deviation) <= 0:
        raise CheckpointError(f"{FILE}: rescale_factor and image_std must be above 0")
    ours = {"mean": mean, "std": deviation}
    # rounded, as 255 times a written 1 / 255 is not quite 1
    scaled = {name: tuple(round(value / largest, 12) for value in values) for name, values in ours.items()}
    return {} if scaled == {"mean": (0.0,) * channels, "std": (1.0,) * channels} else scaled


def numbers(theirs: dict[str, Any], name: str, default: float, count: int) -> list[float]:
    """A setting that is one number, or one for each channel."""
    given = theirs.get(name, default)
    found = given if isinstance(given, list) else [given] * count
    if len(found) != count or not all(type(value) in (int, float) and math.isfinite(value) for value in found):
        raise CheckpointError(
            f"{FILE}: {name} is {given!r}, not {count} numbers" if count > 1 else f"{FILE}: {name} is {given!r}, not a number"
        )
    return [float(value) for value in found]


def files(data: Any, image: tuple[int, ...]) -> dict[str, bytes]:
    """Their file for a model of ours that was shown its images as `data` says; sources without files show pixels in [0, 1]."""
    channels, height, width = image
    ours = data if isinstance(data, ImagesConfig) else ImagesConfig(squash=True)
    sides: dict[str, Any] = {"height": ours.size or height, "width": ours.size or width}
    cut = ours.crop_size > 0 or (ours.size > 0 and not ours.squash)
    content: dict[str, Any] = {
        "image_processor_type": "CLIPImageProcessor" if cut else "ViTImageProcessor",  # that of ViT cuts nothing
        "do_convert_rgb": channels == 3,
        "do_resize": ours.size > 0 or not cut,
        "size": sides if ours.squash or not cut else {"shortest_edge": ours.size or height},
        "resample": BILINEAR,
        **({"do_center_crop": True, "crop_size": {"height": height, "width": width}} if cut else {}),
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": bool(ours.mean),
        "image_mean": list(ours.mean) or [0.0] * channels,
        "image_std": list(ours.std) or [1.0] * channels,
    }
    return {FILE: json.dumps(content, indent=2).encode() + b"\n"}
