"""Another sample rate, or another speed, by a windowed sinc in polyphase form.

A wave of rate R becomes one of rate R U / D: U - 1 zeros behind each sample, a low pass below the lower half rate, every D-th sample.
The low pass is a sinc under a Kaiser window; in polyphase form it is U short filters, one for each position between two samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

ZEROS = 24
"""Zero crossings of the sinc on each side."""
ROLLOFF = 0.945
"""Cutoff as a share of the lower half rate; what lies between is the transition band."""
BETA = 8.6
"""Shape of the Kaiser window: 85 dB of what is above the half rate is taken away."""
MOST_TAPS = 1 << 20
"""Numbers of the filters that are held at once."""


@dataclass(frozen=True)
class Ratio:
    """The factor up / down, in lowest terms."""

    up: int
    down: int

    def length(self, samples: int) -> int:
        """Samples of what becomes of a wave of so many."""
        return -(-samples * self.up // self.down)

    @property
    def reach(self) -> int:
        """Samples of the source to each side that a sample is made of."""
        return math.ceil(ZEROS * max(self.up, self.down) / (self.up * ROLLOFF))


def rate_ratio(source_rate: int, rate: int) -> Ratio:
    factor = math.gcd(source_rate, rate)
    return Ratio(rate // factor, source_rate // factor)


def speed_ratio(speed: float) -> Ratio:
    """Spoken so many times as fast, a wave has 1 / speed times as many samples."""
    found = 1 / Fraction(speed).limit_denominator(100)
    return Ratio(found.numerator, found.denominator)


def taps_at(ratio: Ratio, position: Tensor) -> Tensor:
    """The filters of samples that lie at positions (K,) from 0 to 1 behind a sample of the source (K, taps), float64. The first of the taps
    is reach - 1 samples before that sample."""
    cutoff = ROLLOFF * min(1.0, ratio.up / ratio.down)  # of the source's half rate
    place = torch.arange(-ratio.reach + 1, ratio.reach + 1, dtype=torch.float64, device=position.device) - position[:, None]
    window = torch.special.i0(BETA * (1 - (place * cutoff / ZEROS).square()).clamp(min=0).sqrt())
    found: Tensor = torch.sinc(cutoff * place) * window.masked_fill((place * cutoff).abs() > ZEROS, 0.0)
    return found / found.sum(1, keepdim=True)


@lru_cache(maxsize=32)
def kernel_of(ratio: Ratio, device: torch.device) -> Tensor:
    """The filters of the U samples of a cycle, each where it begins (U, reach of all)."""
    number = torch.arange(ratio.up)
    table = taps_at(ratio, (number * ratio.down % ratio.up).double() / ratio.up)
    offset = (number * ratio.down // ratio.up).tolist()
    reach = offset[-1] + table.size(1)
    return torch.stack([F.pad(row, (start, reach - start - len(row))) for row, start in zip(table, offset, strict=True)]).float().to(device)


def resample(wave: Tensor, ratio: Ratio) -> Tensor:
    """wave (B, N), zero before and behind -> (B, ceil(N U / D))."""
    if ratio.up == ratio.down:
        return wave
    wanted, half = ratio.length(wave.size(1)), ratio.reach
    if ratio.up * (ratio.down + 2 * half) > MOST_TAPS:  # rates with hardly a factor in common
        return _sample_by_sample(wave, ratio, wanted)
    kernel = kernel_of(ratio, wave.device)
    cycles, reach = -(-wanted // ratio.up), kernel.size(1)
    padded = F.pad(wave, (half - 1, max(0, (cycles - 1) * ratio.down + reach - wave.size(1) - half + 1)))
    made = F.conv1d(padded[:, None], kernel[:, None], stride=ratio.down)[:, :, :cycles]  # (B, U, cycles)
    return made.mT.reshape(len(wave), -1)[:, :wanted]


def _sample_by_sample(wave: Tensor, ratio: Ratio, wanted: int) -> Tensor:
    """The same, with a filter for each sample by itself, some samples at a time."""
    padded = F.pad(wave, (ratio.reach - 1, ratio.reach + 1))
    windows = padded.unfold(1, 2 * ratio.reach, 1)  # (B, N + 1, taps), a view
    made, step = [], max(1, MOST_TAPS // (2 * ratio.reach))
    for first in range(0, wanted, step):
        number = torch.arange(first, min(wanted, first + step), device=wave.device) * ratio.down
        table = taps_at(ratio, (number % ratio.up).double() / ratio.up).to(wave.dtype)
        made.append((windows[:, number // ratio.up] * table).sum(-1))
    return torch.cat(made, 1) if made else wave[:, :0]


def change_speed(wave: Tensor, length: Tensor, speeds: tuple[float, ...], chosen: Tensor) -> tuple[Tensor, Tensor]:
    """wave (B, N), length (B,), chosen (B,) which of the speeds each gets -> waves as wide as the slowest needs, and their lengths."""
    ratios = [speed_ratio(speed) for speed in speeds]
    width = max(ratio.length(wave.size(1)) for ratio in ratios)
    found, lengths = wave.new_zeros(len(wave), width), length
    for number, ratio in enumerate(ratios):
        mine = chosen == number
        own = resample(wave, ratio)
        found = torch.where(mine[:, None], F.pad(own, (0, width - own.size(1))), found)
        lengths = torch.where(mine, -(-length * ratio.up // ratio.down), lengths)
    inside = torch.arange(width, device=wave.device) < lengths[:, None]  # the filter rings a little behind the end
    return found * inside, lengths
