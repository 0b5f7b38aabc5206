"""Another sample rate, or another speed, by a windowed sinc in polyphase form.

A wave of rate R becomes one of rate R U / D: U - 1 zeros behind each sample, a low pass below the lower half rate, every D-th sample.
The low pass is a sinc under a Kaiser window; in polyphase form it is U short filters, one for each position between two samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

ZEROS = 24
"""Zero crossings of the sinc on each side."""
ROLLOFF = 0.945
"""Cutoff as a share of the lower half rate; what lies between is the transition band."""
BETA = 8.6
"""Shape of the Kaiser window: 85 dB of what is above the half rate is taken away."""


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


@cache
def phases(ratio: Ratio) -> Tensor:
    """The filter of each of the `up` positions of a cycle (U, taps), float32. Sample j of a cycle lies at j D / U of the source, and its
    filter begins floor(j D / U) - reach + 1 samples from the start of the cycle."""
    cutoff = ROLLOFF * min(1.0, ratio.up / ratio.down)  # of the source's half rate
    half = ratio.reach
    position = np.arange(ratio.up) * ratio.down / ratio.up
    taps = np.arange(-half + 1, half + 1)[None] - (position - np.floor(position))[:, None]  # (U, taps), distance in source samples
    window = np.i0(BETA * np.sqrt(np.clip(1 - (taps * cutoff / ZEROS) ** 2, 0, None))) / np.i0(BETA)
    window[np.abs(taps * cutoff) > ZEROS] = 0
    table = cutoff * np.sinc(cutoff * taps) * window
    return torch.from_numpy((table / table.sum(1, keepdims=True)).astype(np.float32))


def resample(wave: Tensor, ratio: Ratio) -> Tensor:
    """wave (B, N), zero before and behind -> (B, ceil(N U / D))."""
    if ratio.up == ratio.down:
        return wave
    table, wanted, half = phases(ratio).to(wave), ratio.length(wave.size(1)), ratio.reach
    if ratio.up > 512:  # rates with hardly a factor in common: the filter of each sample by itself
        return _gathered(wave, ratio, table, wanted)
    cycles = -(-wanted // ratio.up)
    offset = [index * ratio.down // ratio.up for index in range(ratio.up)]
    reach = max(offset) + table.size(1)
    kernel = torch.stack([F.pad(row, (start, reach - start - len(row))) for row, start in zip(table, offset, strict=True)])
    padded = F.pad(wave, (half - 1, max(0, (cycles - 1) * ratio.down + reach - wave.size(1) - half + 1)))
    made = F.conv1d(padded[:, None], kernel[:, None], stride=ratio.down)[:, :, :cycles]  # (B, U, cycles)
    return made.mT.reshape(len(wave), -1)[:, :wanted]


def _gathered(wave: Tensor, ratio: Ratio, table: Tensor, wanted: int) -> Tensor:
    padded = F.pad(wave, (ratio.reach - 1, ratio.reach + 1))
    windows = padded.unfold(1, table.size(1), 1)  # (B, N + 1, taps), a view
    made = []
    for first in range(0, wanted, 1 << 16):
        index = torch.arange(first, min(wanted, first + (1 << 16)), device=wave.device)
        made.append((windows[:, index * ratio.down // ratio.up] * table[index % ratio.up]).sum(-1))
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
