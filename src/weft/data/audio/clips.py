"""Sounds of one length with a class each: words, commands, noises, as a folder for each class, a table, or spoken digits that are made up.

Batch: source (B, T, M) float32, features of as many frames each, 0 behind the end of a sound; source_length (B,), label (B,), speaker (B,)
int64.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from weft.core.errors import ConfigError, DataError
from weft.data.audio.manifest import Utterance
from weft.data.audio.sounds import FrontEnd, Sounds
from weft.data.audio.source import SoundSource, Spoken
from weft.data.base import UNLABELLED, Batch, Data, Problems
from weft.data.split import map_splits, number_classes
from weft.data.tokenizers.base import ClassNames, Tokenizer


@dataclass(frozen=True, kw_only=True)
class ClipsConfig(SoundSource):
    model_preprocessing = ("sample_rate", "features", "seconds")

    seconds: float = 1.0
    """Length of an example: longer sounds are cut, shorter ones followed by silence."""

    def build(self) -> Data:
        return self.build_with(None)

    def build_with(self, tokenizer: Tokenizer | None) -> Data:
        self.check()
        problems = Problems()
        train, validation = self.read(problems)
        names = tokenizer.names if isinstance(tokenizer, ClassNames) else number_classes(train.texts + validation.texts)[1]
        first, second = map_splits(partial(self._dataset, names=names, problems=problems), train, validation)
        if not len(first):
            raise DataError("no sound is left to train on; lower --data.validation, or hold out fewer --data.validation-speakers")
        info = {
            "features": self.features.size,
            "image": (1, self.frames, self.features.size),
            "classes": len(names),
            "class_names": names,
            "sample_rate": self.sample_rate,
            "training_examples": len(first),
            "validation_examples": len(second),
        }
        return Data(first.with_augment(self.augment), second if len(second) else None, info, ClassNames(names), problems)

    def check(self) -> None:
        super().check()
        if not 1 <= self.seconds * self.sample_rate <= 36_000 * self.sample_rate:
            raise ConfigError(f"--data.seconds must make at least one sample and at most ten hours, not {self.seconds}")

    @property
    def frames(self) -> int:
        """Frames T of an example."""
        return int(self.features.frames_of(torch.tensor(round(self.seconds * self.sample_rate)), self.sample_rate))

    def _load(self, utterances: list[Utterance], problems: Problems) -> Spoken:
        shortened = [replace(each, seconds=min(each.seconds or self.seconds, self.seconds)) for each in utterances]
        return super()._load(shortened, problems)

    def _dataset(self, part: Spoken, names: list[str], problems: Problems) -> Clips:
        index = {name: number for number, name in enumerate(names)}
        label = torch.tensor([index.get(text, UNLABELLED) for text in part.texts], dtype=torch.int64)
        for number in (label == UNLABELLED).nonzero().flatten().tolist():
            problems.add("sounds of a class that the model does not know, taken as unlabelled", part.names[number])
        labels = {"label": label, "speaker": part.speaker}
        return Clips(part.waves, FrontEnd(self.sample_rate, self.features), None, labels, frames=self.frames)


class Clips(Sounds):
    """Sounds of so many frames each."""

    def __init__(self, *parts: Any, frames: int, **more: Any):
        super().__init__(*parts, **more)
        self.frames_each = frames

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        return self.examples(index, key, self.frames_each)
