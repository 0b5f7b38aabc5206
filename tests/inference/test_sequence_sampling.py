"""Targets drawn inside training: by their probabilities, from their own keys, with the state that reading whole targets confirms."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from tests.encoder_decoders import MODELS, batch, recurrent, transformer
from weft.core import random
from weft.data.tokenizers.special_tokens import END, START
from weft.inference.sequence_sampling import greedy_targets, sample_targets

every_model = pytest.mark.parametrize("kind", MODELS)
FILL = -100


@torch.no_grad()
def test_answers_are_drawn_by_their_probabilities() -> None:
    """Chi-squared over all answers of at most two tokens from a vocabulary of five."""
    network, number = recurrent(5, scale=4.0).eval(), 30_000
    source, lengths = torch.tensor([[3, 4, END]]), torch.tensor([3])
    key = random.keys(5, torch.arange(1))
    found = sample_targets(network, source, lengths, key, torch.tensor([2]), 2, START, END, number, FILL)[0]
    expected = {}
    for ids in product(range(5), range(5)):
        read = torch.tensor([[START, ids[0]]])
        p = network.head(network.hidden(source, lengths, read)).softmax(-1)[0]
        name = (END, FILL) if ids[0] == END else ids
        expected[name] = float(p[0, ids[0]]) * (1.0 if ids[0] == END else float(p[1, ids[1]]))
    assert sum(expected.values()) == pytest.approx(1.0, abs=1e-5)
    drawn = dict.fromkeys(expected, 0)
    for row in found.tolist():
        drawn[tuple(row)] += 1
    statistic = sum((drawn[name] - number * p) ** 2 / (number * p) for name, p in expected.items())
    assert statistic < 45.3, "the 0.1 % point with 20 degrees of freedom"


@every_model
def test_a_row_does_not_depend_on_the_others_or_on_how_many_are_drawn(kind: str) -> None:
    network, given = MODELS[kind](scale=3.0).train(), batch()
    most = torch.tensor([6, 4, 8, 1])
    arguments = (most, 8, START, END)
    whole = sample_targets(network, given["source"], given["source_length"], given["key"], *arguments, 3, FILL)
    assert network.training
    assert whole.shape == (4, 3, 8)
    fewer = sample_targets(network, given["source"], given["source_length"], given["key"], *arguments, 2, FILL)
    assert torch.equal(whole[:3, :2], fewer[:3])
    for row in range(3):
        one = slice(row, row + 1)
        alone = sample_targets(
            network, given["source"][one], given["source_length"][one], given["key"][one], most[one], 8, START, END, 3, FILL
        )
        assert torch.equal(alone, whole[one])
    assert len({tuple(answer) for answer in whole[:3].flatten(0, 1).tolist()}) > 4
    for row, least in zip(whole[:3], most.tolist(), strict=False):
        for answer in row.tolist():
            kept = [token for token in answer if token != FILL]
            assert answer[: len(kept)] == kept and 1 <= len(kept) <= least
            assert (kept.count(END), kept[-1] == END) in ((1, True), (0, False))
            assert kept[-1] == END or len(kept) == least


@torch.no_grad()
@every_model
def test_the_likeliest_answer_is_that_of_whole_targets_read_again_and_again(kind: str) -> None:
    """Dropout is off while answers are made, and the mode of the model comes back."""
    network = (transformer(dropout=0.5, scale=3.0) if kind == "transformer" else recurrent(scale=3.0)).train()
    given = batch()
    source, lengths = given["source"][:3], given["source_length"][:3]
    found = greedy_targets(network, source, lengths, torch.tensor([7, 7, 7]), 7, START, END, FILL)[:, 0]
    network.eval()
    ids = torch.full((3, 1), START)
    for _ in range(7):
        ids = torch.cat([ids, network.head(network.hidden(source, lengths, ids)[:, -1:]).argmax(-1)], 1)
    for made, expected in zip(found.tolist(), ids[:, 1:].tolist(), strict=True):
        end = expected.index(END) + 1 if END in expected else 7
        assert made == expected[:end] + [FILL] * (7 - end)
