"""GPT: causality, its variants, dropout placements, and parity with Hugging Face's GPT-2 in logits and in training."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.gpt_configs import gpt_config
from tests.training import toys
from weft.benchmarks import peers
from weft.core.errors import ConfigError
from weft.kernels.select import use_attention
from weft.models.language.gpt import GPT, PRESETS, GPTConfig
from weft.objectives.language.next_token import NextToken, NextTokenConfig
from weft.training.optimizer.settings import AdamW
from weft.training.schedule import Schedule

V, T = 50, 12
VARIANTS = [
    {"position_embedding": position, "norm": norm, "tie_embeddings": tied}
    for position, norm, tied in product(("learned", "sinusoidal", "rotary"), ("pre", "post"), (True, False))
]
MODERN: dict[str, Any] = {
    "position_embedding": "rotary",
    "qk_norm": True,
    "embedding_norm": True,
    "embedding_skips": True,
    "activation": "squared_relu",
}
VARIANTS.append(MODERN)


def model(**settings: Any) -> GPT:
    torch.manual_seed(0)
    return gpt_config(**{"vocabulary": V, "context": T, "layers": 2, "heads": 2, "width": 16, **settings}).build()


def ids(batch: int = 2, length: int = T, seed: int = 0) -> Tensor:
    return torch.randint(V, (batch, length), generator=torch.Generator().manual_seed(seed))


def name(settings: dict[str, Any]) -> str:
    return "-".join(str(value) for value in settings.values())


@pytest.mark.parametrize("settings", VARIANTS, ids=name)
@pytest.mark.parametrize("backend", ["explicit", "fused"])
def test_no_output_sees_the_future(settings: dict[str, Any], backend: str) -> None:
    """The derivative of the output at t by the embedding at s is zero for s > t and not zero for s <= t."""
    network = model(**settings).eval()
    use_attention(network, backend)
    seen = {}
    network.embed.register_forward_hook(lambda module, given, out: seen.setdefault("embedded", out))
    states = network.hidden(ids(1))
    direction = torch.randn(16, generator=torch.Generator().manual_seed(1))  # a plain sum of a normed row has no gradient
    for t in range(T):
        gradient = torch.autograd.grad(states[0, t] @ direction, seen["embedded"], retain_graph=True)[0][0].abs().sum(-1)
        assert (gradient[t + 1 :] == 0).all()
        assert (gradient[: t + 1] > 0).all()


@pytest.mark.parametrize("settings", VARIANTS, ids=name)
def test_a_prefix_has_the_same_logits(settings: dict[str, Any]) -> None:
    network, tokens = model(**settings).eval(), ids()
    whole = network(tokens)
    for length in (1, 5):
        torch.testing.assert_close(network(tokens[:, :length]), whole[:, :length], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("settings", VARIANTS, ids=name)
def test_fused_and_explicit_attention_give_the_same_logits(settings: dict[str, Any]) -> None:
    network = model(**settings).eval()
    outs = []
    for backend in ("explicit", "fused"):
        use_attention(network, backend)
        outs.append(network(ids()))
    torch.testing.assert_close(*outs, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("settings", VARIANTS, ids=name)
def test_gradient_reaches_every_parameter(settings: dict[str, Any]) -> None:
    network = model(**settings)
    tokens = torch.arange(V - V % T).view(-1, T)
    network(tokens).square().sum().backward()
    for path, parameter in network.named_parameters():
        assert parameter.grad is not None, path
        assert parameter.grad.abs().sum() > 0, path


@pytest.mark.parametrize("position", ["learned", "sinusoidal", "rotary"])
def test_order_matters(position: str) -> None:
    network, tokens = model(position_embedding=position).eval(), ids(1)
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.5)
    swapped = tokens.clone()
    swapped[0, :2] = tokens[0, :2].flip(0)
    assert not torch.allclose(network(tokens)[0, -1], network(swapped)[0, -1], atol=1e-6)


def test_the_block_is_pre_norm_with_a_final_norm() -> None:
    network, tokens = model().eval(), ids()
    x = network.embed(tokens) + network.position.weight[:T]
    for block in network.blocks:
        x = x + block.attention(block.norm1(x))
        x = x + block.feedforward(block.norm2(x))
    torch.testing.assert_close(network.hidden(tokens), network.norm(x))
    torch.testing.assert_close(network(tokens), network.norm(x) @ network.embed.weight.T)
    assert isinstance(network.norm, nn.LayerNorm)
    assert isinstance(model(norm="post").norm, nn.Identity)


def test_tying_shares_one_tensor() -> None:
    tied, untied = model(tie_embeddings=True), model(tie_embeddings=False)
    assert tied.head.weight is tied.embed.weight
    assert untied.head.weight is not untied.embed.weight
    count = {kind: sum(p.numel() for p in m.parameters()) for kind, m in (("tied", tied), ("untied", untied))}
    assert count["untied"] - count["tied"] == V * 16


def test_without_bias_there_is_none() -> None:
    assert not [path for path, _ in model(bias=False).named_parameters() if path.endswith("bias")]


def test_parameters_of_gpt2_small() -> None:
    with torch.device("meta"):
        network = GPTConfig(vocabulary=50257, context=1024, layers=12, heads=12, width=768).build()
    assert sum(p.numel() for p in network.parameters()) == 124_439_808


def test_initial_weights_are_those_of_gpt2() -> None:
    network = model(vocabulary=600, width=256, layers=8, tie_embeddings=False)
    for path, parameter in network.state_dict().items():
        if path.endswith(("out.weight", "down.weight")):
            assert float(parameter.std()) == pytest.approx(0.02 / 4, rel=0.02), path
        elif parameter.ndim == 2 and "position" not in path:
            assert float(parameter.std()) == pytest.approx(0.02, rel=0.02), path
        elif path.endswith("bias"):
            assert (parameter == 0).all(), path


def test_the_stream_stays_of_order_one_through_a_hundred_layers() -> None:
    """Residual scaling keeps the branches of 100 layers together as small as those of one."""
    network, tokens = model(layers=100, width=64, heads=2).eval(), ids(4)
    sizes: list[float] = []
    for block in network.blocks:
        block.register_forward_hook(lambda module, given, out: sizes.append(float(out.detach().square().mean())))
    network(tokens)
    assert len(sizes) == 100
    assert max(sizes) / min(sizes) < 10
    assert 0.5 < float(network.hidden(tokens).detach().square().mean()) < 2


# -- a task -----------------------------------------------------------------------------------------------------------------


@torch.no_grad()
def test_a_task_reads_the_last_state_and_nothing_behind_it() -> None:
    network = model(classes=3).eval()
    tokens, lengths = ids(batch=4), torch.tensor([2, 5, T, 1])
    told = network.class_logits(network.hidden(tokens), lengths)
    for row, length in enumerate(lengths.tolist()):
        alone = network.hidden(tokens[row : row + 1, :length])
        torch.testing.assert_close(told[row], network.task_head(alone[0, -1]))
    pairs = network.class_logits(network.hidden(tokens).view(2, 2, T, -1), lengths.view(2, 2))
    states = network.last_state(network.hidden(tokens), lengths)
    torch.testing.assert_close(pairs, network.task_head(states[0::2] + states[1::2]))


@torch.no_grad()
def test_choices_have_a_score_each() -> None:
    network = model(classes=1).eval()
    tokens, lengths = ids(batch=6), torch.tensor([2, 5, T, 1, 4, 4])
    scores = network.choice_logits(network.hidden(tokens).view(2, 3, T, -1), lengths.view(2, 3))
    torch.testing.assert_close(scores.flatten(), network.class_logits(network.hidden(tokens), lengths).squeeze(1))
    with pytest.raises(ConfigError, match=r"--model\.classes must be 1"):
        model(classes=2).choice_logits(network.hidden(tokens).view(2, 3, T, -1), lengths.view(2, 3))


def test_the_model_of_a_task_is_the_same_model_with_one_layer_more() -> None:
    plain, tuned = model(), model(classes=3)
    added = set(tuned.state_dict()) - set(plain.state_dict())
    assert added == {"task_head.weight", "task_head.bias"}
    tuned.load_state_dict({**tuned.state_dict(), **plain.state_dict()})
    assert torch.equal(plain.eval()(ids()), tuned.eval()(ids()))
    tuned.train()
    hidden, lengths = tuned.hidden(ids()), torch.tensor([T, T])
    assert not torch.equal(tuned.class_logits(hidden, lengths), tuned.class_logits(hidden, lengths)), "what it reads is dropped out"


# -- dropout ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["embedding", "attention", "residual"])
def test_each_dropout_has_its_own_place(place: str) -> None:
    network = model(**{f"{place}_dropout": 0.5})
    active = {
        path
        for path, module in network.named_modules()
        if (path.endswith("dropout") and module.share > 0) or (path.endswith("attention") and module.dropout > 0)
    }
    expected = {
        "embedding": {"dropout"},
        "attention": {"blocks.0.attention", "blocks.1.attention"},
        "residual": {"blocks.0.dropout", "blocks.1.dropout"},
    }
    assert active == expected[place]
    plain = model()
    plain.load_state_dict(network.state_dict())
    tokens = ids()
    network.train()
    assert not torch.allclose(network(tokens), plain(tokens))
    network.eval()
    assert torch.equal(network(tokens), plain(tokens))


def test_the_default_has_no_dropout() -> None:
    network = model().train()
    assert torch.equal(network(ids()), network(ids()))


# -- errors -----------------------------------------------------------------------------------------------------------------


def test_too_long_a_sequence_is_named() -> None:
    with pytest.raises(ConfigError, match="13 tokens do not fit a context of 12"):
        model()(ids(1, 13))


def test_heads_that_do_not_divide_the_width_are_named() -> None:
    with pytest.raises(ConfigError, match=r"model\.width 16 is not a multiple of model\.heads 3"):
        model(heads=3)


@pytest.mark.parametrize("share", [-0.1, 1.0, 3.0])
@pytest.mark.parametrize("place", ["embedding", "attention", "residual"])
def test_an_impossible_dropout_is_named(place: str, share: float) -> None:
    with pytest.raises(ConfigError, match=f"{place}_dropout must be at least 0 and below 1, not {share}"):
        model(**{f"{place}_dropout": share})


# -- on a GPU -----------------------------------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("settings", VARIANTS, ids=name)
def test_bf16_on_a_gpu_agrees_with_fp32_on_a_cpu(settings: dict[str, Any], bias: bool) -> None:
    """Whatever kernels the GPU uses, logits and gradients stay within what bf16 rounds."""
    network = model(**settings, bias=bias, width=64, layers=3).train()
    tokens, direction = ids(4), torch.randn(4, T, V, generator=torch.Generator().manual_seed(1))
    exact = network(tokens)
    wanted = torch.autograd.grad((exact * direction).sum(), list(network.parameters()))
    network, tokens, direction = network.cuda(), tokens.cuda(), direction.cuda()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        rounded = network(tokens).float()
    found = torch.autograd.grad((rounded * direction).sum(), list(network.parameters()))
    assert (rounded.cpu() - exact).norm() < 0.03 * exact.norm()
    norms = {path: gradient.norm() for (path, _), gradient in zip(network.named_parameters(), wanted, strict=True)}
    if "skips" in norms:
        norms["skips"] = norms["norm.weight"]  # their own is all but none: a stream that grows as a whole is the same after the norm
    for (path, _), gradient, other in zip(network.named_parameters(), wanted, found, strict=True):
        assert float((other.cpu() - gradient).norm() / norms[path]) < 0.06, path


@pytest.mark.gpu
@pytest.mark.parametrize("place", ["embedding", "attention", "residual"])
def test_dropout_on_a_gpu_follows_the_seed_and_stops_in_evaluation(place: str) -> None:
    network = model(**{f"{place}_dropout": 0.3}, width=64).cuda().train()
    tokens, outs = ids(4).cuda(), []
    with torch.autocast("cuda", dtype=torch.bfloat16), torch.no_grad():
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            outs.append(network(tokens))
        network.eval()
        assert torch.equal(network(tokens), network(tokens))
    assert torch.equal(outs[0], outs[1])
    assert not torch.equal(outs[0], outs[2])


# -- parity with Hugging Face -------------------------------------------------------------------------------------------------


def hugging_face(network: GPT) -> nn.Module:
    """GPT-2 of transformers with the same weights."""
    pytest.importorskip("transformers")
    return peers.twin(network)


def gpt2(**settings: Any) -> GPT:
    network = model(activation="gelu_tanh", context=32, layers=3, heads=4, width=32, **settings)
    for path, parameter in network.named_parameters():  # make every weight matter
        if path.endswith("bias") or "norm" in path:
            nn.init.normal_(parameter, mean=float("norm" in path and path.endswith("weight")), std=0.1)
    return network


@pytest.mark.parametrize("backend", ["explicit", "fused"])
def test_logits_equal_those_of_hugging_face(backend: str) -> None:
    network = gpt2().eval()
    use_attention(network, backend)
    twin, tokens = hugging_face(network).eval(), ids(3, 32)
    with torch.no_grad():
        torch.testing.assert_close(network(tokens), twin(tokens).logits, atol=1e-4, rtol=0)


def test_a_hundred_steps_of_adamw_equal_those_of_hugging_face(device: torch.device) -> None:
    """Same weights, batches, decay groups, schedule and clipping: the same loss at every step."""
    steps, batch = 100, 4
    network = gpt2()
    twin = hugging_face(network).to(device).train()
    windows = (torch.arange(64)[:, None] * 7 + torch.arange(33) * 3) % V  # something to learn
    schedule = Schedule(kind="cosine", warmup=10, min_lr_ratio=0.1)
    optim = AdamW(lr=3e-3, betas=(0.9, 0.95), weight_decay=0.1, clip_norm=1.0, schedule=schedule)
    tensors = {"ids": windows[:, :-1], "targets": windows[:, 1:]}
    trainer = toys.trainer(network, NextToken(NextTokenConfig()), tensors, optim, batch=batch, micro_batch=3, steps=steps, device=device)

    decayed = [p for path, p in twin.named_parameters() if p.ndim == 2 and ".h." in path]
    plain = [p for path, p in twin.named_parameters() if p.ndim < 2 or ".h." not in path]
    kv_heads = [{"params": decayed, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(kv_heads, lr=3e-3, betas=(0.9, 0.95), foreach=False)
    losses: list[tuple[float, float]] = []
    for step in range(1, steps + 1):
        given = trainer.source.batch(trainer.cursor, batch)
        trainer.run_step()
        logits = twin(given["ids"]).logits
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), given["targets"].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(twin.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * schedule.factor(step, steps)
        optimizer.step()
        losses.append((trainer.means.read()["loss"], float(loss.detach())))
        trainer.means.clear()
    assert max(abs(ours - theirs) / theirs for ours, theirs in losses) < 1e-4
    assert losses[-1][1] < 0.7 * losses[0][1]


@pytest.mark.parametrize(
    ("preset", "parameters"),
    [
        ("gpt1", 116_534_784),
        ("gpt2", 124_439_808),
        ("gpt2-medium", 354_823_168),
        ("gpt2-large", 774_030_080),
        ("gpt2-xl", 1_557_611_200),
    ],
)
def test_presets_have_the_parameters_of_the_papers(preset: str, parameters: int) -> None:
    with torch.device("meta"):
        made = PRESETS[preset].build()
    assert sum(p.numel() for p in made.parameters()) == parameters


@pytest.mark.parametrize(
    ("preset", "billions"),
    [
        ("gpt3-125m", 0.125),
        ("gpt3-350m", 0.356),
        ("gpt3-760m", 0.760),
        ("gpt3-1.3b", 1.316),
        ("gpt3-2.7b", 2.652),
        ("gpt3-6.7b", 6.658),
        ("gpt3-13b", 12.853),
        ("gpt3-175b", 174.604),
    ],
)
def test_gpt3_has_eight_sizes(preset: str, billions: float) -> None:
    c = PRESETS[preset]
    with torch.device("meta"):
        made = sum(p.numel() for p in c.build().parameters())
    d, ffn_width = c.width, 4 * c.width
    block = 2 * 2 * d + (d * 3 * d + 3 * d) + (d * d + d) + (d * ffn_width + ffn_width) + (ffn_width * d + d)
    assert made == c.vocabulary * d + c.context * d + c.layers * block + 2 * d
    assert made / 1e9 == pytest.approx(billions, abs=5e-4)


@pytest.mark.parametrize("backend", ["explicit", "fused"])
def test_every_second_block_may_see_only_a_band(backend: str) -> None:
    """The derivative of a banded block's output at t by its input at s is zero unless t - window < s <= t."""
    network = model(layers=2, sliding_window=4).eval()
    use_attention(network, backend)
    x = torch.randn(1, T, 16, requires_grad=True)
    for number, nearest in ((0, T), (1, 4)):
        out = network.blocks[number](x, mask=network._sliding_window_mask(ids(1), None, None) if number % 2 else None)
        for t in range(T):
            gradient = torch.autograd.grad(out[0, t, 0], x, retain_graph=True)[0][0].abs().sum(-1)
            assert [s for s in range(T) if gradient[s] > 0] == [s for s in range(T) if t - nearest < s <= t]
    dense = model(layers=2).eval()
    dense.load_state_dict(network.state_dict())
    torch.testing.assert_close(network(ids(2, 4)), dense(ids(2, 4)))  # a text within the band
    assert not torch.allclose(network(ids(2)), dense(ids(2)))


