from __future__ import annotations

import pytest
import torch
from torch import nn

from weft.kernels import int8_linear
from weft.kernels.int8_linear import Int8Linear, quantize_weights


def exact(layer: nn.Linear, x: torch.Tensor) -> torch.Tensor:
    """The product with rounded weights, in float64."""
    weight = layer.weight.detach().double()
    scale = weight.abs().amax(1, keepdim=True) / 127
    bias = None if layer.bias is None else layer.bias.double()
    return nn.functional.linear(x.double(), (weight / scale).round() * scale, bias)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("fast", [True, False])
def test_only_the_weights_are_rounded(bias: bool, fast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not fast:
        monkeypatch.setattr(int8_linear, "packed", lambda whole, scale: None)
    torch.manual_seed(0)
    layer = nn.Linear(130, 33, bias=bias)
    layer.requires_grad_(False)
    x = torch.randn(4, 7, 130) * torch.logspace(-3, 3, 4)[:, None, None]
    x[0, 0] = 0
    found, wanted = Int8Linear(layer)(x), exact(layer, x)
    assert found.dtype == x.dtype
    assert ((found - wanted).norm(dim=-1) <= 1e-3 * wanted.norm(dim=-1) + 1e-30).all()
    assert torch.allclose(found[0, 0], layer.bias if bias else torch.zeros(33))
    added = torch.randn_like(found)
    assert torch.allclose(Int8Linear(layer)(x, added), found + added)


def test_a_row_is_the_same_alone_and_beside_others() -> None:
    if torch.backends.quantized.engine not in ("x86", "fbgemm"):
        pytest.skip("torch has no product of 8 bits for this processor")
    torch.manual_seed(0)
    layer = Int8Linear(nn.Linear(96, 40).requires_grad_(False))
    x = torch.randn(9, 96)
    together = layer(x)
    assert all(torch.equal(layer(x[row : row + 1])[0], together[row]) for row in range(9))


def test_all_linear_layers_of_a_model_are_replaced() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Sequential(nn.ReLU(), nn.Linear(8, 2)))
    quantize_weights(model)
    assert [type(module) for module in model.modules() if not list(module.children())] == [Int8Linear, nn.ReLU, Int8Linear]
    assert not any(parameter.requires_grad for parameter in model.parameters())
