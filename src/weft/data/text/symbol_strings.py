"""Strings of letters, and the same strings copied or reversed: a task whose difficulty is the length alone, and which needs no file."""

from __future__ import annotations

from dataclasses import dataclass
from string import ascii_lowercase
from typing import Literal

import numpy as np

from weft.core import random
from weft.core.errors import ConfigError
from weft.data.base import Problems
from weft.data.text.pairs import PairsConfig

Task = Literal["copy", "reverse"]


@dataclass(frozen=True, kw_only=True)
class SymbolStringsConfig(PairsConfig):
    file_source = "pairs"

    task: Task = "reverse"
    """What becomes of a string: the same, or its letters from the last to the first."""
    symbols: int = 10
    """How many letters there are, from a on."""
    shortest: int = 1
    """Letters of the shortest string."""
    longest: int = 12
    """Letters of the longest string; every length is as likely."""
    pairs: int = 20_000
    """How many strings are drawn."""
    seed: int = 0
    """Of the draw."""

    def _read(self, problems: Problems) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        if not 2 <= self.symbols <= len(ascii_lowercase):
            raise ConfigError(f"--data.symbols must be from 2 to {len(ascii_lowercase)}, not {self.symbols}")
        if not 1 <= self.shortest <= self.longest <= self.max_length:
            limits = f"--data.shortest {self.shortest}, --data.longest {self.longest} and --data.max-length {self.max_length}"
            raise ConfigError(f"lengths must be at least 1 and in order, not {limits}")
        if self.pairs < 2:
            raise ConfigError(f"--data.pairs must be at least 2, not {self.pairs}")
        generator = np.random.Generator(np.random.PCG64(random.seed_of(self.seed, "symbols")))
        lengths = generator.integers(self.shortest, self.longest + 1, self.pairs)
        made = [pair(self.task, strings(generator, self.symbols, length)) for length in lengths.tolist()]
        cut = max(1, int(len(made) * (1 - self.validation)))
        return made[:cut], made[cut:]


def strings(generator: np.random.Generator, symbols: int, length: int) -> str:
    """A string of letters, each as likely."""
    return "".join(ascii_lowercase[letter] for letter in generator.integers(0, symbols, length).tolist())


def pair(task: Task, source: str) -> tuple[str, str]:
    """A string and what the task makes of it."""
    return source, source if task == "copy" else source[::-1]
