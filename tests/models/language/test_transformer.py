"""The Transformer of 2017: what may see what, where the norms stand, which layers meet, and what is shared."""

from __future__ import annotations

import math
from typing import Any, Literal

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.core.errors import ConfigError
from weft.inference.generate import can_continue
from weft.kernels.select import use_attention
from weft.models.language.transformer import PRESETS, Transformer, TransformerConfig
from weft.nn.feed_forward import FeedForward
from weft.nn.position import sinusoidal
from weft.training.optimizer.updater import parameter_kinds

V, S, T, D = 30, 9, 7, 16
LENGTHS = torch.tensor([9, 4, 1])


def model(backend: str = "fused", seed: int = 0, **settings: Any) -> Transformer:
    torch.manual_seed(seed)
    sizes = {"vocabulary": V, "context": 12, "layers": 3, "heads": 2, "width": D}
    made = Transformer(TransformerConfig(**{**sizes, **settings})).eval()
    use_attention(made, backend)
    return made


def tokens() -> tuple[Tensor, Tensor]:
    """source (3, S) and target (3, T)."""
    torch.manual_seed(1)
    return torch.randint(0, V, (3, S)), torch.randint(0, V, (3, T))


def leaves(*modules: Any) -> list[Tensor]:
    """A list that later outputs of modules are put into; for a gradient the graph begins there."""
    found: list[Tensor] = []

    def keep(module: nn.Module, arguments: Any, out: Tensor) -> Tensor:
        found.append(out.detach().requires_grad_())
        return found[-1]

    for module in modules:
        module.register_forward_hook(keep)
    return found


every_backend = pytest.mark.parametrize("backend", ["fused", "explicit"])
both_norms = pytest.mark.parametrize("norm", ["post", "pre"])


def by_the_diagram(made: Transformer, source: Tensor, target: Tensor) -> Tensor:
    """Figure 1 of the paper, with PyTorch's own attention and the weights of a model; logits of one pair."""
    c = made.config

    def attend(layer: Any, x: Tensor, y: Tensor, mask: Tensor | None = None) -> Tensor:
        products = [layer.qkv] if hasattr(layer, "qkv") else [layer.q, layer.kv]
        theirs = nn.MultiheadAttention(c.width, c.heads, batch_first=True)
        theirs.in_proj_weight.copy_(torch.cat([product.weight for product in products]))
        theirs.in_proj_bias.copy_(torch.cat([product.bias for product in products]))
        theirs.out_proj = layer.out
        mixed: Tensor = theirs(x, y, y, attn_mask=mask, need_weights=False)[0]
        return mixed

    def enter(ids: Tensor) -> Tensor:
        return made.embed.weight[ids] * math.sqrt(c.width) + sinusoidal(len(ids), c.width)

    def residual(x: Tensor, norm: nn.Module, branch: Any) -> Tensor:
        out: Tensor = x + branch(norm(x)) if c.norm == "pre" else norm(x + branch(x))
        return out

    x, y = enter(source)[None], enter(target)[None]
    for block in made.encoder:
        x = residual(x, block.norm1, lambda h, block=block: attend(block.attention, h, h))
        x = residual(x, block.norm2, lambda h, block=block: block.feedforward(h))
    memory, future = made.encoder_norm(x), torch.ones(len(target), len(target)).triu(1).bool()
    for block in made.decoder:
        y = residual(y, block.norm1, lambda h, block=block: attend(block.attention, h, h, future))
        y = residual(y, block.norm2, lambda h, block=block: attend(block.cross, h, memory))
        y = residual(y, block.norm3, lambda h, block=block: block.feedforward(h))
    logits: Tensor = made.norm(y)[0] @ made.embed.weight.T
    return logits


@every_backend
@both_norms
@torch.no_grad()
def test_it_is_the_diagram_of_the_paper(norm: Literal["pre", "post"], backend: str) -> None:
    made, (source, target) = model(backend, norm=norm), tokens()
    for parameter in made.parameters():
        parameter.add_(0.1 * torch.randn_like(parameter))
    logits = made(source, LENGTHS, target)
    assert logits.shape == (3, T, V)
    for row, length in enumerate(LENGTHS.tolist()):
        torch.testing.assert_close(logits[row], by_the_diagram(made, source[row, :length], target[row]), atol=1e-5, rtol=1e-5)


