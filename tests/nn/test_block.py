"""The Transformer block: where norms, residuals and dropout stand; layer norm against batch norm."""

from __future__ import annotations

from functools import partial
from typing import Literal

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from weft.nn.attention import SelfAttention
from weft.nn.block import Block
from weft.nn.feed_forward import FeedForward

D = 16


def block(norm: Literal["pre", "post"], dropout: float = 0.0, causal: bool = True) -> Block:
    torch.manual_seed(0)
    return Block(SelfAttention(D, 2, causal=causal), FeedForward(D, 4 * D), partial(nn.LayerNorm, D), order=norm, dropout=dropout)


def test_pre_norm_is_the_diagram() -> None:
    layer, x = block("pre"), torch.randn(2, 5, D)
    h = x + layer.attention(layer.norm1(x))
    torch.testing.assert_close(layer(x), h + layer.feedforward(layer.norm2(h)))


def test_post_norm_is_the_diagram() -> None:
    layer, x = block("post"), torch.randn(2, 5, D)
    h = layer.norm1(x + layer.attention(x))
    torch.testing.assert_close(layer(x), layer.norm2(h + layer.feedforward(h)))


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_residual_dropout_of_everything_leaves_the_stream(norm: Literal["pre", "post"]) -> None:
    layer, x = block(norm, dropout=1.0), torch.randn(2, 5, D)
    layer.train()
    expected = x if norm == "pre" else layer.norm2(layer.norm1(x))
    torch.testing.assert_close(layer(x), expected)
    layer.eval()
    assert not torch.allclose(layer(x), expected)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_skipped_branch_leaves_the_stream_of_its_example(norm: Literal["pre", "post"]) -> None:
    layer, x = block(norm), torch.randn(400, 3, D)
    layer.drop_path.share = 0.5
    attended = layer.norm1(x) if norm == "pre" else x
    whole = [2 * layer.attention(attended), torch.zeros_like(x)]  # what is kept counts twice
    streams = [x + branch if norm == "pre" else layer.norm1(x + branch) for branch in whole]
    ends = []
    for h in streams:
        fed = 2 * layer.feedforward(layer.norm2(h) if norm == "pre" else h)
        ends += [h + branch if norm == "pre" else layer.norm2(h + branch) for branch in (fed, torch.zeros_like(x))]
    near = torch.stack([(layer(x) - end).flatten(1).abs().amax(1) < 1e-4 for end in ends])  # (4, B), from four draws
    assert near.any(1).all()
    layer.eval()
    layer.drop_path.share = 0.9
    torch.testing.assert_close(layer(x), block(norm).eval()(x))


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "relu"])
def test_feed_forward_is_two_layers(activation: Literal["gelu", "gelu_tanh", "relu"]) -> None:
    torch.manual_seed(0)
    layer, x = FeedForward(4, 12, activation=activation), torch.randn(3, 4)
    functions = {"gelu": F.gelu, "gelu_tanh": lambda h: F.gelu(h, approximate="tanh"), "relu": F.relu}
    expected = functions[activation](x @ layer.up.weight.T + layer.up.bias) @ layer.down.weight.T + layer.down.bias
    torch.testing.assert_close(layer(x), expected)


def test_layer_norm_has_mean_zero_and_variance_one_over_features() -> None:
    x = 3 + 5 * torch.randn(4, 6, 32)
    out = nn.LayerNorm(32)(x)
    torch.testing.assert_close(out.mean(-1), torch.zeros(4, 6), atol=1e-6, rtol=0)
    torch.testing.assert_close(out.var(-1, unbiased=False), torch.ones(4, 6), atol=1e-4, rtol=0)


def test_layer_norm_has_its_formula_with_scale_shift_and_epsilon() -> None:
    torch.manual_seed(0)
    norm = nn.LayerNorm(8, eps=1e-3)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    x = torch.randn(5, 8)
    centred = x - x.mean(-1, keepdim=True)
    expected = centred / (centred.square().mean(-1, keepdim=True) + 1e-3).sqrt() * norm.weight + norm.bias
    torch.testing.assert_close(norm(x), expected)


def test_layer_norm_does_not_see_other_rows_and_batch_norm_does() -> None:
    torch.manual_seed(0)
    x = torch.randn(4, 8)
    other = torch.cat([x[:1], 10 * torch.randn(3, 8)])
    assert torch.equal(nn.LayerNorm(8)(x)[0], nn.LayerNorm(8)(other)[0])
    assert not torch.allclose(nn.BatchNorm1d(8)(x)[0], nn.BatchNorm1d(8)(other)[0], atol=0.1)
    torch.testing.assert_close(nn.BatchNorm1d(8)(x).mean(0), torch.zeros(8), atol=1e-6, rtol=0)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_row_does_not_depend_on_batch_mates_or_on_padding(norm: Literal["pre", "post"]) -> None:
    layer = block(norm, causal=False).eval()
    x = torch.randn(3, 6, D)
    alone = layer(x[:1, :4])
    mask = torch.ones(3, 1, 1, 6, dtype=torch.bool)
    mask[..., 4:] = False
    torch.testing.assert_close(layer(x, mask)[:1, :4], alone, atol=1e-6, rtol=1e-5)
