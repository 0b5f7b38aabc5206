from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from weft.core.errors import ConfigError, DataError
from weft.data.audio import espeak
from weft.data.audio.clips import ClipsConfig
from weft.data.audio.digit_strings import DigitStrings
from weft.data.audio.espeak import Espeak, Order, choices, variants
from weft.data.audio.sounds import Sounds
from weft.data.audio.speech import SpeechConfig
from weft.data.audio.spoken_digits import SpokenDigits

needs_program = pytest.mark.skipif(shutil.which("espeak-ng") is None, reason="espeak-ng is not installed")


def test_what_is_said_is_a_function_of_seed_and_number() -> None:
    first = choices(Espeak(number=30), ["a", "b", "c"], ["m1", "f1"])
    assert first == choices(Espeak(number=50), ["a", "b", "c"], ["m1", "f1"])[:30]
    assert first != choices(Espeak(number=30, seed=1), ["a", "b", "c"], ["m1", "f1"])
    assert [order.text for order in first[:6]] == ["a", "b", "c", "a", "b", "c"]
    assert {order.voice.partition("+")[2] for order in first} == {"m1", "f1"}
    assert len({order.voice for order in first}) > 8
    assert all(20 <= order.pitch <= 80 and 100 <= order.speed <= 220 for order in first)
    assert [Order("7", voice, 50, 150).spoken() for voice in ("en-us+m1", "de+f2", "cmn+m1")] == ["seven", "sieben", "七"]
    assert Order("70 trees", "de", 50, 150).spoken() == "70 trees"


@pytest.mark.parametrize("wrong", [{"number": -1}, {"voices": ("--help",)}, {"voices": ()}, {"pitch": (5, 200)}, {"speed": (200, 100)}])
def test_settings_that_make_no_sense(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=r"--data\.espeak"):
        SpeechConfig(espeak=Espeak(**wrong)).build()  # type: ignore[arg-type]


def test_without_the_program_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    variants.cache_clear()
    monkeypatch.setattr(espeak, "PROGRAM", "espeak-that-is-not-there")
    with pytest.raises(DataError, match="is not installed"):
        SpeechConfig(espeak=Espeak(number=2)).build()
    variants.cache_clear()


@needs_program
def test_lines_of_a_file_in_several_languages(tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("good day\nhow are you\n-v what\n")
    settings = Espeak(number=12, texts=str(tmp_path / "lines.txt"), voices=("en-us", "de"))
    data = SpeechConfig(espeak=settings, validation=0.2).build()
    assert isinstance(data.train, Sounds)
    assert isinstance(data.validation, Sounds)
    assert len(data.train) + len(data.validation) == 12
    assert {text for _, text in data.train.texts} <= {"good day", "how are you", "-v what"}
    seconds = data.train.waves.sizes / 8000
    assert 0.2 < float(seconds.min()) < float(seconds.max()) < 3
    again = SpeechConfig(espeak=settings, validation=0.2).build()
    index = torch.arange(4)
    assert torch.equal(data.train.batch(index, index)["source"], again.train.batch(index, index)["source"])


@needs_program
def test_digits_beside_made_up_ones(tmp_path: Path) -> None:
    from tests.data.audio.test_manifest import digits

    folder = digits(tmp_path)
    data = ClipsConfig(
        path=str(folder),
        validation_speakers=("theo",),
        seconds=0.5,
        espeak=Espeak(number=20),
        made_up=SpokenDigits(voices=2, takes=1, beside=True),
    ).build()
    assert (data.info["training_examples"], data.info["validation_examples"]) == (40 + 20 + 20, 20)
    assert data.info["classes"] == 10
    assert isinstance(data.train, Sounds)
    assert len(set(data.train.labels["speaker"].tolist())) > 4
    strings = SpeechConfig(espeak=Espeak(number=12, voices=("en-us",)), strings=DigitStrings(number=5, noise=()), validation=0.0)
    with pytest.raises(DataError, match="not every speaker has said"):
        strings.build()
