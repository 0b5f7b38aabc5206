"""The class of a sound file."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from weft.core.errors import DataError
from weft.data.audio.clips import Clips, ClipsConfig
from weft.data.audio.recordings import WORKERS, ragged
from weft.data.audio.sound_files import SUFFIXES, read_sound
from weft.data.audio.sounds import FrontEnd
from weft.data.base import Batch, Problems
from weft.data.io.files import show, walk
from weft.data.tokenizers.base import ClassNames
from weft.inference.predict.base import (
    Items,
    Result,
    Row,
    Shown,
    Trained,
    class_columns,
    class_result,
    ranked,
    shares_of,
)
from weft.inference.predict.files import FilePredictor


class SoundClasses(FilePredictor):
    """The class of a sound."""

    kind = "class"
    asked = ("sound.wav",)
    most_items = 64
    window = 256
    files = SUFFIXES
    noun = "sound"
    names = ("file", "path", "sound", "audio", "filename")

    def __init__(self, trained: Trained):
        super().__init__(trained)
        source = trained.recipe.data
        assert isinstance(source, ClipsConfig)
        self.source = source
        known = self.tokenizer.names if isinstance(self.tokenizer, ClassNames) else []
        self.classes = [*known, *map(str, range(len(known), trained.recipe.model.classes))]

    @property
    def columns(self) -> list[str]:
        return class_columns(self.classes)

    def items(self, examples: Sequence[Any], problems: Problems) -> Items:
        c = self.source
        with ThreadPoolExecutor(WORKERS) as pool:
            found = list(pool.map(self._read, examples))
        bad = {index: f"the sound cannot be read: {wave}" for index, wave in enumerate(found) if isinstance(wave, str)}
        waves = [wave for wave in found if isinstance(wave, np.ndarray)]
        owner = [index for index in range(len(found)) if index not in bad]
        data = Clips(ragged(waves), FrontEnd(c.sample_rate, c.features), None, {}, frames=c.frames)
        return Items(data, owner, [1] * len(owner), [None] * len(owner), bad)

    def _read(self, place: Path | bytes) -> np.ndarray | str:
        return read_sound(place, self.source.sample_rate, 0.0, self.source.seconds, suffix_of(place))

    def compute(self, batch: Batch) -> list[list[float]]:
        inputs = self.trained.recipe.objective.inputs
        return shares_of(self.model.classify(*(batch[name] for name in inputs)))

    def result(self, example: Any, found: list[tuple[Any, Any]]) -> Result:
        [(_, shares)] = found
        return class_result(self.classes, shares)

    def typed(self, words: Sequence[str]) -> list[Row]:
        files = [file for word in words for file in sound_files(Path(word).expanduser())]
        if not files:
            raise DataError(f"{show(words[0])}: the folder holds no sound file ({', '.join(SUFFIXES)})")
        return [Row({"file": str(file)}, show(file)) for file in files]

    def shown(self, result: Result) -> Shown:
        return ranked(result, most=5)


def suffix_of(place: Path | bytes) -> str:
    """The name by which the kind of a sound is told; of content alone its first bytes tell."""
    return "sent.wav" if isinstance(place, bytes) and place[:4] in (b"RIFF", b"RF64") else ""


def sound_files(path: Path) -> list[Path]:
    """A file, or the sounds of a folder."""
    return walk(path, SUFFIXES, Problems()) if path.is_dir() else [path]
