from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from weft.core import random
from weft.core.errors import ConfigError
from weft.data.images import augment
from weft.data.images.augment import Augment

EVERYTHING = Augment(noise=0.1, flip=0.5, crop=2, rotate=20.0, scale=(0.8, 1.2), shear=0.2, color_jitter=0.3, tones=0.5, erase=0.5)


def keys(number: int) -> torch.Tensor:
    return random.keys(7, torch.arange(number))


def changed(image: torch.Tensor, key: torch.Tensor, settings: Augment, window: int = 0) -> torch.Tensor:
    return augment.transform_values(augment.transform_geometry(image, key, settings, window).float(), key, settings)


@pytest.mark.parametrize("settings", [EVERYTHING, Augment(flip=0.5, crop=3), Augment(noise=0.3)])
@pytest.mark.parametrize("window", [0, 7])
def test_the_same_keys_give_the_same_images_however_the_batch_is_cut(settings: Augment, window: int) -> None:
    image, key = torch.rand(11, 3, 9, 10), keys(11)
    whole = changed(image, key, settings, window)
    parts = [changed(image[i:j], key[i:j], settings, window) for i, j in ((0, 1), (1, 4), (4, 11))]
    assert torch.equal(whole, torch.cat(parts))
    assert not torch.equal(whole, changed(image, keys(12)[1:], settings, window))


def test_nothing_asked_changes_nothing() -> None:
    image = torch.randint(0, 256, (4, 1, 5, 6), dtype=torch.uint8)
    assert torch.equal(augment.transform_geometry(image, keys(4), Augment()), image)
    assert torch.equal(augment.transform_values(image / 255, keys(4), Augment()), image / 255)


def test_flips_are_exact_and_as_frequent_as_asked() -> None:
    image = torch.randint(0, 256, (2000, 1, 4, 6), dtype=torch.uint8)
    moved = augment.transform_geometry(image, keys(2000), Augment(flip=0.25))
    mirrored = (moved == image.flip(-1)).flatten(1).all(1)
    assert ((moved == image).flatten(1).all(1) ^ mirrored).float().mean() > 0.99
    assert abs(mirrored.float().mean() - 0.25) < 0.05


def test_crops_are_windows_of_the_bordered_image_and_all_occur() -> None:
    image = torch.arange(1, 31, dtype=torch.uint8).view(1, 1, 5, 6).expand(3000, 1, 5, 6)
    moved = augment.transform_geometry(image, keys(3000), Augment(crop=1))
    bordered = torch.nn.functional.pad(image[0, 0], (1, 1, 1, 1))
    windows = {bordered[i : i + 5, j : j + 6].numpy().tobytes() for i in range(3) for j in range(3)}
    assert {crop.numpy().tobytes() for crop in moved[:, 0]} == windows


def test_windows_lie_inside_the_image_and_reach_every_corner() -> None:
    image = torch.arange(1, 37, dtype=torch.uint8).view(1, 1, 6, 6).expand(2000, 1, 6, 6)
    moved = augment.transform_geometry(image, keys(2000), Augment(), window=4)
    assert moved.shape == (2000, 1, 4, 4)
    assert set(moved[:, 0, 0, 0].tolist()) == {1, 2, 3, 7, 8, 9, 13, 14, 15}
    assert (moved > 0).all()


def test_a_scaled_window_stays_inside_the_image() -> None:
    """Shorter side from 256 to 480, window 224, in small: an image of 48 whose side becomes 26 to 48 pixels, window 22."""
    image = torch.ones(500, 1, 48, 48)
    moved = augment.transform_geometry(image, keys(500), Augment(scale=(26 / 48, 1.0)), window=22)
    assert moved.shape == (500, 1, 22, 22)
    assert (moved - 1).abs().max() < 1e-5
    ramp = torch.arange(48.0).expand(500, 1, 48, 48) / 47
    left = augment.transform_geometry(ramp, keys(500), Augment(scale=(26 / 48, 1.0)), window=22)[:, 0, 11, 0]
    assert left.min() < 0.03
    assert left.max() > 0.45


@pytest.mark.parametrize("turns", [0, 1, 2, 3])
def test_quarter_turns(turns: int) -> None:
    image, one = torch.rand(1, 2, 7, 7), torch.ones(1)
    turned = augment.affine(image, one * turns * math.pi / 2, one, torch.zeros(1, 2), one < 0, (7, 7))
    assert torch.allclose(turned, torch.rot90(image, turns, (2, 3)), atol=1e-5)


def test_shift_mirror_and_scale_of_a_warp() -> None:
    image, one = torch.rand(1, 1, 8, 8), torch.ones(1)
    none = torch.zeros(1, 2)
    assert torch.allclose(augment.affine(image, one * 0, one, none, one > 0, (8, 8)), image.flip(-1), atol=1e-6)
    shifted = augment.affine(image, one * 0, one, torch.tensor([[1.0, -2.0]]), one < 0, (8, 8))
    assert torch.allclose(shifted[..., 2:, :7], image[..., :6, 1:], atol=1e-5)
    assert (shifted[..., :2, :] == 0).all()
    half = augment.affine(image, one * 0, one * 0.5, none, one < 0, (4, 4))
    assert torch.allclose(half, torch.nn.functional.avg_pool2d(image, 2), atol=1e-5)


