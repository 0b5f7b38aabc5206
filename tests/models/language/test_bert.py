from __future__ import annotations

import pytest
import torch
from torch import Tensor

from weft.core.errors import ConfigError
from weft.kernels.select import use_attention
from weft.models.base import Embeds, NextTokenLogits, need
from weft.models.language.bert import BERT, PRESETS, BERTConfig
from weft.training.optimizer.updater import parameter_kinds

LENGTHS = torch.tensor([4, 9, 1])


@pytest.fixture(params=["fused", "explicit"])
def model(request: pytest.FixtureRequest) -> BERT:
    torch.manual_seed(0)
    model = BERT(BERTConfig(vocabulary=20, context=12, layers=2, heads=2, width=16, init_std=0.2)).eval()
    use_attention(model, request.param)
    return model


def tokens(length: int) -> tuple[Tensor, Tensor]:
    """ids and segments (3, length), the same beginnings whatever the length."""
    torch.manual_seed(1)
    ids, segments = torch.randint(5, 20, (3, 12)), torch.randint(0, 2, (3, 12))
    return ids[:, :length], segments[:, :length]


def test_padding_changes_nothing(model: BERT) -> None:
    """Neither what stands in the padding nor how much of it there is."""
    ids, segments = tokens(9)
    hidden = model.hidden(ids, segments, LENGTHS)
    longer, more = tokens(12)
    longer = longer.masked_fill(torch.arange(12) >= LENGTHS[:, None], 0)
    padded = model.hidden(longer, more, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        torch.testing.assert_close(hidden[row, :length], padded[row, :length], atol=1e-5, rtol=1e-5)
        alone = model.hidden(ids[row : row + 1, :length], segments[row : row + 1, :length])
        torch.testing.assert_close(hidden[row, :length], alone[0], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(model.pair(hidden), model.pair(padded), atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_padding_that_is_not_a_number_reaches_nobody(model: BERT) -> None:
    ids, segments = tokens(9)
    hidden = model.hidden(ids, segments, LENGTHS)
    padding = torch.arange(9) >= LENGTHS[:, None]
    model.embed.weight[0] = float("nan")
    found = model.hidden(ids.masked_fill(padding, 0), segments, LENGTHS)
    torch.testing.assert_close(found[~padding], hidden[~padding], atol=1e-5, rtol=1e-5)


def test_every_token_sees_both_sides(model: BERT) -> None:
    ids, segments = tokens(9)
    changed = ids.clone()
    changed[:, 8] = (ids[:, 8] - 4) % 15 + 5
    difference = (model.hidden(ids, segments) - model.hidden(changed, segments)).abs().amax(-1)
    assert (difference > 1e-5).all()


def test_segments_and_positions_count(model: BERT) -> None:
    ids, segments = tokens(9)
    assert not torch.allclose(model.hidden(ids, segments), model.hidden(ids, 1 - segments))
    assert torch.equal(model.hidden(ids), model.hidden(ids, torch.zeros_like(ids)))
    same = torch.full((1, 4), 7)
    assert not torch.allclose(model.hidden(same)[0, 0], model.hidden(same)[0, 1])


def test_from_left_to_right_the_last_token_tells_the_class() -> None:
    """The first has seen nothing but itself."""
    torch.manual_seed(0)
    sizes = {"vocabulary": 20, "context": 12, "layers": 1, "heads": 2, "width": 16, "init_std": 0.2}
    model = BERT(BERTConfig(**sizes, classes=3, task="classify", causal=True)).eval()
    ids, segments = tokens(9)
    told = model.classify(ids, segments, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        alone = model.classify(ids[row : row + 1, :length], segments[row : row + 1, :length])
        torch.testing.assert_close(told[row], alone[0], atol=1e-5, rtol=1e-5)
        for place in range(9):
            changed = ids.clone()
            changed[row, place] = (ids[row, place] - 4) % 15 + 5
            seen = not torch.equal(model.classify(changed, segments, LENGTHS)[row], told[row])
            assert seen == (place < length)


def test_an_lstm_lets_every_token_see_all_and_no_padding() -> None:
    torch.manual_seed(0)
    sizes = {"vocabulary": 20, "context": 12, "layers": 1, "heads": 3, "width": 15, "init_std": 0.2}
    model = BERT(BERTConfig(**sizes, classes=3, task="classify", causal=True, lstm=True)).eval()
    assert not model.causal
    ids, segments = tokens(9)
    states, told = model.hidden(ids, segments, LENGTHS), model.classify(ids, segments, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        alone = ids[row : row + 1, :length], segments[row : row + 1, :length]
        torch.testing.assert_close(states[row, :length], model.hidden(*alone)[0], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(told[row], model.classify(*alone)[0], atol=1e-5, rtol=1e-5)
        for place in range(9):
            changed = ids.clone()
            changed[row, place] = (ids[row, place] - 4) % 15 + 5
            others = model.hidden(changed, segments, LENGTHS)[row, :length]
            assert bool((others != states[row, :length]).any(-1).all()) == (place < length)
    with pytest.raises(ConfigError, match=r"--model\.lstm is for the head of a task"):
        BERT(BERTConfig(**sizes, lstm=True, causal=True))


def test_heads(model: BERT) -> None:
    need(model, NextTokenLogits)
    need(model, Embeds)
    ids, segments = tokens(9)
    hidden = model.hidden(ids, segments, LENGTHS)
    assert model(ids, segments, LENGTHS).shape == (3, 9, 20)
    assert model.pair(hidden).shape == (3, 2)
    assert model.head.decoder.weight is model.embed.weight
    torch.testing.assert_close(model.pooled(hidden), torch.tanh(model.pooler(hidden[:, 0])))


def test_gradients_reach_every_parameter(model: BERT) -> None:
    ids, segments = tokens(12)
    hidden = model.hidden(ids, segments, LENGTHS)
    (model.head(hidden).square().sum() + model.pair(hidden).square().sum()).backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())


def test_what_is_decayed() -> None:
    kinds = parameter_kinds([("", BERTConfig(vocabulary=20, context=12, layers=1, heads=2, width=16).build())])
    assert {kinds[f"{name}.weight"] for name in ("embed", "position", "segment", "norm", "head.norm", "blocks.0.norm1")} == {"no_decay"}
    assert {kinds[f"{name}.weight"] for name in ("pooler", "head.transform", "blocks.0.attention.qkv")} == {"matrix"}
    assert kinds["pair_head.weight"] == "head"


@pytest.mark.parametrize(("preset", "encoder", "millions"), [("base", 109_482_240, 108), ("large", 335_141_888, 333)])
def test_parameter_counts_are_those_of_the_paper(preset: str, encoder: int, millions: int) -> None:
    """Exactly, and by the rule of thumb: 30,000 tokens of width D, and twelve matrices of D by D in each layer."""
    with torch.device("meta"):
        model = PRESETS[preset].build()
    heads = sum(p.numel() for name, p in model.named_parameters() if name.startswith(("head.", "pair_head.")))
    assert sum(p.numel() for p in model.parameters()) - heads == encoder
    width, layers = model.config.width, model.config.layers
    thumb = 30_000 * width + 12 * layers * width**2
    assert round(thumb / 1e6) == millions
    assert thumb == pytest.approx(encoder, rel=0.015)


def test_mistakes_are_named(model: BERT) -> None:
    with pytest.raises(ConfigError, match="13 tokens do not fit a context of 12"):
        model.hidden(torch.zeros(1, 13, dtype=torch.int64))
    with pytest.raises(ConfigError, match=r"model\.width 15"):
        BERTConfig(vocabulary=20, context=12, heads=2, width=15).build()
