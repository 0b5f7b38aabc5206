"""Transcripts of sound files: words with their times, long sounds in parts, and files that cannot be read."""

from __future__ import annotations

import wave
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.cli.conftest import weft_command
from tests.contracts.test_recipes import trained
from tests.contracts.tiny import tiny
from weft.core.errors import CapabilityError
from weft.data.audio.spoken_digits import SpokenDigits, spoken
from weft.data.base import Problems
from weft.inference.predict.run import predict_rows
from weft.inference.predict.transcripts import Transcripts
from weft.inference.speech.recognise import Recognised
from weft.inference.translate import answer
from weft.runs.load import load

SHORT = {
    "train.steps": 2,
    "train.eval_every": 1,
    "train.eval_examples": 4,
    "train.device": "cpu",
    "data.strings.number": 40,
    "data.strings.longest": 2,
}


def write(path: Path, samples: torch.Tensor) -> Path:
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes((samples.clamp(-1, 1) * 32767).to(torch.int16).numpy().tobytes())
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs and a folder of sounds."""
    made = tmp_path_factory.mktemp("speech")
    for name in ("conformer_ctc/digits", "las/digits"):
        trained(tiny(name, made, SHORT), made / name.partition("/")[0])
    clips, _, _ = spoken(SpokenDigits(voices=2, takes=1), 8000)
    (made / "sounds").mkdir()
    for number in range(2):
        write(made / "sounds" / f"{number}.wav", clips.rows(torch.tensor([number]))[0])
    (made / "sounds" / "broken.wav").write_bytes(b"RIFF and nothing else")
    return made


def test_a_folder_of_sounds(folder: Path) -> None:
    done = weft_command("predict", str(folder / "conformer_ctc"), str(folder / "sounds"), "--out", str(folder / "told.csv"))
    assert done.code == 0, done.err
    lines = (folder / "told.csv").read_text().splitlines()
    assert lines[0].split(",")[:2] == ["file", "text"]
    assert len(lines) == 4 and "1 of them without a result" in done.out


def test_a_sound_on_the_command_line(folder: Path) -> None:
    run, sound = str(folder / "conformer_ctc"), str(folder / "sounds" / "0.wav")
    assert weft_command("sample", run, sound).code == 0
    assert weft_command("sample", run, sound, "--times", "--beams", "3").code == 0
    assert "no head for CTC" in weft_command("sample", str(folder / "las"), sound, "--times").err
    assert "hears sounds" in weft_command("sample", run).err
    assert "broken.wav" in weft_command("sample", run, str(folder / "sounds" / "broken.wav")).err


def test_words_and_their_times(folder: Path) -> None:
    predictor = Transcripts(load(str(folder / "conformer_ctc"), "cpu"))
    ids = predictor.tokenizer.encode("one two").tolist()
    spans = [(10 * place, 10 * place + 5) for place in range(len(ids))]
    words = predictor.words_of(Recognised(ids, spans), begin=30.0)
    assert words == [{"word": "one", "start": 30.0, "end": 30.5}, {"word": "two", "start": 30.8, "end": 31.3}]


def test_a_long_sound_goes_through_in_parts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.inference.predict import transcripts

    monkeypatch.setattr(transcripts, "LONGEST", 0.5)
    long = write(folder / "long.wav", torch.randn(8000 * 2) * 0.1)
    predictor = Transcripts(load(str(folder / "conformer_ctc"), "cpu"))
    items = predictor.items([long], Problems())
    assert items.owner == [0, 0, 0, 0] and items.about == [0.0, 0.5, 1.0, 1.5]
    results: list[dict[str, Any]] = predict_rows(predictor, [str(long)])
    assert set(results[0]) == {"text", "words"}


def test_a_recogniser_answers_no_text(folder: Path) -> None:
    loaded = load(str(folder / "las"), "cpu")
    with pytest.raises(CapabilityError, match="sounds, and not texts"):
        answer(loaded.model, loaded.tokenizer, ["seven"])
