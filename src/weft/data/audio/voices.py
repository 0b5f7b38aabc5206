"""Utterances of several speakers as mel frames: a folder of sound files for each, or made-up voices.

A made-up voice is a pitch, and two formants; an utterance of it is a tone of that pitch, a little off, whose formants glide between vowels.
Batch: frames (B, T, M) float32, label (B,) int64 the speaker.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from weft.core import random
from weft.core.errors import ConfigError
from weft.data.audio.mel import mel_frames
from weft.data.audio.waves import AudioConfig
from weft.data.base import Data, TensorDataset
from weft.data.split import check_share
from weft.data.tokenizers.base import ClassNames

HARMONICS = 24


@dataclass(frozen=True, kw_only=True)
class VoicesConfig(AudioConfig):
    path: str = ""
    """A folder of WAV, FLAC or OGG files, with a folder for each speaker; empty makes voices up."""
    mels: int = 40
    """Mel channels of a frame."""
    speakers: int = 8
    """Voices that are made up where no path is given."""
    utterances: int = 40
    """Utterances of each of them."""
    seed: int = 0
    """Of the made-up voices."""

    def build_with(self, tokenizer: Any) -> Data:
        if self.mels < 1 or self.speakers < 2 or self.utterances < 2:
            raise ConfigError(
                f"--data.mels must be at least 1, --data.speakers and --data.utterances 2, not {self.mels}, {self.speakers} "
                f"and {self.utterances}"
            )
        data = super().build_with(tokenizer) if self.path else self._made_up()
        validation = None if data.validation is None else self._frames(data.validation)
        return replace(data, train=self._frames(data.train), validation=validation, info={**data.info, "mels": self.mels})

    def _frames(self, waves: Any) -> TensorDataset:
        frames = torch.cat([mel_frames(part, self.sample_rate, self.mels) for part in waves.tensors["wave"].split(64)])
        return TensorDataset({"frames": frames, "label": waves.tensors["label"]})

    def _made_up(self) -> Data:
        check_share(self.validation)
        number = self.speakers * self.utterances
        label = torch.arange(number) % self.speakers
        held = round(self.utterances * self.validation) * self.speakers
        waves = self._waves(label)
        names = [f"speaker {number}" for number in range(1, self.speakers + 1)]
        info = {"classes": self.speakers, "class_names": names, "training_examples": number - held, "validation_examples": held}
        train, validation = (TensorDataset({"wave": waves[part], "label": label[part]}) for part in (slice(held, None), slice(held)))
        return Data(train, validation if held else None, info, ClassNames(names))

    def _waves(self, label: Tensor) -> Tensor:
        """label (N,) -> waves (N, S)."""
        speaker = random.keys(random.seed_of(self.seed, "speakers"), torch.arange(self.speakers))
        pitch = 90 * 2.5 ** random.uniform(random.fold(speaker, "pitch"), 1)  # (C, 1) Hz
        formants = torch.tensor([500.0, 1500.0]) * 1.5 ** (random.uniform(random.fold(speaker, "formants"), 2) - 0.5)  # (C, 2)
        key = random.keys(random.seed_of(self.seed, "utterances"), torch.arange(len(label)))
        own = pitch[label] * 1.1 ** (random.uniform(random.fold(key, "pitch"), 1) - 0.5)  # (N, 1)
        time = torch.arange(round(self.sample_rate * self.seconds)) / self.sample_rate  # (S,)
        glide = 0.25 * torch.sin(2 * math.pi * (2 * time + random.uniform(random.fold(key, "vowel"), 1)))  # (N, S)
        wave = 0.01 * random.normal(random.fold(key, "noise"), len(time))
        for harmonic in range(1, HARMONICS + 1):
            frequency = harmonic * own
            near = sum(torch.exp(-(((frequency - formants[label, i : i + 1] * (1 + glide)) / 200) ** 2)) for i in range(2))
            wave = wave + (0.1 / harmonic + near) * torch.sin(2 * math.pi * frequency * time)
        return (0.2 * wave).clamp(-1, 1).float()
