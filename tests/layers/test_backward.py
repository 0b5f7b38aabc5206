"""Norm and GELU with backward passes of our own: the gradients of a block are those of PyTorch's."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from weft.layers import backward
from weft.models.gpt import GPTConfig
from weft.objectives.next_token import NextTokenConfig
from weft.training import execution
from weft.training.settings import Train

MODEL = GPTConfig(vocabulary=31, context=12, layers=2, heads=2, width=24)


def gradients(model: GPTConfig, device: str, half: bool = False, **settings: Any) -> tuple[float, dict[str, Tensor]]:
    torch.manual_seed(0)
    network, objective = model.build().to(device), NextTokenConfig().build()
    train = Train(**{"device": device, "precision": "bf16" if half else "fp32", "compile": "off", **settings})
    plan = execution.choose(train, network, objective)
    execution.apply(plan, network, objective)
    ids = torch.randint(0, model.vocabulary, (5, 13), generator=torch.Generator().manual_seed(1)).to(device)
    with plan.arithmetic():
        loss = objective(network, {"ids": ids[:, :-1], "targets": ids[:, 1:]}, "").sums["loss"]
    loss.backward()
    return float(loss.detach()), {name: p.grad for name, p in network.named_parameters() if p.grad is not None}


def close(one: tuple[float, dict[str, Tensor]], two: tuple[float, dict[str, Tensor]], share: float) -> None:
    assert one[0] == pytest.approx(two[0], rel=share)
    assert one[1].keys() == two[1].keys()
    for name, gradient in two[1].items():
        assert (one[1][name] - gradient).norm() <= share * gradient.norm(), name


@pytest.mark.parametrize("kernels", ["norm", "gelu", "own"])
@pytest.mark.parametrize("changed", [{}, {"activation": "gelu_tanh"}, {"bias": False}], ids=str)
def test_gradients_are_the_same(kernels: str, changed: dict[str, Any]) -> None:
    model = dataclasses.replace(MODEL, **changed)
    close(gradients(model, "cpu", kernels=kernels), gradients(model, "cpu", kernels="compiled"), 1e-5)


@pytest.mark.parametrize("kept", ["products", "inputs"])
def test_what_is_computed_again_gives_the_same(kept: str) -> None:
    close(gradients(MODEL, "cpu", kernels="own", activations=kept), gradients(MODEL, "cpu"), 1e-5)


def test_half_precision() -> None:
    close(gradients(MODEL, "cpu", half=True, kernels="own"), gradients(MODEL, "cpu"), 0.05)


def test_a_compiled_pass_holds_the_operations_whole() -> None:
    norm, x = nn.LayerNorm(8), torch.randn(3, 8, requires_grad=True)

    def both(x: Tensor) -> Tensor:
        stream, normed = backward.beside_norm(x, norm)
        return (stream + backward.bias_gelu(normed, norm.bias, True)).square().sum()

    both(x).backward()  # type: ignore[no-untyped-call]
    expected, x.grad = x.grad, None
    torch.compile(both, backend="aot_eager", fullgraph=True)(x).backward()
    torch.testing.assert_close(x.grad, expected)


@pytest.mark.gpu
@pytest.mark.parametrize("width", [24, 768])
def test_kernels_on_a_gpu(width: int) -> None:
    model = dataclasses.replace(MODEL, width=width)
    close(gradients(model, "cuda", kernels="own"), gradients(model, "cpu"), 1e-3)
    close(gradients(model, "cuda", half=True, kernels="own"), gradients(model, "cpu"), 0.05)
