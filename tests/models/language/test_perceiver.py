"""Perceiver: causality and its price, parity with a rewrite by loops, the limit in which it is a GPT, padding, errors."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode

from weft.core.errors import ConfigError
from weft.inference.runner import ModelRunner
from weft.kernels.select import use_attention
from weft.models.language.gpt import GPTConfig
from weft.models.language.perceiver import PRESETS, Perceiver, PerceiverConfig

V, T, M, D = 50, 12, 5, 16
VARIANTS = [
    {"queries": queries, "position_embedding": position}
    for queries, position in product(("learned", "last"), ("learned", "sinusoidal", "rotary"))
]
every_variant = pytest.mark.parametrize("settings", VARIANTS, ids=lambda settings: "-".join(settings.values()))


def model(**settings: Any) -> Perceiver:
    torch.manual_seed(0)
    sizes = {"vocabulary": V, "context": T, "layers": 4, "heads": 2, "width": D, "latents": M}
    network = PerceiverConfig(**{**sizes, **settings}).build()
    for path, parameter in network.named_parameters():  # make every weight matter
        nn.init.normal_(parameter, mean=float("norm" in path and path.endswith("weight")), std=0.2)
    return network


def ids(batch: int = 2, length: int = T, seed: int = 0) -> Tensor:
    """Tokens without padding."""
    return torch.randint(1, V, (batch, length), generator=torch.Generator().manual_seed(seed))


def padded(*lengths: int) -> Tensor:
    """A row of every length, filled up with 0."""
    return ids(len(lengths)).masked_fill(torch.arange(T) >= torch.tensor(lengths)[:, None], 0)


def use(network: Perceiver, backend: str) -> Perceiver:
    use_attention(network, backend)
    return network


def influence(network: Perceiver, tokens: Tensor) -> Tensor:
    """Size of the derivative of each output by each embedded input of the same row: (B, T, T)."""
    seen: dict[str, Tensor] = {}
    network.embed.register_forward_hook(lambda module, given, out: seen.setdefault("embedded", out))
    states = network.hidden(tokens)
    direction = torch.randn(D, generator=torch.Generator().manual_seed(1))  # a plain sum of a normed row has no gradient
    found = torch.zeros(*tokens.shape, tokens.size(1))
    for b, t in product(*map(range, tokens.shape)):
        gradient = torch.autograd.grad(states[b, t] @ direction, seen["embedded"], retain_graph=True)[0]
        assert (gradient[torch.arange(len(tokens)) != b] == 0).all()
        found[b, t] = gradient[b].abs().sum(-1)
    return found


# -- what an output sees ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("position", ["learned", "sinusoidal", "rotary"])
@pytest.mark.parametrize("backend", ["explicit", "fused"])
@pytest.mark.parametrize("length", [1, M - 1, M, T])
def test_learned_queries_see_the_first_inputs_and_their_own(position: str, backend: str, length: int) -> None:
    """Nothing of the future, but nothing between the bottleneck and themselves either: the reference is blind there."""
    network = use(model(queries="learned", position_embedding=position).eval(), backend)
    found = influence(network, ids(1, length))[0]
    for t, s in product(range(length), range(length)):
        assert (found[t, s] > 0) == (s <= min(t, M - 1) or s == t), (t, s)


@pytest.mark.parametrize("position", ["learned", "sinusoidal", "rotary"])
@pytest.mark.parametrize("backend", ["explicit", "fused"])
def test_last_queries_see_all_that_came_before(position: str, backend: str) -> None:
    """Rows of different lengths: outputs stand at their last M tokens, and each sees every input up to itself, padding none."""
    lengths = (T, T - 1, M + 1, M, 2, 1)
    found = influence(use(model(queries="last", position_embedding=position).eval(), backend), padded(*lengths))
    for row, length in zip(found, lengths, strict=True):
        start = max(0, length - M)
        for t, s in product(range(T), range(T)):
            assert (row[t, s] > 0) == (start <= t < start + M and s <= t), (length, t, s)


@pytest.mark.parametrize("length", [1, M - 1, M, M + 1, T])
def test_last_queries_see_everything_at_every_length(length: int) -> None:
    found = influence(model(queries="last").eval(), ids(1, length))[0]
    assert (found[-1] > 0).all()
    assert (found.triu(1) == 0).all()


@every_variant
def test_later_tokens_do_not_matter(settings: dict[str, Any]) -> None:
    network, tokens = model(**settings).eval(), ids()
    whole = network.hidden(tokens)
    for t in range(T - M, T - 1):
        other = torch.cat([tokens[:, : t + 1], ids(seed=1)[:, t + 1 :]], dim=1)
        assert torch.equal(network.hidden(other)[:, : t + 1], whole[:, : t + 1])


@every_variant
def test_what_padding_holds_does_not_matter(settings: dict[str, Any]) -> None:
    network, tokens = model(**settings).eval(), padded(T - 2, M + 1, 2)
    real = tokens != 0
    before = network.hidden(tokens)
    nn.init.normal_(network.embed.weight[0].detach())
    assert torch.equal(network.hidden(tokens)[real], before[real])


@every_variant
def test_padding_changes_nothing(settings: dict[str, Any]) -> None:
    network, lengths = model(**settings).eval(), (T - 1, M + 2, M, 3)
    tokens = padded(*lengths)
    whole = network.hidden(tokens)
    for row, states, length in zip(tokens, whole, lengths, strict=True):
        torch.testing.assert_close(network.hidden(row[None, :length])[0], states[:length], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("position", ["learned", "sinusoidal", "rotary"])
def test_a_prefix_has_the_same_logits(position: str) -> None:
    network, tokens = model(queries="learned", position_embedding=position).eval(), ids()
    whole = network(tokens)
    for length in (1, 3, M, M + 2):
        torch.testing.assert_close(network(tokens[:, :length]), whole[:, :length], atol=1e-5, rtol=1e-5)


def test_latents_are_the_last_real_positions() -> None:
    tokens = padded(T, T - 3, 3, 0)
    tokens[0, 4] = tokens[1, 7] = 0  # a token like the padding inside a text is real
    first = model(queries="last").latent_positions(tokens)[:, 0]
    assert first.tolist() == [T - M, T - 3 - M, 0, 0]
    assert model(queries="last", pad=-1).latent_positions(tokens)[:, 0].tolist() == [T - M] * 4
    assert model(queries="last").latent_positions(tokens[:, :2]).tolist() == [[0, 1]] * 4


@pytest.mark.parametrize("position", ["learned", "sinusoidal", "rotary"])
def test_states_outside_the_latents_are_zero(position: str) -> None:
    states = model(queries="last", position_embedding=position).hidden(padded(T, M + 1))
    assert (states[0, : T - M] == 0).all()
    assert (states[1, :1] == 0).all()
    assert (states[1, M + 1 :] == 0).all()
    assert (states[0, T - M :] != 0).any(-1).all()


@every_variant
def test_a_text_can_be_continued_to_the_end_of_the_context(settings: dict[str, Any]) -> None:
    network = model(**settings).eval()
    runner, new = ModelRunner(network), ids(3, 1).tolist()
    runner.add_rows(3)
    for _ in range(T + 3):
        logits = network.head(torch.stack([states[-1] for states in runner.prefill(new)]))
        assert (logits != 0).any(-1).all()
        new = (logits[:, 1:].argmax(-1, keepdim=True) + 1).tolist()


# -- what it computes ---------------------------------------------------------------------------------------------------------


def by_hand(w: dict[str, Tensor], tokens: list[int], layers: int, heads: int) -> Tensor:
    """The reference by loops over positions and heads: one row of tokens -> logits (T, V)."""

    def linear(name: str, x: Tensor) -> Tensor:
        return w[f"{name}.weight"] @ x + w.get(f"{name}.bias", 0)

    def norm(name: str, x: Tensor) -> Tensor:
        return (x - x.mean()) / (((x - x.mean()) ** 2).mean() + 1e-5).sqrt() * w[f"{name}.weight"] + w[f"{name}.bias"]

    def mlp(name: str, x: Tensor) -> Tensor:
        up = linear(f"{name}.feedforward.up", norm(f"{name}.norm2", x))
        return x + linear(f"{name}.feedforward.down", up * (1 + torch.erf(up / math.sqrt(2))) / 2)

    def attend(name: str, q: list[Tensor], k: list[Tensor], v: list[Tensor]) -> list[Tensor]:
        found = []
        for i, query in enumerate(q):
            parts = []
            for h in range(heads):
                piece = slice(h * D // heads, (h + 1) * D // heads)
                keys = [j for j in range(len(k)) if j <= i]
                scores = [math.exp(float(query[piece] @ k[j][piece]) / math.sqrt(D / heads)) for j in keys]
                parts.append(torch.stack([s / sum(scores) * v[j][piece] for j, s in zip(keys, scores, strict=True)]).sum(0))
            found.append(linear(f"{name}.attention.out", torch.cat(parts)))
        return found

    def cross(name: str, queries: list[Tensor], memory: list[Tensor]) -> list[Tensor]:
        pairs = [linear(f"{name}.attention.kv", x) for x in memory]
        return attend(name, [linear(f"{name}.attention.q", x) for x in queries], [p[:D] for p in pairs], [p[D:] for p in pairs])

    x = [w["embed.weight"][token] + w["position.weight"][t] for t, token in enumerate(tokens)]
    z = list(w["basis"][0])
    z = [mlp("down", c + a) for c, a in zip(z, cross("down", [norm("down.norm1", c) for c in z], x), strict=True)]
    for layer in range(layers - 2):
        name = f"blocks.{layer}"
        packed = [linear(f"{name}.attention.qkv", norm(f"{name}.norm1", y)) for y in z]
        mixed = attend(name, *([p[i * D : (i + 1) * D] for p in packed] for i in range(3)))
        z = [mlp(name, y + a) for y, a in zip(z, mixed, strict=True)]
    mixed = cross("up", x, [norm("up.norm1", y) for y in z])
    return torch.stack([linear("head", norm("norm", mlp("up", y + a))) for y, a in zip(x, mixed, strict=True)])


@pytest.mark.parametrize("backend", ["explicit", "fused"])
@pytest.mark.parametrize("length", [3, M, T])
def test_the_learned_basis_is_the_reference(backend: str, length: int) -> None:
    """The rewrite keeps all M latents where the input is shorter, and gets the same."""
    network = use(model(queries="learned").double().eval(), backend)
    weights, tokens = {path: p.detach() for path, p in network.named_parameters()}, ids(2, length)
    with torch.no_grad():
        found = network(tokens)
    for row, expected in zip(tokens.tolist(), found, strict=True):
        torch.testing.assert_close(by_hand(weights, row, 4, 2), expected, atol=1e-10, rtol=0)


@pytest.mark.parametrize("position", ["learned", "sinusoidal", "rotary"])
def test_with_a_latent_for_every_position_it_is_a_gpt(position: str) -> None:
    network = model(queries="last", position_embedding=position, latents=T).eval()
    twin = GPTConfig(vocabulary=V, context=T, layers=4, heads=2, width=D, position_embedding=position, tie_embeddings=False).build().eval()
    twin.load_state_dict(renamed(network.state_dict()))
    torch.testing.assert_close(network(ids()), twin(ids()), atol=1e-5, rtol=1e-5)


def renamed(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weights of "last" under the names of a GPT, whose first block is the one into the latents."""
    made: dict[str, Tensor] = {}
    for path, value in state.items():
        first, _, rest = path.partition(".")
        if first == "blocks":
            number, _, rest = rest.partition(".")
            made[f"blocks.{int(number) + 1}.{rest}"] = value
        elif first == "down" and ".q." in path:
            made[f"blocks.0.{rest.replace('.q.', '.qkv.')}"] = torch.cat([value, state[path.replace(".q.", ".kv.")]])
        elif first == "down" and ".kv." not in path:
            made[f"blocks.0.{rest}"] = value
        elif first != "down":
            made[path] = value
    return made


