"""Introductions with invented names, none of which occurs in two pairs."""

from __future__ import annotations

from typing import Any

import pytest

from weft.core.errors import ConfigError
from weft.data.text.introductions import MOST, SYLLABLES, IntroductionsConfig, english_name


def made(**settings: Any) -> Any:
    return IntroductionsConfig(tokenizer="words", min_count=3, oov_words=4, max_length=32, pairs=400, **settings).build()


def test_names_of_validation_are_new_and_stand_in_both_texts() -> None:
    data = made()
    names = [[set(data.tokenizer.unknown_words(text)) for text, _ in side.texts] for side in (data.train, data.validation)]
    flat = [name for side in names for row in side for name in row]
    assert len(flat) == len(set(flat)), "no name is in two pairs"
    for side, sets in zip((data.train, data.validation), names, strict=True):
        for (source, target), own in zip(side.texts, sets, strict=True):
            assert own
            assert set(data.tokenizer.unknown_words(target)) == own
            mine = data.tokenizer.for_source(source)
            assert mine.decode(mine.encode(target).tolist()) == target


def test_it_is_a_function_of_the_seed() -> None:
    assert made().train.texts == made().train.texts
    assert made().train.texts != made(seed=1).train.texts


def test_english_names_differ() -> None:
    assert len({english_name(number) for number in range(0, SYLLABLES**3, 7)}) == len(range(0, SYLLABLES**3, 7))


def test_settings_that_make_no_data_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"--data.pairs"):
        IntroductionsConfig(pairs=MOST + 1).build()
    with pytest.raises(ConfigError, match=r"--data.tokenizer words, not bytes"):
        IntroductionsConfig(tokenizer="bytes", oov_words=4).build()
    with pytest.raises(ConfigError, match=r"--data.min-count must be at least 1"):
        IntroductionsConfig(tokenizer="words", min_count=0).build()
