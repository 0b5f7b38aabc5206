"""What was said in a sound file, word by word and when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from weft.core.errors import DataError
from weft.data.audio.sound_files import SUFFIXES, read_sound
from weft.data.audio.sounds import FrontEnd
from weft.data.base import Batch, Dataset, Problems
from weft.data.io.files import show
from weft.inference.predict.base import Items, Result, Row, Shown, Trained
from weft.inference.predict.files import FilePredictor
from weft.inference.predict.sounds import SoundClasses, sound_files, suffix_of
from weft.inference.speech.recognise import Decoding, Recognised, recognise
from weft.inference.translate import start_and_end
from weft.models.base import EmitsLabels, offers

LONGEST = 30.0
"""Seconds of a sound that go through a model at once."""


class Frames(Dataset):
    """Sounds as frames, 0 behind the end of each."""

    def __init__(self, frames: list[Tensor]):
        self.frames = frames

    def __len__(self) -> int:
        return len(self.frames)

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        chosen = [self.frames[i] for i in index.tolist()]
        lengths = torch.tensor([len(each) for each in chosen], device=index.device)
        return {"source": torch.nn.utils.rnn.pad_sequence(chosen, batch_first=True).to(index.device), "source_length": lengths}


class Transcripts(FilePredictor):
    """The text of a sound, and its words with their times where the model has a head for CTC."""

    kind = "transcript"
    asked = ("sound.wav",)
    most_items = 32
    window = 128
    files = SUFFIXES
    noun = SoundClasses.noun
    names = SoundClasses.names
    decoding = Decoding()

    def __init__(self, trained: Trained):
        super().__init__(trained)
        data: Any = trained.recipe.data
        self.front_end = FrontEnd(data.sample_rate, data.features)
        self.rate: int = data.sample_rate
        self.times = offers(self.model, EmitsLabels)

    @property
    def columns(self) -> list[str]:
        return ["text"]

    def items(self, examples: Sequence[Any], problems: Problems) -> Items:
        """An item for every half minute of each sound that can be read."""
        frames: list[Tensor] = []
        owner: list[int] = []
        about: list[float] = []
        bad: dict[int, str] = {}
        for number, place in enumerate(examples):
            found = read_sound(place, self.rate, name=suffix_of(place))
            if isinstance(found, str):
                bad[number] = f"the sound cannot be read: {found}"
                continue
            step = round(LONGEST * self.rate)
            for first in range(0, len(found), step):
                frames.append(self.frames_of(found[first : first + step]))
                owner.append(number)
                about.append(first / self.rate)
        return Items(Frames(frames), owner, [len(each) for each in frames], about, bad)

    def frames_of(self, wave: np.ndarray) -> Tensor:
        """wave (N,) -> frames (T, M)."""
        length = torch.tensor([len(wave)])
        source, sizes = self.front_end(torch.from_numpy(wave)[None], length, torch.zeros_like(length))
        return source[0, : int(sizes[0])]

    def compute(self, batch: Batch) -> list[Recognised]:
        start, end = start_and_end(self.tokenizer)
        how = replace(self.decoding, times=self.times)
        return recognise(self.model, batch["source"], batch["source_length"], start, end, how)

    def result(self, example: Any, found: list[tuple[Any, Any]]) -> Result:
        text = " ".join(part for _, said in found if (part := self.tokenizer.decode(said.ids).strip()))
        words = [word for begin, said in found for word in self.words_of(said, begin)] if self.times else []
        return {"text": text, **({"words": words} if self.times else {})}

    def words_of(self, said: Recognised, begin: float) -> list[dict[str, Any]]:
        """Each word with its first and last second: tokens up to a space, or each token where texts have none."""
        hop = self.front_end.features.hop
        if not said.spans:
            return []
        words: list[dict[str, Any]] = []
        fresh = True
        for token, (first, last) in zip(said.ids, said.spans, strict=True):
            piece = self.tokenizer.decode([token])
            if not piece.strip():
                fresh = True
                continue
            when = {"start": round(begin + first * hop, 3), "end": round(begin + last * hop, 3)}
            if fresh or piece[0].isspace() or "\u3040" <= piece.strip()[0] <= "\u9fff":  # kana and Chinese characters stand alone
                words.append({"word": piece.strip(), **when})
            else:
                words[-1] |= {"word": words[-1]["word"] + piece, "end": when["end"]}
            fresh = piece[-1].isspace()
        return words

    def typed(self, words: Sequence[str]) -> list[Row]:
        files = [file for word in words for file in sound_files(Path(word).expanduser())]
        if not files:
            raise DataError(f"{show(words[0])}: the folder holds no sound ({', '.join(SUFFIXES)})")
        return [Row({"file": str(file)}, show(file)) for file in files]

    def shown(self, result: Result) -> Shown:
        """The text, and its words with their times."""
        words = [(word["word"], f"{word['start']:.2f} to {word['end']:.2f} s") for word in result.get("words", [])]
        return [(result["text"], ""), *words]
