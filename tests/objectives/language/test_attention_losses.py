"""Coverage and guided attention, by their equations, and as terms of an objective."""

from __future__ import annotations

import math

import pytest
import torch

from weft.core.errors import CapabilityError, ConfigError
from weft.models.base import need
from weft.models.language.pointer_generator import PointerGeneratorConfig
from weft.models.language.transformer import TransformerConfig
from weft.objectives.language.attention_losses import coverage_loss, guided_attention_loss
from weft.objectives.language.seq2seq import Seq2Seq, Seq2SeqConfig

WRITTEN, LENGTHS = torch.tensor([4, 2, 0]), torch.tensor([5, 3, 0])


def weights() -> torch.Tensor:
    torch.manual_seed(0)
    scores = torch.randn(3, 4, 5).masked_fill(torch.arange(5) >= LENGTHS[:, None, None], -math.inf)
    return scores.softmax(-1).nan_to_num(0.0)


def test_coverage_is_what_is_attended_to_again() -> None:
    found, given, expected = coverage_loss(weights(), WRITTEN), weights(), 0.0
    for b in range(3):
        so_far = [0.0] * 5
        for t in range(int(WRITTEN[b])):
            expected += sum(min(float(given[b, t, s]), so_far[s]) for s in range(5))
            so_far = [so_far[s] + float(given[b, t, s]) for s in range(5)]
    assert float(found) == pytest.approx(expected, rel=1e-5)
    assert float(coverage_loss(torch.eye(4)[None], torch.tensor([4]))) == 0.0


def test_guided_attention_costs_what_is_off_the_diagonal() -> None:
    found, given, expected = guided_attention_loss(weights(), LENGTHS, WRITTEN, 0.2), weights(), 0.0
    for b in range(3):
        for t in range(int(WRITTEN[b])):
            for n in range(int(LENGTHS[b])):
                w = 1 - math.exp(-((n / int(LENGTHS[b]) - t / int(WRITTEN[b])) ** 2) / (2 * 0.2**2))
                expected += w * float(given[b, t, n])
    assert float(found) == pytest.approx(expected, rel=1e-5)
    assert float(guided_attention_loss(torch.eye(4)[None], torch.tensor([4]), torch.tensor([4]))) == 0.0


def test_both_are_terms_of_sequence_to_sequence() -> None:
    torch.manual_seed(0)
    made = PointerGeneratorConfig(vocabulary=12, oov_words=2, context=12, layers=1, heads=2, width=16, dropout=0.0).build()
    batch = {
        "source": torch.tensor([[5, 10, 2], [7, 2, 0]]),
        "target": torch.tensor([[1, 10, 5, 2], [1, 7, 2, 0]]),
        "source_length": torch.tensor([3, 2]),
        "target_length": torch.tensor([4, 3]),
    }
    objective = Seq2Seq(Seq2SeqConfig(start=1, end=2, label_smoothing=0.0, coverage=1.0, guided_attention=0.5))
    assert objective.weights == {"coverage": 1.0, "guided_attention": 0.5}
    terms, counts = objective(made, batch, ""), objective.counts(batch)
    plain = Seq2Seq(Seq2SeqConfig(start=1, end=2, label_smoothing=0.0))(made, batch, "")
    assert set(terms.sums) == {"loss", "coverage", "guided_attention"}
    torch.testing.assert_close(terms.sums["loss"], plain.sums["loss"])
    memory = made.encode(batch["source"], batch["source_length"])
    _, given = made.decode_with_attention(batch["target"][:, :-1], memory, batch["source_length"])
    torch.testing.assert_close(terms.sums["coverage"], coverage_loss(given, torch.tensor([3, 2])))
    assert float(counts["coverage"]) == float(counts["guided_attention"]) == float(counts["loss"]) == 5
    terms.sums["guided_attention"].backward()
    assert made.query.weight.grad.abs().sum() > 0


def test_a_model_without_weights_and_a_weight_that_is_none_are_refused() -> None:
    objective = Seq2Seq(Seq2SeqConfig(start=1, end=2, guided_attention=1.0))
    with pytest.raises(CapabilityError, match="SourceAttention"):
        need(TransformerConfig(vocabulary=12, context=12, layers=1, heads=2, width=16).build(), objective.needs)
    for settings in ({"coverage": -1.0}, {"guided_attention": math.nan}, {"guided_width": 0.0}):
        with pytest.raises(ConfigError, match=next(iter(settings))):
            Seq2Seq(Seq2SeqConfig(**settings))  # type: ignore[arg-type]