def test_a_shear_moves_each_line_along_its_neighbour() -> None:
    image, one, none = torch.rand(1, 1, 9, 9), torch.ones(1), torch.zeros(1, 2)
    sheared = augment.affine(image, one * 0, one, none, one < 0, (9, 9), torch.tensor([[1.0, 0.0]]))
    for row in range(9):
        right = row - 4
        expected = torch.roll(image[0, 0, row], -right)
        kept = slice(max(0, -right), 9 - max(0, right))
        torch.testing.assert_close(sheared[0, 0, row, kept], expected[kept], atol=1e-5, rtol=0)
    down = augment.affine(image.mT, one * 0, one, none, one < 0, (9, 9), torch.tensor([[0.0, 1.0]]))
    torch.testing.assert_close(down.mT, sheared, atol=1e-5, rtol=0)


def test_holes_are_rectangles_of_noise_of_the_size_and_frequency_asked_for() -> None:
    image = torch.full((2000, 3, 20, 30), 2.0)
    made = augment.erase(image, keys(2000), 0.25)
    hole = (made != 2.0).any(1)  # (B, H, W)
    assert torch.equal(hole, (made != 2.0).all(1))
    opened = hole.flatten(1).any(1)
    assert abs(float(opened.float().mean()) - 0.25) < 0.04
    hole, noise = hole[opened], made.movedim(1, -1)[hole]
    rows, columns = hole.any(2).sum(1), hole.any(1).sum(1)
    assert torch.equal(rows * columns, hole.sum((1, 2)))
    share = hole.float().mean((1, 2))
    assert 0.005 < share.min() < 0.04
    assert 0.28 < share.max() < 0.4
    assert abs(float(noise.mean()) - 0.5) < 0.01 and noise.min() >= 0 and noise.max() < 1
    assert hole.any(0).float().mean() > 0.98, "they are everywhere but in a corner or two"


def test_noise_has_the_deviation_asked_for_and_stays_in_range() -> None:
    image = torch.full((200, 1, 10, 10), 0.5)
    noisy = augment.add_noise(image, keys(200), 0.1)
    assert abs(float((noisy - 0.5).std()) - 0.1) < 0.002
    wild = augment.add_noise(image, keys(200), 5.0)
    assert wild.min() == 0
    assert wild.max() == 1


def test_other_light_keeps_grey_grey_and_the_range() -> None:
    grey = torch.rand(300, 1, 6, 6).expand(-1, 3, -1, -1)
    lit = augment.jitter_colour(grey, keys(300), 0.5)
    assert torch.allclose(lit, lit[:, :1], atol=1e-6)
    colours = torch.rand(300, 3, 6, 6)
    assert torch.allclose(augment.jitter_colour(colours, keys(300), 0.0), colours, atol=1e-6)
    lit = augment.jitter_colour(colours, keys(300), 1.0)
    assert lit.min() >= 0 and lit.max() <= 1
    assert torch.equal(lit[3:9], augment.jitter_colour(colours[3:9], keys(300)[3:9], 1.0))
    bright = augment.jitter_colour(torch.full((2000, 3, 2, 2), 0.4), keys(2000), 0.5).mean((1, 2, 3)) / 0.4
    assert bright.min() < 0.55 and bright.max() > 1.45


def test_ten_crops() -> None:
    image = torch.arange(25.0).view(1, 1, 5, 5)
    crops = augment.ten_crops(image, 3)
    assert crops.shape == (1, 10, 1, 3, 3)
    assert crops[0, :, 0, 0, 0].tolist() == [0, 2, 10, 12, 6, 2, 4, 12, 14, 8]
    assert torch.equal(crops[:, 4], augment.centre_crop(image, 3))


@pytest.mark.parametrize(
    "settings",
    [
        Augment(flip=2.0),
        Augment(noise=-1.0),
        Augment(crop=-1),
        Augment(scale=(1.2, 0.8)),
        Augment(scale=(0.0, 1.0)),
        Augment(rotate=math.nan),
        Augment(color_jitter=1.5),
        Augment(tones=-0.1),
        Augment(erase=1.1),
        Augment(shear=-1.0),
    ],
)
def test_settings_that_make_no_sense(settings: Augment) -> None:
    with pytest.raises(ConfigError, match=r"--data\.augment"):
        settings.check()


@pytest.mark.gpu
def test_on_a_gpu_the_same_pixels_move() -> None:
    image, key = torch.randint(0, 256, (64, 3, 32, 32), dtype=torch.uint8), keys(64)
    exact = Augment(flip=0.5, crop=4)
    assert torch.equal(augment.transform_geometry(image.cuda(), key.cuda(), exact).cpu(), augment.transform_geometry(image, key, exact))
    apart = (changed(image.cuda() / 255, key.cuda(), EVERYTHING).cpu() - changed(image / 255, key, EVERYTHING)).abs()
    assert float((apart > 1e-3).float().mean()) < 2e-3, "but for tones that are rounded, where a last bit may decide"
    smooth = dataclasses.replace(EVERYTHING, tones=0.0)
    assert torch.allclose(changed(image.cuda() / 255, key.cuda(), smooth).cpu(), changed(image / 255, key, smooth), atol=1e-3)
