"""A block as one operation on a CPU: the output and the gradients are those of the plain block."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.layers import cpu_block as module
from weft.layers import passes
from weft.layers.attention import SelfAttention
from weft.layers.block import Block, FeedForward, GatedFeedForward
from weft.models.gpt import GPTConfig

in_c = pytest.mark.skipif(not passes.functions(), reason="no compiler")


@pytest.fixture(autouse=True)
def memory_of_nan(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """New memory holds NaN, as torch has it where results are deterministic: nothing may read what it has not written."""
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", True)
    torch.use_deterministic_algorithms(True)
    assert torch.empty(1).isnan()
    yield
    torch.use_deterministic_algorithms(False)


def block(width: int = 48, bias: bool = True, inner: int = 0, **settings: Any) -> Block:
    torch.manual_seed(0)
    feed = FeedForward(width, inner or 4 * width, activation=settings.pop("activation", "gelu"), bias=bias)
    attention = SelfAttention(width, 3, causal=True, bias=bias)
    layer = Block(attention, feed, partial(nn.LayerNorm, width, bias=bias), **settings)
    for name, parameter in layer.named_parameters():
        nn.init.normal_(parameter, 1.0 if name in ("norm1.weight", "norm2.weight") else 0.0, 0.05)
    return layer


def found(layer: Block, x: Tensor, backend: str) -> dict[str, Tensor]:
    """The output, and the gradients of a fixed sum of it."""
    layer.blocks_backend = backend
    out = layer(x)
    wanted = {"x": x, **{name: p for name, p in layer.named_parameters() if p.requires_grad}}
    changes = torch.autograd.grad((out * torch.linspace(-1, 1, out.size(-1))).sum(), [*wanted.values()])
    return {"out": out.detach(), **dict(zip(wanted, changes, strict=True))}


def agree(layer: Block, x: Tensor) -> None:
    assert module.fits(layer, x, None, None)
    expected, got = found(layer, x, "plain"), found(layer, x, "fused")
    assert got.keys() == expected.keys()
    for name, value in got.items():
        assert (value - expected[name]).abs().max() <= 2e-6 * expected[name].abs().max() + 1e-7, name


@in_c
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (2, 64), (2, 65), (3, 150), (30, 9)], ids=str)
def test_gradients_are_those_of_the_plain_block(shape: tuple[int, int]) -> None:
    agree(block(), torch.randn(*shape, 48, requires_grad=True))


@in_c
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_any_number_of_threads_finds_the_same_each_time(threads: int) -> None:
    before, layer, x = torch.get_num_threads(), block(), torch.randn(7, 5, 48, requires_grad=True)
    torch.set_num_threads(threads)
    agree(layer, x)
    first, second = found(layer, x, "fused"), found(layer, x, "fused")
    torch.set_num_threads(before)
    assert all(torch.equal(first[name], second[name]) for name in first)


@in_c
@pytest.mark.parametrize("settings", [{"bias": False}, {"activation": "gelu_tanh"}, {"inner": 31}], ids=str)
def test_other_blocks_of_this_kind(settings: dict[str, Any]) -> None:
    agree(block(**settings), torch.randn(3, 7, 48, requires_grad=True))


@in_c
def test_a_stream_that_does_not_lie_in_order() -> None:
    agree(block(), torch.randn(7, 3, 48, requires_grad=True).transpose(0, 1))


@in_c
@pytest.mark.parametrize("frozen", ["norm1", "attention", "feedforward.fall", ""])
def test_frozen_weights_get_no_gradient(frozen: str) -> None:
    layer = block()
    layer.get_submodule(frozen).requires_grad_(False)
    agree(layer, torch.randn(2, 5, 48, requires_grad=True))


def test_a_block_that_is_used_twice() -> None:
    layer, x = block(), torch.randn(2, 5, 48)
    changes = []
    for backend in ("plain", "fused"):
        layer.blocks_backend = backend
        layer.zero_grad()
        layer(layer(x)).square().sum().backward()
        changes.append([p.grad.clone() for p in layer.parameters() if p.grad is not None])
    for one, other in zip(*changes, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_a_model_with_a_shared_head_learns_the_same() -> None:
    losses: list[list[float]] = []
    for backend in ("plain", "fused"):
        losses.append([])
        torch.manual_seed(0)
        model = GPTConfig(vocabulary=11, context=9, layers=2, heads=2, width=16).build()
        for layer in model.blocks:
            layer.blocks_backend = backend  # type: ignore[assignment]
        descent, ids = torch.optim.SGD(model.parameters(), lr=0.5), torch.arange(18).view(2, 9) % 11
        for _ in range(20):
            loss = nn.functional.cross_entropy(model(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
            descent.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            descent.step()
            losses[-1].append(float(loss.detach()))
    assert losses[0][:8] == pytest.approx(losses[1][:8], rel=1e-6)
    assert losses[0][-1] == pytest.approx(losses[1][-1], rel=1e-4)  # steps make roundings larger
    assert losses[0][-1] < 1.0


def test_what_it_does_not_serve_goes_the_plain_way() -> None:
    x = torch.randn(2, 5, 48)
    assert not module.fits(block(dropout=0.1), x, None, None)
    assert not module.fits(block(order="post"), x, None, None)
    assert not module.fits(block(activation="relu"), x, None, None)
    assert not module.fits(block(), x.double(), None, None)
    assert not module.fits(block(), x, torch.ones(2, 1, 1, 5, dtype=torch.bool), None)
    skipped = block()
    skipped.skipped.share = 0.1
    assert not module.fits(skipped, x, None, None)
    gated = Block(SelfAttention(48, 3, causal=True), GatedFeedForward(48, 64), partial(nn.LayerNorm, 48))
    assert not module.fits(gated, x, None, None)
    seen = Block(SelfAttention(48, 3, causal=False), FeedForward(48, 64), partial(nn.LayerNorm, 48))
    assert not module.fits(seen, x, None, None)
    turned = block()
    turned.feedforward.rise.weight = nn.Parameter(turned.feedforward.rise.weight.detach().t().contiguous().t())  # type: ignore[union-attr]
    assert not module.fits(turned, x, None, None)
    with torch.autocast("cpu", torch.bfloat16):
        assert not module.fits(block(), x, None, None)


def test_evaluation_is_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "cpu_block", lambda *_: pytest.fail("used in evaluation"))
    layer = block().eval()
    layer.blocks_backend = "fused"
    layer(torch.randn(2, 5, 48))


def alike(ours: Tensor, expected: Tensor) -> None:
    assert ours.shape == expected.shape
    assert (ours - expected).abs().max() <= 1e-6 * expected.abs().max() + 1e-7


SHAPES = [(1, 1, 1), (5, 3, 2), (12, 16, 32), (29, 33, 17), (64, 48, 96), (131, 64, 70)]
"""Rows, what goes into a product and what comes out: none, some and all of them multiples of a tile's."""


