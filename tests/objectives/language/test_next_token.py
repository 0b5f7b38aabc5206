"""Next-token cross-entropy: it is the log-likelihood of the sequence, and a distribution over strings."""

from __future__ import annotations

import itertools
import math

import hypothesis.strategies as st
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from torch import Tensor

from weft.core.errors import CapabilityError
from weft.data.base import IGNORE
from weft.models.language.bert import BERTConfig
from weft.models.language.gpt import GPT, GPTConfig
from weft.objectives.language.next_token import NextToken, NextTokenConfig

V, T = 3, 4


def model(**settings: object) -> GPT:
    torch.manual_seed(0)
    config = GPTConfig(**{"vocabulary": V, "context": T, "layers": 1, "heads": 1, "width": 8, "tie_embeddings": False, **settings})  # type: ignore[arg-type]
    made = config.build().double().eval()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return made


def terms(network: GPT, ids: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    objective = NextToken(NextTokenConfig())
    batch = {"ids": ids, "targets": targets}
    return objective(network, batch, "").sums["loss"], objective.counts(batch)["loss"]


@given(st.lists(st.floats(-8, 8), min_size=2, max_size=9), st.data())
def test_cross_entropy_is_minus_log_softmax(logits: list[float], data: st.DataObject) -> None:
    target = data.draw(st.integers(0, len(logits) - 1))
    by_hand = math.log(sum(math.exp(x) for x in logits)) - logits[target]
    loss = F.cross_entropy(torch.tensor([logits], dtype=torch.float64), torch.tensor([target]))
    assert float(loss) == pytest.approx(by_hand, abs=1e-6)


@given(st.lists(st.tuples(st.floats(0.01, 1), st.floats(0.01, 1)), min_size=2, max_size=8))
def test_cross_entropy_is_at_least_the_entropy(pairs: list[tuple[float, float]]) -> None:
    p, q = torch.tensor(pairs, dtype=torch.float64).T
    p, q = p / p.sum(), q / q.sum()
    cross, entropy = float(F.cross_entropy(q.log(), p)), float(-(p * p.log()).sum())
    assert cross >= entropy - 1e-9
    assert float(F.cross_entropy(p.log(), p)) == pytest.approx(entropy, abs=1e-9)


def test_cross_entropy_of_a_label_is_least_at_the_one_hot() -> None:
    target = torch.tensor([1])
    losses = [float(F.cross_entropy(torch.tensor([[0.0, x, 0.0]]), target)) for x in (-5.0, 0.0, 5.0, 50.0)]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] == pytest.approx(0, abs=1e-6)
    logits = torch.randn(1, 3, requires_grad=True)
    gradient = torch.autograd.grad(F.cross_entropy(logits, target), logits)[0]
    torch.testing.assert_close(gradient, logits.detach().softmax(-1) - F.one_hot(target, 3))


@pytest.mark.parametrize("settings", [{}, {"position_embedding": "rotary"}, {"position_embedding": "sinusoidal", "norm": "post"}])
def test_the_probabilities_of_all_strings_sum_to_one(settings: dict[str, str]) -> None:
    """Every string of length 4 over 3 letters after a first letter: the chain rule makes one distribution."""
    network = model(**settings)
    strings = torch.tensor(list(itertools.product(range(V), repeat=T)))
    ids = torch.cat([torch.zeros(len(strings), 1, dtype=torch.int64), strings[:, :-1]], dim=1)
    total = sum(math.exp(-float(terms(network, ids[i : i + 1], strings[i : i + 1])[0].detach())) for i in range(len(strings)))
    assert len(strings) == V**T
    assert total == pytest.approx(1, abs=1e-6)


def test_the_loss_is_the_mean_of_minus_log_p() -> None:
    network = model()
    ids, targets = torch.randint(V, (5, T)), torch.randint(V, (5, T))
    targets[0, 2:] = IGNORE
    loss, count = terms(network, ids, targets)
    log_p = network(ids).log_softmax(-1)
    chosen = [log_p[b, t, targets[b, t]] for b in range(5) for t in range(T) if targets[b, t] != IGNORE]
    assert float(count) == len(chosen) == 18
    torch.testing.assert_close((loss / count).detach().double(), -torch.stack(chosen).mean().detach(), atol=1e-6, rtol=1e-5)


def test_nothing_to_predict_is_nothing() -> None:
    loss, count = terms(model(), torch.zeros(2, T, dtype=torch.int64), torch.full((2, T), IGNORE))
    assert float(loss.detach()) == 0.0
    assert float(count) == 0.0


def test_perplexity_and_bits_per_byte() -> None:
    objective = NextToken(NextTokenConfig(bytes_per_token=2.5))
    numbers = objective.summary({"loss": torch.tensor(1.75, dtype=torch.float64)})
    assert numbers["perplexity"] == pytest.approx(math.exp(1.75))
    assert numbers["bits_per_byte"] == pytest.approx(1.75 / math.log(2) / 2.5)
    assert math.isfinite(objective.summary({"loss": torch.tensor(1e6)})["perplexity"])
    assert "bits_per_byte" not in NextToken(NextTokenConfig()).summary({"loss": torch.tensor(1.0)})


def test_a_uniform_model_has_the_vocabulary_as_its_perplexity() -> None:
    network = model()
    torch.nn.init.zeros_(network.head.weight)
    loss, count = terms(network, torch.randint(V, (5, T)), torch.randint(V, (5, T)))
    assert NextToken(NextTokenConfig()).summary({"loss": (loss / count).detach()})["perplexity"] == pytest.approx(V, rel=1e-6)


def test_a_model_that_sees_what_it_is_to_tell_is_refused() -> None:
    both_ways = BERTConfig(vocabulary=V, context=T, layers=1, heads=1, width=8).build()
    with pytest.raises(CapabilityError, match="BERT reads in both directions and would see the token that it is to tell"):
        terms(both_ways, torch.zeros(1, T, dtype=torch.int64), torch.zeros(1, T, dtype=torch.int64))  # type: ignore[arg-type]
