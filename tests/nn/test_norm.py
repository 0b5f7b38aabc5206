from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

import weft.models
from weft.nn.norm import LayerNorm


def passed(norm: nn.LayerNorm, x: Tensor, change: Tensor) -> tuple[Tensor, ...]:
    """What comes out, and the gradients of x, scale and shift."""
    x = x.detach().clone().requires_grad_()
    norm.zero_grad()
    out = norm(x)
    out.backward(change.to(out.dtype))
    assert x.grad is not None
    assert norm.weight.grad is not None
    return out.detach(), x.grad, norm.weight.grad.clone(), norm.bias.grad.clone()


def test_gradients_of_many_rows_of_bf16_are_summed_in_fp32() -> None:
    torch.manual_seed(0)
    norm, x, change = LayerNorm(64), torch.randn(4, 1024, 64).bfloat16(), (0.1 * torch.randn(4, 1024, 64) + 0.05).bfloat16()
    out, *gradients = passed(norm, x, change)
    exact_out, *exact = passed(norm, x.float(), change.float())
    assert out.dtype == torch.bfloat16
    assert torch.equal(out, exact_out.bfloat16())
    for found, wanted in zip(gradients, exact, strict=True):
        assert (found - wanted).norm() < 0.003 * wanted.norm()  # PyTorch's own shift is off by half of its length


def test_without_gradients_it_is_pytorchs() -> None:
    x, norm = torch.randn(3, 8).bfloat16(), LayerNorm(8)
    with torch.no_grad():
        assert torch.equal(norm(x), nn.LayerNorm(8)(x))
    assert torch.equal(norm(x.float()), nn.LayerNorm(8)(x.float()))
    assert torch.equal(norm.bfloat16()(x), nn.LayerNorm(8).bfloat16()(x))


def test_all_models_have_this_one() -> None:
    files = list(Path(weft.models.__path__[0]).rglob("*.py"))
    assert len(files) > 10
    assert [file.name for file in files if "nn.LayerNorm" in file.read_text()] == []
