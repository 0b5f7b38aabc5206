"""Mel frames of sound: the energy in bands that are as wide as the ear's, by Slaney's scale or HTK's, as librosa has them.

Shapes: B waves, N samples, T frames, M bands, K coefficients.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from weft.core.tensor_cache import cached

WINDOW, STEP = 0.025, 0.010
"""Seconds that a frame sees, and from one to the next."""
Scale = Literal["slaney", "htk"]
CPU = torch.device("cpu")
QUIETEST = 1e-10
"""Power below which nothing is told apart: -100 dB."""


def mel_frames(
    wave: Tensor,
    rate: int,
    mels: int = 40,
    window: int = 0,
    hop: int = 0,
    fft: int = 0,
    low: float = 0.0,
    high: float = 0.0,
    scale: Scale = "slaney",
    norm: bool = True,
) -> Tensor:
    """wave (B, N) -> the power in each band of each frame (B, T, M), the first one around the first sample; T = 1 + N // hop.

    window and hop in samples (0: 25 and 10 ms), fft at least the window (0: the window), low and high in Hz (0 and half the rate).
    """
    window, hop = window or round(WINDOW * rate), hop or round(STEP * rate)
    size = fft or window
    hann = torch.hann_window(window, device=wave.device)
    spectrum = torch.stft(wave, size, hop, window, hann, center=True, pad_mode="constant", return_complex=True)  # (B, F, T)
    power = spectrum.real.square() + spectrum.imag.square()
    return (filters(rate, size, mels, low, high, scale, norm, wave.device) @ power).mT


@cached
def filters(
    rate: int,
    size: int,
    mels: int,
    low: float = 0.0,
    high: float = 0.0,
    scale: Scale = "slaney",
    norm: bool = True,
    device: torch.device = CPU,
) -> Tensor:
    """Triangles over the frequencies of a window of so many samples (M, size // 2 + 1), each of area 1 or, without norm, of height 1."""
    mel, hertz = (mel_slaney, hertz_slaney) if scale == "slaney" else (mel_htk, hertz_htk)
    ends = hertz(torch.linspace(mel(low), mel(high or rate / 2), mels + 2, dtype=torch.float64))  # (M + 2,)
    frequency = torch.linspace(0, rate / 2, size // 2 + 1, dtype=torch.float64)
    left, middle, right = ends[:-2, None], ends[1:-1, None], ends[2:, None]
    rising, falling = (frequency - left) / (middle - left), (right - frequency) / (right - middle)
    triangles = torch.minimum(rising, falling).clamp(min=0)
    return (triangles * 2 / (right - left) if norm else triangles).float().to(device)


def mel_slaney(frequency: float) -> float:
    """Linear to 1000 Hz, logarithmic from there."""
    return frequency * 3 / 200 if frequency < 1000 else 15 + 27 * math.log(frequency / 1000) / math.log(6.4)


def hertz_slaney(mels: Tensor) -> Tensor:
    return torch.where(mels < 15, mels * 200 / 3, 1000 * torch.exp((mels - 15) * math.log(6.4) / 27))


def mel_htk(frequency: float) -> float:
    return 2595 * math.log10(1 + frequency / 700)


def hertz_htk(mels: Tensor) -> Tensor:
    return 700 * (10 ** (mels / 2595) - 1)


def decibels(power: Tensor, top: float = 80.0) -> Tensor:
    """power (B, T, M) -> 10 log10 of it, no more than `top` below the loudest value of each wave (0: no such limit)."""
    level = 10 * power.clamp(min=QUIETEST).log10()
    return level.maximum(level.amax((1, 2), keepdim=True) - top) if top else level


def cepstrum(level: Tensor, coefficients: int, lifter: int = 0) -> Tensor:
    """level (B, T, M) -> MFCC (B, T, K), its orthonormal DCT-II; a lifter L weighs coefficient k by 1 + L/2 sin(pi (k + 1) / L)."""
    found = (level.double() @ cosines(level.size(-1), coefficients, level.device)).float()  # the first is a sum of large numbers
    if not lifter:
        return found
    return found * (1 + lifter / 2 * torch.sin(math.pi * torch.arange(1, coefficients + 1, device=level.device) / lifter))


@cached
def cosines(mels: int, coefficients: int, device: torch.device) -> Tensor:
    """The first rows of the orthonormal DCT-II, transposed (M, K)."""
    place, order = torch.arange(mels, dtype=torch.float64)[:, None], torch.arange(coefficients, dtype=torch.float64)
    table = torch.cos(math.pi / mels * (place + 0.5) * order) * math.sqrt(2 / mels)
    table[:, 0] /= math.sqrt(2)
    return table.to(device)