@every_variant
def test_fused_and_explicit_attention_give_the_same_logits(settings: dict[str, Any]) -> None:
    network, tokens = model(**settings).eval(), padded(T, T - 2, M + 1, 2)
    torch.testing.assert_close(use(network, "explicit")(tokens), use(network, "fused")(tokens), atol=1e-5, rtol=1e-5)


@every_variant
def test_gradient_reaches_every_parameter(settings: dict[str, Any]) -> None:
    network = model(**settings, pad=-1)
    tokens = torch.arange(V - V % T).view(-1, T)
    network(tokens).square().sum().backward()
    for path, parameter in network.named_parameters():
        assert parameter.grad is not None, path
        assert parameter.grad.abs().sum() > 0, path


@every_variant
def test_bf16_stays_near_fp32(settings: dict[str, Any]) -> None:
    network, tokens = model(**settings).eval(), padded(T, M + 2)
    kinds: set[torch.dtype] = set()
    for module in (network.down, *network.blocks):
        module.register_forward_hook(lambda module, given, out: kinds.add(out.dtype))
    exact = network(tokens).detach()
    kinds.clear()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = network(tokens).detach().float()
    assert kinds == {torch.bfloat16}
    assert float((rounded - exact).norm() / exact.norm()) < 0.03


@every_variant
def test_nothing_is_decided_on_the_host(settings: dict[str, Any]) -> None:
    """Tensors without values suffice, so the step can be captured: nothing is read from the device."""
    with FakeTensorMode():
        network = model(**settings)
        out = network(torch.ones(3, T, dtype=torch.int64))
        out.sum().backward()
    assert out.shape == (3, T, V)


