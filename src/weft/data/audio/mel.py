"""Mel frames of sound: the energy in bands that are as wide as the ear's (Slaney's scale, as librosa has it by default)."""

from __future__ import annotations

import math
from functools import cache

import torch
from torch import Tensor

WINDOW, STEP = 0.025, 0.010
"""Seconds that a frame sees, and from one to the next."""


def mel_frames(wave: Tensor, rate: int, mels: int = 40) -> Tensor:
    """wave (B, N) -> the power in each band of each frame (B, T, M), the first one around the first sample."""
    size = round(WINDOW * rate)
    spectrum = torch.stft(
        wave, size, round(STEP * rate), window=torch.hann_window(size), center=True, pad_mode="constant", return_complex=True
    )
    return (filters(rate, size, mels) @ spectrum.abs().square()).mT


@cache
def filters(rate: int, size: int, mels: int) -> Tensor:
    """Triangles over the frequencies of a window of so many samples (M, size // 2 + 1), each of area 1."""
    ends = hertz(torch.linspace(0, mel(rate / 2), mels + 2, dtype=torch.float64))  # (M + 2,)
    frequency = torch.linspace(0, rate / 2, size // 2 + 1, dtype=torch.float64)
    low, middle, high = ends[:-2, None], ends[1:-1, None], ends[2:, None]
    rising, falling = (frequency - low) / (middle - low), (high - frequency) / (high - middle)
    return (torch.minimum(rising, falling).clamp(min=0) * 2 / (high - low)).float()


def mel(frequency: float) -> float:
    """Linear to 1000 Hz, logarithmic from there."""
    return frequency * 3 / 200 if frequency < 1000 else 15 + 27 * math.log(frequency / 1000) / math.log(6.4)


def hertz(mels: Tensor) -> Tensor:
    return torch.where(mels < 15, mels * 200 / 3, 1000 * torch.exp((mels - 15) * math.log(6.4) / 27))
