"""A learned mean of layers."""

from __future__ import annotations

import torch

from weft.nn.scalar_mix import ScalarMix


def test_the_mix_is_gamma_times_the_weighted_mean() -> None:
    """gamma * sum of s_j h_j with s the softmax: equation 1 of the paper."""
    mix, layers = ScalarMix(3), [torch.randn(2, 4) for _ in range(3)]
    torch.testing.assert_close(mix(layers), torch.stack(layers).mean(0))
    with torch.no_grad():
        mix.weight.copy_(torch.tensor([0.0, 1.0, -1.0]))
        mix.gamma.fill_(2.5)
    shares = torch.tensor([0.0, 1.0, -1.0]).exp()
    expected = 2.5 * sum(share * layer for share, layer in zip(shares / shares.sum(), layers, strict=True))
    torch.testing.assert_close(mix(layers), expected)
