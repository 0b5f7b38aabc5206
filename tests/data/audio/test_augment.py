from __future__ import annotations

import pytest
import torch

from weft.core import random
from weft.core.errors import ConfigError
from weft.data.audio.augment import SoundAugment, coloured_noise, hidden, mix
from weft.data.audio.features import Features
from weft.data.audio.sounds import FrontEnd

ALL = SoundAugment(speeds=(0.9, 1.0, 1.1), gain=6.0, noise=(10.0, 20.0), noise_share=0.5, masks=2)
KEY = random.keys(3, torch.arange(6))


def sounds() -> tuple[torch.Tensor, torch.Tensor]:
    length = torch.tensor([4000, 3000, 2000, 4000, 1000, 4000])
    wave = 0.1 * random.normal(random.keys(1, torch.arange(6)), 4000)
    return wave * (torch.arange(4000) < length[:, None]), length


def test_a_change_is_a_function_of_the_examples_key_alone() -> None:
    wave, length = sounds()
    front = FrontEnd(8000, Features(), ALL)
    whole, frames = front(wave, length, KEY)
    parts = [front(wave[rows], length[rows], KEY[rows]) for rows in (slice(0, 2), slice(2, 6))]
    assert torch.allclose(whole, torch.cat([part for part, _ in parts]), atol=1e-4)
    assert frames.tolist() == [number for _, each in parts for number in each.tolist()]
    other, _ = front(wave, length, random.keys(4, torch.arange(6)))
    assert not torch.allclose(whole, other)
    assert (front.frames_of(length) >= frames).all()


def test_noise_has_the_ratio_that_is_asked_for() -> None:
    wave, length = sounds()
    noise = random.normal(KEY, 4000)
    ratio = torch.tensor([0.0, 5, 10, 20, 30, 40])
    found = mix(wave, noise, length, ratio) - wave
    for row, clean, number, wanted in zip(found, wave, length.tolist(), ratio.tolist(), strict=True):
        assert (row[number:] == 0).all()
        assert float(10 * (clean.square().sum() / row.square().sum()).log10()) == pytest.approx(wanted, abs=0.01)
    silent = mix(torch.zeros(6, 4000), noise, length, ratio)
    assert (silent == 0).all()


def test_colours() -> None:
    white, brown = coloured_noise(KEY[:1], 8000, torch.zeros(1)), coloured_noise(KEY[:1], 8000, torch.ones(1))
    for noise, low_share in ((white, 0.1), (brown, 0.9)):
        power = torch.fft.rfft(noise).abs().square()[0]
        assert float(power[1:401].sum() / power[1:].sum()) == pytest.approx(low_share, abs=0.1)


def test_masks_stay_within_their_sound_and_their_share() -> None:
    size = torch.full((2000,), 50)
    covered = hidden(random.keys(0, torch.arange(2000)), 80, size, 0.1, 1)
    assert not covered[:, 50:].any()
    widths = covered.sum(1)
    assert widths.max() == 5
    assert abs(float(widths.float().mean()) - 2.5) < 0.1
    assert covered[:, :50].any(0).all()


@pytest.mark.parametrize(
    "wrong",
    [
        {"speeds": (0.1,)},
        {"noise": (10.0,)},
        {"noise": (20.0, 10.0)},
        {"noise_share": 2.0},
        {"masks": -1},
        {"gain": -1.0},
        {"mask_time": 1.5},
    ],
)
def test_settings_that_make_no_sense(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=r"--data\.augment"):
        SoundAugment(**wrong).check()  # type: ignore[arg-type]
