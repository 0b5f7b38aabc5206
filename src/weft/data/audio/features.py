"""What a model hears of a wave: log-mel frames or MFCC, on the device that the waves live on.

Shapes: B waves, N samples, T frames, M features of a frame.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from weft.core.config import Config
from weft.core.errors import ConfigError
from weft.data.audio.mel import Scale, cepstrum, decibels, mel_frames

Normalise = Literal["utterance", "mean", "none"]


@dataclass(frozen=True, kw_only=True)
class Features(Config):
    kind: Literal["log_mel", "mfcc"] = "log_mel"
    """log_mel: the power of mel bands in decibels; mfcc: their cosine transform."""
    mels: int = 40
    """Mel bands of a frame."""
    coefficients: int = 13
    """Coefficients of a frame of MFCC."""
    lifter: int = 0
    """Lifter of MFCC; 0 for none."""
    window: float = 0.025
    """Seconds that a frame sees."""
    hop: float = 0.010
    """Seconds from one frame to the next."""
    fft: int = 0
    """Samples of the Fourier transform, with zeros around the window; 0 is the window."""
    low: float = 0.0
    """Lowest frequency of the bands in Hz."""
    high: float = 0.0
    """Highest frequency of the bands in Hz; 0 is half the sample rate."""
    scale: Scale = "slaney"
    """Mel scale."""
    area: bool = True
    """Bands of area 1 (Slaney's norm); else of height 1, as in HTK."""
    dynamic_range: float = 80.0
    """Decibels below the loudest value of an utterance at which its levels are cut off; 0 for no cut."""
    normalise: Normalise = "utterance"
    """utterance: each feature has mean 0 and deviation 1 over the frames of its utterance; mean: mean 0 only; none: as they are."""

    @property
    def size(self) -> int:
        """Features M of a frame."""
        return self.mels if self.kind == "log_mel" else self.coefficients

    def check(self, rate: int) -> None:
        """Refuse what no frame can be made of at a sample rate."""
        if not 1 <= self.hop * rate <= 10 * rate or not 2 <= self.window * rate <= 10 * rate:
            raise ConfigError(f"--data.features.window and .hop are seconds, of at least a sample, not {self.window} and {self.hop}")
        window = round(self.window * rate)
        if self.fft and not window <= self.fft <= 1 << 20:
            raise ConfigError(f"--data.features.fft must hold a window of {window} samples, not {self.fft}")
        if not 0 <= self.low < (self.high or rate / 2) <= rate / 2:
            raise ConfigError(f"--data.features.low and .high lie between 0 and half the sample rate, not {self.low} and {self.high}")
        if not 1 <= self.coefficients <= self.mels <= 1000 and (self.kind == "mfcc" or not 1 <= self.mels <= 1000):
            raise ConfigError(f"--data.features.mels must be from 1 to 1000 and at least .coefficients, not {self.mels}")
        if not self.lifter >= 0 or not self.dynamic_range >= 0:
            raise ConfigError("--data.features.lifter and .dynamic-range must not be negative")

    def frames_of(self, samples: Tensor, rate: int) -> Tensor:
        """How many frames waves of so many samples (B,) have."""
        return samples // round(self.hop * rate) + 1

    def __call__(self, wave: Tensor, length: Tensor, rate: int) -> Tensor:
        """wave (B, N), whose rows have length (B,) samples and zeros behind them -> features (B, T, M), 0 behind the last frame of each."""
        window, hop = round(self.window * rate), round(self.hop * rate)
        power = mel_frames(wave, rate, self.mels, window, hop, self.fft, self.low, self.high, self.scale, self.area)
        frames = self.frames_of(length, rate)
        inside = torch.arange(power.size(1), device=wave.device) < frames[:, None]  # (B, T)
        power = power * inside[:, :, None]  # the last frame that reaches behind a wave sees zeros there, the next ones do not count
        found = decibels(power, self.dynamic_range)
        if self.kind == "mfcc":
            found = cepstrum(found, self.coefficients, self.lifter)
        return normalise(found, inside, self.normalise)


def normalise(found: Tensor, inside: Tensor, how: Normalise) -> Tensor:
    """found (B, T, M), normalised over the frames that are inside (B, T), and 0 outside."""
    mask = inside[:, :, None]
    if how != "none":
        number = inside.sum(1).clamp(min=1)[:, None, None]
        found = (found - (found * mask).sum(1, keepdim=True) / number) * mask
        if how == "utterance":
            found = found / (found.square().sum(1, keepdim=True) / number).sqrt().clamp(min=1e-3)
    return found * mask
