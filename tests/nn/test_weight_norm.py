"""A weight-normalised layer has rows of the length that it says, and noise is for training only."""

from __future__ import annotations

import torch
from torch import nn

from weft.nn.weight_norm import Noise, WeightNormLinear


def test_it_is_the_parametrisation_of_torch() -> None:
    torch.manual_seed(0)
    layer = WeightNormLinear(5, 3)
    layer.scale.data = torch.rand(3)
    twin = nn.utils.parametrizations.weight_norm(nn.Linear(5, 3))
    twin.parametrizations.weight.original0.data = layer.scale.data[:, None]  # type: ignore[union-attr, index]
    twin.parametrizations.weight.original1.data = layer.direction.data  # type: ignore[union-attr, index]
    twin.bias.data = layer.bias.data
    x = torch.randn(4, 5)
    torch.testing.assert_close(layer(x), twin(x))


def test_noise_only_in_training() -> None:
    torch.manual_seed(0)
    noise, x = Noise(0.5), torch.zeros(2000)
    assert abs(float(noise(x).std()) - 0.5) < 0.03
    assert torch.equal(noise.eval()(x), x)
