"""T5: what may see what, what distance means, and what is shared and scaled."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.core.errors import ConfigError
from weft.inference.generate import can_continue
from weft.kernels.select import use_attention
from weft.models.language.t5 import PRESETS, T5, RelativeBias, T5Config, bucket
from weft.training.optimizer.updater import parameter_kinds

V, S, T, D = 30, 9, 7, 16
LENGTHS = torch.tensor([9, 4, 1])
every_backend = pytest.mark.parametrize("backend", ["fused", "explicit"])
both_versions = pytest.mark.parametrize("version", [{}, {"gated": True, "tie_embeddings": False}], ids=["1.0", "1.1"])


def model(backend: str = "fused", **settings: Any) -> T5:
    torch.manual_seed(0)
    sizes = {"vocabulary": V, "layers": 2, "heads": 3, "head_dim": 8, "width": D}
    made = T5(T5Config(**{**sizes, **settings})).eval()
    use_attention(made, backend)
    return made


def tokens() -> tuple[Tensor, Tensor]:
    """source (3, S) and target (3, T)."""
    torch.manual_seed(1)
    return torch.randint(0, V, (3, S)), torch.randint(0, V, (3, T))


def test_near_distances_have_buckets_of_their_own_and_far_ones_share() -> None:
    offsets = torch.arange(-200, 201)
    for causal, reach in ((False, 16), (True, 32)):
        kinds = bucket(offsets, 32, 128, causal)
        before = kinds[:201].flip(0)  # of keys 0, 1, 2, … places before
        assert before[: reach // 2].tolist() == list(range(reach // 2))
        assert (before.diff() >= 0).all() and before[128:].eq(reach - 1).all() and before[:80].max() < reach - 1
        behind = kinds[201:]
        assert torch.equal(behind, torch.zeros_like(behind) if causal else before[1:] + 16)
        assert set(kinds.tolist()) == set(range(32)) - (set() if causal else {16})  # a key at no distance stands before


@pytest.mark.parametrize("causal", [False, True])
def test_the_bias_depends_on_the_distance_alone(causal: bool) -> None:
    torch.manual_seed(0)
    made = RelativeBias(T5Config(vocabulary=V, heads=3), causal)
    places = torch.arange(50)[None]
    bias = made(places, 50)
    assert bias.shape == (1, 3, 50, 50)
    for offset in range(-49, 50):
        diagonal = bias[0].diagonal(offset, 1, 2)
        assert torch.equal(diagonal, diagonal[:, :1].expand_as(diagonal))
    assert torch.equal(made(places[:, -1:], 50), bias[:, :, -1:])  # the last query alone, as in decoding step by step


@every_backend
@both_versions
@torch.no_grad()
def test_padding_of_the_source_changes_nothing(version: dict[str, Any], backend: str) -> None:
    """Neither how much of it there is, nor what stands there, even if that is not a number."""
    made, (source, target) = model(backend, vocabulary=V + 1, **version), tokens()
    hidden = made.hidden(source, LENGTHS, target)
    for row, length in enumerate(LENGTHS.tolist()):
        single = made.hidden(source[row : row + 1, :length], None, target[row : row + 1])
        torch.testing.assert_close(hidden[row], single[0], atol=1e-5, rtol=1e-5)
    padded = F.pad(source, (0, 3)).masked_fill(torch.arange(S + 3) >= LENGTHS[:, None], V)
    made.embed.weight[V] = float("nan")
    torch.testing.assert_close(made.hidden(padded, LENGTHS, target), hidden, atol=1e-5, rtol=1e-5)


@every_backend
def test_a_source_of_padding_only_gives_numbers_and_gradients(backend: str) -> None:
    made, (source, target) = model(backend), tokens()
    out = made(source, torch.tensor([0, 9, 0]), target)
    out.square().sum().backward()
    assert out.isfinite().all()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in made.parameters())


@every_backend
@both_versions
def test_a_target_sees_itself_what_stands_before_it_and_the_whole_source(version: dict[str, Any], backend: str) -> None:
    made, (source, target) = model(backend, **version), tokens()
    memory = made.encode(source, LENGTHS).detach().requires_grad_()
    entered: list[Tensor] = []

    def keep(module: nn.Module, arguments: Any, out: Tensor) -> Tensor:
        entered.append(out.detach().requires_grad_())
        return entered[-1]

    made.embed.register_forward_hook(keep)
    out = made.decode(target, memory, LENGTHS)
    for t in range(T):
        by_target, by_memory = torch.autograd.grad(out[:, t, 0].sum(), (entered[0], memory), retain_graph=True)
        assert torch.equal(by_target.abs().sum(-1) > 0, (torch.arange(T) <= t).expand(3, T)), t
        assert torch.equal(by_memory.abs().sum(-1) > 0, torch.arange(S) < LENGTHS[:, None])


def test_without_relative_positions_the_encoder_does_not_see_the_order() -> None:
    made, (source, _) = model(), tokens()
    order = torch.randperm(S)
    nn.init.normal_(made.encoder_bias.table.weight)
    assert not torch.allclose(made.encode(source[:, order]), made.encode(source)[:, order], atol=1e-2)
    nn.init.zeros_(made.encoder_bias.table.weight)
    torch.testing.assert_close(made.encode(source[:, order]), made.encode(source)[:, order], atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_a_tied_head_sees_scaled_states() -> None:
    source, target = tokens()
    tie_embeddings, apart = model(), model(tie_embeddings=False)
    assert tie_embeddings.head.weight is tie_embeddings.embed.weight
    assert apart.head.weight is not apart.embed.weight
    apart.load_state_dict(tie_embeddings.state_dict())
    torch.testing.assert_close(tie_embeddings(source, LENGTHS, target) * 4, apart(source, LENGTHS, target))  # sqrt(16)


@both_versions
def test_gradients_reach_every_parameter(version: dict[str, Any]) -> None:
    made, (source, target) = model(**version), tokens()
    made(source, LENGTHS, target).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in made.parameters())


@both_versions
def test_at_the_start_scores_and_logits_have_the_size_of_one(version: dict[str, Any]) -> None:
    """Queries start small because scores are not divided by the root of the head's width."""
    made, (source, target) = model(width=256, heads=4, head_dim=64, vocabulary=500, **version), tokens()
    layer, x = made.encoder[0].attention, made.encoder[0].norm1(made.embed(source))
    scores = layer.q(x).view(3, S, 4, 64).transpose(1, 2) @ layer.kv(x)[..., :256].view(3, S, 4, 64).permute(0, 2, 3, 1)
    assert float(scores.detach().std()) == pytest.approx(1.0, rel=0.2)
    assert float(made(source, LENGTHS, target).detach().std()) == pytest.approx(1.0, rel=0.1)


