"""A block as one operation on a CPU: the output and the gradients are those of the plain block."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.kernels.c import gpt_block_cpu as module
from weft.kernels.c import passes
from weft.kernels.select import install_chosen
from weft.kernels.usage import UsageSpec
from weft.models.language.gpt import GPTConfig
from weft.nn.attention import SelfAttention
from weft.nn.block import Block
from weft.nn.feed_forward import FeedForward
from weft.nn.position import rope_table

in_c = pytest.mark.skipif(not passes.passes_for(torch.float32), reason="no compiler")


@pytest.fixture(autouse=True)
def memory_of_nan(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """New memory holds NaN, as torch has it where results are deterministic: nothing may read what it has not written."""
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", True)
    torch.use_deterministic_algorithms(True)
    assert torch.empty(1).isnan()
    yield
    torch.use_deterministic_algorithms(False)


def block(width: int = 48, bias: bool = True, ffn_width: int = 0, **settings: Any) -> Block:
    torch.manual_seed(0)
    feed = FeedForward(width, ffn_width or 4 * width, activation=settings.pop("activation", "gelu"), bias=bias)
    attention = SelfAttention(width, 3, causal=True, bias=bias)
    layer = Block(attention, feed, partial(nn.LayerNorm, width, bias=bias), **settings)
    for name, parameter in layer.named_parameters():
        nn.init.normal_(parameter, 1.0 if name in ("norm1.weight", "norm2.weight") else 0.0, 0.05)
    return layer


FP32, BF16 = torch.float32, torch.bfloat16
both = pytest.mark.parametrize("kept", [FP32, BF16], ids=["fp32", "bf16"])


def kept_in(kept: torch.dtype) -> passes.Passes:
    found = passes.passes_for(kept)
    assert found is not None
    return found


def choose(model: nn.Module, backend: str, precision: str = "fp32") -> None:
    (choice, *_) = install_chosen(model, UsageSpec(precision=precision, no_blocks="" if backend == "fused" else "plain was asked for"))
    assert bool(choice.chosen) == (backend == "fused")


def found(layer: Block, x: Tensor, backend: str, kept: torch.dtype = FP32, rotary: Tensor | None = None) -> dict[str, Tensor]:
    """The output, and the gradients of a fixed sum of it."""
    choose(layer, backend)
    with torch.autocast("cpu", BF16, enabled=kept == BF16):
        out = layer(x, None, rotary)
    wanted = {"x": x, **{name: p for name, p in layer.named_parameters() if p.requires_grad}}
    changes = torch.autograd.grad((out * torch.linspace(-1, 1, out.size(-1))).sum(), [*wanted.values()])
    return {"out": out.detach(), **dict(zip(wanted, changes, strict=True))}


def agree(layer: Block, x: Tensor, kept: torch.dtype, rotary: Tensor | None = None) -> None:
    """In fp32 as the plain block; in bf16 as near to that as the plain block in bf16, but for chance where numbers are few."""
    with torch.autocast("cpu", BF16, enabled=kept == BF16):
        assert module.serves(layer, x, rotary)
    expected, got, rounded = (found(layer, x, *how, rotary) for how in (("plain", FP32), ("fused", kept), ("plain", kept)))
    assert got.keys() == expected.keys()
    for name, value in got.items():
        assert value.dtype == torch.float32
        if kept == FP32:
            assert (value - expected[name]).abs().max() <= 2e-6 * expected[name].abs().max() + 1e-7, name
        else:
            off, plainly_off = ((each[name] - expected[name]).norm() / expected[name].norm() for each in (got, rounded))
            assert off <= 1.1 * plainly_off + 5e-4, name


@in_c
@both
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (2, 64), (2, 65), (3, 150), (30, 9)], ids=str)
def test_gradients_are_those_of_the_plain_block(shape: tuple[int, int], kept: torch.dtype) -> None:
    agree(block(), torch.randn(*shape, 48, requires_grad=True), kept)


@in_c
@both
@pytest.mark.parametrize("width", [15, 51, 192])
def test_head_widths_that_vectors_do_not_fit(width: int, kept: torch.dtype) -> None:
    agree(block(width), torch.randn(3, 7, width, requires_grad=True), kept)


@in_c
@both
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_any_number_of_threads_finds_the_same_each_time(threads: int, kept: torch.dtype) -> None:
    before, layer, x = torch.get_num_threads(), block(), torch.randn(7, 5, 48, requires_grad=True)
    torch.set_num_threads(threads)
    agree(layer, x, kept)
    first, second = found(layer, x, "fused", kept), found(layer, x, "fused", kept)
    torch.set_num_threads(before)
    assert all(torch.equal(first[name], second[name]) for name in first)


@in_c
@both
@pytest.mark.parametrize("settings", [{"bias": False}, {"activation": "gelu_tanh"}, {"ffn_width": 31}], ids=str)
def test_other_blocks_of_this_kind(settings: dict[str, Any], kept: torch.dtype) -> None:
    agree(block(**settings), torch.randn(3, 7, 48, requires_grad=True), kept)


@in_c
@both
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (2, 65)], ids=str)
@pytest.mark.parametrize("width", [48, 54])
def test_rotary_positions(shape: tuple[int, int], width: int, kept: torch.dtype) -> None:
    table = rope_table(shape[1] + 3, width // 3)[:, : shape[1]]  # which does not lie in order
    agree(block(width), torch.randn(*shape, width, requires_grad=True), kept, table)


@in_c
@both
def test_a_stream_that_does_not_lie_in_order(kept: torch.dtype) -> None:
    agree(block(), torch.randn(7, 3, 48, requires_grad=True).transpose(0, 1), kept)


@in_c
@both
@pytest.mark.parametrize("frozen", ["norm1", "attention", "feedforward.down", ""])
def test_frozen_weights_get_no_gradient(frozen: str, kept: torch.dtype) -> None:
    layer = block()
    layer.get_submodule(frozen).requires_grad_(False)
    agree(layer, torch.randn(2, 5, 48, requires_grad=True), kept)


def test_a_block_that_is_used_twice() -> None:
    layer, x = block(), torch.randn(2, 5, 48)
    changes = []
    for backend in ("plain", "fused"):
        choose(layer, backend)
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
        choose(model, backend)
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


def test_what_a_call_may_change_goes_the_plain_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "gpt_block_cpu", lambda *_: pytest.fail("used where it does not serve"))
    x, rows = torch.randn(2, 5, 48), rope_table(5, 16).unsqueeze(1).expand(2, 2, 5, 16)  # of a place in each row
    layer = block()
    choose(layer, "fused")
    layer(x, torch.ones(2, 1, 1, 5, dtype=torch.bool))
    layer(x, None, rows)
    with torch.autocast("cpu", torch.float16):
        layer(x)
    layer.feedforward.up.weight = nn.Parameter(layer.feedforward.up.weight.detach().t().contiguous().t())  # type: ignore[union-attr]
    layer(x)
    layer.double()(x.double())


def test_evaluation_is_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "gpt_block_cpu", lambda *_: pytest.fail("used in evaluation"))
    layer = block()
    choose(layer, "fused")
    layer.eval()
    layer(torch.randn(2, 5, 48))


def alike(ours: Tensor, expected: Tensor, kept: torch.dtype = FP32) -> None:
    """But for the rounding of what is kept, at most."""
    assert ours.shape == expected.shape
    rounding = 2**-8 * expected.abs() if kept == BF16 else 0
    assert ((ours - expected).abs() <= rounding + 1e-6 * expected.abs().max() + 1e-7).all()


SHAPES = [(1, 1, 1), (5, 3, 2), (12, 16, 32), (29, 33, 17), (64, 48, 96), (131, 64, 70), (300, 31, 40)]
"""Rows, what goes into a product and what comes out: none, some and all of them multiples of a tile's."""


