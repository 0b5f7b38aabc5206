"""What stands between the products of a wide block: the output and the gradients are those of the plain block."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from weft.core.errors import WeftError
from weft.kernels import block_passes as passes
from weft.kernels import block_products as products
from weft.kernels import gpt_block_cuda as module
from weft.kernels import packed_attention as attending
from weft.kernels.cuda import cublaslt_matmul as tuned_linear
from weft.kernels.select import install_chosen, use_attention
from weft.kernels.usage import Machine, UsageSpec
from weft.nn.attention import SelfAttention
from weft.nn.block import Block
from weft.nn.checkpointed import Checkpointing, checkpointed
from weft.nn.feed_forward import FeedForward

HOPPER = Machine(device="cuda", capability=(9, 0), triton=True, processors=132, shared_memory=232_448)


def block(device: torch.device, width: int = 64, **settings: Any) -> Block:
    torch.manual_seed(0)
    feed = FeedForward(width, 4 * width, activation=settings.pop("activation", "gelu"))
    layer = Block(SelfAttention(width, 2, causal=True), feed, partial(nn.LayerNorm, width), **settings)
    for name, parameter in layer.named_parameters():
        nn.init.normal_(parameter, 1.0 if name in ("norm1.weight", "norm2.weight") else 0.0, 0.05)
    return layer.to(device)


def gradients(layer: Block, x: Tensor, out: Tensor) -> dict[str, Tensor]:
    """The output, and the gradients of a fixed sum of it."""
    found = torch.autograd.grad((out.float() * torch.linspace(-1, 1, out.size(-1), device=x.device)).sum(), [x, *layer.parameters()])
    return {"out": out.detach(), "x": found[0], **{name: g for (name, _), g in zip(layer.named_parameters(), found[1:], strict=True)}}


def wide(layer: Block, x: Tensor, kept: Checkpointing = "none", **settings: Any) -> dict[str, Tensor]:
    return gradients(layer, x, checkpointed(kept, module.gpt_block_cuda, layer, x, None, None, module.Settings(**settings)))


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh"])
@pytest.mark.parametrize("parts", [{"norm"}, {"feed"}, {"products"}, {"norm", "feed", "attention", "products"}], ids=sorted)
def test_gradients_are_those_of_the_plain_block(parts: set[str], activation: str) -> None:
    layer = block(torch.device("cpu"), activation=activation)
    x = torch.randn(3, 5, 64, requires_grad=True)
    expected = gradients(layer, x, layer(x))
    for name, value in wide(layer, x, parts=frozenset(parts)).items():
        torch.testing.assert_close(value, expected[name], rtol=1e-4, atol=1e-4 * float(expected[name].abs().max()))


@pytest.mark.parametrize("kept", ["selective", "full"])
def test_what_is_computed_again_gives_the_same(kept: Checkpointing) -> None:
    layer, x = block(torch.device("cpu")), torch.randn(2, 5, 64, requires_grad=True)
    expected = wide(layer, x)
    for name, value in wide(layer, x, kept, recompute=kept == "selective").items():
        torch.testing.assert_close(value, expected[name])


def test_biases_are_summed_apart_where_a_branch_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, x = block(torch.device("cpu"), dropout=0.5), torch.randn(2, 5, 64, requires_grad=True)
    expected = gradients(layer, x, (torch.manual_seed(1), layer(x))[1])
    torch.manual_seed(1)
    for name, value in wide(layer, x).items():
        torch.testing.assert_close(value, expected[name], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("checkpointing", ["none", "selective", "full"])
@pytest.mark.parametrize("compiled", [False, True])
def test_what_is_installed_is_the_plain_block(checkpointing: Checkpointing, compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "supports_shape", lambda x, ffn_width: True)
    layer, x = block(torch.device("cpu")), torch.randn(2, 5, 64, requires_grad=True)
    expected = gradients(layer, x, layer(x))
    (choice, *_) = install_chosen(layer, UsageSpec(machine=HOPPER, precision="bf16", attention="cudnn", checkpointing=checkpointing))
    assert choice.chosen == ("CUDA block",)
    run = torch.compile(layer, backend="aot_eager", fullgraph=checkpointing == "none") if compiled else layer
    for name, value in gradients(layer, x, run(x)).items():
        torch.testing.assert_close(value, expected[name], rtol=1e-4, atol=1e-4 * float(expected[name].abs().max()))


@pytest.mark.parametrize("backend", ["aot_eager", "eager"])
def test_a_compiled_block_is_the_same(backend: str) -> None:
    layer, x = block(torch.device("cpu")), torch.randn(2, 5, 64, requires_grad=True)
    expected = wide(layer, x)
    compiled = torch.compile(lambda x: module.gpt_block_cuda(layer, x, None, None), backend=backend, fullgraph=True)
    for name, value in gradients(layer, x, compiled(x)).items():
        torch.testing.assert_close(value, expected[name])


def test_the_operations_keep_pytorchs_rules() -> None:
    x, scale, shift = (torch.randn(size, requires_grad=True) for size in ((2, 3, 8), (8,), (8,)))
    weight, down, inner = (torch.randn(size, requires_grad=True) for size in ((12, 8), (8, 12), (12,)))
    for onto in (None, torch.randn(2, 3, 12, requires_grad=True)):
        torch.library.opcheck(products.product, (x, weight, inner, onto))
    for again in (False, True):
        torch.library.opcheck(products.feed_forward, (x, weight, inner.detach(), down, shift, None if again else x, inner, True, again))
    torch.library.opcheck(passes.stream_and_norm, (x, scale, shift, shift, shift, 1e-5, False))


def test_half_precision_is_no_worse_than_plain(device: torch.device) -> None:
    layer = block(device)
    x = torch.randn(8, 256, 64, device=device).bfloat16().requires_grad_()
    exact = x.detach().float().requires_grad_()
    truth = gradients(layer, exact, layer(exact))
    with torch.autocast(device.type, torch.bfloat16):
        plain = gradients(layer, x, layer(x))
        use_attention(layer, "cudnn", device.type)
        found = wide(layer, x, packed=True)
    for name, value in truth.items():
        error, usual = ((one[name].float() - value).norm() / value.norm() for one in (found, plain))
        assert error <= 1.3 * usual + 1e-3, name


@pytest.mark.gpu
@pytest.mark.parametrize(("m", "width"), [(600, 768), (2048, 320)])
def test_kernels_are_the_plain_arithmetic(m: int, width: int) -> None:
    torch.manual_seed(0)
    x, grad_out, grad_residual = (torch.randn(m, width, device="cuda").bfloat16() for _ in range(3))
    scale = torch.randn(width, device="cuda")
    exact = x.float()
    mean, rate = exact.mean(1, keepdim=True), (exact.var(1, correction=0, keepdim=True) + 1e-5).rsqrt()
    close(passes.norm_rows(x, scale, scale, 1e-5, True), passes.norm_rows(x.cpu(), scale.cpu(), scale.cpu(), 1e-5, True))
    given = (grad_residual, grad_out, x, mean, rate, scale)
    for biases in (False, True):
        close(passes.norm_back(*given, biases), passes.norm_back(*(part.cpu() for part in given), biases))
    for tanh in (False, True):
        for again in (False, True):
            close(gelu_both_ways(grad_out, x, tanh, again), gelu_both_ways(grad_out.cpu(), x.cpu(), tanh, again))
    apart = torch.stack([x, grad_out, grad_residual], 1)[:, 1]
    once, again = (passes.column_sums(apart) for _ in range(2))
    assert torch.equal(once, again)
    close([once], [passes.column_sums(apart.cpu())])


def gelu_both_ways(grad_out: Tensor, x: Tensor, tanh: bool, again: bool) -> list[Tensor]:
    found, back, made = torch.empty_like(x), grad_out.clone(), torch.zeros_like(x)
    passes.gelu(x, found, tanh)
    sums = passes.gelu_back(back, x, tanh, made if again else None)
    return [found, back, sums, *([made] if again else [])]


def close(found: Any, expected: Any) -> None:
    for one, other in zip(found, expected, strict=True):
        assert (one.cpu().float() - other.cpu().float()).norm() <= 4e-3 * other.float().norm()


@pytest.mark.gpu
def test_attention_packed() -> None:
    torch.manual_seed(0)
    packed = torch.randn(2, 256, 3, 4, 64, device="cuda").bfloat16().requires_grad_()
    bias = torch.zeros(256, device="cuda", requires_grad=True)
    grad_out = torch.randn(2, 256, 256, device="cuda").bfloat16()
    exact = packed.detach().float().requires_grad_()
    q, k, v = (part.transpose(1, 2) for part in exact.unbind(2))
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    (expected,) = torch.autograd.grad(out.transpose(1, 2).flatten(2), exact, grad_out.float())
    for _ in range(2):  # neither way changes what the other finds
        found = torch.autograd.grad(attending.packed_attention(packed, bias)[0], [packed, bias], grad_out)
        assert (found[0].float() - expected).norm() <= 0.01 * expected.norm()
        assert (found[1] - expected[:, :, 0].sum((0, 1)).flatten()).norm() <= 0.01 * expected[:, :, 0].sum((0, 1)).norm()
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            usual = F.scaled_dot_product_attention(*attending.heads(packed), is_causal=True)
        (plain,) = torch.autograd.grad(usual.transpose(1, 2).flatten(2), packed, grad_out)
        assert (plain.float() - expected).norm() <= 0.01 * expected.norm()


@pytest.mark.gpu
def test_gradients_are_written_where_they_belong() -> None:
    assert attending.writes_in_place()


def test_what_attention_asks_for_is_given() -> None:
    given, room = torch.ones(3), torch.full((3,), 7.0)
    with attending.Into([given], [room]):
        inside, other = torch.empty_like(given), torch.empty_like(room)
    assert inside.data_ptr() == room.data_ptr() != other.data_ptr()
    assert torch.empty_like(given).data_ptr() != room.data_ptr()


@attending.packed_attention.register_kernel("cpu")
def _(packed: Tensor, queries: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    out, sums = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(*attending.heads(packed), 0.0, True)
    return out.transpose(1, 2).flatten(2), sums.unsqueeze(-1).contiguous(), torch.tensor(0), torch.tensor(0)


@attending.packed_attention_back.register_kernel("cpu")
def _(grad_out: Tensor, packed: Tensor, out: Tensor, sums: Tensor, seed: Tensor, offset: Tensor) -> tuple[Tensor, Tensor]:
    grad_out, out = (part.view(*packed.shape[:2], *packed.shape[3:]).transpose(1, 2) for part in (grad_out, out))
    found = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
        grad_out, *attending.heads(packed), out, sums.squeeze(-1), 0.0, True
    )
    back = torch.stack([part.transpose(1, 2) for part in found], 2)
    return back, passes.column_sums(back.flatten(0, 1).flatten(2)[:, 0])


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_biases_of_queries_keys_and_values(dropout: float, compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of keys have no gradient, and those of values have theirs by way of the next bias."""
    monkeypatch.setattr(module, "served", lambda q, k, causal: True)
    layer, x = block(torch.device("cpu"), dropout=dropout), torch.randn(2, 130, 64, requires_grad=True)
    torch.manual_seed(1)
    expected = gradients(layer, x, layer(x))
    settings = module.Settings(packed=True)
    assert module.packs(layer.attention, x, None, None, settings)
    run = partial(module.gpt_block_cuda, layer, mask=None, rotary=None, settings=settings)
    torch.manual_seed(1)
    out = torch.compile(run, backend="aot_eager", fullgraph=True)(x) if compiled else run(x)
    for name, value in gradients(layer, x, out).items():
        torch.testing.assert_close(value, expected[name], rtol=1e-4, atol=1e-4 * float(expected[name].abs().max()))


