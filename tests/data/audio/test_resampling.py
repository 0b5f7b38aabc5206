from __future__ import annotations

import numpy as np
import pytest
import torch

from weft.data.audio.resampling import change_speed, rate_ratio, resample, speed_ratio

RATES = [(16000, 8000), (8000, 16000), (44100, 16000), (48000, 8000), (22050, 16000), (11025, 8000), (16001, 16000), (8000, 8000)]


def swell(frequency: float, time: np.ndarray) -> np.ndarray:
    """A tone of a second that begins and ends softly."""
    return np.where((time >= 0) & (time <= 1), np.sin(2 * np.pi * frequency * time) * np.sin(np.pi * time) ** 2, 0)


@pytest.mark.parametrize(("found", "wanted"), RATES)
def test_a_tone_stays_and_what_is_above_half_the_rate_goes(found: int, wanted: int) -> None:
    ratio = rate_ratio(found, wanted)
    time = np.arange(found) / found

    def made(frequency: float) -> np.ndarray:
        return resample(torch.from_numpy(swell(frequency, time).astype(np.float32))[None], ratio)[0].numpy()

    tone = 0.4 * min(found, wanted)
    assert len(made(tone)) == wanted
    assert np.abs(made(tone) - swell(tone, np.arange(wanted) / wanted)).max() < 2e-4
    if wanted < 0.9 * found:
        assert np.abs(made(0.52 * wanted)).max() < 2e-3


def test_agrees_with_the_exact_band_limited_signal() -> None:
    """A signal of few frequencies, each below the cutoff, against its own formula; a constant stays a constant."""
    generator = np.random.Generator(np.random.PCG64(0))
    frequency, phase = generator.uniform(50, 3000, 20), generator.uniform(0, 6, 20)
    wave = np.sin(2 * np.pi * frequency * (np.arange(16000) / 16000)[:, None] + phase).mean(1)
    expected = np.sin(2 * np.pi * frequency * (np.arange(8000) / 8000)[:, None] + phase).mean(1)
    made = resample(torch.from_numpy(wave.astype(np.float32))[None], rate_ratio(16000, 8000))[0].numpy()
    assert np.abs(made - expected)[200:-200].max() < 1e-4
    flat = resample(torch.ones(1, 4000), rate_ratio(11025, 8000))[0, 100:-100]
    assert (flat - 1).abs().max() < 1e-5


def test_speeds_change_pitch_and_length() -> None:
    wave = torch.sin(2 * torch.pi * 440 * torch.arange(8000) / 8000).expand(3, -1).clone()
    wave[1, 4000:] = 0
    length = torch.tensor([8000, 4000, 8000])
    found, lengths = change_speed(wave, length, (0.9, 1.0, 1.1), torch.tensor([0, 1, 2]))
    assert lengths.tolist() == [8889, 4000, 7273]
    assert found.shape == (3, 8889)
    assert torch.equal(found[1, :4000], wave[1, :4000])
    for row, number in zip(found, lengths.tolist(), strict=True):
        assert (row[number:] == 0).all()
    for row, pitch in ((0, 396), (2, 484)):
        spectrum = torch.fft.rfft(found[row, :7000]).abs()
        assert abs(int(spectrum.argmax()) * 8000 / 7000 - pitch) < 2
    assert (speed_ratio(0.9).up, speed_ratio(0.9).down) == (10, 9)


def test_rates_without_a_common_factor_take_little_memory() -> None:
    """A header may say any rate: the filters of 999,983 to 8,000 samples a second would be 50 million numbers."""
    wave = torch.from_numpy(swell(300, np.arange(99_998) / 99_998).astype(np.float32))[None]
    made = resample(wave, rate_ratio(999_983, 8000))[0].numpy()
    assert len(made) == 800
    assert np.abs(made - swell(300, np.arange(800) * 999_983 / 8000 / 99_998)).max() < 1e-3
