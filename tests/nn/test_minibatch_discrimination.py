"""Minibatch discrimination against its formula; it goes with the order of the batch and sees copies."""

from __future__ import annotations

import torch

from weft.nn.minibatch_discrimination import MinibatchDiscrimination


def test_closeness_is_its_formula() -> None:
    torch.manual_seed(0)
    layer = MinibatchDiscrimination(6, kernels=4, size=3)
    features = torch.randn(5, 6)
    out = layer(features).detach()
    assert out.shape == (5, 10)
    torch.testing.assert_close(out[:, :6], features)
    tensor = layer.weight.detach().view(6, 4, 3)
    m = torch.einsum("na,abc->nbc", features, tensor)
    for i in range(5):
        for b in range(4):
            expected = sum(float((-(m[i, b] - m[j, b]).abs().sum()).exp()) for j in range(5) if j != i)
            assert abs(float(out[i, 6 + b]) - expected) < 1e-5


def test_it_goes_with_the_order_of_the_batch() -> None:
    torch.manual_seed(0)
    layer, features = MinibatchDiscrimination(6, 4), torch.randn(7, 6)
    order = torch.randperm(7)
    torch.testing.assert_close(layer(features[order]), layer(features)[order])


def test_copies_are_close() -> None:
    torch.manual_seed(0)
    layer = MinibatchDiscrimination(6, 4)
    same, other = layer(torch.randn(1, 6).expand(8, 6))[:, 6:], layer(5 * torch.randn(8, 6))[:, 6:]
    torch.testing.assert_close(same, torch.full_like(same, 7.0))
    assert float(other.detach().mean()) < 1.0