@in_c
@pytest.mark.parametrize("turned", [True, False])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_products_in_c(shape: tuple[int, int, int], turned: bool) -> None:
    m, k, n = shape
    x, bias, other = torch.randn(m, k), torch.randn(n), torch.randn(m, n)
    weight = torch.randn(n, k).t() if turned else torch.randn(k, n)
    expected = (x.double() @ weight.double()).float()
    alike(passes.product(x, weight)[0], expected)
    alike(passes.product(x, weight, bias)[0], expected + bias)
    alike(passes.product(x, weight, bias, "plus", other)[0], expected + bias + other)
    scaled, sums = passes.product(x, weight, None, "times", other)
    alike(scaled, expected * other)
    alike(sums, (expected * other).sum(0))


@in_c
@pytest.mark.parametrize("activation", module.ACTIVATIONS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gelu_in_c(shape: tuple[int, int, int], activation: str) -> None:
    m, k, n = shape
    x, weight, bias = torch.randn(m, k), torch.randn(k, n) / k**0.5, torch.randn(n)
    before = (x.double() @ weight.double() + bias).float().requires_grad_()
    expected = F.gelu(before, approximate="tanh" if activation == "gelu_tanh" else "none")
    slope, active = passes.product(x, weight, bias, activation)
    alike(active, expected.detach())
    alike(slope, torch.autograd.grad(expected.sum(), before)[0])


@in_c
@pytest.mark.parametrize("activation", module.ACTIVATIONS)
def test_gelu_in_c_at_its_ends(activation: str) -> None:
    x = torch.tensor([[-1e30], [-100.0], [-14.0], [-0.0], [0.0], [14.0], [100.0], [1e30], [float("nan")]])
    expected = F.gelu(x, approximate="tanh" if activation == "gelu_tanh" else "none")
    slope, active = passes.product(x, torch.ones(1, 1), None, activation)
    torch.testing.assert_close(active, expected, equal_nan=True)
    torch.testing.assert_close(slope[1:7], torch.tensor([[0.0], [0.0], [0.5], [0.5], [1.0], [1.0]]))


@in_c
@pytest.mark.parametrize("shape", [(1, 3), (2, 17), (131, 31), (300, 64)], ids=str)
@pytest.mark.parametrize("bias", [True, False])
def test_norms_in_c(shape: tuple[int, int], bias: bool) -> None:
    torch.manual_seed(0)
    x, added, change = torch.randn(shape) + 1, torch.randn(shape), torch.randn(shape)
    scale, shift = torch.randn(shape[1]), torch.randn(shape[1]) if bias else None
    inputs = [tensor.double().requires_grad_() for tensor in (x, scale)]
    expected = F.layer_norm(inputs[0], [shape[1]], inputs[1], None if shift is None else shift.double())
    dx, dscale = torch.autograd.grad(expected, inputs, change.double())
    out, mean, rate = passes.norm(x, scale, shift, 1e-5)
    alike(out, expected.detach().float())
    back, found, dshift, sums = passes.norm_back(change.clone(), x, mean, rate, scale, added)
    alike(back, dx.float() + added)
    alike(found, dscale.float())
    alike(dshift, change.sum(0))
    alike(sums, back.sum(0))
    alike(passes.columns(back), back.sum(0))


@in_c
@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (2, 5, 3, 7), (1, 64, 2, 16), (2, 65, 1, 40), (1, 150, 3, 32), (1, 133, 1, 65)], ids=str)
def test_attention_in_c(shape: tuple[int, int, int, int]) -> None:
    b, t, h, k = shape
    qkv, change = torch.randn(b, t, 3, h, k, requires_grad=True), torch.randn(b, t, h * k)
    q, key, value = qkv.double().permute(2, 0, 3, 1, 4)
    expected = F.scaled_dot_product_attention(q, key, value, is_causal=True).transpose(1, 2).flatten(2).float()
    alike(passes.attend(qkv.detach()), expected.detach())
    back, sums = passes.attend_back(change, qkv.detach())
    wanted = torch.autograd.grad(expected, qkv, change)[0]
    alike(back, wanted)
    assert (sums - wanted.sum((0, 1)).flatten()).abs().max() <= 1e-6 * wanted.abs().sum((0, 1)).max() + 1e-7  # those of keys cancel


def test_a_machine_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes.c_source, "load", lambda _: None)
    passes.functions.cache_clear()
    try:
        assert not module.fits(block(), torch.randn(3, 7, 48), None, None)
    finally:
        passes.functions.cache_clear()