def rounded(x: Tensor, kept: torch.dtype) -> Tensor:
    """What a product reads of x, in a type in which more is exact."""
    return x.to(kept).double()


@in_c
@both
@pytest.mark.parametrize("full", [True, False], ids=["from fp32", "as kept"])
@pytest.mark.parametrize("turned", [True, False], ids=["turned", "plain"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_products_in_c(shape: tuple[int, int, int], turned: bool, full: bool, kept: torch.dtype) -> None:
    (m, k, n), c = shape, kept_in(kept)
    x, bias, other, slope = torch.randn(m, k), torch.randn(n), torch.randn(m, n), torch.randn(m, n).to(kept)
    x = x if full else x.to(kept)
    weight = torch.randn(n, k).t() if turned else torch.randn(k, n)
    expected = (rounded(x, kept) @ rounded(weight, kept)).float()
    alike(c.product(x, weight)[0], expected)
    alike(c.product(x, weight, bias, "round")[0], expected + bias, kept)
    alike(c.product(x, weight, bias, "plus", other)[0], expected + bias + other)
    scaled, sums = c.product(x, weight, None, "times", slope)
    alike(scaled, expected * slope, kept)
    alike(sums, (expected * slope).sum(0))


@in_c
@both
@pytest.mark.parametrize("full", [True, False], ids=["from fp32", "as kept"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_products_over_rows_in_c(shape: tuple[int, int, int], full: bool, kept: torch.dtype) -> None:
    (m, n, k), c = shape, kept_in(kept)
    x, y = torch.randn(m, n), torch.randn(m, k)
    expected = (rounded(x, kept).t() @ rounded(y, kept)).float()
    alike(c.rows_product(x if full else x.to(kept), y.to(kept)), expected)
    alike(c.rows_product(x.to(kept), y if full else y.to(kept)), expected)


@in_c
@both
@pytest.mark.parametrize("activation", module.ACTIVATIONS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gelu_in_c(shape: tuple[int, int, int], activation: str, kept: torch.dtype) -> None:
    m, k, n = shape
    x, weight, bias = torch.randn(m, k).to(kept), torch.randn(k, n) / k**0.5, torch.randn(n)
    before = (rounded(x, kept) @ rounded(weight, kept) + bias).float().requires_grad_()
    expected = F.gelu(before, approximate="tanh" if activation == "gelu_tanh" else "none")
    slope, active = kept_in(kept).product(x, weight, bias, activation)
    alike(active, expected.detach(), kept)
    alike(slope, torch.autograd.grad(expected.sum(), before)[0], kept)


@in_c
@both
@pytest.mark.parametrize("activation", module.ACTIVATIONS)
def test_gelu_in_c_at_its_ends(activation: str, kept: torch.dtype) -> None:
    x = torch.tensor([[-1e30], [-100.0], [-14.0], [-0.0], [0.0], [14.0], [100.0], [1e30], [float("nan")]])
    expected = F.gelu(x.to(kept), approximate="tanh" if activation == "gelu_tanh" else "none")
    slope, active = kept_in(kept).product(x, torch.ones(1, 1), None, activation)
    torch.testing.assert_close(active, expected, equal_nan=True)
    torch.testing.assert_close(slope[1:7].float(), torch.tensor([[0.0], [0.0], [0.5], [0.5], [1.0], [1.0]]))


@in_c
def test_bf16_is_rounded_to_the_nearest() -> None:
    x = torch.tensor([1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, -1 - 2**-8, 3.4e38, float("inf"), 1e-30, float("nan"), 0.1, -7.3])
    x = torch.cat([x, torch.frombuffer(bytearray(b"\xff\xff\xff\x7f"), dtype=torch.float32)])  # NaN, all bits set
    ours = kept_in(BF16).product(torch.ones(1, 1), torch.zeros(1, len(x)), x, "round")[0]
    torch.testing.assert_close(ours[0], x.bfloat16(), rtol=0, atol=0, equal_nan=True)


@in_c
@both
@pytest.mark.parametrize("shape", [(1, 3), (2, 17), (131, 31), (300, 64)], ids=str)
@pytest.mark.parametrize("bias", [True, False])
def test_norms_in_c(shape: tuple[int, int], bias: bool, kept: torch.dtype) -> None:
    torch.manual_seed(0)
    c, x, added, grad_out = kept_in(kept), torch.randn(shape) + 1, torch.randn(shape), torch.randn(shape)
    scale, shift = torch.randn(shape[1]), torch.randn(shape[1]) if bias else None
    inputs = [tensor.double().requires_grad_() for tensor in (x, scale)]
    expected = F.layer_norm(inputs[0], [shape[1]], inputs[1], None if shift is None else shift.double())
    dx, dscale = torch.autograd.grad(expected, inputs, grad_out.double())
    out, mean, rate = c.norm(x, scale, shift, 1e-5)
    alike(out, expected.detach().float(), kept)
    back, found, dshift, sums = c.norm_back(grad_out.clone(), x, mean, rate, scale, added)
    alike(back, dx.float() + added)
    alike(found, dscale.float())
    alike(dshift, grad_out.sum(0))
    alike(sums, back.sum(0))
    alike(c.columns(back), back.sum(0))


@in_c
@both
@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (2, 5, 3, 7), (1, 64, 2, 16), (2, 65, 1, 40), (1, 150, 3, 32), (1, 133, 1, 65)], ids=str)
def test_attention_in_c(shape: tuple[int, int, int, int], kept: torch.dtype) -> None:
    (b, t, h, k), c = shape, kept_in(kept)
    qkv, grad_out = torch.randn(b, t, 3, h, k).to(kept), torch.randn(b, t, h * k).to(kept)
    exact = qkv.float().requires_grad_()
    q, key, value = exact.double().permute(2, 0, 3, 1, 4)
    expected = F.scaled_dot_product_attention(q, key, value, is_causal=True).transpose(1, 2).flatten(2).float()
    (back, sums), wanted = c.attend_back(grad_out, qkv), torch.autograd.grad(expected, exact, grad_out.float())[0]
    if kept == FP32:
        alike(c.attend(qkv), expected.detach())
        alike(back, wanted)
    else:  # weights are rounded too, before they are multiplied
        assert (c.attend(qkv) - expected).norm() <= 4e-3 * expected.norm()
        assert (back - wanted).norm() <= 6e-3 * wanted.norm()
    rounding = 1e-6 if kept == FP32 else 4e-3
    assert (sums - wanted.sum((0, 1)).flatten()).abs().max() <= rounding * wanted.abs().sum((0, 1)).max() + 1e-7  # those of keys cancel


def test_a_machine_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes.compiler, "load", lambda *_: None)
    passes.passes_for.cache_clear()
    try:
        (choice, *_) = install_chosen(block(), UsageSpec())
        assert ("C block", "no C compiler is found") in choice.reasons
    finally:
        passes.passes_for.cache_clear()
