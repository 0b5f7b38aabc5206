"""Speech and what is said: sounds with texts, for recognition, and for translation where the text is in another language.

Batch: source, source_length, target, target_length, speaker where known, as in data/audio/sounds.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from weft.core import registry
from weft.core.errors import ConfigError
from weft.data.audio.augment import SoundAugment
from weft.data.audio.digit_strings import DigitStrings, compose, words_of
from weft.data.audio.features import Features
from weft.data.audio.sounds import FrameBuckets, FrontEnd, Sounds, Waves
from weft.data.audio.spoken_digits import SpokenDigits, spoken
from weft.data.base import Data, DataConfig, Problems
from weft.data.split import check_share, map_splits
from weft.data.text.pairs import concatenate
from weft.data.text.ragged import Ragged
from weft.data.text.token_windows import Unit, check_sizes
from weft.data.tokenizers.base import Tokenizer
from weft.data.tokenizers.special_tokens import Seq2SeqTokenizer
from weft.data.tokenizers.unknown import note_unknown


@dataclass
class Spoken:
    """Waves, the text of each, its name, and its speaker by number (N,), UNLABELLED where not known."""

    waves: Waves
    texts: list[str]
    names: list[str]
    speaker: Tensor


@dataclass(frozen=True, kw_only=True)
class SpeechConfig(DataConfig):
    sample_rate: int = 8000
    """Samples per second; sounds of another rate are resampled."""
    features: Features = field(default_factory=Features)
    """What the model hears."""
    augment: SoundAugment = field(default_factory=SoundAugment)
    """Data augmentation of the training sounds."""
    validation: float = 0.1
    """Share of the speakers held out for validation."""
    tokenizer: Unit = "characters"
    """Tokenizer that is trained on the texts, where no model brings its own."""
    vocabulary: int = 0
    """Largest number of words or pieces of words; 0 is 10,000. Bytes and characters need no limit."""
    max_length: int = 256
    """Longest text in tokens; longer ones are truncated."""
    batch_frames: int = 0
    """Frames of a batch of sounds of similar length, without padding; an example is then a whole batch. 0 for single sounds."""
    made_up: SpokenDigits = field(default_factory=SpokenDigits)
    """Spoken digits that are made up where no path is given."""
    strings: DigitStrings = field(default_factory=DigitStrings)
    """Strings of digits, put together from recordings of single ones."""

    def build(self) -> Data:
        return self.build_with(None)

    def build_with(self, tokenizer: Tokenizer | None) -> Data:
        self._check()
        problems = Problems()
        train, validation = self._read(problems)
        if not isinstance(tokenizer, Seq2SeqTokenizer):
            texts = "\n".join(train.texts + (validation.texts if self.tokenizer == "characters" else []))
            tokenizer = Seq2SeqTokenizer(registry.find("tokenizers", self.tokenizer).train(texts, self.vocabulary))
        first, second = map_splits(partial(self._dataset, tokenizer=tokenizer, problems=problems), train, validation)
        first = first.with_augment(self.augment)
        info: dict[str, Any] = {
            "features": self.features.size,
            "vocabulary": tokenizer.size,
            "context": self.max_length + 2,
            "start": tokenizer.start,
            "end": tokenizer.end,
            "sample_rate": self.sample_rate,
            "tokens": self.batch_frames or int(first.frames().max()),
            "training_examples": len(first),
            "validation_examples": len(second),
        }
        held = second if len(second) else None
        if not self.batch_frames:
            return Data(first, held, info, tokenizer, problems)
        batches = FrameBuckets(first, self.batch_frames)
        return Data(batches, held, info | {"batches": len(batches), "padding": batches.padding}, tokenizer, problems)

    def _check(self) -> None:
        check_share(self.validation)
        check_sizes(self.max_length, self.vocabulary, flag="max_length")
        if not 100 <= self.sample_rate <= 1_000_000 or self.batch_frames < 0:
            raise ConfigError(
                f"--data.sample-rate is from 100 to 1,000,000 and --data.batch-frames not negative, not {self.sample_rate} and "
                f"{self.batch_frames}"
            )
        self.features.check(self.sample_rate)
        for part in (self.augment, self.made_up, self.strings):
            part.check()

    def _read(self, problems: Problems) -> tuple[Spoken, Spoken]:
        """Training and validation sounds."""
        clips, digit, voice = spoken(self.made_up, self.sample_rate)
        held = max(1, round(self.made_up.voices * self.validation)) if self.validation else 0
        known = voice < self.made_up.voices - held
        parts = {"train": known.nonzero()[:, 0], "validation": (~known).nonzero()[:, 0]}
        train, validation = (self._of_digits(part_of(clips, rows), digit[rows], voice[rows], purpose) for purpose, rows in parts.items())
        return train, validation

    def _of_digits(self, clips: Ragged, digit: Tensor, speaker: Tensor, purpose: str) -> Spoken:
        """Single digits, or strings of them."""
        number = self.strings.number if purpose == "train" else -(-self.strings.number // 10)
        if not number or not len(clips):
            texts = words_of([[each] for each in digit.tolist()], self.strings.language)
            return Spoken(clips, texts, [f"speaker {who}" for who in speaker.tolist()], speaker)
        waves, strings, who = compose(clips, digit, speaker, number, self.strings, self.sample_rate, purpose)
        return Spoken(waves, words_of(strings, self.strings.language), [f"{purpose} string {i}" for i in range(number)], who)

    def _dataset(self, part: Spoken, tokenizer: Seq2SeqTokenizer, problems: Problems) -> Sounds:
        note_unknown(tokenizer, part.texts, problems)
        ids = [tokenizer.encode(text) for text in part.texts]
        if cut := sum(len(row) > self.max_length for row in ids):
            problems.add(f"texts truncated to {self.max_length} tokens", "target", cut)
        target = concatenate([np.concatenate(((tokenizer.start,), row[: self.max_length], (tokenizer.end,))) for row in ids])
        texts = list(zip(part.names, part.texts, strict=True))
        return Sounds(part.waves, FrontEnd(self.sample_rate, self.features), target, {"speaker": part.speaker}, texts)


def part_of(clips: Ragged, rows: Tensor) -> Ragged:
    """Some of the clips."""
    pieces = [
        clips.values[start : start + size] for start, size in zip(clips.starts[rows].tolist(), clips.sizes[rows].tolist(), strict=True)
    ]
    return Ragged(torch.cat(pieces) if pieces else clips.values[:0], clips.sizes[rows], clips.fill)
