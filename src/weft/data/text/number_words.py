"""Numbers in digits and in English words: a small translation task that needs no file."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft.core import random
from weft.core.errors import ConfigError
from weft.data.base import Problems
from weft.data.text.pairs import PairsConfig

ONES = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def in_words(number: int) -> str:
    """12345 -> "twelve thousand three hundred forty-five"."""
    if number >= 1000:
        rest = f" {in_words(number % 1000)}" if number % 1000 else ""
        return f"{in_words(number // 1000)} thousand{rest}"
    if number >= 100:
        rest = f" {in_words(number % 100)}" if number % 100 else ""
        return f"{ONES[number // 100]} hundred{rest}"
    if number < 20:
        return ONES[number]
    return TENS[number // 10 - 2] + (f"-{ONES[number % 10]}" if number % 10 else "")


@dataclass(frozen=True, kw_only=True)
class NumberWordsConfig(PairsConfig):
    file_source = "pairs"

    max_length: int = 64
    """Longest text in tokens; longer ones are truncated."""
    limit: int = 1_000_000
    """Numbers are below this."""
    pairs: int = 20_000
    """How many are drawn, each as likely and none twice."""
    seed: int = 0
    """Of the draw."""

    def _read(self, problems: Problems) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        if not 2 <= self.pairs <= self.limit <= 1_000_000:
            raise ConfigError(f"--data.pairs must be from 2 to --data.limit, which is at most 1,000,000, not {self.pairs} and {self.limit}")
        drawn = random.permute(np.arange(self.pairs), self.limit, random.seed_of(self.seed, "numbers"))
        made = [(str(number), in_words(number)) for number in drawn.tolist()]
        cut = max(1, int(len(made) * (1 - self.validation)))
        return made[:cut], made[cut:]
