"""Sounds as features, with a text or a class each, made on the device where their waves live.

Batch: source (B, T, M) float32, features, 0 behind the last frame of each; source_length (B,) int64, its frames. With texts also
target (B, S) int64, START, the tokens of the text and END, padded with PAD; target_length (B,), START and END included. With
classes label (B,) int64, UNLABELLED where unknown. speaker (B,) int64 is the number of the speaker, UNLABELLED where not known.

A CTC loss takes target[:, 1:] up to target_length - 2 and may use PAD's id 0 for its blank, as no target holds it.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from typing import Protocol, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.data.audio.augment import SoundAugment
from weft.data.audio.features import Features
from weft.data.base import UNLABELLED, Batch, Dataset
from weft.data.text.length_buckets import ABSENT, LengthBuckets
from weft.data.text.ragged import Ragged


class Waves(Protocol):
    """Waves by index: in memory, composed of others, or in files. sizes (N,) are their samples, longest the largest of them."""

    sizes: Tensor
    longest: int

    def rows(self, index: Tensor) -> Tensor:
        """index (B,) -> (B, longest), zeros behind each wave."""
        ...

    def to(self, device: torch.device) -> Waves: ...


@dataclass(frozen=True)
class FrontEnd:
    """From waves to features."""

    rate: int
    features: Features
    augment: SoundAugment = field(default_factory=SoundAugment)

    def __call__(self, wave: Tensor, length: Tensor, key: Tensor, width: int = 0) -> tuple[Tensor, Tensor]:
        """wave (B, N), length and key (B,) -> features (B, T, M) and frames (B,); T is width where it is given."""
        wave, length = self.augment.wave(wave, length, key)
        found, frames = self.features(wave, length, self.rate), self.features.frames_of(length, self.rate)
        found = self.augment.features(found, frames, key)
        if not width:
            return found, frames
        return F.pad(found, (0, 0, 0, max(0, width - found.size(1))))[:, :width], frames.clamp(max=width)

    def frames_of(self, samples: Tensor) -> Tensor:
        """Most frames that waves of so many samples (B,) can have."""
        most = torch.tensor([self.augment.stretched(number) for number in samples.tolist()], dtype=torch.int64)
        return self.features.frames_of(most, self.rate)

    def samples_of(self, frames: int) -> int:
        """Most samples that a wave of so many frames can have before it is changed."""
        return int(frames * round(self.features.hop * self.rate) * max((1.0, *self.augment.speeds))) + 1


class Sounds(Dataset):
    def __init__(
        self,
        waves: Waves,
        front_end: FrontEnd,
        target: Ragged | None = None,
        labels: dict[str, Tensor] | None = None,
        texts: list[tuple[str, str]] | None = None,
    ):
        """labels: label and speaker (N,). texts: of each sound its name, and its text as the data have it, by which answers are judged."""
        self.waves, self.front_end, self.target, self.labels, self.texts = waves, front_end, target, labels or {}, texts or []

    def __len__(self) -> int:
        return len(self.waves.sizes)

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        return self.examples(index, key)

    def examples(self, index: Tensor, key: Tensor, width: int = 0) -> Batch:
        """The batch, with sources of so many frames where a width is given, which must have room for them."""
        wave, length = self.waves.rows(index), self.waves.sizes.index_select(0, index)
        if width:
            wave = wave[:, : self.front_end.samples_of(width)]
        source, frames = self.front_end(wave, length.clamp(max=wave.size(1)), key, width)
        batch = {"source": source, "source_length": frames}
        if self.target is not None:
            batch |= {"target": self.target.rows(index).long(), "target_length": self.target.sizes.index_select(0, index)}
        return batch | {name: values.index_select(0, index) for name, values in self.labels.items()}

    def with_augment(self, augment: SoundAugment) -> Self:
        """The same sounds, changed in training."""
        other = copy.copy(self)
        other.front_end = replace(self.front_end, augment=augment)
        return other

    def frames(self) -> Tensor:
        """Most frames that each sound can have (N,)."""
        return self.front_end.frames_of(self.waves.sizes.cpu())

    def to(self, device: torch.device) -> Self:
        other = copy.copy(self)
        other.waves = self.waves.to(device)
        if other.waves.sizes.device.type != device.type:
            return self  # in files
        other.target = self.target and self.target.to(device)
        other.labels = {name: values.to(device) for name, values in self.labels.items()}
        return other

    @property
    def device(self) -> torch.device:
        return self.waves.sizes.device


class FrameBuckets(LengthBuckets):
    """Batches of sounds of similar length with about equally many frames; a row that is missing has no frames, no tokens and no label.

    Which sounds a batch holds is decided on the host; its features are made on the device where the waves live.
    """

    def __init__(self, sounds: Sounds, frames: int):
        self.sounds = sounds
        sizes = sounds.frames().numpy()
        super().__init__(sounds, frames, int(sizes.max()), (sizes, sizes))

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        rows, width = self.rows_of(index)
        row_key, rows = self.row_keys(index, key).to(self.sounds.device), rows.to(self.sounds.device)
        batch = self.sounds.examples(rows.clamp(min=0), row_key, width)
        for name, part in batch.items():
            absent = (rows == ABSENT).view(-1, *[1] * (part.dim() - 1))
            batch[name] = part.masked_fill(absent, UNLABELLED if name in self.sounds.labels else 0)
        return {**batch, "row_key": row_key}

    def to(self, device: torch.device) -> Dataset:
        moved = copy.copy(self)
        moved.sounds = moved.pairs = self.sounds.to(device)
        return moved