def test_gelu_is_exact_within_a_unit_of_the_last_place() -> None:
    """The kernel's formula, in PyTorch: every bf16 number in which GELU is not lost in rounding."""
    x = torch.arange(-(2**15), 2**15).to(torch.int16).view(torch.bfloat16)
    x = x[x.isfinite() & (x.abs() < 12) & (x.abs() > 1e-30)].double()
    t = 1 / (1 + 0.498 * x.abs())
    bell = torch.exp2(x * x * -0.72134752)
    tail = t * (0.200178268 + t * (0.177630239 + t * (0.247639844 - t * 0.125557976))) * bell
    found = (x * torch.where(x >= 0, 1 - tail, tail)).bfloat16()
    exact = (x * 0.5 * torch.special.erfc(-x * 0.5**0.5)).bfloat16()
    places = found.view(torch.int16).int() - exact.view(torch.int16).int()
    assert int(places.abs().max()) <= 1


@pytest.mark.gpu
@pytest.mark.parametrize("tanh", [False, True])
@pytest.mark.parametrize("again", [False, True])
def test_a_feed_forward_network_whose_products_are_tuned(tanh: bool, again: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuned_linear, "LARGE", 1)
    torch.manual_seed(0)
    shapes = {"x": (4, 300, 128), "up": (512, 128), "up_bias": (512,), "down": (128, 512), "down_bias": (128,)}
    given = {name: (torch.randn(shape, device="cuda") / shape[-1] ** 0.5).bfloat16().requires_grad_() for name, shape in shapes.items()}
    learner = given["up_bias"].detach().float().requires_grad_()
    exact = {name: part.detach().double().requires_grad_() for name, part in given.items()}
    grad_out = torch.randn(4, 300, 128, device="cuda")
    inner = F.gelu(F.linear(exact["x"], exact["up"], exact["up_bias"]), approximate="tanh" if tanh else "none")
    truth = F.linear(inner, exact["down"], exact["down_bias"])
    expected = torch.autograd.grad(truth, list(exact.values()), grad_out.double())
    found = products.feed_forward(*given.values(), None, learner, tanh, again)[0]
    by_x, by_rise, by_down, by_fall_bias, by_learner = torch.autograd.grad(
        found, [given["x"], given["up"], given["down"], given["down_bias"], learner], grad_out.bfloat16()
    )
    assert tuned_linear.CHOSEN
    close([found, by_x, by_rise, by_learner, by_down, by_fall_bias], [truth.detach(), *expected])
    onto = torch.randn(4, 300, 128, device="cuda").bfloat16()
    close([products.feed_forward(*given.values(), onto, learner, tanh, again)[0]], [truth.detach() + onto])


