"""Changes of sounds in training: speed, loudness, noise, and masks over their features; all of them functions of the example's key.

Speed perturbation is that of Ko et al. (2015): pitch and tempo change together. SpecAugment (Park et al., 2019, arXiv:1904.08779)
hides bands and stretches of time.
Shapes: B waves, N samples, T frames, M features.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from weft.core import random
from weft.core.config import Config
from weft.core.errors import ConfigError
from weft.data.audio.resampling import change_speed, speed_ratio


@dataclass(frozen=True, kw_only=True)
class SoundAugment(Config):
    speeds: tuple[float, ...] = ()
    """Speeds of which each utterance gets one, such as 0.9,1,1.1; empty for its own."""
    gain: float = 0.0
    """Most decibels by which an utterance is made louder or softer."""
    noise: tuple[float, ...] = ()
    """Lowest and highest signal-to-noise ratio, in decibels, of noise that is added: white to brown; empty for none."""
    noise_share: float = 1.0
    """Share of the utterances that get noise."""
    masks: int = 0
    """SpecAugment: stretches of time, and bands of features, that are hidden."""
    mask_time: float = 0.1
    """Longest stretch as a share of the frames."""
    mask_features: float = 0.25
    """Widest band as a share of the features."""

    def check(self) -> None:
        if self.speeds and not all(0.5 <= speed <= 2.0 for speed in self.speeds):
            raise ConfigError(f"--data.augment.speeds are from 0.5 to 2, not {self.speeds}")
        if self.noise and not (len(self.noise) == 2 and -60 <= self.noise[0] <= self.noise[1] <= 120):
            raise ConfigError(f"--data.augment.noise is two ratios in decibels, the lower first, such as 10,20, not {self.noise}")
        for name in ("noise_share", "mask_time", "mask_features"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"--data.augment.{name} is a share from 0 to 1, not {getattr(self, name)}")
        if not 0 <= self.gain <= 60 or not 0 <= self.masks <= 100:
            raise ConfigError(f"--data.augment.gain is from 0 to 60 and .masks from 0 to 100, not {self.gain} and {self.masks}")

    @property
    def slowest(self) -> float:
        return min(self.speeds, default=1.0)

    def stretched(self, samples: int) -> int:
        """Most samples that a wave of so many can become."""
        return max((speed_ratio(speed).length(samples) for speed in self.speeds), default=samples)

    def wave(self, wave: Tensor, length: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        """wave (B, N), length and key (B,) -> waves of the same kind, of which the width may differ, and their lengths."""
        if self.speeds:
            chosen = random.integers(random.fold(key, "speed"), len(self.speeds))
            wave, length = change_speed(wave, length, self.speeds, chosen)
        if self.gain:
            level = self.gain * (2 * random.uniform(random.fold(key, "gain")) - 1)
            wave = wave * (10 ** (level / 20))[:, None]
        if self.noise:
            wave = self._noisy(wave, length, random.fold(key, "noise"))
        return wave, length

    def _noisy(self, wave: Tensor, length: Tensor, key: Tensor) -> Tensor:
        low, high = self.noise
        ratio = low + (high - low) * random.uniform(random.fold(key, "ratio"))
        noise = coloured_noise(random.fold(key, "sound"), wave.size(1), random.uniform(random.fold(key, "colour")))
        got = random.uniform(random.fold(key, "share")) < self.noise_share
        return torch.where(got[:, None], mix(wave, noise, length, ratio), wave)

    def features(self, found: Tensor, frames: Tensor, key: Tensor) -> Tensor:
        """found (B, T, M) with frames (B,) -> the same with stretches and bands of 0, the mean of normalised features."""
        if not self.masks:
            return found
        key = random.fold(key, "masks")
        time = hidden(random.fold(key, "time"), found.size(1), frames, self.mask_time, self.masks)  # (B, T)
        width = torch.full_like(frames, found.size(2))
        band = hidden(random.fold(key, "features"), found.size(2), width, self.mask_features, self.masks)  # (B, M)
        return found.masked_fill(time[:, :, None] | band[:, None, :], 0.0)


def hidden(key: Tensor, places: int, size: Tensor, share: float, masks: int) -> Tensor:
    """Which of so many places a few stretches cover (B, places): each of 0 to share * size (B,) places, anywhere in size."""
    most = (share * size).floor()[:, None]
    width = (random.uniform(random.fold(key, "width"), masks) * (most + 1)).floor()  # (B, masks)
    start = (random.uniform(random.fold(key, "start"), masks) * (size[:, None] - width + 1)).floor()
    place = torch.arange(places, device=key.device)
    return ((place >= start[:, :, None]) & (place < (start + width)[:, :, None])).any(1)


def mix(wave: Tensor, noise: Tensor, length: Tensor, ratio: Tensor) -> Tensor:
    """wave, noise (B, N), length (B,) -> their sum where the wave is, at a signal-to-noise ratio (B,) in decibels of their mean power."""
    inside = torch.arange(wave.size(1), device=wave.device) < length[:, None]
    noise = noise * inside
    energy, other = wave.square().sum(1), noise.square().sum(1)
    scale = (energy / other.clamp(min=1e-12) / 10 ** (ratio / 10)).sqrt()
    return wave + scale[:, None] * noise


def coloured_noise(key: Tensor, samples: int, colour: Tensor) -> Tensor:
    """key (B,), colour (B,) -> noise (B, N) whose amplitude falls with frequency to the power of colour: 0 is white, 1 brown."""
    white = random.normal(key, samples)
    spectrum = torch.fft.rfft(white)
    frequency = torch.arange(1, spectrum.size(1) + 1, device=key.device) / spectrum.size(1)
    found: Tensor = torch.fft.irfft(spectrum * torch.pow(frequency, -colour[:, None]), n=samples)
    return found
