"""Waves of utterances: in memory where they fit, else read from their files whenever they are asked for."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from weft.core.errors import DataError
from weft.data.audio.manifest import Utterance
from weft.data.audio.resampling import rate_ratio
from weft.data.audio.sound_files import open_sound, read_sound
from weft.data.base import UNLABELLED, Problems
from weft.data.io.files import reason
from weft.data.text.ragged import Ragged

WORKERS = min(8, os.cpu_count() or 1)
Loaded = tuple["Ragged | FileWaves", list[Utterance]]


class FileWaves:
    """Waves that are read from their files. They stay on the host."""

    def __init__(self, utterances: list[Utterance], sizes: Tensor, rate: int):
        self.utterances, self.sizes, self.rate = utterances, sizes, rate
        self.longest = max(1, int(sizes.max())) if len(sizes) else 1

    def rows(self, index: Tensor) -> Tensor:
        chosen = index.tolist()
        wave = torch.zeros(len(chosen), self.longest)
        with ThreadPoolExecutor(WORKERS) as pool:
            for row, number, found in zip(wave, chosen, pool.map(self._read, chosen), strict=True):
                if isinstance(found, str):
                    raise DataError(f"{self.utterances[number].name}: {found}; it could be read when training began")
                size = min(len(found), int(self.sizes[number]))
                row[:size] = torch.from_numpy(found[:size])
        return wave

    def _read(self, number: int) -> np.ndarray | str:
        each = self.utterances[number]
        return read_sound(each.place, self.rate, each.start, int(self.sizes[number]) / self.rate, each.name)

    def to(self, device: torch.device) -> FileWaves:
        return self


def samples_of(each: Utterance, rate: int) -> int | str:
    """How many samples an utterance has by its header, at a sample rate; or why it cannot be read."""
    try:
        with open_sound(each.place, each.name) as sound:
            rest = max(0, sound.samples - round(each.start * sound.rate))
            count = min(rest, round(each.seconds * sound.rate)) if each.seconds else rest
            if count:
                sound.read(sound.samples - 1, 1)  # a header that says too much is found out
            return rate_ratio(sound.rate, rate).length(count)
    except DataError:
        raise
    except Exception as error:  # decoders raise many kinds of exceptions
        return reason(error)


def load(utterances: list[Utterance], rate: int, longest: float, memory: float, problems: Problems) -> Loaded:
    """Waves of the utterances that can be read and last at most `longest` seconds, and these utterances; more than `memory` gigabytes
    of waves stay in their files."""
    with ThreadPoolExecutor(WORKERS) as pool:
        sizes = list(pool.map(partial(samples_of, rate=rate), utterances))
        kept = [each for each, size in zip(utterances, sizes, strict=True) if _usable(each, size, rate, longest, problems)]
        known = [size for size in sizes if isinstance(size, int) and 0 < size <= longest * rate]
        if 4 * sum(known) > memory * 1e9 and all(isinstance(each.place, Path) for each in kept):
            return FileWaves(kept, torch.tensor(known, dtype=torch.int64), rate), kept
        waves = list(pool.map(partial(_read, rate=rate, longest=longest), kept))
    good = [(each, wave) for each, wave in zip(kept, waves, strict=True) if not isinstance(wave, str)]
    for each, wave in zip(kept, waves, strict=True):
        if isinstance(wave, str):
            problems.add("sound files that cannot be read", f"{each.name} ({wave})")
    return ragged([wave for _, wave in good]), [each for each, _ in good]


def _usable(each: Utterance, size: int | str, rate: int, longest: float, problems: Problems) -> bool:
    if isinstance(size, str):
        problems.add("sound files that cannot be read", f"{each.name} ({size})")
    elif not size:
        problems.add("sounds that end before they begin, left out", each.name)
    elif size > longest * rate:
        problems.add(f"sounds longer than {longest:g} seconds, left out", f"{each.name} ({size / rate:,.0f} s)")
    else:
        return True
    return False


def _read(each: Utterance, rate: int, longest: float) -> np.ndarray | str:
    return read_sound(each.place, rate, each.start, min(each.seconds or longest, longest), each.name)


def ragged(waves: list[np.ndarray]) -> Ragged:
    sizes = torch.tensor([len(wave) for wave in waves], dtype=torch.int64)
    return Ragged(torch.from_numpy(np.concatenate(waves)) if waves else torch.zeros(0), sizes, fill=0.0)


def numbered_speakers(utterances: list[Utterance]) -> tuple[Tensor, list[str]]:
    """The number of each one's speaker (N,), UNLABELLED where it is not known, and their names."""
    names = sorted({each.speaker for each in utterances if each.speaker})
    index = {name: number for number, name in enumerate(names)}
    return torch.tensor([index.get(each.speaker, UNLABELLED) for each in utterances], dtype=torch.int64), names
