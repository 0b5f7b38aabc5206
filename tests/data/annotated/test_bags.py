"""Texts as bags of words and n-grams: fastText's own layout, hashes that are fastText's, and the embedded data."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from weft.core.errors import ConfigError, DataError
from weft.data.annotated.bags import BagsConfig
from weft.data.base import Problems
from weft.data.tokenizers import base as tokenizers
from weft.data.tokenizers.character_ngrams import FastTextTokenizer, SpacedWords, character_ngrams, hashed, word_ngrams


def test_a_file_in_fasttexts_layout(tmp_path: Path) -> None:
    lines = ["__label__pet the cat", "__label__wild __label__big a lion", "", "no label here", "__label__pet"]
    (tmp_path / "it.txt").write_text("\n".join(lines * 8))
    data = BagsConfig(path=str(tmp_path / "it.txt"), validation=0.0, buckets=20).build()
    assert data.info["class_names"] == ["pet", "wild"]
    assert data.info["training_examples"] == 16
    told = "\n".join(data.problems.lines())
    assert "16 × lines without a label or without a text, left out" in told
    assert "8 × lines with several labels, of which the first was taken" in told
    batch = data.train.batch(torch.arange(16), torch.zeros(16, dtype=torch.int64))
    assert set(batch["lengths"].tolist()) == {5}  # two words, the end, and two pairs of them
    assert batch["label"].tolist() == [0, 1] * 8
    (tmp_path / "none.txt").write_text("__label__pet\n")
    with pytest.raises(DataError, match="holds no line with a label and a text"):
        BagsConfig(path=str(tmp_path / "none.txt")).build()


def test_n_grams_are_of_characters_not_of_bytes() -> None:
    assert hashed(b"") == 2166136261
    assert hashed("é".encode()) != hashed(b"\xc3") != hashed(b"\xa9")
    whole = list(character_ngrams("né", 1, 3))
    assert whole == [hashed(part.encode()) for part in ("<n", "<né", "n", "né", "né>", "é", "é>")]
    assert list(character_ngrams("a", 5, 6)) == []
    assert len(list(word_ngrams([1, 2, 3], 2))) == 2
    assert list(word_ngrams([1, 1 << 31], 2)) == [(116049371 - (1 << 31)) % (1 << 64)]


def test_tokenizers_are_kept_whole() -> None:
    for tokenizer in (SpacedWords(["<unk>", "cat"]), FastTextTokenizer(["cat", "</s>"], 2, 3, 9, {4: 0, 7: 1}, 2)):
        again = tokenizers.load(tokenizers.dump(tokenizer))
        assert again.size == tokenizer.size
        assert again.encode("a cat").tolist() == tokenizer.encode("a cat").tolist()
    with pytest.raises(DataError, match="have no rows of their own"):
        tokenizers.load(tokenizers.dump(FastTextTokenizer(["cat"], 2, 3, 9, {4: 5})))


def test_settings_and_long_texts(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--data.word_ngrams from 1 to 64"):
        BagsConfig(path="it.tsv", word_ngrams=0).build()
    (tmp_path / "it.tsv").write_text("text\tlabel\n" + "a b c d e f g h i j\tx\nk l\ty\n" * 10)
    data = BagsConfig(path=str(tmp_path / "it.tsv"), validation=0.0, context=8).build()
    assert data.info["tokens"] == 8
    assert any("texts of more than 8 words and n-grams" in line for line in data.problems.lines())


def test_the_embedded_data_has_packages_for_classes() -> None:
    examples = BagsConfig().read("", Problems())
    assert len({example.label for example in examples}) > 5
    assert len(examples) > 1000