@every_backend
@both_norms
@torch.no_grad()
def test_padding_of_the_source_changes_nothing(norm: Literal["pre", "post"], backend: str) -> None:
    """Neither how much of it there is, nor what stands there, even if that is not a number."""
    made, (source, target) = model(backend, norm=norm, vocabulary=V + 1), tokens()
    hidden = made.hidden(source, LENGTHS, target)
    padded = F.pad(source, (0, 3)).masked_fill(torch.arange(S + 3) >= LENGTHS[:, None], V)
    made.embed.weight[V] = float("nan")
    torch.testing.assert_close(made.hidden(padded, LENGTHS, target), hidden, atol=1e-5, rtol=1e-5)


@every_backend
@both_norms
def test_a_source_of_padding_only_gives_numbers_and_gradients(norm: Literal["pre", "post"], backend: str) -> None:
    made, (source, target) = model(backend, norm=norm), tokens()
    out = made(source, torch.tensor([0, 9, 0]), target)
    out.square().sum().backward()
    assert out.isfinite().all()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in made.parameters())


@every_backend
@both_norms
def test_a_target_sees_itself_what_stands_before_it_and_the_whole_source(norm: Literal["pre", "post"], backend: str) -> None:
    made, (source, target) = model(backend, norm=norm, tie_embeddings=False), tokens()
    sources, targets = leaves(made.embed), leaves(made.target_embed)
    out = made.hidden(source, LENGTHS, target)
    for t in range(T):
        by_source, by_target = torch.autograd.grad(out[:, t, 0].sum(), (sources[0], targets[0]), retain_graph=True)
        reached = by_target.abs().sum(-1) > 0
        assert torch.equal(reached, (torch.arange(T) <= t).expand(3, T)), t
        assert torch.equal(by_source.abs().sum(-1) > 0, torch.arange(S) < LENGTHS[:, None])


def test_without_positions_the_encoder_does_not_see_the_order() -> None:
    made, (source, _) = model(), tokens()
    order = torch.randperm(S)
    assert not torch.allclose(made.encode(source[:, order]), made.encode(source)[:, order], atol=1e-2)
    made.positions.zero_()
    torch.testing.assert_close(made.encode(source[:, order]), made.encode(source)[:, order], atol=1e-5, rtol=1e-5)


def test_the_three_embeddings_are_one_tensor_and_enter_times_the_root_of_the_width() -> None:
    made, (source, _) = model(), tokens()
    assert made.embed.weight is made.target_embed.weight is made.head.weight
    assert sum(p is made.embed.weight for p in made.parameters()) == 1
    entered = made._embedded(made.embed, source)
    torch.testing.assert_close(entered - sinusoidal(S, D), 4.0 * made.embed.weight[source])  # sqrt(16)
    assert float(model(width=256).embed.weight.detach().norm(dim=1).mean()) == pytest.approx(1.0, rel=0.05)
    apart = model(tie_embeddings=False)
    assert len({p.data_ptr() for p in (apart.embed.weight, apart.target_embed.weight, apart.head.weight)}) == 3


