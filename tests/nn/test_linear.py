"""Fully connected layers: values and derivatives in closed form, and why a non-linearity is needed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from weft.models.mlp import Layers, activate

DERIVATIVES: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "sigmoid": (lambda x: 1 / (1 + (-x).exp()), lambda x: (-x).exp() / (1 + (-x).exp()) ** 2),
    "tanh": (lambda x: (x.exp() - (-x).exp()) / (x.exp() + (-x).exp()), lambda x: 4 / (x.exp() + (-x).exp()) ** 2),
    "relu": (lambda x: x * (x > 0), lambda x: (x > 0).to(x.dtype)),
    "none": (lambda x: x, torch.ones_like),
}


@pytest.mark.parametrize("name", list(DERIVATIVES))
def test_activations_and_their_derivatives(name: str) -> None:
    x = torch.linspace(-4, 4, 101, dtype=torch.float64, requires_grad=True)
    value, derivative = DERIVATIVES[name]
    out = activate(name)(x)  # type: ignore[arg-type]
    torch.testing.assert_close(out, value(x))
    torch.testing.assert_close(torch.autograd.grad(out.sum(), x)[0], derivative(x.detach()))


def test_a_layer_is_a_matrix_and_a_shift_with_known_derivatives() -> None:
    torch.manual_seed(0)
    model = Layers((3, 5, 2), activation="sigmoid").double()
    x = torch.randn(4, 3, dtype=torch.float64)
    first, head = model.body[0], model.head
    hidden = torch.sigmoid(x @ first.weight.T + first.bias)
    out = model(x)
    torch.testing.assert_close(out, hidden @ head.weight.T + head.bias)
    error = torch.randn(4, 2, dtype=torch.float64)
    (out * error).sum().backward()
    back = error @ head.weight * hidden * (1 - hidden)
    torch.testing.assert_close(head.weight.grad, error.T @ hidden)
    torch.testing.assert_close(head.bias.grad, error.sum(0))
    torch.testing.assert_close(first.weight.grad, back.T @ x)
    torch.testing.assert_close(first.bias.grad, back.sum(0))


def test_layers_without_activation_are_one_matrix() -> None:
    torch.manual_seed(0)
    narrow = Layers((10, 20, 3, 20, 8), activation="none").double()
    jacobian = torch.autograd.functional.jacobian(narrow, torch.randn(10, dtype=torch.float64))
    product = torch.linalg.multi_dot([narrow.head.weight, *(narrow.body[i].weight for i in (6, 3, 0))])
    torch.testing.assert_close(jacobian, product.detach())
    assert int(torch.linalg.matrix_rank(jacobian)) == 3  # the narrowest layer
    x, y = torch.randn(2, 10, dtype=torch.float64)
    torch.testing.assert_close(narrow(x + y) + narrow(torch.zeros_like(x)), narrow(x) + narrow(y))
    bent = Layers((10, 20, 3, 20, 8), activation="tanh").double()
    assert not torch.allclose(bent(x + y) + bent(torch.zeros_like(x)), bent(x) + bent(y))
