"""`weft sample CKPT SOUND…`: what is said in sound files, or in all of a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from weft.cli import console
from weft.core.errors import CapabilityError, ConfigError, DataError
from weft.data.base import Problems
from weft.inference.predict.base import BadRow
from weft.inference.predict.run import predictions
from weft.inference.predict.transcripts import Transcripts
from weft.inference.speech.beam import Fusion, fusion_of
from weft.inference.speech.recognise import Decoding
from weft.runs.load import Loaded, load
from weft.training.checkpoint import files


def fusion(loaded: Loaded, run: str, weight: float, bonus: float, device: str) -> Fusion | None:
    """The language model of a run, for fusion with a recogniser."""
    if not run:
        return None
    other = load(run, device)
    if other.tokenizer is None:
        raise ConfigError(f"--fusion {run}: the checkpoint holds no tokenizer, so its tokens cannot be compared with the recogniser's")
    return fusion_of(other.model, other.tokenizer, loaded.tokenizer, weight, bonus)


def transcribed(loaded: Loaded, words: Sequence[str], how: Decoding, times: bool, out: str) -> int:
    """A line for each sound; with `times` a table of its words. `out`: a file for it."""
    if not all(word.strip() for word in words or [""]):
        raise ConfigError(f"{type(loaded.model).__name__} ({loaded.recipe.name}) hears sounds; name one: weft sample CKPT sound.wav")
    predictor = Transcripts(loaded)
    if times and not predictor.times:
        raise CapabilityError(f"--times: {type(loaded.model).__name__} has no head for CTC, so when each word was said is not known")
    predictor.decoding, predictor.times = how, times
    if out:
        files.check_file(Path(out))
    rows, lines = predictor.typed(words), []
    for window in predictions(predictor, rows, predictor.choose(list(rows[0].cells), ()), Problems()):
        for row, result in window:
            location = getattr(row, "location", "")
            if isinstance(result, BadRow):
                raise DataError(f"{location}: {result}")
            lines.append(result["text"] if len(rows) == 1 else f"{location}\t{result['text']}")
            if times and result["words"]:
                lines.append(console.table([*predictor.shown(result)[1:]]))
    text = "\n".join(lines)
    if out:
        files.deliver(Path(out), (text + "\n").encode())
    print(f"written to {out}" if out else text, flush=True)
    return 0
