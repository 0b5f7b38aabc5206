"""Spoken digits of made-up voices, by the formant synthesiser: what a recipe of sound learns from where no path is given."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from weft.core import random
from weft.core.config import Config
from weft.core.errors import ConfigError
from weft.data.audio.formants import make_voices, speak
from weft.data.text.ragged import Ragged


@dataclass(frozen=True, kw_only=True)
class SpokenDigits(Config):
    voices: int = 16
    """Voices that are made up where no path is given; the last ones are heard in validation only."""
    takes: int = 4
    """How often each of them says each digit."""
    beside: bool = False
    """Make them up beside the sounds of a path, too, to train on."""
    seed: int = 0
    """Of the voices and the takes."""

    def check(self) -> None:
        if not 2 <= self.voices <= 10_000 or not 1 <= self.takes <= 10_000:
            raise ConfigError(f"--data.made-up.voices is from 2 to 10,000 and .takes from 1, not {self.voices} and {self.takes}")


@lru_cache(maxsize=2)
def spoken(made: SpokenDigits, rate: int) -> tuple[Ragged, Tensor, Tensor]:
    """The clips of all voices (C,), with the digit and the voice of each."""
    number = torch.arange(made.voices * made.takes * 10)
    voice, digit = number // (10 * made.takes), number % 10
    voices, key = make_voices(made.seed, made.voices), random.keys(random.seed_of(made.seed, "takes"), number)
    waves, sizes = [], []
    for part in torch.split(number, 64):
        wave, length = speak(voices, voice[part], digit[part], key[part], rate)
        waves += [row[:size] for row, size in zip(wave, length.tolist(), strict=True)]
        sizes.append(length)
    return Ragged(torch.cat(waves), torch.cat(sizes), fill=0.0), digit, voice
