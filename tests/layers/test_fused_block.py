"""The fused block is the plain block: same output and gradients within bf16 rounding, dropout included, and the same bits each time."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import Tensor, nn

from weft.layers.attention import SelfAttention
from weft.layers.block import Block, FeedForward, GatedFeedForward
from weft.layers.dropout import kept

pytestmark = pytest.mark.gpu


def block(width: int, dropout: float) -> Block:
    torch.manual_seed(0)
    layer = Block(SelfAttention(width, 4, causal=True), FeedForward(width, 4 * width), partial(nn.LayerNorm, width), dropout=dropout)
    for name, parameter in layer.named_parameters():
        nn.init.normal_(parameter, 1.0 if name in ("norm1.weight", "norm2.weight") else 0.0, 0.05)
    return layer.cuda()


def gradients(layer: Block, x: Tensor, out: Tensor) -> dict[str, Tensor]:
    """The output, and the gradients of a fixed sum of it."""
    found = torch.autograd.grad((out.float() * torch.linspace(-1, 1, out.size(-1), device="cuda")).sum(), [x, *layer.parameters()])
    return {"out": out.detach(), "x": found[0], **{name: g for (name, _), g in zip(layer.named_parameters(), found[1:], strict=True)}}


@pytest.mark.parametrize(("width", "batch", "length", "dropout"), [(256, 4, 127, 0.1), (256, 3, 33, 0.0), (128, 5, 128, 0.2)])
def test_it_is_the_plain_block(width: int, batch: int, length: int, dropout: float, monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.layers import fused_block

    layer, seeds = block(width, dropout), torch.tensor([11, -12, 13], dtype=torch.int32, device="cuda")
    monkeypatch.setattr(torch, "randint", lambda *_, **__: seeds)
    x = torch.randn(batch, length, width, device="cuda").bfloat16().requires_grad_()
    once, again = (gradients(layer, x, fused_block.fused_block(layer, x)) for _ in range(2))
    assert all(torch.equal(once[name], again[name]) for name in once)

    def dropped(branch: Tensor, number: int) -> Tensor:
        return torch.where(kept(branch.shape, seeds[number : number + 1], 1 - dropout), branch / (1 - dropout), 0.0)

    exact = x.detach().float().requires_grad_()
    middle = exact + dropped(layer.attention(layer.norm1(exact)), 0)
    expected = gradients(layer, exact, middle + dropped(layer.feedforward(layer.norm2(middle)), 1))
    for name, value in expected.items():
        assert (once[name].float() - value).norm() < 0.03 * value.norm(), name


def test_the_block_takes_it_where_it_serves() -> None:
    from weft.layers import fused_block

    x = torch.randn(2, 16, 128, device="cuda", dtype=torch.bfloat16)
    layer = block(128, 0.1)
    assert fused_block.fits(layer, x)
    assert not fused_block.fits(layer, x.float())
    assert not fused_block.fits(layer, torch.randn(2, 129, 128, device="cuda", dtype=torch.bfloat16))
    layer.feedforward = GatedFeedForward(128, 512).cuda()
    assert not fused_block.fits(layer, x)
