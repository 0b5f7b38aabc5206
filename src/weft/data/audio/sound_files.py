"""Sound files, a stretch at a time, as mono waves of one sample rate: WAV by weft itself, FLAC, OGG, Opus and MP3 by libsndfile.

However long a file is or says it is, memory holds what was asked for. What is wrong with a file is a ValueError or an OSError whose message
goes on from the file's name.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
import torch

from weft.core import untrusted
from weft.core.errors import DataError, require
from weft.data.audio.resampling import rate_ratio, resample
from weft.data.audio.wav import WavFile
from weft.data.io.files import reason, show

SUFFIXES = (".wav", ".flac", ".ogg", ".opus", ".mp3")
RATES = (100, 1_000_000)
"""Lowest and highest sample rate of a file."""
MOST_CHANNELS = 64
STRETCH = 1 << 20
"""Samples of all channels that are decoded at once."""


class Sound(Protocol):
    """An open sound. samples: how many its header says, of each channel."""

    rate: int
    channels: int
    samples: int

    def read(self, first: int, count: int) -> np.ndarray:
        """Samples from `first` on, at most `count` (samples, channels)."""
        ...


class LibraryFile:
    """A sound that libsndfile decodes."""

    def __init__(self, library: Any, file: BinaryIO):
        self.sound = library.SoundFile(file)
        self.rate, self.channels, self.samples = self.sound.samplerate, self.sound.channels, len(self.sound)
        self.at = 0

    def read(self, first: int, count: int) -> np.ndarray:
        count = max(0, min(count, self.samples - first))
        if first != self.at:
            self.sound.seek(first)
        found: np.ndarray = self.sound.read(count, dtype="float32", always_2d=True)
        self.at = first + len(found)
        if len(found) < count:
            raise ValueError(f"it ends after {self.at:,} of its {self.samples:,} samples")
        return found


@contextmanager
def open_sound(place: Path | bytes, name: str = "") -> Iterator[Sound]:
    """A file, or the content of one, whose header has been checked."""
    suffix = (place.suffix if isinstance(place, Path) else Path(name).suffix).lower()
    with untrusted.open_regular(place) if isinstance(place, Path) else BytesIO(place) as file:
        sound: Sound = WavFile(file) if suffix == ".wav" else _decoded(file)
        if not RATES[0] <= sound.rate <= RATES[1]:
            raise ValueError(f"its header says {sound.rate:,} samples a second, and {RATES[0]} to {RATES[1]:,} are accepted")
        if not 1 <= sound.channels <= MOST_CHANNELS:
            raise ValueError(f"its header says {sound.channels:,} channels, and at most {MOST_CHANNELS} are accepted")
        if not sound.samples:
            raise ValueError("it holds no samples")
        yield sound


def _decoded(file: BinaryIO) -> LibraryFile:
    library = require("soundfile", "audio")
    try:
        return LibraryFile(library, file)
    except library.LibsndfileError as error:
        raise ValueError(f"it is no sound that libsndfile reads ({reason(error.error_string)})") from error  # type: ignore[arg-type]


def mono(sound: Sound, first: int, count: int) -> np.ndarray:
    """Samples from `first` on, at most `count`, as the mean of the channels in [-1, 1] (samples,); NaN is a ValueError."""
    made, step = [], max(1, STRETCH // sound.channels)
    for start in range(first, min(first + count, sound.samples), step):
        part = sound.read(start, min(step, first + count - start))
        if np.isnan(part).any():
            raise ValueError("it holds samples that are not numbers")
        made.append(part.clip(-1.0, 1.0).mean(axis=1, dtype=np.float32))
    return np.concatenate(made) if made else np.zeros(0, np.float32)


def stretch(sound: Sound, rate: int, start: float = 0.0, seconds: float = 0.0) -> np.ndarray:
    """What lies from `start` on, at most so many seconds (0: to the end), at another sample rate."""
    first = min(round(start * sound.rate), sound.samples)
    count = min(sound.samples - first, -(-round(seconds * rate) * sound.rate // rate) + 1 if seconds else sound.samples)
    made = resample(torch.from_numpy(mono(sound, first, count))[None], rate_ratio(sound.rate, rate))[0].numpy()
    return made[: round(seconds * rate)] if seconds else made


def read_sound(place: Path | bytes, rate: int, start: float = 0.0, seconds: float = 0.0, name: str = "") -> np.ndarray | str:
    """A file or a part of it as a mono wave (N,), or why it cannot be read."""
    try:
        with open_sound(place, name) as sound:
            wave = stretch(sound, rate, start, seconds)
    except DataError:
        raise
    except Exception as error:  # decoders raise many kinds of exceptions
        return reason(error)
    return wave if len(wave) else "it holds no samples"


def blocks(path: Path, rate: int, seconds: float = 10.0) -> Iterator[np.ndarray]:
    """A whole file as one wave at a sample rate, in pieces of about so many seconds, however long it is: memory holds one of them.

    The pieces one after the other are, to the last bit but for how sums are added up, what `read_sound` gives of the whole.
    """
    with untrusted.parsing(show(path), DataError, ": cannot be read"), open_sound(path) as sound:
        ratio = rate_ratio(sound.rate, rate)
        margin = -(-(ratio.reach + 1) // ratio.down) * ratio.down
        size = max(1, round(seconds * sound.rate / ratio.down)) * ratio.down
        for first in range(0, sound.samples, size):
            before = min(margin, first)
            part = mono(sound, first - before, before + size + margin)
            made = resample(torch.from_numpy(part)[None], ratio)[0].numpy()
            skip = before // ratio.down * ratio.up
            own = min(size, sound.samples - first)
            yield made[skip : skip + ratio.length(own)]
