"""The Llama form: its block written out by hand, what may see what, and the sizes of published models."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from weft.core.errors import ConfigError
from weft.kernels.select import use_attention
from weft.models.language.llama import PRESETS, Llama, LlamaConfig
from weft.nn.position import rope_table

V, T = 50, 12


def model(**settings: Any) -> Llama:
    torch.manual_seed(0)
    made = LlamaConfig(**{"vocabulary": V, "context": T, "layers": 2, "heads": 4, "kv_heads": 2, "width": 32, **settings}).build().eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))  # make every weight matter
    return made


def ids() -> Tensor:
    return torch.randint(V, (2, T), generator=torch.Generator().manual_seed(0))


def by_hand(made: Llama, tokens: Tensor) -> Tensor:
    """Norms by the root of the mean square, heads turned by their place and served by their group, SiLU times a gate: logits."""
    c = made.config
    k, shared = c.width // c.heads, c.heads // (c.kv_heads or c.heads)

    def normed(x: Tensor, weight: Tensor) -> Tensor:
        return x / (x.square().mean(-1, keepdim=True) + c.eps).sqrt() * weight

    def turned(x: Tensor) -> Tensor:
        """x (B, T, K): each pair of its halves as a complex number, times one of its place."""
        cos, sin = rope_table(c.context, k, c.rope_base)[:, : x.size(1), : k // 2]
        first, second = x.chunk(2, -1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)

    x = made.embed.weight[tokens]
    future = torch.ones(tokens.size(1), tokens.size(1)).triu(1).bool()
    block: Any
    for block in made.blocks:
        attention, feedforward = block.attention, block.feedforward
        q, keys, values = attention.qkv(normed(x, block.norm1.weight)).split([c.width, c.width // shared, c.width // shared], -1)
        heads = []
        for head in range(c.heads):
            mine, theirs = slice(k * head, k * head + k), slice(k * (head // shared), k * (head // shared) + k)
            scores = turned(q[..., mine]) @ turned(keys[..., theirs]).mT / math.sqrt(k)
            heads.append(scores.masked_fill(future, -math.inf).softmax(-1) @ values[..., theirs])
        x = x + torch.cat(heads, -1) @ attention.out.weight.T
        x = x + feedforward(normed(x, block.norm2.weight))
    return normed(x, made.norm.weight) @ made.head.weight.T


@torch.no_grad()
@pytest.mark.parametrize("backend", ["explicit", "fused"])
@pytest.mark.parametrize("settings", [{}, {"kv_heads": 1}, {"kv_heads": 0}, {"tie_embeddings": False, "rope_base": 500.0}])
def test_it_is_its_definition(settings: dict[str, Any], backend: str) -> None:
    made = model(**settings)
    use_attention(made, backend)
    torch.testing.assert_close(made(ids()), by_hand(made, ids()), atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_the_feed_forward_layer_is_gated() -> None:
    layer: Any = model().blocks[0].feedforward
    x = torch.randn(3, 32)
    gate, up = layer.gate_up.weight.chunk(2)
    torch.testing.assert_close(layer(x), (F.silu(x @ gate.T) * (x @ up.T)) @ layer.down.weight.T)
    assert not [name for name, _ in layer.named_parameters() if name.endswith("bias")]


def test_no_output_sees_the_future() -> None:
    made, seen = model(), {}
    made.embed.register_forward_hook(lambda module, given, out: seen.setdefault("embedded", out))
    out = made.hidden(ids()[:1])
    for t in range(T):
        reached = torch.autograd.grad(out[0, t, 0], seen["embedded"], retain_graph=True)[0][0].abs().sum(-1) > 0
        assert reached.tolist() == [place <= t for place in range(T)]


@pytest.mark.parametrize(("preset", "parameters"), [("smollm2-135m", 134_515_008), ("llama-7b", 6_738_415_616)])
def test_presets_have_the_parameters_of_the_published_models(preset: str, parameters: int) -> None:
    with torch.device("meta"):
        made = PRESETS[preset].build()
    assert sum(p.numel() for p in made.parameters()) == parameters


def test_mistakes_are_named() -> None:
    with pytest.raises(ConfigError, match="13 tokens do not fit a context of 12"):
        model()(torch.zeros(1, 13, dtype=torch.int64))
    with pytest.raises(ConfigError, match="multiple of twice"):
        model(width=36)
    with pytest.raises(ConfigError, match=r"is not a multiple of --model\.kv_heads 3"):
        model(kv_heads=3)
