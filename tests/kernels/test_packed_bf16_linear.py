from __future__ import annotations

import pytest
import torch
from torch import nn

from weft.kernels import packed_bf16_linear
from weft.kernels.packed_bf16_linear import CastLinear, PackedBF16Linear


def layer(bias: bool = True) -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(130, 33, bias=bias).bfloat16().requires_grad_(False)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("kind", [PackedBF16Linear, CastLinear])
def test_the_product_is_that_of_the_layer(
    kind: type[PackedBF16Linear | CastLinear], fast: bool, bias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not fast:
        monkeypatch.setattr(packed_bf16_linear, "MULTIPLY", None)
        monkeypatch.setattr(packed_bf16_linear, "has_packed_products", lambda: False)
    made = kind(layer(bias))
    x, added = torch.randn(5, 130), torch.randn(5, 33)
    wanted = layer(bias).double()(x.double())
    found = made(x)
    assert found.dtype == torch.float32
    assert (found - wanted).norm() < (1e-6 if kind is PackedBF16Linear and fast and made.packed is not None else 0.01) * wanted.norm()
    assert torch.allclose(made(x, added), found + added)


def test_a_row_is_the_same_alone_and_beside_a_few() -> None:
    made = PackedBF16Linear(layer())
    if made.packed is None:
        pytest.skip("torch has no such product for this processor")
    x = torch.randn(6, 130)
    assert all(torch.equal(made(x[row : row + 1])[0], made(x)[row]) for row in range(6))


def test_weights_that_float16_does_not_hold_are_read_as_they_are() -> None:
    large = layer()
    large.weight[0, 0] = 1e6
    made = PackedBF16Linear(large)
    assert made.packed is None
    assert made(torch.ones(1, 130))[0, 0] > 9e5
