"""Other tones: the same however a batch is cut, each way by its definition, and as many images changed as asked."""

from __future__ import annotations

import pytest
import torch

from weft.core import random
from weft.data.images import tone_augment

IMAGE = torch.randint(0, 256, (600, 3, 8, 6), generator=torch.Generator().manual_seed(0)) / 255
KEY = random.keys(7, torch.arange(600))


def test_the_same_keys_give_the_same_images_however_the_batch_is_cut() -> None:
    parts = [tone_augment.augment_tones(IMAGE[i:j], KEY[i:j], 0.7) for i, j in ((0, 1), (1, 250), (250, 600))]
    assert torch.equal(tone_augment.augment_tones(IMAGE, KEY, 0.7), torch.cat(parts))


def test_as_many_are_changed_as_asked_and_all_stay_in_range() -> None:
    for chance in (0.0, 0.5, 1.0):
        made = tone_augment.augment_tones(IMAGE, KEY, chance)
        assert made.min() >= 0 and made.max() <= 1
        changed = (made - IMAGE).flatten(1).abs().amax(1) > 1e-6
        assert abs(float(changed.float().mean()) - chance) < 0.08


@pytest.mark.parametrize("value", [0.0, 0.3, 1.0])
def test_an_image_of_one_colour_stays_finite(value: float) -> None:
    for way in tone_augment.OPERATIONS:
        assert way(torch.full((2, 3, 4, 4), value), torch.full((2, 1, 1, 1), 0.5)).isfinite().all()


def test_each_way_by_its_definition() -> None:
    ramp = torch.linspace(0.2, 0.6, 16).view(1, 1, 4, 4)
    none, half, full = (torch.full((1, 1, 1, 1), strength) for strength in (0.0, 0.5, 1.0))
    assert torch.equal(tone_augment.solarised(ramp, none), ramp)
    assert torch.equal(tone_augment.solarised(ramp, full), 1 - ramp)
    assert torch.equal(tone_augment.solarised(ramp, half), torch.where(ramp < 0.5, ramp, 1 - ramp))
    assert tone_augment.posterised(torch.linspace(0, 1, 256).view(1, 1, 16, 16), full).unique().tolist() == [0.0, 0.5, 1.0]
    assert len(tone_augment.posterised(torch.linspace(0, 1, 256).view(1, 1, 16, 16), none).unique()) == 16
    torch.testing.assert_close(tone_augment.stretched(ramp, half), torch.linspace(0, 1, 16).view(1, 1, 4, 4))
    torch.testing.assert_close(tone_augment.equalised(ramp, half), torch.arange(1, 17).view(1, 1, 4, 4) / 16)
    torch.testing.assert_close(tone_augment.sharpened(ramp, half), ramp)
    point = torch.zeros(1, 1, 3, 3)
    point[..., 1, 1] = 0.9
    assert float(tone_augment.sharpened(point, none)[..., 1, 1]) == pytest.approx(0.1)
    assert float(tone_augment.sharpened(point, full)[..., 1, 1]) == 1.0