# -- weights ------------------------------------------------------------------------------------------------------------------


def test_parameters_of_the_reference() -> None:
    network = PRESETS["reference"].build()
    assert sum(p.numel() for p in network.parameters()) == 3_339_776
    assert len(network.blocks) == 2


def test_perceiver_ar_has_the_parameters_of_a_gpt() -> None:
    network = PerceiverConfig(vocabulary=256, context=128, queries="last").build()
    assert sum(p.numel() for p in network.parameters()) == 3_323_392
    assert len(network.blocks) == 3


def test_initial_weights() -> None:
    network = PerceiverConfig(vocabulary=600, context=128, layers=8).build()
    bound = math.sqrt(6 / (64 * 256 + 256))
    assert 0.99 * bound < float(network.basis.detach().abs().max()) <= bound
    assert float(network.basis.detach().std()) == pytest.approx(bound / math.sqrt(3), rel=0.02)
    for path, parameter in network.state_dict().items():
        if path.endswith(("out.weight", "down.weight")):
            assert float(parameter.std()) == pytest.approx(0.02 / 4, rel=0.02), path
        elif parameter.ndim == 2:
            assert float(parameter.std()) == pytest.approx(0.02, rel=0.02), path
        elif path.endswith("bias"):
            assert (parameter == 0).all(), path


