"""The fused kernels of a bf16 step against plain PyTorch: values, every gradient, and one dropout mask in both directions."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from weft.layers import block
from weft.models.gpt import GPTConfig

pytestmark = pytest.mark.gpu


def bf16(*shape: int) -> Tensor:
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16, requires_grad=True)


def vector(size: int) -> Tensor:
    return torch.randn(size, device="cuda", requires_grad=True)


def distance(value: Tensor, expected: Tensor) -> float:
    return float((value.float() - expected.float()).norm() / expected.float().norm().clamp(min=1e-3))


def widened(*tensors: Tensor | None) -> list[Tensor | None]:
    """The same values as fresh leaves in fp32."""
    return [None if t is None else t.detach().float().requires_grad_() for t in tensors]


def gradients(outputs: list[Tensor], inputs: list[Tensor | None], given: list[Tensor]) -> list[Tensor]:
    return list(torch.autograd.grad(outputs, [t for t in inputs if t is not None], [g.to(o.dtype) for g, o in zip(given, outputs)]))


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("shape", [(1, 1), (7, 5), (3, 33, 257), (16256, 1024)])
def test_biased_gelu_is_gelu(shape: tuple[int, ...], biased: bool) -> None:
    from weft.layers.fused_gelu import biased_gelu

    torch.manual_seed(0)
    h, bias, given = bf16(*shape), vector(shape[-1]) if biased else None, torch.randn(*shape, device="cuda").bfloat16()
    wide, wide_bias = widened(h, bias)
    assert wide is not None
    out = biased_gelu(h, bias)
    expected = F.gelu(wide if wide_bias is None else wide + wide_bias)
    assert out.dtype == torch.bfloat16
    assert distance(out, expected) < 5e-3
    for mine, theirs in zip(gradients([out], [h, bias], [given]), gradients([expected], [wide, wide_bias], [given]), strict=True):
        assert distance(mine, theirs) < 5e-3


@pytest.mark.parametrize(("dropout", "biased"), [(0.0, True), (0.1, True), (0.6, False)])
@pytest.mark.parametrize("shape", [(7, 5), (3, 33, 200), (16256, 256), (70, 4096)])
def test_residual_norm_is_sum_and_layer_norm(shape: tuple[int, ...], dropout: float, biased: bool) -> None:
    from weft.layers.residual_norm import residual_norm

    torch.manual_seed(0)
    d = shape[-1]
    x, y, gain = bf16(*shape), bf16(*shape), vector(d)
    bias, shift = (vector(d), vector(d)) if biased else (None, None)
    seed = torch.tensor([123456789], device="cuda") if dropout else None
    with torch.no_grad():  # the mask, as what is left of ones
        left = residual_norm(torch.zeros_like(x), torch.ones_like(y), None, gain, None, seed, dropout, 1e-5)[0]
    mask = (left != 0).float() / (1 - dropout)
    total, normed, _ = residual_norm(x, y, bias, gain, shift, seed, dropout, 1e-5)
    inputs = widened(x, y, bias, gain, shift)
    wide_x, wide_y, wide_bias, wide_gain, wide_shift = inputs
    assert wide_x is not None
    assert wide_y is not None
    branch = wide_y if wide_bias is None else wide_y + wide_bias
    expected = wide_x + branch * mask
    rounded = expected + (total.detach().float() - expected.detach())  # the norm is that of the sum as stored
    expected_normed = F.layer_norm(rounded, (d,), wide_gain, wide_shift)
    assert distance(total, expected) < 5e-3
    assert distance(normed, expected_normed) < 5e-3
    given = [torch.randn(*shape, device="cuda").bfloat16() for _ in range(2)]
    mine = gradients([total, normed], [x, y, bias, gain, shift], given)
    theirs = gradients([rounded, expected_normed], inputs, given)
    for gradient, exact in zip(mine, theirs, strict=True):
        assert distance(gradient, exact) < 5e-3
    assert not mine[1][mask == 0].any()


def test_residual_norm_passes_on_whichever_gradient_there_is() -> None:
    from weft.layers.residual_norm import residual_norm

    x, y, gain = bf16(9, 64), bf16(9, 64), vector(64)
    total, normed, _ = residual_norm(x, y, None, gain, None, None, 0.0, 1e-5)
    only_sum = torch.autograd.grad(total.float().sum(), [x, y, gain], retain_graph=True)
    assert [float(g.float().mean()) for g in only_sum] == [1.0, 1.0, 0.0]
    only_norm = torch.autograd.grad(normed.float().square().sum(), [x, y])
    assert torch.equal(*only_norm)


@pytest.mark.parametrize("dropout", [0.1, 0.5, 0.9])
def test_residual_dropout_keeps_its_share_in_every_row_and_column(dropout: float) -> None:
    from weft.layers.residual_norm import residual_norm

    n, d = 4096, 1024
    x, y, gain = torch.zeros(n, d, device="cuda").bfloat16(), torch.ones(n, d, device="cuda").bfloat16(), torch.ones(d, device="cuda")
    masks = [residual_norm(x, y, None, gain, None, torch.tensor([s], device="cuda"), dropout, 1e-5)[0] == 0 for s in (1, 1, 2)]
    share, deviation = masks[0].float(), (dropout * (1 - dropout)) ** 0.5
    assert torch.equal(masks[0], masks[1])
    assert float(share.mean()) == pytest.approx(dropout, abs=5 * deviation / (n * d) ** 0.5)
    assert float((share.mean(0) - dropout).abs().max()) < 6 * deviation / n**0.5
    assert float((share.mean(1) - dropout).abs().max()) < 6 * deviation / d**0.5
    both = (masks[0] & masks[2]).float().mean()
    assert float(both) == pytest.approx(dropout**2, abs=0.005)


def step(settings: dict[str, Any], compiled: bool = False, wide: bool = False) -> tuple[Tensor, dict[str, Tensor]]:
    """Loss and gradients of a small GPT in bf16, or in fp32."""
    torch.manual_seed(0)
    network = GPTConfig(vocabulary=61, context=50, layers=3, heads=4, width=128, **settings).build().cuda()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))  # biases and gains, too, differ from their start
    ids = torch.randint(0, 61, (8, 51), device="cuda")

    def loss() -> Tensor:
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=not wide):
            return F.cross_entropy(network(ids[:, :-1]).flatten(0, 1).float(), ids[:, 1:].flatten())

    torch.compiler.reset()
    value = torch.compile(loss, fullgraph=True, dynamic=False)() if compiled else loss()
    value.backward()  # type: ignore[no-untyped-call]
    return value.detach(), {name: p.grad for name, p in network.named_parameters() if p.grad is not None}


UNBIASED = {"bias": False, "position": "rotary"}


@pytest.mark.parametrize(
    ("settings", "compiled"),
    [({}, False), ({}, True), (UNBIASED, False), (UNBIASED, True), ({"activation": "relu"}, False), ({"norm": "post"}, False)],
)
def test_a_model_is_as_close_to_fp32_with_the_kernels_as_without(
    settings: dict[str, Any], compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not block.KERNELS:
        pytest.skip("triton is not installed")
    loss, fused = step(settings, compiled)
    monkeypatch.setattr(block, "KERNELS", False)
    plain = step(settings)[1]
    expected, exact = step(settings, wide=True)
    assert float(loss) == pytest.approx(float(expected), rel=5e-3)
    assert fused.keys() == exact.keys()
    for name, gradient in exact.items():
        assert distance(fused[name], gradient) < 1.5 * distance(plain[name], gradient) + 0.03, name


def test_dropout_in_a_compiled_model_follows_the_seed() -> None:
    rates = {"attention_dropout": 0.2, "residual_dropout": 0.2, "embedding_dropout": 0.2}
    values = [float(step(rates, compiled)[0]) for compiled in (False, False, True)]
    assert values[0] == values[1]
    assert values[2] == pytest.approx(values[0], rel=0.1)
