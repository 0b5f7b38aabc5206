from __future__ import annotations

from pathlib import Path

import pytest
import torch

from weft.core import random
from weft.core.errors import ConfigError, DataError
from weft.data.base import IGNORE
from weft.data.text.cooccurrence import CooccurrenceConfig, Cooccurrences, keep_probabilities
from weft.data.tokenizers.base import WordTokenizer


def dataset(window: int = 3, kept: float = 1.0) -> Cooccurrences:
    """Two documents of 20 words, each word its own place."""
    return Cooccurrences(torch.arange(40), torch.arange(40) // 20, torch.full((40,), kept), window)


def test_contexts_are_near_and_of_the_same_document() -> None:
    data = dataset()
    index = torch.arange(40).repeat(50)
    batch = data.batch(index, random.keys(0, torch.arange(2000)))
    assert torch.equal(batch["centre"], index)
    context, centre = batch["context"], batch["centre"].unsqueeze(1)
    real = context != IGNORE
    distance = (context - centre)[real]
    assert distance.abs().max() == 3
    assert distance.abs().min() == 1
    assert torch.equal((context // 20)[real], (centre // 20).expand_as(context)[real])
    assert (real.sum(1) >= 1).all()


def test_the_window_is_dynamic() -> None:
    """A word at distance d is in the window with probability (W - d + 1) / W."""
    batch = dataset().batch(torch.full((30_000,), 10), random.keys(0, torch.arange(30_000)))
    share = (batch["context"] != IGNORE).float().mean(0)
    expected = torch.tensor([1 / 3, 2 / 3, 1, 1, 2 / 3, 1 / 3])
    assert (share - expected).abs().max() < 0.015


def test_frequent_words_are_left_out_at_the_stated_rate() -> None:
    share = keep_probabilities((0, 900, 100), 0.01)
    torch.testing.assert_close(share, torch.tensor([1.0, (0.01 / 0.9) ** 0.5, (0.01 / 0.1) ** 0.5]))
    assert keep_probabilities((0, 900, 100), 0.0).tolist() == [1.0, 1.0, 1.0]
    batch = dataset(window=1, kept=0.5).batch(torch.full((40_000,), 10), random.keys(0, torch.arange(40_000)))
    assert abs(float((batch["context"] != IGNORE).float().mean()) - 0.25) < 0.01, "both words must be kept"


def test_batches_are_functions_of_index_and_key() -> None:
    data, key = dataset(kept=0.7), random.keys(0, torch.arange(40))
    whole, part = data.batch(torch.arange(40), key), data.batch(torch.arange(7, 13), key[7:13])
    assert all(torch.equal(whole[name][7:13], part[name]) for name in part)


def test_a_text_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "my.txt"
    path.write_text("The cat sees a cat. " * 30 + "\n\n" + "the dog 42 sees once_only. " * 30)
    data = CooccurrenceConfig(path=str(path), min_count=25).build()
    assert data.tokenizer.words[:2] == ["<unk>", "cat"]
    assert "42" not in data.tokenizer.words
    assert data.info["vocabulary"] == len(data.info["frequencies"]) == len(data.tokenizer.words)
    assert data.info["frequencies"][0] == 0
    assert data.info["frequencies"][1] == 60
    assert sum(data.info["frequencies"]) == data.info["training_words"] == len(data.train)
    assert data.train.batch(torch.arange(5), torch.arange(5))["centre"].min() > 0, "unknown words are taken out"


def test_the_words_of_another_model_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "my.txt"
    path.write_text("the cat sees the dog " * 10)
    known = WordTokenizer(["<unk>", "dog", "moon", "cat"])
    data = CooccurrenceConfig(path=str(path), validation=0.0).build_with(known)
    assert data.tokenizer is known
    assert data.validation is None
    assert data.info["frequencies"] == (0, 10, 0, 10)
    with pytest.raises(DataError, match="none of the 2 words"):
        CooccurrenceConfig(path=str(path)).build_with(WordTokenizer(["<unk>", "moon"]))


def test_mistakes_are_named(tmp_path: Path) -> None:
    path = tmp_path / "my.txt"
    path.write_text("too few words here")
    with pytest.raises(DataError, match=r"data\.min_count"):
        CooccurrenceConfig(path=str(path)).build()
    with pytest.raises(ConfigError, match=r"data\.window"):
        CooccurrenceConfig(path=str(path), window=0).build()