def test_without_bias_there_is_none() -> None:
    assert not [path for path, _ in model(bias=False).named_parameters() if path.endswith("bias")]


@pytest.mark.parametrize("queries", ["learned", "last"])
@pytest.mark.parametrize("place", ["embedding", "attention", "residual"])
def test_each_dropout_has_its_own_place(place: str, queries: str) -> None:
    network = model(**{f"{place}_dropout": 0.5}, queries=queries)
    active = {
        path
        for path, module in network.named_modules()
        if (path.endswith("dropout") and module.share > 0) or (path.endswith("attention") and module.dropout > 0)
    }
    parts = ["down", "up", "blocks.0", "blocks.1"] if queries == "learned" else ["down", "blocks.0", "blocks.1", "blocks.2"]
    assert active == {"embedding": {"dropout"}}.get(
        place, {f"{part}.{'attention' if place == 'attention' else 'dropout'}" for part in parts}
    )
    tokens = ids()
    assert not torch.equal(network.train()(tokens), network(tokens))
    assert torch.equal(network.eval()(tokens), network(tokens))


# -- errors -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"queries": "learned", "layers": 2}, "layers must be at least 3 with learned queries .*, not 2"),
        ({"queries": "last", "layers": 1}, "layers must be at least 2 with last queries .*, not 1"),
        ({"latents": T + 1}, "latents 13 is more than the 12 positions of the context"),
        ({"latents": 0}, "latents must be at least 1, not 0"),
        ({"pad": -2}, "pad must be at least -1, not -2"),
        ({"heads": 3}, r"model\.width 16 is not a multiple of model\.heads 3"),
        ({"heads": 16, "position_embedding": "rotary"}, "heads of even width, not 1"),
        ({"residual_dropout": 1.0}, "residual_dropout must be at least 0 and below 1, not 1.0"),
    ],
)
def test_impossible_settings_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        model(**settings)


def test_too_long_a_sequence_is_named() -> None:
    with pytest.raises(ConfigError, match="13 tokens do not fit a context of 12"):
        model()(ids(1, 13))


# -- on a GPU -----------------------------------------------------------------------------------------------------------------


@pytest.mark.gpu
@every_variant
def test_a_captured_graph_follows_the_lengths_of_its_rows(settings: dict[str, Any]) -> None:
    network = model(**settings).cuda().eval()
    held, batches = padded(T, T, T).cuda(), [padded(T, 3, M + 1).cuda(), padded(2, T - 1, M).cuda()]
    with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16, cache_enabled=False):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            network(held)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = network(held)
        for tokens in batches:
            held.copy_(tokens)
            graph.replay()
            torch.testing.assert_close(out, network(tokens))


@pytest.mark.gpu
@every_variant
def test_bf16_on_a_gpu_agrees_with_fp32_on_a_cpu(settings: dict[str, Any]) -> None:
    network, tokens = model(**settings).eval(), padded(T, T - 2, M + 1, 2)
    exact = network(tokens).detach()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        rounded = network.cuda()(tokens.cuda()).detach().float().cpu()
    assert float((rounded - exact).norm() / exact.norm()) < 0.03