def test_outputs_that_begin_at_zero_leave_the_embedding_as_it_is() -> None:
    network = model(zero_init=True, tie_embeddings=False, **MODERN)
    embedded = network.embedded(ids())
    torch.testing.assert_close(embedded.square().mean(-1), torch.ones(2, T), rtol=0, atol=1e-2)
    with torch.autocast("cpu", dtype=torch.bfloat16):  # whose own smallest number is larger than the squares of an embedding
        torch.testing.assert_close(network.embedded(ids()).float().square().mean(-1), torch.ones(2, T), rtol=0, atol=2e-2)
    torch.testing.assert_close(network.hidden(ids()), network.norm(embedded))
    assert (network(ids()) == 0).all()
    network(ids()).sum().backward()
    assert network.head.weight.grad is not None and network.head.weight.grad.abs().sum() > 0


def test_normed_heads_bound_every_score() -> None:
    attention = model(**MODERN).blocks[0].attention
    attention.qkv.weight.data.mul_(1000)  # type: ignore[union-attr]
    seen: list[Tensor] = []
    attention.attention_fn = lambda q, k, v, *rest: seen.extend((q, k)) or v  # type: ignore[union-attr, assignment]
    attention(torch.randn(2, T, 16), rotary=model(**MODERN).rotary)
    for x in seen:
        torch.testing.assert_close(x.square().mean(-1), torch.ones(2, 2, T))