@pytest.mark.gpu
@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float32])
def test_every_way_to_a_product_gives_it(kind: torch.dtype) -> None:
    torch.manual_seed(0)
    x, y = (torch.randn(256, size, device="cuda").bfloat16() for size in (128, 64))
    weight, bias = torch.randn(64, 128, device="cuda").bfloat16(), torch.randn(64, device="cuda").bfloat16()
    cases = [(x, weight.t(), bias), (x, weight.t(), None), (y, weight, None), (y.t(), x, None)]
    for a, b, more in cases if kind == torch.bfloat16 else cases[-1:]:
        out = torch.empty(a.size(0), b.size(1), device="cuda", dtype=kind)
        expected = a.double() @ b.double() + (0 if more is None else more.double())
        plan = tuned_linear.plan_of(a, b, out, more, None)
        assert plan
        assert len(plan.proposals) > tuned_linear.PROPOSED
        for proposal in plan.proposals:
            out.fill_(3.0)
            plan(proposal, a, b, out, more, None, None)
            close([out], [expected])
            plan(proposal, a, b, out, more, None, out)
            close([out], [2 * expected])
        plus = torch.randn_like(out)
        plan = tuned_linear.plan_of(a, b, out, more, None, adds=True)
        assert plan
        for proposal in plan.proposals:
            plan(proposal, a, b, out, more, None, plus)
            close([out], [expected + plus])


def test_the_fastest_way_wins_and_those_that_fail_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise WeftError("no")

    ways: list[Any] = [lambda: None, fails, lambda: None]
    times = {ways[0]: 2.0, fails: 0.0, ways[2]: 1.0}
    monkeypatch.setattr(tuned_linear, "milliseconds", lambda way, repeats, copies: times[way])
    assert tuned_linear.winner(ways) == 2
