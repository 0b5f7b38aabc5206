"""Sound files of your own as waves of one rate and length.

The class of a file is the subfolder it lies in; where there are not at least two of those, it is what its name says before
the first "_" (7_theo_32.wav is a 7), and a file that says nothing is unlabelled.

Batch: wave (B, N) float32 in [-1, 1], followed by zeros where the sound is shorter; length (B,) int64, its samples;
label (B,) int64, UNLABELLED where not known.
"""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from weft.core.errors import ConfigError, DataError, require
from weft.data.base import UNLABELLED, Data, DataConfig, Dataset, Problems, TensorDataset
from weft.data.io.files import locate, reason, show, walk
from weft.data.split import check_share, hold_out, note_single_class, number_classes
from weft.data.tokenizers.base import ClassNames, Tokenizer

SUFFIXES = (".wav", ".flac", ".ogg")
SHORT = re.compile(r"^data : (\d+) \(should be (\d+)\)", re.MULTILINE)
"""How libsndfile notes a WAV file that has less than it says; it reads what is there, without an error."""
UNKNOWN = 0x7FFF0000
"""Bytes from which a WAV file does not mean it: it was written to a pipe, before its length was known."""


@dataclass(frozen=True, kw_only=True)
class WavesConfig(DataConfig):
    path: str = ""
    """A folder of WAV, FLAC or OGG files."""
    validation_path: str = ""
    """A folder to validate on; by default a share of `path`."""
    rate: int = 16000
    """Samples per second; files of another rate are resampled."""
    seconds: float = 1.0
    """Length of an example: longer sounds are cut, shorter ones followed by silence."""
    validation: float = 0.1
    """Share of the files kept for validation where no validation_path is given; 0 for no validation."""

    def build(self) -> Data:
        return self.build_with(None)

    def build_with(self, tokenizer: Tokenizer | None) -> Data:
        check_share(self.validation)
        if self.rate < 1 or not 1 <= self.rate * self.seconds < 1e9:
            raise ConfigError(f"--data.rate and --data.seconds must make at least one sample, not {self.rate} and {self.seconds}")
        problems = Problems()
        train = held = self._read(self.path, problems, tokenizer.names if isinstance(tokenizer, ClassNames) else None)
        if self.validation_path not in ("", self.path):
            held = self._read(self.validation_path, problems, train.names)
        elif not self.validation_path:
            train, held = (train.select(part) for part in hold_out(train.labels, self.validation, problems))
        note_single_class(train.names, problems)
        info = {
            "samples": round(self.rate * self.seconds),
            "rate": self.rate,
            "classes": len(train.names),
            "class_names": train.names,
            "training_examples": len(train.waves),
            "validation_examples": len(held.waves),
        }
        return Data(self._dataset(train), self._dataset(held) if held.waves else None, info, ClassNames(train.names), problems)

    def _read(self, path: str, problems: Problems, names: list[str] | None) -> Sounds:
        """The files of a folder that can be read, their classes numbered as in `names` where it is given."""
        folder = locate(path)
        if not folder.is_dir():
            raise DataError(f"{show(folder)}: is a file; sounds are read from a folder, name it with --data.path")
        files = walk(folder, SUFFIXES, problems)
        if not files:
            raise DataError(f"{show(folder)}: the folder holds no sound file ({', '.join(SUFFIXES)})")
        library = require("soundfile", "audio")
        with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
            results = list(pool.map(partial(open_wave, library=library, rate=self.rate, seconds=self.seconds), files))
        for file, result in zip(files, results, strict=True):
            if isinstance(result, str):
                problems.add("sound files that cannot be read", f"{show(file)} ({result})")
        files = [file for file, result in zip(files, results, strict=True) if not isinstance(result, str)]
        if not files:
            raise DataError(f"{show(folder)}: none of its {len(results)} sound files can be read; are they damaged?")
        labels, own = classes_of(files, folder)
        waves = [result for result in results if not isinstance(result, str)]
        return Sounds(waves, labels, own) if names is None else Sounds(waves, renumber(labels, own, names, files, problems), names)

    def _dataset(self, sounds: Sounds) -> Dataset:
        table = torch.zeros(len(sounds.waves), round(self.rate * self.seconds))
        for row, wave in zip(table, sounds.waves, strict=True):
            row[: len(wave)] = torch.from_numpy(wave)
        lengths = torch.tensor([len(wave) for wave in sounds.waves], dtype=torch.int64)
        return TensorDataset({"wave": table, "length": lengths, "label": torch.from_numpy(sounds.labels)})


@dataclass
class Sounds:
    """Waves of different lengths, labels (N,) as int64, and the names of the classes."""

    waves: list[np.ndarray]
    labels: np.ndarray
    names: list[str]

    def select(self, part: np.ndarray) -> Sounds:
        return Sounds([self.waves[i] for i in part], self.labels[part], self.names)


def open_wave(file: Path, library: Any, rate: int, seconds: float) -> np.ndarray | str:
    """The beginning of a sound as float32 (at most rate * seconds,), its channels averaged; or what is wrong with the file."""
    try:
        with library.SoundFile(file) as sound, np.errstate(all="ignore"):
            found, short = sound.samplerate, SHORT.search(sound.extra_info)
            heard = sound.read(int(found * seconds) + found // rate + 2, dtype="float32", always_2d=True)
            wave = resample(heard.mean(axis=1), found, rate)[: round(rate * seconds)].clip(-1.0, 1.0)
    except Exception as error:  # decoders raise whatever they please
        return reason(error)
    if short and int(short[1]) < UNKNOWN:
        return f"it ends after {int(short[2]):,} of its {int(short[1]):,} bytes of sound"
    if not len(wave):
        return "it holds no samples"
    if np.isnan(wave).any():
        return "it holds samples that are not numbers"
    return np.asarray(wave)


def resample(wave: np.ndarray, found: int, rate: int) -> np.ndarray:
    """Averages of as many whole samples as fit into one of the new rate, then linear interpolation for what remains."""
    whole = max(1, found // rate)
    wave = np.asarray(wave[: len(wave) // whole * whole].reshape(-1, whole).mean(axis=1))
    if found == whole * rate or not len(wave):
        return wave
    places = np.arange(int(len(wave) * whole * rate / found)) * (found / whole / rate)
    return np.asarray(np.interp(places, np.arange(len(wave)), wave), dtype=np.float32)


def classes_of(files: list[Path], folder: Path) -> tuple[np.ndarray, list[str]]:
    """Class numbers (N,) and names, from subfolders or from the beginnings of file names."""
    below = [show(file.relative_to(folder).parts[0]) if file.parent != folder else "" for file in files]
    if len(set(below) - {""}) < 2:
        below = [show(file.stem.partition("_")[0]) if "_" in file.stem else "" for file in files]
    known = [name for name in below if name]
    numbers, names = number_classes(known)
    labels = np.full(len(files), UNLABELLED, dtype=np.int64)
    labels[[bool(name) for name in below]] = numbers
    return labels, names


def renumber(labels: np.ndarray, names: list[str], wanted: list[str], files: list[Path], problems: Problems) -> np.ndarray:
    """Labels by the numbers that the names have in `wanted`; a class it does not have is counted and becomes UNLABELLED."""
    table = np.array([*(wanted.index(name) if name in wanted else UNLABELLED for name in names), UNLABELLED], dtype=np.int64)
    numbers: np.ndarray = table[labels]
    for position in np.flatnonzero((numbers == UNLABELLED) & (labels != UNLABELLED)).tolist():
        problems.add("files of a class that the model does not know, taken as unlabelled", show(files[position]))
    return numbers