def test_positions_may_have_all_sines_first() -> None:
    half_mask, turns = model(interleaved_positions=False).positions, model().positions
    assert torch.equal(half_mask[:, : D // 2], turns[:, 0::2])
    assert torch.equal(half_mask[:, D // 2 :], turns[:, 1::2])


@both_norms
@pytest.mark.parametrize(("memory", "seen"), [("last", (2, 2, 2)), ("layerwise", (0, 1, 2))])
def test_each_layer_of_the_decoder_looks_at_its_layer_of_the_encoder(memory: Any, seen: tuple[int, ...], norm: Any) -> None:
    """Where one layer of the decoder alone looks at the source, only its layer of the encoder has a gradient."""
    source, target = tokens()
    for number, layer in enumerate(seen):
        made = model(encoder_output=memory, norm=norm)
        for other, block in enumerate(made.decoder):
            if other != number:
                nn.init.zeros_(block.cross.out.weight)
        states = leaves(*made.encoder)
        out = made.hidden(source, LENGTHS, target)
        gradients = torch.autograd.grad(out.square().sum(), states, allow_unused=True)
        assert [i for i, g in enumerate(gradients) if g is not None and g.abs().sum() > 0] == [layer]


def test_memories() -> None:
    source, _ = tokens()
    layerwise = model(encoder_output="layerwise").encode(source, LENGTHS)
    assert layerwise.shape == (3, 3, S, D)
    torch.testing.assert_close(model().encode(source, LENGTHS), layerwise[:, -1])
    torch.testing.assert_close(model(encoder_output="all").encode(source, LENGTHS), layerwise.mean(1))
    with pytest.raises(ConfigError, match="layerwise needs 3 layers in the decoder too, not 2"):
        model(encoder_output="layerwise", decoder_layers=2)


@pytest.mark.parametrize("memory", ["last", "all", "layerwise"])
@both_norms
def test_gradients_reach_every_parameter(norm: Literal["pre", "post"], memory: Any) -> None:
    made, (source, target) = model(norm=norm, encoder_output=memory, tie_embeddings=False, output_bias=True), tokens()
    made(source, LENGTHS, target).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in made.parameters())


@pytest.mark.parametrize("seed", range(3))
def test_at_the_start_gradients_grow_towards_the_output_only_with_norms_last(seed: int) -> None:
    """Xiong et al., 2020, arXiv:2002.04745: why norms that stand last need a warm-up. Layers of the decoder, first to last."""
    sizes: dict[str, list[float]] = {}
    for norm in ("pre", "post"):
        made = model(vocabulary=50, context=20, layers=12, heads=4, width=64, norm=norm, seed=seed)
        source, target = torch.randint(0, 50, (16, 20)), torch.randint(0, 50, (16, 21))
        F.cross_entropy(made(source, None, target[:, :-1]).flatten(0, 1), target[:, 1:].flatten()).backward()
        sizes[norm] = [float(block.feedforward.down.weight.grad.norm()) for block in made.decoder]
    assert max(sizes["pre"]) < 3 * min(sizes["pre"])
    assert sum(sizes["post"][-3:]) > 8 * sum(sizes["post"][:3])
    assert max(sizes["post"]) > 1.5 * max(sizes["pre"][-3:])


def test_the_feed_forward_layer_is_two_convolutions_of_width_one() -> None:
    """It acts on every position by itself, and alike."""
    torch.manual_seed(0)
    layer, x = FeedForward(D, 4 * D, activation="relu"), torch.randn(2, T, D)
    ffn_width = F.relu(F.conv1d(x.mT, layer.up.weight[..., None], layer.up.bias))
    torch.testing.assert_close(layer(x), F.conv1d(ffn_width, layer.down.weight[..., None], layer.down.bias).mT)
    torch.testing.assert_close(layer(x)[:, 3], layer(x[:, 3]))


@pytest.mark.parametrize(("preset", "parameters", "paper"), [("base", 63_082_496, 65e6), ("big", 214_245_376, 213e6)])
def test_parameter_counts_are_near_those_of_the_paper(preset: str, parameters: int, paper: float) -> None:
    with torch.device("meta"):
        made = PRESETS[preset].build()
    assert sum(p.numel() for p in made.parameters()) == parameters == pytest.approx(paper, rel=0.03)


def test_dropout_acts_in_training_only() -> None:
    made, (source, target) = model(dropout=0.2, attention_dropout=0.2), tokens()
    assert torch.equal(made(source, LENGTHS, target), made(source, LENGTHS, target))
    made.train()
    assert not torch.equal(made(source, LENGTHS, target), made(source, LENGTHS, target))


def test_what_is_decayed() -> None:
    kinds = parameter_kinds([("", model(tie_embeddings=False, norm="pre", output_bias=True))])
    plain = ("embed.weight", "target_embed.weight", "norm.weight", "encoder.0.norm1.weight", "decoder.0.cross.kv.bias", "head.bias")
    assert {kinds[name] for name in plain} == {"no_decay"}
    assert {kinds[f"decoder.0.{name}.weight"] for name in ("attention.qkv", "cross.kv", "feedforward.up")} == {"matrix"}
    assert kinds["head.weight"] == "head"
    assert parameter_kinds([("", model())])["embed.weight"] == "no_decay"


def test_mistakes_are_named() -> None:
    made = model()
    with pytest.raises(ConfigError, match="13 tokens do not fit a context of 12"):
        made.encode(torch.zeros(1, 13, dtype=torch.int64))
    with pytest.raises(ConfigError, match=r"model\.width 15"):
        model(width=15)
    assert not can_continue(made, object())
