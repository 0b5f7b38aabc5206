"""Images side by side: drawn by key, enlarged, placed in order."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from weft.core import random
from weft.core.errors import CapabilityError
from weft.visual.grids import as_images, draw, png, tile


class Painter(nn.Module):
    """Draws a constant image per key."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def sample(self, key: Tensor) -> Tensor:
        return random.uniform(key)[:, None, None, None].expand(-1, 1, 4, 4)

    def sample_class(self, key: Tensor, label: Tensor) -> Tensor:
        return self.sample(key) + label[:, None, None, None]


def test_a_sample_depends_on_seed_and_number_only() -> None:
    assert torch.equal(draw(Painter(), 5)[:2], draw(Painter(), 2))
    assert not torch.equal(draw(Painter(), 2, seed=1), draw(Painter(), 2))


def test_samples_may_be_of_one_class() -> None:
    torch.testing.assert_close(draw(Painter(), 3, label=2), draw(Painter(), 3) + 2)


def test_flat_samples_become_squares_and_values_are_clipped() -> None:
    images = as_images(torch.tensor([[-1.0, 0.0, 0.5, 2.0]]))
    assert images.shape == (1, 2, 2, 1)
    assert images.flatten().tolist() == [0, 0, 128, 255]
    with pytest.raises(CapabilityError, match="which is no image"):
        as_images(torch.zeros(2, 7))


def test_tiles_stand_in_order_with_gaps() -> None:
    images = np.arange(3, dtype=np.uint8)[:, None, None, None] * np.full((1, 32, 32, 1), 80, dtype=np.uint8)
    sheet = tile(images, columns=2)
    assert sheet.shape == (2 * (64 + 4) + 4, 2 * (64 + 4) + 4, 1)
    assert [int(sheet[6 + 68 * (i // 2), 6 + 68 * (i % 2), 0]) for i in range(3)] == [0, 80, 160]
    assert sheet[0, 0, 0] == 64


def test_png_can_be_read_back() -> None:
    image = pytest.importorskip("PIL.Image")
    read = np.asarray(image.open(io.BytesIO(png(torch.rand(4, 3, 8, 8)))))
    assert read.shape == (140, 140, 3)


def test_a_model_that_draws_nothing_says_so() -> None:
    with pytest.raises(CapabilityError, match="does not offer Samples"):
        draw(nn.Linear(1, 1))
