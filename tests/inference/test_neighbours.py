"""Nearest words by cosine."""

from __future__ import annotations

import pytest
import torch

from weft.core.errors import CapabilityError, DataError
from weft.data.tokenizers.base import WordTokenizer
from weft.inference.neighbours import neighbours
from weft.models.language.word2vec import Word2Vec, Word2VecConfig

WORDS = WordTokenizer(["<unk>", "cat", "dog", "stone"])


@pytest.fixture
def model() -> Word2Vec:
    model = Word2VecConfig(vocabulary=4, width=2).build()
    with torch.no_grad():
        model.centre.weight.copy_(torch.tensor([[-1.0, -1.0], [1.0, 0.1], [2.0, 0.0], [0.0, 3.0]]))
    return model


def test_nearest_first_without_the_word_itself(model: Word2Vec) -> None:
    found = neighbours(model, WORDS, "cat Stone", number=2)
    assert list(found) == ["cat", "Stone"]
    assert [word for word, _ in found["cat"]] == ["dog", "stone"]
    assert found["cat"][0][1] == pytest.approx(2 / (2 * 1.01**0.5), abs=1e-4)
    assert found["Stone"][0][0] == "cat"


def test_unknown_words_and_missing_tokens_are_explained(model: Word2Vec) -> None:
    with pytest.raises(DataError, match="'bird' is not among the 4 words"):
        neighbours(model, WORDS, "bird")
    with pytest.raises(CapabilityError, match="no tokenizer"):
        neighbours(model, None, "cat")
