from __future__ import annotations

import torch

from weft.nn.convolution.masked_convolution import MaskedConv2d, VerticalConv2d, causal_mask


def test_masks_hide_what_comes_after() -> None:
    first, later = (causal_mask(1, 1, (3, 5), kind, 1)[0, 0] for kind in ("A", "B"))  # type: ignore[arg-type]
    assert first.tolist() == [[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 0, 0, 0, 0]]
    assert later.tolist() == [[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [0, 0, 0, 0, 0]]


def test_colours_of_a_pixel_follow_each_other() -> None:
    first, later = (causal_mask(3, 6, (1, 1), kind, 3)[:, :, 0, 0] for kind in ("A", "B"))  # type: ignore[arg-type]
    assert first.tolist() == 2 * [[0, 0, 0], [1, 0, 0], [1, 1, 0]]
    assert later.tolist() == 2 * [[1, 0, 0], [1, 1, 0], [1, 1, 1]]


def test_hidden_weights_have_no_gradient() -> None:
    layer = MaskedConv2d(2, 4, (3, 3), "A")
    layer(torch.randn(1, 2, 5, 5)).square().sum().backward()
    assert layer.weight.grad is not None
    assert torch.equal(layer.weight.grad != 0, layer.mask != 0)


def test_the_vertical_stack_sees_rows_above_alone() -> None:
    first, later = VerticalConv2d(1, 1, (2, 3), first=True), VerticalConv2d(1, 1, (2, 3), first=False)
    x = torch.randn(1, 1, 5, 5, requires_grad=True)
    (seen,) = torch.autograd.grad(first(x)[0, 0, 3, 2], x)
    assert torch.equal(seen[0, 0] != 0, torch.tensor([[r in (1, 2) and 1 <= c <= 3 for c in range(5)] for r in range(5)]))
    (seen,) = torch.autograd.grad(later(first(x))[0, 0, 3, 2], x)
    assert torch.equal(seen[0, 0] != 0, torch.tensor([[r in (0, 1, 2) for c in range(5)] for r in range(5)]))
    assert first(x).shape == later(x).shape == x.shape
