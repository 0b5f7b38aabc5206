"""A block as one operation on a CPU: the output and the gradients are those of the plain block."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from weft.layers import cpu_block as module
from weft.layers import passes
from weft.layers.attention import SelfAttention
from weft.layers.block import Block, FeedForward, GatedFeedForward
from weft.models.gpt import GPTConfig

pytestmark = pytest.mark.skipif(not hasattr(torch.ops.mkldnn, "_linear_pointwise"), reason="no products by oneDNN")


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


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (2, 64), (2, 65), (3, 150)], ids=str)
def test_gradients_are_those_of_the_plain_block(shape: tuple[int, int]) -> None:
    agree(block(), torch.randn(*shape, 48, requires_grad=True))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_any_number_of_threads_finds_the_same_each_time(threads: int) -> None:
    before, layer, x = torch.get_num_threads(), block(), torch.randn(7, 5, 48, requires_grad=True)
    torch.set_num_threads(threads)
    agree(layer, x)
    first, second = found(layer, x, "fused"), found(layer, x, "fused")
    torch.set_num_threads(before)
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("settings", [{"bias": False}, {"activation": "gelu_tanh"}, {"inner": 31}], ids=str)
def test_other_blocks_of_this_kind(settings: dict[str, Any]) -> None:
    agree(block(**settings), torch.randn(3, 7, 48, requires_grad=True))


def test_a_stream_that_does_not_lie_in_order() -> None:
    agree(block(), torch.randn(7, 3, 48, requires_grad=True).transpose(0, 1))


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
    gated = Block(SelfAttention(48, 3, causal=True), GatedFeedForward(48, 64), partial(nn.LayerNorm, 48))
    assert not module.fits(gated, x, None, None)
    seen = Block(SelfAttention(48, 3, causal=False), FeedForward(48, 64), partial(nn.LayerNorm, 48))
    assert not module.fits(seen, x, None, None)
    with torch.autocast("cpu", torch.bfloat16):
        assert not module.fits(block(), x, None, None)


def test_evaluation_is_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "cpu_block", lambda *_: pytest.fail("used in evaluation"))
    layer = block().eval()
    layer.blocks_backend = "fused"
    layer(torch.randn(2, 5, 48))


def in_c_and_torch(monkeypatch: pytest.MonkeyPatch, compute: Any) -> tuple[list[Tensor | None], list[Tensor | None]]:
    """What some passes find in C and without it."""
    if passes.functions() is None:
        pytest.skip("no compiler")
    torch.manual_seed(0)
    ours = compute()
    monkeypatch.setattr(passes, "functions", lambda *_: None)
    torch.manual_seed(0)
    return ours, compute()


def alike(ours: list[Tensor | None], expected: list[Tensor | None]) -> None:
    for number, (one, other) in enumerate(zip(ours, expected, strict=True)):
        if one is not None and other is not None:  # torch does not know the sums
            assert one.shape == other.shape
            assert (one - other).abs().max() <= 1e-6 * other.abs().max() + 1e-7, number


@pytest.mark.parametrize("shape", [(1, 1), (2, 17), (131, 31), (300, 64)], ids=str)
@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_in_c(shape: tuple[int, int], approximate: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def compute() -> list[Tensor | None]:
        x, change = 3 * torch.randn(shape), torch.randn(shape)
        active, kept = passes.gelu(x, approximate)
        found, sums = passes.gelu_back(change, kept, approximate)
        return [active, found, found.sum(0) if sums is None else sums, passes.columns(found)]

    alike(*in_c_and_torch(monkeypatch, compute))


def test_gelu_in_c_at_its_ends() -> None:
    x = torch.tensor([-1e30, -100.0, -14.0, -0.0, 0.0, 14.0, 100.0, 1e30, float("nan")])
    for approximate in ("none", "tanh"):
        expected = nn.functional.gelu(x, approximate=approximate)
        torch.testing.assert_close(passes.gelu(x.clone(), approximate)[0], expected, equal_nan=True)


@pytest.mark.parametrize("shape", [(1, 2), (2, 17), (131, 31), (300, 64)], ids=str)
@pytest.mark.parametrize("bias", [True, False])
def test_norms_in_c(shape: tuple[int, int], bias: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def compute() -> list[Tensor | None]:
        x, added, change = torch.randn(shape) + 1, torch.randn(shape), torch.randn(shape)
        scale, shift = torch.randn(shape[1]), torch.randn(shape[1]) if bias else None
        out, mean, rate = passes.norm(x, added, scale, shift, 1e-5)
        back, dscale, dshift, sums = passes.norm_back(change, x, mean, rate, scale, shift, added, [True, True, bias])
        return [x, out, mean, rate, back, dscale, dshift if bias else None, back.sum(0) if sums is None else sums]

    alike(*in_c_and_torch(monkeypatch, compute))


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (2, 5, 3, 7), (1, 64, 2, 16), (2, 65, 1, 40), (1, 150, 3, 32), (1, 133, 1, 65)], ids=str)
def test_attention_in_c(shape: tuple[int, int, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    b, t, h, k = shape

    def compute() -> list[Tensor | None]:
        qkv, change = torch.randn(b, t, 3, h, k), torch.randn(b, t, h * k)
        found, kept = passes.attend(qkv)
        return [found, passes.attend_back(change, kept)]

    alike(*in_c_and_torch(monkeypatch, compute))


def test_what_does_not_lie_in_order_is_left_to_torch() -> None:
    assert passes.functions(torch.ones(3, 4).t()) is None
    assert passes.functions(torch.ones(3, dtype=torch.float64)) is None
    x, scale = torch.randn(4, 6), torch.randn(12)[::2]
    torch.testing.assert_close(passes.norm(x, None, scale, None, 1e-5)[0], nn.functional.layer_norm(x, [6], scale))


@pytest.mark.parametrize("settings", [{}, {"bias": False}, {"activation": "gelu_tanh"}], ids=str)
def test_a_machine_without_a_compiler(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes.c_source, "load", lambda _: None)
    passes._functions.cache_clear()
    try:
        assert passes.functions() is None
        agree(block(**settings), torch.randn(3, 70, 48, requires_grad=True))
    finally:
        passes._functions.cache_clear()
