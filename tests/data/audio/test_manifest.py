"""Every layout that speech data come in, made small."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.data.audio.test_sound_files import wav
from weft.core.errors import ConfigError, DataError
from weft.data.audio.clips import ClipsConfig
from weft.data.audio.digit_strings import DigitStrings
from weft.data.audio.manifest import read_utterances
from weft.data.audio.recordings import FileWaves
from weft.data.audio.sounds import FrameBuckets, Sounds
from weft.data.audio.speech import SpeechConfig
from weft.data.base import Problems


def save(path: Path, seconds: float = 0.3, pitch: float = 300.0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    tone = 0.5 * np.sin(2 * np.pi * pitch * np.arange(round(seconds * 8000)) / 8000)
    path.write_bytes(wav((tone * 32767).astype("<i2").tobytes()))


def read(path: Path, **settings: str) -> list[tuple[str, str, str]]:
    found = read_utterances(str(path), Problems(), **settings)
    return [(each.place.name if isinstance(each.place, Path) else "", each.text, each.speaker) for each in found]


def test_a_folder_for_each_class(tmp_path: Path) -> None:
    for name in ("yes", "no"):
        save(tmp_path / name / "a.wav")
    save(tmp_path / "loose.wav")
    problems = Problems()
    assert [each.text for each in read_utterances(str(tmp_path), problems)] == ["no", "yes"]
    assert problems.counts == {"sounds without a text, left out": 1}


def test_tables_with_paths(tmp_path: Path) -> None:
    for name in ("a", "b"):
        save(tmp_path / "clips" / f"{name}.wav", 1.0)
    (tmp_path / "t.tsv").write_text(
        "path\tsentence\tclient_id\tübersetzung\na.wav\tgood day\tann\tguten Tag\nb.wav\tyes\tben\tja\ngone.wav\tx\tx\tx\n"
    )
    assert read(tmp_path / "t.tsv") == [("a.wav", "good day", "ann"), ("b.wav", "yes", "ben")]
    assert read(tmp_path / "t.tsv", text_column="übersetzung")[0] == ("a.wav", "guten Tag", "ann")
    rows = [
        {"audio": str(tmp_path / "clips" / "a.wav"), "text": "one", "start": 0.25, "end": 0.5},
        {"audio": "b.wav", "text": "bad", "start": 2, "end": 1},
    ]
    (tmp_path / "m.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    problems = Problems()
    [part] = read_utterances(str(tmp_path / "m.jsonl"), problems)
    assert (part.text, part.start, part.seconds) == ("one", 0.25, 0.25)
    assert any("no stretch of time" in line for line in problems.lines())
    data = SpeechConfig(path=str(tmp_path / "m.jsonl"), validation=0.0).build()
    assert isinstance(data.train, Sounds)
    assert data.train.waves.sizes.tolist() == [2000]
    (tmp_path / "plain.tsv").write_text("clips/a.wav\tfirst\nclips/b.wav\tsecond\n")
    assert read(tmp_path / "plain.tsv") == [("a.wav", "first", ""), ("b.wav", "second", "")]
    (tmp_path / "none.tsv").write_text("path\ttext\nx.wav\ta\n")
    with pytest.raises(DataError, match="none of the sounds that it names"):
        read(tmp_path / "none.tsv")
    with pytest.raises(ConfigError, match="no column 'texts'"):
        read(tmp_path / "t.tsv", text_column="texts")


def test_librispeech(tmp_path: Path) -> None:
    chapter = tmp_path / "train-clean" / "19" / "198"
    for number in range(3):
        save(chapter / f"19-198-000{number}.wav")
    (chapter / "19-198.trans.txt").write_text("19-198-0000 GOOD DAY\n19-198-0001 YES\n19-198-0009 GONE\n")
    assert read(tmp_path) == [("19-198-0000.wav", "GOOD DAY", "19"), ("19-198-0001.wav", "YES", "19")]


def test_common_voice_has_its_own_parts(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        save(tmp_path / "clips" / f"{name}.wav")
    head = "client_id\tpath\tsentence\n"
    (tmp_path / "train.tsv").write_text(head + "1\ta.wav\tah\n1\tb.wav\tbe\n")
    (tmp_path / "dev.tsv").write_text(head + "2\tc.wav\tsee\n")
    data = SpeechConfig(path=str(tmp_path)).build()
    assert isinstance(data.train, Sounds)
    assert isinstance(data.validation, Sounds)
    assert [text for _, text in data.train.texts] == ["ah", "be"]
    assert [text for _, text in data.validation.texts] == ["see"]


def test_ljspeech_and_texts_beside(tmp_path: Path) -> None:
    save(tmp_path / "lj" / "wavs" / "LJ001.wav")
    (tmp_path / "lj" / "metadata.csv").write_text("LJ001|In 3|In three\nLJ002|x|x\n")
    assert read(tmp_path / "lj") == [("LJ001.wav", "In three", "one")]
    save(tmp_path / "beside" / "a.wav")
    save(tmp_path / "beside" / "b.wav")
    (tmp_path / "beside" / "a.txt").write_text("hello\n")
    assert read(tmp_path / "beside") == [("a.wav", "hello", "")]


def digits(folder: Path, speakers: tuple[str, ...] = ("theo", "lucas", "nina")) -> Path:
    """Digits as the Free Spoken Digit Dataset names them."""
    for number, speaker in enumerate(speakers):
        for digit in range(10):
            for take in range(2):
                save(folder / "recordings" / f"{digit}_{speaker}_{take}.wav", 0.2, 200 + 50 * number + 30 * digit)
    return folder


def test_digits_by_their_names_and_speakers_held_out(tmp_path: Path) -> None:
    folder = digits(tmp_path)
    data = ClipsConfig(path=str(folder), validation_speakers=("theo",), seconds=0.3).build()
    assert data.info["class_names"] == [str(digit) for digit in range(10)]
    assert (data.info["training_examples"], data.info["validation_examples"]) == (40, 20)
    data = SpeechConfig(path=str(folder), strings=DigitStrings(number=30, language="de", noise=()), tokenizer="words").build()
    assert isinstance(data.train, Sounds)
    assert {word for _, text in data.train.texts for word in text.split()} >= {"null", "drei", "neun"}
    assert set(data.train.labels["speaker"].tolist()) == {0, 1}
    with pytest.raises(ConfigError, match="no 'leo' among lucas, nina, theo"):
        ClipsConfig(path=str(folder), validation_speakers=("leo",)).build()


def test_an_archive_is_read_as_it_is(tmp_path: Path) -> None:
    folder = digits(tmp_path / "made", ("01",))
    with tarfile.open(tmp_path / "digits.tar.gz", "w:gz") as archive:
        archive.add(folder, arcname="digits")
    data = ClipsConfig(path=str(tmp_path / "digits.tar.gz"), seconds=0.3, validation=0.2).build()
    assert (data.info["training_examples"], data.info["classes"]) == (16, 10)


def test_sounds_that_do_not_fit_into_memory_are_read_from_their_files(tmp_path: Path) -> None:
    folder = digits(tmp_path)
    within, from_files = (
        SpeechConfig(path=str(folder), memory=memory, batch_frames=300, validation_speakers=("theo",)).build() for memory in (1.0, 0.0)
    )
    assert isinstance(from_files.train, FrameBuckets)
    assert isinstance(from_files.train.sounds.waves, FileWaves)
    for number in range(len(from_files.train)):
        index, key = torch.tensor([number]), torch.tensor([7])
        batches = within.train.batch(index, key), from_files.train.batch(index, key)
        assert batches[0].keys() == batches[1].keys()
        for name in batches[0]:
            assert torch.allclose(batches[0][name].float(), batches[1][name].float(), atol=1e-4)
    (folder / "recordings" / "3_nina_0.wav").unlink()
    waves = from_files.train.sounds.waves
    gone = next(number for number, each in enumerate(waves.utterances) if "3_nina_0" in each.name)
    with pytest.raises(DataError, match=r"3_nina_0\.wav.*could be read when training began"):
        waves.rows(torch.tensor([gone]))


def test_what_cannot_be_used_is_counted_and_named(tmp_path: Path) -> None:
    folder = digits(tmp_path)
    (folder / "recordings" / "1_theo_9.wav").write_bytes(b"RIFF")
    save(folder / "recordings" / "2_theo_9.wav", 3.0)
    data = SpeechConfig(path=str(folder), longest=1.0).build()
    assert data.problems.counts == {"sound files that cannot be read": 1, "sounds longer than 1 seconds, left out": 1}
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="holds no sound file"):
        SpeechConfig(path=str(tmp_path / "empty")).build()
    (tmp_path / "one.wav").touch()
    with pytest.raises(DataError, match="is a file; name a folder"):
        SpeechConfig(path=str(tmp_path / "one.wav")).build()
    save(tmp_path / "no" / "a.wav")
    with pytest.raises(DataError, match="none of its sounds has a text"):
        SpeechConfig(path=str(tmp_path / "no")).build()
    save(tmp_path / "words" / "yes" / "a.wav")
    save(tmp_path / "words" / "no" / "a.wav")
    with pytest.raises(ConfigError, match="single digits"):
        SpeechConfig(path=str(tmp_path / "words"), strings=DigitStrings(number=3)).build()


def test_evaluation_takes_all_of_another_folder(tmp_path: Path) -> None:
    folder = digits(tmp_path)
    data = ClipsConfig(path=str(folder), validation_path=str(folder), seconds=0.3).build()
    assert (data.info["training_examples"], data.info["validation_examples"]) == (60, 60)
