"""Speech and what is said: sounds with texts, for recognition, and for translation where the text is in another language.

Batch: source, source_length, target, target_length, speaker, as in data/audio/sounds.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch

from weft.core import registry
from weft.core.errors import ConfigError, DataError
from weft.data.audio.digit_strings import DigitStrings, compose, digit_of, words_of
from weft.data.audio.sounds import FrameBuckets, FrontEnd, Sounds
from weft.data.audio.source import SoundSource, Spoken
from weft.data.base import Data, Problems
from weft.data.split import map_splits
from weft.data.text.pairs import concatenate
from weft.data.text.ragged import Ragged
from weft.data.text.token_windows import Unit, check_sizes
from weft.data.tokenizers.base import Tokenizer
from weft.data.tokenizers.special_tokens import Seq2SeqTokenizer
from weft.data.tokenizers.unknown import note_unknown


@dataclass(frozen=True, kw_only=True)
class SpeechConfig(SoundSource):
    tokenizer: Unit = "characters"
    """Tokenizer that is trained on the texts, where no model brings its own."""
    vocabulary: int = 0
    """Largest number of words or pieces of words; 0 is 10,000. Bytes and characters need no limit."""
    max_length: int = 256
    """Longest text in tokens; longer ones are truncated."""
    batch_frames: int = 0
    """Frames of a batch of sounds of similar length, without padding; an example is then a whole batch. 0 for single sounds."""
    strings: DigitStrings = field(default_factory=DigitStrings)
    """Strings of digits, put together from recordings of single ones."""

    def build(self) -> Data:
        return self.build_with(None)

    def build_with(self, tokenizer: Tokenizer | None) -> Data:
        self.check()
        problems = Problems()
        train, validation = self.read(problems)
        one = train is validation  # as in `weft evaluate`
        train = self._in_words(train, "train")
        validation = train if one else self._in_words(validation, "validation")
        if not isinstance(tokenizer, Seq2SeqTokenizer):
            letters = self.tokenizer == "characters"  # of which a line's end is none
            texts = ("" if letters else "\n").join(train.texts + (validation.texts if letters else []))
            tokenizer = Seq2SeqTokenizer(registry.find("tokenizers", self.tokenizer).train(texts, self.vocabulary))
        first, second = map_splits(partial(self._dataset, tokenizer=tokenizer, problems=problems), train, validation)
        if not len(first):
            raise DataError("no sound is left to train on; lower --data.validation, or hold out fewer --data.validation-speakers")
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

    def check(self) -> None:
        super().check()
        check_sizes(self.max_length, self.vocabulary, flag="max_length")
        if self.batch_frames < 0:
            raise ConfigError(f"--data.batch-frames must not be negative, not {self.batch_frames}")
        self.strings.check()

    def _in_words(self, part: Spoken, purpose: str) -> Spoken:
        """Single digits, or strings of them where they are asked for, in words; other texts as they are."""
        digits = [digit_of(text) for text in part.texts]
        found = [digit for digit in digits if digit is not None]
        if len(found) < len(digits):
            if self.strings.number:
                text = next(text for text, digit in zip(part.texts, digits, strict=True) if digit is None)
                raise ConfigError(
                    f"--data.strings.number puts recordings of single digits together, and {text[:40]!r} is none; leave it out"
                )
            return part
        return self._strings(part, found, purpose) if self.strings.number and found else self._single(part, found)

    def _single(self, part: Spoken, digits: list[int]) -> Spoken:
        return Spoken(part.waves, words_of([[digit] for digit in digits], self.strings.language), part.names, part.speaker)

    def _strings(self, part: Spoken, digits: list[int], purpose: str) -> Spoken:
        if not isinstance(part.waves, Ragged):
            raise ConfigError(f"strings are put together in memory; give --data.memory room for all recordings, not {self.memory} GB")
        number = self.strings.number if purpose == "train" else max(1, self.strings.number // 10)
        waves, strings, who = compose(part.waves, torch.tensor(digits), part.speaker, number, self.strings, self.sample_rate, purpose)
        return Spoken(waves, words_of(strings, self.strings.language), [f"string {i}" for i in range(number)], who)

    def _dataset(self, part: Spoken, tokenizer: Seq2SeqTokenizer, problems: Problems) -> Sounds:
        note_unknown(tokenizer, part.texts, problems)
        ids = [tokenizer.encode(text) for text in part.texts]
        if cut := sum(len(row) > self.max_length for row in ids):
            problems.add(f"texts truncated to {self.max_length} tokens", "target", cut)
        target = concatenate([np.concatenate(((tokenizer.start,), row[: self.max_length], (tokenizer.end,))) for row in ids])
        texts = list(zip(part.names, part.texts, strict=True))
        return Sounds(part.waves, FrontEnd(self.sample_rate, self.features), target, {"speaker": part.speaker}, texts)
