"""A pointer network points alike with teacher forcing and by itself, never at what is not there, and a set has no order."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from weft.core.errors import ConfigError
from weft.models.language.pointer_network import PointerNetworkConfig

LENGTHS = torch.tensor([5, 3, 4])
ENCODERS: dict[str, dict[str, Any]] = {
    "recurrent": {"encoder": "recurrent"},
    "gru": {"encoder": "recurrent", "cell": "gru", "layers": 2},
    "set": {"encoder": "set", "layers": 0},
    "blocks": {"encoder": "set", "layers": 2, "heads": 2},
}


def model(**settings: Any) -> Any:
    torch.manual_seed(0)
    made = PointerNetworkConfig(features=2, width=8, **settings).build()
    for parameter in made.parameters():
        parameter.data.add_(0.3 * torch.randn(parameter.shape))
    return made.eval()


def points() -> torch.Tensor:
    return torch.rand(3, 5, 2, generator=torch.Generator().manual_seed(1))


@torch.no_grad()
@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("mask_chosen", [False, True])
def test_by_itself_it_takes_the_likeliest_of_teacher_forcing(encoder: str, mask_chosen: bool) -> None:
    made = model(**ENCODERS[encoder], mask_chosen=mask_chosen)
    found = made.point(points(), LENGTHS)
    assert (found <= LENGTHS[:, None]).all()
    if mask_chosen:
        for row in found.tolist():
            chosen = [one for one in row if one]
            assert len(chosen) == len(set(chosen))
    logits = made.pointer_logits(points(), LENGTHS, found)
    ended = (found == 0).long().cumsum(1)
    first = ended - (found == 0).long() == 0  # up to the first end
    assert torch.equal(logits.argmax(-1)[first], found[first])


@torch.no_grad()
@pytest.mark.parametrize("encoder", ENCODERS)
def test_padding_changes_nothing_and_has_no_probability(encoder: str) -> None:
    made, order = model(**ENCODERS[encoder]), torch.tensor([[2, 5, 0], [3, 1, 0], [4, 0, -100]])
    logits = made.pointer_logits(points(), LENGTHS, order)
    assert torch.isneginf(logits[1, :, 4:]).all()
    spoilt = points()
    spoilt[1, 3:], spoilt[2, 4:] = float("nan"), 1e9
    torch.testing.assert_close(made.pointer_logits(spoilt, LENGTHS, order), logits)
    assert torch.equal(made.point(spoilt, LENGTHS), made.point(points(), LENGTHS))


@torch.no_grad()
@pytest.mark.parametrize("encoder", ["set", "blocks"])
def test_a_set_has_no_order(encoder: str) -> None:
    made, mixed = model(**ENCODERS[encoder], mask_chosen=True), torch.tensor([3, 0, 4, 1, 2])
    lengths = torch.tensor([5, 5, 5])
    found, other = made.point(points(), lengths), made.point(points()[:, mixed], lengths)
    back = torch.tensor([0, *(mixed + 1).tolist()])
    assert torch.equal(back[other], found)


@torch.no_grad()
def test_additive_scores_are_their_equation() -> None:
    made = model(encoder="set", layers=0)
    inputs, there, _ = made.encode(points(), LENGTHS)
    hidden = torch.randn(3, 2, 8)
    found = made.point_from(hidden, made.score.project(inputs), there[:, None])
    s = made.score
    expected = s.out.weight[0] @ torch.tanh(s.query.weight @ hidden[0, 1] + s.key.weight @ inputs[0, 4] + s.key.bias)
    torch.testing.assert_close(found[0, 1, 4], expected)


def test_settings_that_make_no_model_are_refused() -> None:
    with pytest.raises(ConfigError, match="layers must be at least 1"):
        model(encoder="recurrent", layers=0)
    with pytest.raises(ConfigError, match=r"not a multiple of model\.heads 3"):
        model(encoder="set", heads=3)
