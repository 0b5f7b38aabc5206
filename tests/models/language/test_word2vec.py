from __future__ import annotations

import pytest
import torch

from weft.models.base import Embeds, need
from weft.models.language.word2vec import Word2Vec, Word2VecConfig


@pytest.fixture
def model() -> Word2Vec:
    """Four words: 1 and 2 nearly parallel, 3 opposite to 1."""
    model = Word2Vec(Word2VecConfig(vocabulary=4, width=2))
    with torch.no_grad():
        model.centre.weight.copy_(torch.tensor([[0.0, 1.0], [1.0, 0.0], [3.0, 0.3], [-2.0, 0.0]]))
    return model


def test_scores_are_products_of_the_two_tables(model: Word2Vec) -> None:
    centre, context = torch.tensor([1, 2]), torch.tensor([[0, 3, 3], [1, 2, 0]])
    scores = model(centre, context)
    for b in range(2):
        for c in range(3):
            expected = model.centre.weight[centre[b]] @ model.context.weight[context[b, c]]
            torch.testing.assert_close(scores[b, c], expected)


def test_vectors_are_those_of_the_centre_table(model: Word2Vec) -> None:
    need(model, Embeds)
    assert torch.equal(model.embed(torch.tensor([[1, 2]])), model.centre.weight[None, 1:3])


def test_nearest_is_by_cosine_and_leaves_out_the_word_itself(model: Word2Vec) -> None:
    ids, cosines = model.nearest(torch.tensor([1]), 10)
    assert ids.tolist() == [[2, 0, 3]]
    torch.testing.assert_close(cosines[0, 2], torch.tensor(-1.0))


def test_the_first_gradient_reaches_both_tables() -> None:
    model = Word2VecConfig(vocabulary=4, width=8).build()
    model(torch.tensor([1]), torch.tensor([[2]])).sum().backward()
    assert model.centre.weight.grad is not None
    assert model.context.weight.grad is not None
    assert model.centre.weight.grad[1].abs().sum() > 0
    assert model.context.weight.grad[2].abs().sum() > 0