@pytest.mark.parametrize(
    ("preset", "parameters"),
    [
        ("small", 60_506_624),
        ("base", 222_903_552),
        ("large", 737_668_096),
        ("3b", 2_851_598_336),
        ("11b", 11_307_321_344),
        ("v1.1-small", 76_961_152),
        ("v1.1-base", 247_577_856),
        ("v1.1-large", 783_150_080),
        ("v1.1-xl", 2_849_757_184),
        ("v1.1-xxl", 11_135_332_352),
    ],
)
def test_presets_have_the_parameters_of_the_published_models(preset: str, parameters: int) -> None:
    with torch.device("meta"):
        made = PRESETS[preset].build()
    assert sum(p.numel() for p in made.parameters()) == parameters


def test_dropout_acts_in_training_only_and_everywhere() -> None:
    made, (source, target) = model(dropout=0.2), tokens()
    assert torch.equal(made(source, LENGTHS, target), made(source, LENGTHS, target))
    made.train()
    assert not torch.equal(made(source, LENGTHS, target), made(source, LENGTHS, target))
    everything = model(dropout=0.999999).train()
    assert everything(source, LENGTHS, target).count_nonzero() == 0  # the last states are dropped too


@torch.no_grad()
def test_in_half_precision_it_is_nearly_the_same_and_nothing_warns() -> None:
    made, (source, target) = model(), tokens()
    with warnings.catch_warnings(), torch.autocast("cpu", torch.bfloat16):
        warnings.simplefilter("error")
        hidden = made.hidden(source, LENGTHS, target)
    assert hidden.dtype == torch.bfloat16
    torch.testing.assert_close(hidden.float(), made.hidden(source, LENGTHS, target), atol=0.03, rtol=0)


def test_what_is_decayed() -> None:
    kinds = parameter_kinds([("", model(tie_embeddings=False))])
    plain = ("embed", "encoder_bias.table", "decoder_bias.table", "norm", "encoder_norm", "decoder.0.norm3")
    assert {kinds[f"{name}.weight"] for name in plain} == {"no_decay"}
    assert {kinds[f"decoder.0.{name}.weight"] for name in ("attention.q", "cross.kv", "feedforward.up")} == {"matrix"}
    assert kinds["head.weight"] == "head"


def test_mistakes_are_named() -> None:
    with pytest.raises(ConfigError, match=r"model\.max_distance 16 must be above half of --model\.relative_buckets 32"):
        model(max_distance=16)
    with pytest.raises(ConfigError, match=r"model\.relative_buckets must be at least 4, not 3"):
        model(relative_buckets=3)
    assert not can_continue(model(), object())
