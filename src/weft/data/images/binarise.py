"""Binarisation of grey pixels, for models of binary vectors.

Dynamic binarisation (Salakhutdinov & Murray, 2008) samples each pixel with its brightness as the probability of 1, anew
each time the image is used. The draw is a function of the example's key, so that validation, whose keys are always the same,
sees the same images each time.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from weft.core import random

Binarise = Literal["none", "threshold", "dynamic"]


def binarise(image: Tensor, key: Tensor, how: Binarise) -> Tensor:
    """image (B, ...) in [0, 1] and key (B,) -> the same with pixels 0 or 1, unless `how` is none."""
    if how == "threshold":
        return (image >= 0.5).to(image.dtype)
    if how == "dynamic":
        return (random.uniform(random.fold(key, "binarise"), *image.shape[1:]) < image).to(image.dtype)
    return image
