"""Sound files as waveforms of one sample rate and length.

The class of a file is its subfolder; where there are fewer than two subfolders, it is the file name up to
the first "_" (7_theo_32.wav is a 7), and a file without one is unlabelled.

Batch: wave (B, N) float32 in [-1, 1], followed by zeros where the sound is shorter; length (B,) int64, its samples;
label (B,) int64, UNLABELLED where not known.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch

from weft.core.errors import ConfigError, DataError
from weft.data.audio.sound_files import SUFFIXES, read_sound
from weft.data.base import UNLABELLED, Data, DataConfig, Dataset, Problems, TensorDataset
from weft.data.io.files import locate, show, walk
from weft.data.split import check_share, hold_out, number_classes
from weft.data.tokenizers.base import ClassNames, Tokenizer


@dataclass(frozen=True, kw_only=True)
class AudioConfig(DataConfig):
    path: str = ""
    """A folder of WAV, FLAC, OGG, Opus or MP3 files."""
    validation_path: str = ""
    """A folder to validate on; by default a share of `path`."""
    sample_rate: int = 16000
    """Samples per second; files of another rate are resampled."""
    seconds: float = 1.0
    """Length of an example: longer sounds are cut, shorter ones followed by silence."""
    validation: float = 0.1
    """Share of the files held out for validation where no validation_path is given; 0 for no validation."""

    def build(self) -> Data:
        return self.build_with(None)

    def build_with(self, tokenizer: Tokenizer | None) -> Data:
        check_share(self.validation)
        if self.sample_rate < 1 or not 1 <= self.sample_rate * self.seconds < 1e9:
            raise ConfigError(
                f"--data.sample_rate and --data.seconds must make at least one sample, not {self.sample_rate} and {self.seconds}"
            )
        problems = Problems()
        train = validation = self._read(self.path, problems, tokenizer.names if isinstance(tokenizer, ClassNames) else None)
        if self.validation_path not in ("", self.path):
            validation = self._read(self.validation_path, problems, train.names)
        elif not self.validation_path:
            train, validation = (train.select(part) for part in hold_out(train.labels, self.validation, problems))
        info = {
            "samples": round(self.sample_rate * self.seconds),
            "sample_rate": self.sample_rate,
            "classes": len(train.names),
            "class_names": train.names,
            "training_examples": len(train.waves),
            "validation_examples": len(validation.waves),
        }
        return Data(self._dataset(train), self._dataset(validation) if validation.waves else None, info, ClassNames(train.names), problems)

    def _read(self, path: str, problems: Problems, names: list[str] | None) -> Recordings:
        """The readable files of a folder, their classes numbered as in `names` where given."""
        folder = locate(path)
        if not folder.is_dir():
            raise DataError(f"{show(folder)}: is a file; sounds are read from a folder, name it with --data.path")
        files = walk(folder, SUFFIXES, problems)
        if not files:
            raise DataError(f"{show(folder)}: the folder holds no sound file ({', '.join(SUFFIXES)})")
        with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
            results = list(pool.map(partial(read_sound, rate=self.sample_rate, seconds=self.seconds), files))
        for file, result in zip(files, results, strict=True):
            if isinstance(result, str):
                problems.add("sound files that cannot be read", f"{show(file)} ({result})")
        files = [file for file, result in zip(files, results, strict=True) if not isinstance(result, str)]
        if not files:
            raise DataError(f"{show(folder)}: none of its {len(results)} sound files can be read; are they damaged?")
        labels, names_here = classes_of(files, folder)
        waves = [result for result in results if not isinstance(result, str)]
        return (
            Recordings(waves, labels, names_here)
            if names is None
            else Recordings(waves, renumber(labels, names_here, names, files, problems), names)
        )

    def _dataset(self, sounds: Recordings) -> Dataset:
        padded = torch.zeros(len(sounds.waves), round(self.sample_rate * self.seconds))
        for row, wave in zip(padded, sounds.waves, strict=True):
            row[: len(wave)] = torch.from_numpy(wave)
        lengths = torch.tensor([len(wave) for wave in sounds.waves], dtype=torch.int64)
        return TensorDataset({"wave": padded, "length": lengths, "label": torch.from_numpy(sounds.labels)})


@dataclass
class Recordings:
    """Waves of different lengths, labels (N,) as int64, and the names of the classes."""

    waves: list[np.ndarray]
    labels: np.ndarray
    names: list[str]

    def select(self, part: np.ndarray) -> Recordings:
        return Recordings([self.waves[i] for i in part], self.labels[part], self.names)


def classes_of(files: list[Path], folder: Path) -> tuple[np.ndarray, list[str]]:
    """Class numbers (N,) and names, from subfolders or from the prefixes of file names."""
    class_names = [show(file.relative_to(folder).parts[0]) if file.parent != folder else "" for file in files]
    if len(set(class_names) - {""}) < 2:
        class_names = [show(file.stem.partition("_")[0]) if "_" in file.stem else "" for file in files]
    labelled = [name for name in class_names if name]
    numbers, names = number_classes(labelled)
    labels = np.full(len(files), UNLABELLED, dtype=np.int64)
    labels[[bool(name) for name in class_names]] = numbers
    return labels, names


def renumber(labels: np.ndarray, names: list[str], model_names: list[str], files: list[Path], problems: Problems) -> np.ndarray:
    """Labels by the numbers that the names have in `wanted`; a class it does not have is counted and becomes UNLABELLED."""
    new_labels = np.array([*(model_names.index(name) if name in model_names else UNLABELLED for name in names), UNLABELLED], dtype=np.int64)
    numbers: np.ndarray = new_labels[labels]
    for index in np.flatnonzero((numbers == UNLABELLED) & (labels != UNLABELLED)).tolist():
        problems.add("files of a class that the model does not know, taken as unlabelled", show(files[index]))
    return numbers
