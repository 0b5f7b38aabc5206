"""The mixture of generating and copying: a distribution over the extended vocabulary, by its equation."""

from __future__ import annotations

import pytest
import torch

from weft.nn.seq2seq.copy import copy_mixture

B, T, S, V, E = 3, 4, 5, 7, 10


def parts(gate: float = 1.0) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    source = torch.randint(0, E, (B, S))
    source[0, :3] = 8  # a word that stands in several positions
    return torch.randn(B, T, V), torch.randn(B, T, S).softmax(-1), gate * torch.randn(B, T, 1), source


@pytest.mark.parametrize("gate", [1.0, 0.0, 50.0, 1000.0])
def test_probabilities_sum_to_one_over_the_extended_vocabulary(gate: float) -> None:
    total = copy_mixture(*parts(gate), E).exp().sum(-1)
    torch.testing.assert_close(total, torch.ones(B, T), atol=1e-6, rtol=0)


def test_each_probability_is_what_the_equation_says() -> None:
    logits, weights, gate, source = parts()
    found, p_gen, p_vocabulary = copy_mixture(logits, weights, gate, source, E).exp(), gate.sigmoid(), logits.softmax(-1)
    for b in range(B):
        for t in range(T):
            for w in range(E):
                copied = sum(float(weights[b, t, s]) for s in range(S) if source[b, s] == w)
                generated = float(p_vocabulary[b, t, w]) if w < V else 0.0
                p = float(p_gen[b, t, 0])
                assert float(found[b, t, w]) == pytest.approx(p * generated + (1 - p) * copied, abs=1e-6)


def test_a_row_without_attention_generates_only() -> None:
    logits, weights, gate, source = parts()
    weights[1] = 0.0
    found = copy_mixture(logits, weights, gate, source, E)
    torch.testing.assert_close(found[1, :, :V], logits[1].log_softmax(-1))
    torch.testing.assert_close(found.exp().sum(-1), torch.ones(B, T), atol=1e-6, rtol=0)


def test_gradients_are_finite_however_sure_the_gate_is() -> None:
    for sure in (-200.0, 200.0):
        logits, weights, gate, source = (part.requires_grad_() if part.is_floating_point() else part for part in parts())
        copy_mixture(logits, weights, gate * 0 + sure, source, E)[..., 8].sum().backward()
        assert all(part.grad is None or part.grad.isfinite().all() for part in (logits, weights, gate))


def test_in_bf16_it_is_as_exact_as_its_inputs() -> None:
    logits, weights, gate, source = (part.bfloat16() if part.is_floating_point() else part for part in parts())
    with torch.autocast("cpu", torch.bfloat16):
        found = copy_mixture(logits, weights, gate, source, E)
    torch.testing.assert_close(found, copy_mixture(logits.float(), weights.float(), gate.float(), source, E))
