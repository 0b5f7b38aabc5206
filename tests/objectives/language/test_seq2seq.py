"""Sequence to sequence: what is predicted and counted, label smoothing as a divergence, answers in validation."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from weft.core.errors import ConfigError
from weft.data.base import Batch
from weft.data.tokenizers.special_tokens import END, PAD, START
from weft.models.language.transformer import TransformerConfig
from weft.objectives.language.seq2seq import Seq2Seq, Seq2SeqConfig, r_drop_kl

V = 12


def batch() -> Batch:
    target = torch.tensor([[START, 5, 6, END, PAD], [START, 7, END, PAD, PAD], [START, 5, 5, 5, END], [PAD] * 5])
    source = torch.tensor([[5, 6, END, PAD], [7, END, PAD, PAD], [5, 5, 5, END], [PAD] * 4])
    return {"source": source, "target": target, "source_length": torch.tensor([3, 2, 4, 0]), "target_length": torch.tensor([4, 3, 5, 0])}


def model() -> Any:
    torch.manual_seed(0)
    return TransformerConfig(vocabulary=V, context=12, layers=1, heads=2, width=16, dropout=0.0).build()


def objective(**settings: Any) -> Seq2Seq:
    return Seq2Seq(Seq2SeqConfig(start=START, end=END, **settings))


@torch.no_grad()
def test_every_token_and_end_is_predicted_once() -> None:
    made, given = objective(label_smoothing=0.0), batch()
    assert float(made.counts(given)["loss"]) == 3 + 2 + 4  # N + 1 of each pair, nothing of an empty row
    terms, logs = made(model(), given, ""), model()(given["source"], given["source_length"], given["target"][:, :-1]).log_softmax(-1)
    wanted = [(0, 5), (1, 6), (2, END)], [(0, 7), (1, END)], [(0, 5), (1, 5), (2, 5), (3, END)]
    expected = -sum(float(logs[row, place, token].detach()) for row, pairs in enumerate(wanted) for place, token in pairs)
    assert float(terms.sums["loss"]) == pytest.approx(expected, rel=1e-5)
    assert float(terms.metrics["log_loss"]) == pytest.approx(expected, rel=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("filling", [PAD, START, END, 7])
def test_an_end_is_learned_and_padding_never_whatever_it_looks_like(filling: int) -> None:
    """Lengths tell what is padding. Were it told by its id, and the id END, no model would learn to stop."""
    given, made, network = batch(), objective(), model()
    plain = made(network, given, "")
    padded = given["target"].masked_fill(torch.arange(5) >= given["target_length"][:, None], filling)
    found = made(network, {**given, "target": padded}, "")
    torch.testing.assert_close(found.sums, plain.sums)
    torch.testing.assert_close(found.metrics, plain.metrics)
    assert len({PAD, START, END}) == 3
    cut = {**given, "target_length": (given["target_length"] - 1).clamp(min=0)}  # END is left out
    assert float(made(network, cut, "").sums["loss"]) < float(plain.sums["loss"])


@pytest.mark.parametrize("smoothing", [0.1, 0.4])
def test_smoothing_is_a_divergence_from_a_softened_target(smoothing: float) -> None:
    given, network = batch(), model()
    made = objective(label_smoothing=smoothing)
    logs = network(given["source"], given["source_length"], given["target"][:, :-1]).log_softmax(-1)
    total = torch.zeros(())
    soft = torch.full((V,), smoothing / V)
    for row, length in enumerate(given["target_length"].tolist()):
        for place in range(length - 1):
            wanted = soft.clone()
            wanted[given["target"][row, place + 1]] += 1 - smoothing
            total = total + F.kl_div(logs[row, place], wanted, reduction="sum") - (wanted * wanted.log()).sum()
    torch.testing.assert_close(made(network, given, "").sums["loss"], total, rtol=1e-5, atol=1e-5)


class Copies:
    """A model whose likeliest target is the source."""

    config = TransformerConfig(vocabulary=V, context=12)

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> Tensor:
        return source.float().unsqueeze(-1)

    def decode(self, target: Tensor, memory: Tensor, lengths: Tensor | None = None) -> Tensor:
        place = torch.arange(target.size(1)).clamp(max=memory.size(1) - 1)
        return memory[:, place, 0]

    def head(self, hidden: Tensor) -> Tensor:
        return F.one_hot(hidden.long(), V).float() * 20


def test_validation_lets_the_model_answer() -> None:
    made, given = objective(), batch()
    found = made.measure(Copies(), given)["matches"]
    assert found.tolist() == [6, 6, 3, 3, 1, 1, 0, 0, 6, 6]
    means = {"matches": found, "log_loss": torch.tensor(0.5)}
    assert made.summary(means)["token_bleu"] == 0.0  # no sentence has four words
    assert made.summary(means)["perplexity"] == pytest.approx(1.6487, abs=1e-4)
    assert objective(decode=False).measure(Copies(), given) == {}


def test_a_share_that_makes_no_sense() -> None:
    with pytest.raises(ConfigError, match=r"--objective\.label_smoothing must be"):
        objective(label_smoothing=1.0)


def test_two_passes_without_dropout_agree() -> None:
    given, network = batch(), model().train()
    torch.testing.assert_close(objective(r_drop=5.0)(network, given, "").sums, objective()(network, given, "").sums)


@torch.no_grad()
def test_two_passes_with_dropout_are_pulled_together() -> None:
    torch.manual_seed(0)
    network = TransformerConfig(vocabulary=V, context=12, layers=1, heads=2, width=16, dropout=0.3).build()
    given, losses = batch(), {}
    for weight in (1e-9, 1.0, 2.0):
        torch.manual_seed(1)
        losses[weight] = float(objective(r_drop=weight)(network, given, "").sums["loss"])
    assert losses[1e-9] < losses[1.0] < losses[2.0]
    assert losses[2.0] - losses[1.0] == pytest.approx(losses[1.0] - losses[1e-9], rel=1e-4)
    network.eval()
    assert float(objective(r_drop=5.0)(network, given, "").sums["loss"]) == pytest.approx(
        float(objective()(network, given, "").sums["loss"])
    )


def test_disagreement_is_the_divergence_both_ways_where_it_counts() -> None:
    first, second = (torch.randn(4, V, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1))
    p, q, counted = first.log_softmax(-1), second.log_softmax(-1), torch.tensor([True, False, True, True])
    both = F.kl_div(p, q, log_target=True, reduction="none") + F.kl_div(q, p, log_target=True, reduction="none")
    torch.testing.assert_close(r_drop_kl(first, second, counted), both[counted].sum())
