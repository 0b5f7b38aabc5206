"""The fused block is the plain block: same output and gradients within bf16 rounding, dropout included, and the same bits each time."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import Tensor, nn

from weft.kernels.select import install_chosen
from weft.kernels.usage import Machine, UsageSpec
from weft.nn.attention import SelfAttention
from weft.nn.block import Block, Blocks
from weft.nn.dropout import kept
from weft.nn.feed_forward import FeedForward

pytestmark = pytest.mark.gpu


def block(width: int, dropout: float, seed: int = 0) -> Block:
    torch.manual_seed(seed)
    layer = Block(SelfAttention(width, 4, causal=True), FeedForward(width, 4 * width), partial(nn.LayerNorm, width), dropout=dropout)
    for name, parameter in layer.named_parameters():
        nn.init.normal_(parameter, 1.0 if name in ("norm1.weight", "norm2.weight") else 0.0, 0.05)
    return layer.cuda()


def gradients(layers: nn.Module, x: Tensor, out: Tensor) -> dict[str, Tensor]:
    """The output, and the gradients of a fixed sum of it."""
    found = torch.autograd.grad((out.float() * torch.linspace(-1, 1, out.size(-1), device="cuda")).sum(), [x, *layers.parameters()])
    return {"out": out.detach(), "x": found[0], **{name: g for (name, _), g in zip(layers.named_parameters(), found[1:], strict=True)}}


@pytest.mark.parametrize(
    ("number", "width", "batch", "length", "dropout"),
    [(1, 256, 4, 127, 0.1), (3, 256, 4, 127, 0.1), (2, 256, 3, 33, 0.0), (2, 128, 5, 128, 0.2)],
)
def test_they_are_the_plain_blocks(
    number: int, width: int, batch: int, length: int, dropout: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    from weft.kernels.triton import narrow_block

    layers = nn.ModuleList([block(width, dropout, seed) for seed in range(number)])
    seeds = torch.arange(11, 11 + 3 * number, dtype=torch.int32, device="cuda")
    monkeypatch.setattr(torch, "randint", lambda *_, **__: seeds)
    x = torch.randn(batch, length, width, device="cuda").bfloat16().requires_grad_()
    once, again = (gradients(layers, x, narrow_block.fused_blocks(layers, x)) for _ in range(2))
    assert all(torch.equal(once[name], again[name]) for name in once)

    def dropped(branch: Tensor, number: int) -> Tensor:
        return torch.where(kept(branch.shape, seeds[number : number + 1], 1 - dropout), branch / (1 - dropout), 0.0)

    exact = stream = x.detach().float().requires_grad_()
    for i, layer in enumerate(layers):
        middle = stream + dropped(layer.attention(layer.norm1(stream)), 3 * i)
        stream = middle + dropped(layer.feedforward(layer.norm2(middle)), 3 * i + 1)
    expected = gradients(layers, exact, stream)
    for name, value in expected.items():
        assert (once[name].float() - value).norm() < 0.03 * value.norm(), name


def test_blocks_take_it_where_it_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.kernels.triton import narrow_block

    layers = Blocks([block(128, 0.1), block(128, 0.1)])
    (choice, *_) = install_chosen(layers, UsageSpec(machine=Machine.of(torch.device("cuda")), precision="bf16"))
    assert "narrow blocks" in choice.chosen
    served: list[int] = []
    monkeypatch.setattr(narrow_block, "fused_blocks", lambda blocks, x: served.append(x.size(1)) or x)
    x = torch.randn(2, 16, 128, device="cuda", dtype=torch.bfloat16)
    with torch.autocast("cuda", torch.bfloat16):
        layers(x)
        layers(x.float())
        layers(torch.randn(2, 129, 128, device="cuda", dtype=torch.bfloat16))
        layers(x, [torch.ones(2, 1, 16, 16, dtype=torch.bool, device="cuda").tril()] * 2)
        layers.eval()(x)
    assert served == [16]
