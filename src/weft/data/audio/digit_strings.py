"""Strings of digits, put together from recordings of single ones of the same speaker, with gaps and noise between.

String i is a function of the seed and i: its speaker, its digits, which take of each, the gaps. Waves are put together when they are
asked for, so that there may be many more strings than fit into memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from weft.core import random
from weft.core.config import Config
from weft.core.errors import ConfigError, DataError
from weft.data.audio.augment import mix
from weft.data.audio.phones import LANGUAGES, digits_in_words
from weft.data.text.ragged import Ragged

Language = Literal["en", "de", "zh"]


@dataclass(frozen=True, kw_only=True)
class DigitStrings(Config):
    number: int = 0
    """Strings to train on that are put together from recordings of single digits, a tenth as many to validate on; 0 leaves them single."""
    shortest: int = 3
    """Digits of the shortest string."""
    longest: int = 8
    """Digits of the longest string; every length is as likely."""
    gap: float = 0.3
    """Longest silence between two digits, in seconds; every one from 0 on is as likely."""
    noise: tuple[float, ...] = (10.0, 20.0)
    """Lowest and highest signal-to-noise ratio of a string in decibels; empty for no noise."""
    language: Language = "en"
    """Words that a string is written in: English, German or Chinese ones."""
    seed: int = 0
    """Of the strings."""

    def check(self) -> None:
        if self.number < 0 or not 1 <= self.shortest <= self.longest <= 100:
            raise ConfigError(
                f"--data.strings.number must not be negative, and .shortest and .longest lie from 1 to 100, not {self.number}, "
                f"{self.shortest} and {self.longest}"
            )
        if not 0 <= self.gap <= 10:
            raise ConfigError(f"--data.strings.gap is from 0 to 10 seconds, not {self.gap}")
        if self.noise and not (len(self.noise) == 2 and -60 <= self.noise[0] <= self.noise[1] <= 120):
            raise ConfigError(f"--data.strings.noise is two ratios in decibels, the lower first, such as 10,20, not {self.noise}")


class StringWaves:
    """Waves of strings: which clips (N, P), -1 where a string has fewer, and samples of silence before each and behind all (N, P + 1)."""

    def __init__(self, clips: Ragged, chosen: Tensor, gaps: Tensor, ratio: Tensor | None, seed: int):
        self.clips, self.chosen, self.gaps, self.ratio, self.seed = clips, chosen, gaps, ratio, seed
        self.lengths = clips.sizes[chosen.clamp(min=0)].masked_fill(chosen < 0, 0)  # (N, P)
        self.sizes = self.lengths.sum(1) + gaps.sum(1)
        self.longest = int(self.sizes.max())

    def rows(self, index: Tensor) -> Tensor:
        """index (B,) -> (B, longest)."""
        chosen, gaps, lengths = (part.index_select(0, index) for part in (self.chosen, self.gaps, self.lengths))
        start = gaps[:, :-1].cumsum(1) + lengths.cumsum(1) - lengths  # (B, P)
        wave = torch.zeros(len(index), self.longest + self.clips.longest, device=index.device)
        place = torch.arange(self.clips.longest, device=index.device)
        for number in range(chosen.size(1)):
            clip = self.clips.rows(chosen[:, number].clamp(min=0)).masked_fill(chosen[:, number, None] < 0, 0.0)
            wave.scatter_add_(1, start[:, number, None] + place, clip)
        wave = wave[:, : self.longest]
        if self.ratio is None:
            return wave
        noise = random.normal(random.keys(random.seed_of(self.seed, "string noise"), index), self.longest)
        return mix(wave, noise, self.sizes.index_select(0, index), self.ratio.index_select(0, index))

    def to(self, device: torch.device) -> StringWaves:
        ratio = None if self.ratio is None else self.ratio.to(device)
        return StringWaves(self.clips.to(device), self.chosen.to(device), self.gaps.to(device), ratio, self.seed)


def compose(
    clips: Ragged, digit: Tensor, speaker: Tensor, number: int, settings: DigitStrings, rate: int, purpose: str
) -> tuple[StringWaves, list[list[int]], Tensor]:
    """Clips with the digit and the speaker of each (C,) -> strings, their digits, and the speaker of each (N,)."""
    key = random.keys(random.seed_of(settings.seed, "strings", purpose), torch.arange(number))
    speakers = torch.tensor(sorted(set(speaker.tolist())))
    table, takes = _takes(digit, speaker, speakers)
    who = random.integers(random.fold(key, "speaker"), len(speakers))  # (N,)
    sizes = settings.shortest + random.integers(random.fold(key, "length"), settings.longest - settings.shortest + 1)
    place = torch.arange(settings.longest)
    inside = place < sizes[:, None]  # (N, P)
    digits = random.integers(random.fold(key, "digits"), 10, settings.longest)
    pool = takes[who[:, None], digits]  # (N, P)
    if (pool[inside] == 0).any():
        missing = sorted({int(each) for each in digits[inside & (pool == 0)]})
        raise DataError(
            f"a string is of one speaker, and not every speaker has said {', '.join(map(str, missing))}; set --data.strings.number 0"
        )
    take = random.bits(random.fold(key, "take"), settings.longest).remainder(pool.clamp(min=1))
    chosen = table[who[:, None], digits, take].masked_fill(~inside, -1)
    gaps = (random.uniform(random.fold(key, "gaps"), settings.longest + 1) * settings.gap * rate).round().long()
    gaps = gaps * torch.cat((torch.ones(number, 1, dtype=torch.bool), inside), 1)  # before the first and behind each
    ratio = None
    if settings.noise:
        low, high = settings.noise
        ratio = low + (high - low) * random.uniform(random.fold(key, "noise"))
    waves = StringWaves(clips, chosen, gaps, ratio, random.seed_of(settings.seed, purpose))
    lists = [row[:size] for row, size in zip(digits.tolist(), sizes.tolist(), strict=True)]
    return waves, lists, speakers[who]


def _takes(digit: Tensor, speaker: Tensor, speakers: Tensor) -> tuple[Tensor, Tensor]:
    """The clips of each digit of each speaker (S, 10, most), and how many there are (S, 10)."""
    groups = [[((speaker == who) & (digit == each)).nonzero().flatten() for each in range(10)] for who in speakers.tolist()]
    takes = torch.tensor([[len(group) for group in row] for row in groups])
    table = torch.zeros(len(groups), 10, max(1, int(takes.max())), dtype=torch.int64)
    for who, row in enumerate(groups):
        for each, group in enumerate(row):
            table[who, each, : len(group)] = group
    return table, takes


def words_of(strings: list[list[int]], language: Language) -> list[str]:
    return [digits_in_words(digits, language) for digits in strings]


def digit_of(word: str) -> int | None:
    """7 of "7", "seven" or "Seven."; None where a text is no digit."""
    bare = word.strip().strip(".,!?").lower()
    if bare in {str(number) for number in range(10)}:
        return int(bare)
    return next((words.index(bare) for words in LANGUAGES.values() if bare in words), None)
