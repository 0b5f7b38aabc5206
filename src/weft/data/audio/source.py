"""Where sounds come from: the settings and the reading that recognition and classification share."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from weft.core.errors import ConfigError, DataError
from weft.data.audio.augment import SoundAugment
from weft.data.audio.espeak import Espeak, speak
from weft.data.audio.features import Features
from weft.data.audio.manifest import Utterance, has_parts, read_utterances
from weft.data.audio.recordings import load, numbered_speakers, ragged
from weft.data.audio.sounds import Waves
from weft.data.audio.spoken_digits import SpokenDigits, spoken
from weft.data.base import DataConfig, Problems
from weft.data.split import check_share, hold_out, shuffled
from weft.data.text.ragged import Ragged


@dataclass
class Spoken:
    """Waves, the text or class of each, its name, and its speaker by number (N,), UNLABELLED where not known."""

    waves: Waves
    texts: list[str]
    names: list[str]
    speaker: Tensor

    def part(self, chosen: Tensor) -> Spoken:
        """Those that are chosen (N,), of sounds in memory."""
        assert isinstance(self.waves, Ragged)
        rows = chosen.nonzero()[:, 0]
        texts, names = ([all_[row] for row in rows.tolist()] for all_ in (self.texts, self.names))
        return Spoken(part_of(self.waves, rows), texts, names, self.speaker[rows])


@dataclass(frozen=True, kw_only=True)
class SoundSource(DataConfig):
    path: str = ""
    """A folder or an archive of WAV, FLAC, OGG, Opus or MP3 files in one of the layouts of docs/audio.md, or a table (TSV, CSV, JSONL)
    of paths and texts; several, joined by commas; empty makes spoken digits up."""
    validation_path: str = ""
    """Sounds to validate on; by default the part of the layout that is for it, else a share of `path`."""
    validation: float = 0.1
    """Share held out for validation where nothing else is given: of the speakers where they are known, else of the sounds; 0 for none."""
    validation_speakers: tuple[str, ...] = ()
    """Speakers who are held out for validation, by name."""
    without_speakers: tuple[str, ...] = ()
    """Speakers who are neither trained nor validated on, by name."""
    text: str = ""
    """Column of a table with the texts or classes; by default text, sentence, transcript, translation, label or class."""
    sample_rate: int = 8000
    """Samples per second; sounds of another rate are resampled."""
    longest: float = 30.0
    """Seconds beyond which a sound is left out."""
    memory: float = 4.0
    """Gigabytes of waves that are kept in memory; with more, they are read from their files in every batch."""
    features: Features = field(default_factory=Features)
    """What the model hears."""
    augment: SoundAugment = field(default_factory=SoundAugment)
    """Data augmentation of the training sounds."""
    made_up: SpokenDigits = field(default_factory=SpokenDigits)
    """Spoken digits that are made up where no path is given."""
    espeak: Espeak = field(default_factory=Espeak)
    """Speech by espeak-ng."""

    def check(self) -> None:
        check_share(self.validation)
        if not 100 <= self.sample_rate <= 1_000_000:
            raise ConfigError(f"--data.sample-rate is from 100 to 1,000,000, not {self.sample_rate}")
        if not 0 < self.longest <= 36_000 or not 0 <= self.memory < 1e6:
            raise ConfigError(f"--data.longest is from 0 to 36,000 s and --data.memory 0 or more, not {self.longest} and {self.memory}")
        self.features.check(self.sample_rate)
        self.augment.check()
        self.made_up.check()
        self.espeak.check()

    def read(self, problems: Problems) -> tuple[Spoken, Spoken]:
        """Training and validation sounds."""
        if not self.path:
            return self._spoken(problems) if self.espeak.number else self._made_up()
        train, validation = self._recorded(problems)
        if train is validation:
            return train, validation
        beside = [self._spoken(problems, 0.0)[0]] if self.espeak.number else []
        if self.made_up.beside:
            beside.append(self._made_up(0.0)[0])
        return join([train, *beside]) if beside else train, validation

    def _recorded(self, problems: Problems) -> tuple[Spoken, Spoken]:
        """What lies at the paths."""
        train = without(read_utterances(self.path, problems, self.text), self.without_speakers)
        if self.validation_path == self.path:
            same = self._load(train, problems)
            return same, same
        if self.validation_path:
            validation = read_utterances(self.validation_path, problems, self.text, "dev")
        elif has_parts(self.path) and not self.validation_speakers:
            validation = read_utterances(self.path, problems, self.text, "dev")
        else:
            train, validation = split(train, self.validation, self.validation_speakers, problems)
        return self._load(train, problems), self._load(validation, problems)

    def _load(self, utterances: list[Utterance], problems: Problems) -> Spoken:
        waves, kept = load(utterances, self.sample_rate, self.longest, self.memory, problems)
        if utterances and not kept:
            raise DataError(f"{self.path}: none of its {len(utterances):,} sounds can be used{problems.summary()}")
        return Spoken(waves, [each.text for each in kept], [each.name for each in kept], numbered_speakers(kept)[0])

    def _made_up(self, share: float | None = None) -> tuple[Spoken, Spoken]:
        """Digits of made-up voices; a share of them for validation."""
        clips, digit, voice = spoken(self.made_up, self.sample_rate)
        share = self.validation if share is None else share
        held = max(1, round(self.made_up.voices * share)) if share else 0
        names = [f"voice {who}, digit {each}" for who, each in zip(voice.tolist(), digit.tolist(), strict=True)]
        whole = Spoken(clips, [str(each) for each in digit.tolist()], names, voice)
        known = voice < self.made_up.voices - held
        return whole.part(known), whole.part(~known)

    def _spoken(self, problems: Problems, share: float | None = None) -> tuple[Spoken, Spoken]:
        """Speech by espeak-ng; a share of its voices for validation."""
        waves, orders = speak(self.espeak, self.sample_rate, problems)
        share = self.validation if share is None else share
        voices = sorted({order.voice for order in orders})
        number = {voice: index for index, voice in enumerate(voices)}
        names = [f"espeak-ng {order.voice}, pitch {order.pitch}, speed {order.speed}" for order in orders]
        voice = torch.tensor([number[order.voice] for order in orders])
        whole = Spoken(ragged(waves), [order.text for order in orders], names, voice)
        held = shuffled(len(voices), "voices")[: max(1, round(len(voices) * share)) if share else 0]
        known = ~torch.isin(voice, torch.from_numpy(held))
        return whole.part(known), whole.part(~known)


def join(parts: list[Spoken]) -> Spoken:
    """All of some sounds, whose speakers differ."""
    waves = [part.waves for part in parts if isinstance(part.waves, Ragged)]
    if len(waves) < len(parts):
        raise ConfigError("speech that is made up is kept in memory beside that of a path; give --data.memory room for all of it")
    speakers, before = [], 0
    for part in parts:
        speakers.append(torch.where(part.speaker < 0, part.speaker, part.speaker + before))
        before += int(part.speaker.max()) + 1
    clips = Ragged(torch.cat([each.values for each in waves]), torch.cat([each.sizes for each in waves]), fill=0.0)
    texts, names = [text for part in parts for text in part.texts], [name for part in parts for name in part.names]
    return Spoken(clips, texts, names, torch.cat(speakers))


def without(utterances: list[Utterance], speakers: tuple[str, ...]) -> list[Utterance]:
    known = {each.speaker for each in utterances}
    check_names(speakers, known, "without-speakers")
    return [each for each in utterances if each.speaker not in speakers]


def check_names(speakers: tuple[str, ...], known: set[str], flag: str) -> None:
    if unknown := [name for name in speakers if name not in known]:
        raise ConfigError(f"--data.{flag}: there is no {unknown[0]!r} among {', '.join(sorted(known)[:20])}")


def split(
    utterances: list[Utterance], share: float, speakers: tuple[str, ...], problems: Problems
) -> tuple[list[Utterance], list[Utterance]]:
    """Utterances to train and to validate on: other speakers where all are known, else other utterances."""
    names = sorted({each.speaker for each in utterances})
    check_names(speakers, set(names), "validation-speakers")
    if speakers or (len(names) > 1 and "" not in names and share):
        held = set(speakers) or {names[i] for i in shuffled(len(names), "speakers")[: max(1, round(len(names) * share))].tolist()}
        return [each for each in utterances if each.speaker not in held], [each for each in utterances if each.speaker in held]
    train, validation = hold_out(np.zeros(len(utterances), dtype=np.int64), share, problems)
    return [utterances[i] for i in train], [utterances[i] for i in validation]


def part_of(clips: Ragged, rows: Tensor) -> Ragged:
    """Some of the clips."""
    starts, sizes = clips.starts[rows].tolist(), clips.sizes[rows].tolist()
    pieces = [clips.values[start : start + size] for start, size in zip(starts, sizes, strict=True)]
    return Ragged(torch.cat(pieces) if pieces else clips.values[:0], clips.sizes[rows], clips.fill)
