from __future__ import annotations

import pytest
import torch

from weft.core.errors import ConfigError
from weft.data.audio.augment import SoundAugment
from weft.data.audio.digit_strings import DigitStrings, digit_of
from weft.data.audio.sounds import FrameBuckets, Sounds
from weft.data.audio.speech import SpeechConfig
from weft.data.audio.spoken_digits import SpokenDigits, spoken
from weft.data.base import DataLoader

FEW = SpokenDigits(voices=4, takes=1)
CPU = torch.device("cpu")


def strings(**settings: object) -> SpeechConfig:
    return SpeechConfig(made_up=FEW, strings=DigitStrings(number=60), tokenizer="words", **settings)  # type: ignore[arg-type]


def test_made_up_digits_and_their_words() -> None:
    data = SpeechConfig(made_up=FEW, validation=0.25).build()
    assert isinstance(data.train, Sounds)
    assert isinstance(data.validation, Sounds)
    assert (len(data.train), len(data.validation), data.info["features"]) == (30, 10, 40)
    batch = data.train.batch(torch.arange(30), torch.zeros(30, dtype=torch.int64))
    assert set(batch) == {"source", "source_length", "target", "target_length", "speaker"}
    assert batch["source"].shape == (30, data.info["tokens"], 40)
    assert set(batch["speaker"].tolist()) == {0, 1, 2}
    for row, (_, text) in zip(range(30), data.train.texts, strict=True):
        ids = batch["target"][row, : int(batch["target_length"][row])].tolist()
        assert (ids[0], ids[-1]) == (data.info["start"], data.info["end"])
        assert data.tokenizer.decode(ids) == text
        assert (batch["target"][row, len(ids) :] == 0).all()
        assert (batch["source"][row, int(batch["source_length"][row]) :] == 0).all()


def test_the_same_voices_and_takes_each_time_and_others_with_another_seed() -> None:
    first, digit, voice = spoken(FEW, 8000)
    spoken.cache_clear()
    again, _, _ = spoken(FEW, 8000)
    more, _, _ = spoken(SpokenDigits(voices=6, takes=1), 8000)
    other, _, _ = spoken(SpokenDigits(voices=4, takes=1, seed=1), 8000)
    assert torch.equal(first.values, again.values)
    assert torch.allclose(first.values, more.values[: len(first.values)], atol=1e-5)
    assert len(other.values) != len(first.values)
    assert (digit.bincount() == 4).all()
    assert (voice.bincount() == 10).all()
    seconds = first.sizes / 8000
    assert 0.15 < float(seconds.min()) < float(seconds.max()) < 1.2


def test_strings_have_digits_gaps_and_noise_of_one_voice() -> None:
    data = strings().build()
    assert isinstance(data.train, Sounds)
    assert len(data.train) == 60
    lengths = [len(text.split()) for _, text in data.train.texts]
    assert set(lengths) == {3, 4, 5, 6, 7, 8}
    batch = data.train.batch(torch.arange(60), torch.zeros(60, dtype=torch.int64))
    assert (batch["target_length"] == torch.tensor(lengths) + 2).all()
    seconds = data.train.waves.sizes / 8000
    assert ((seconds > 0.15 * torch.tensor(lengths)) & (seconds < 1.5 * torch.tensor(lengths) + 0.3)).all()
    again = strings().build()
    assert isinstance(again.train, Sounds)
    assert again.train.texts == data.train.texts
    assert torch.equal(again.train.batch(torch.arange(5), torch.arange(5))["source"], batch["source"][:5])


@pytest.mark.parametrize(("language", "first"), [("de", "null"), ("zh", "零")])
def test_strings_in_another_language(language: str, first: str) -> None:
    settings = DigitStrings(number=20, language=language)  # type: ignore[arg-type]
    data = SpeechConfig(made_up=FEW, strings=settings, tokenizer="characters").build()
    assert isinstance(data.train, Sounds)
    assert any(first in text for _, text in data.train.texts)
    assert digit_of(first) == 0
    assert [digit_of(word) for word in ("7", "Seven.", "sieben", "七", "ten", "")] == [7, 7, 7, 7, None, None]


def test_batches_of_similar_length() -> None:
    augment = SoundAugment(speeds=(0.9, 1.0, 1.1), noise=(10.0, 20.0), masks=1)
    data = strings(batch_frames=1500, augment=augment).build()
    assert isinstance(data.train, FrameBuckets)
    assert sorted(int(i) for held in data.train.members for i in held if i >= 0) == list(range(60))
    loader = DataLoader(data.train, 0, CPU)
    seen = 0
    for number in range(len(data.train)):
        batch = loader.batch(number, 1)
        there = batch["target_length"] > 0
        seen += int(there.sum())
        assert batch["source"].size(1) >= int(batch["source_length"].max())
        assert (batch["source"][~there] == 0).all()
        assert (batch["source_length"][~there] == 0).all()
        assert (batch["speaker"][~there] == -1).all()
        assert len(batch["row_key"]) == len(there)
    assert seen == 60
    far = DataLoader(data.train, 0, CPU).batch(2 * len(data.train) + 3, 1)  # a seek
    for name, part in loader.batch(2 * len(data.train) + 3, 1).items():
        assert torch.equal(part, far[name])


@pytest.mark.parametrize(
    "wrong",
    [
        {"sample_rate": 0},
        {"batch_frames": -1},
        {"validation": 1.0},
        {"max_length": 0},
        {"made_up": SpokenDigits(voices=1)},
        {"strings": DigitStrings(shortest=9)},
        {"strings": DigitStrings(gap=-1.0)},
        {"strings": DigitStrings(noise=(1.0,))},
    ],
)
def test_settings_that_make_no_sense(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="--data"):
        SpeechConfig(**wrong).build()  # type: ignore[arg-type]
