"""The non-autoregressive Transformer: what may see what, what a length is read from, and how long a target may be."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from weft.core.errors import ConfigError
from weft.inference.generate import can_continue
from weft.models.base import EncoderDecoder, NonAutoregressiveDecoder, offers
from weft.models.language.nonautoregressive import PRESETS, NonAutoregressive, NonAutoregressiveConfig

V, C, S, T = 20, 12, 7, 5
LENGTHS, SIZES = torch.tensor([7, 3, 1]), torch.tensor([5, 2, 4])


def model(**settings: Any) -> NonAutoregressive:
    torch.manual_seed(0)
    return NonAutoregressiveConfig(**{"vocabulary": V, "context": C, "layers": 2, "heads": 2, "width": 16, **settings}).build().eval()


def inputs() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(3, V, (3, S), generator=generator), torch.randint(3, V, (3, T), generator=generator)


@torch.no_grad()
def test_every_place_sees_all_others_and_no_padding() -> None:
    made, (source, target) = model(), inputs()
    plain = made(source, LENGTHS, target, SIZES)
    assert plain.shape == (3, T, V)
    later = target.clone()
    later[0, 4] = (later[0, 4] - 2) % (V - 3) + 3
    assert (made(source, LENGTHS, later, SIZES)[0, 0] - plain[0, 0]).abs().max() > 1e-4  # what stands behind is seen
    padded_source, padded_target = source.clone(), target.clone()
    padded_source[1, 3:], padded_target[1, 2:] = 5, 6
    changed = made(padded_source, LENGTHS, padded_target, SIZES)
    torch.testing.assert_close(changed[1, :2], plain[1, :2])
    torch.testing.assert_close(made(source[1:2, :3], None, target[1:2, :2], None)[0], plain[1, :2], atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_a_length_is_read_from_the_source_alone_and_not_from_padding() -> None:
    made, (source, _) = model(), inputs()
    logits = made.length_logits(made.encode(source, LENGTHS), LENGTHS)
    assert logits.shape == (3, C)
    alone = made.length_logits(made.encode(source[1:2, :3], LENGTHS[1:2]), LENGTHS[1:2])
    torch.testing.assert_close(alone[0], logits[1], atol=1e-5, rtol=1e-5)
    other = source.clone()
    other[0, 0] = (other[0, 0] - 2) % (V - 3) + 3
    assert not torch.allclose(made.length_logits(made.encode(other, LENGTHS), LENGTHS)[0], logits[0])
    assert torch.allclose(made.length_logits(made.encode(other, LENGTHS), LENGTHS)[1:], logits[1:])


@torch.no_grad()
def test_what_is_learned_is_the_difference_to_the_source() -> None:
    """The same states of a longer source give the same logits to lengths that are longer by as much."""
    made = model()
    state = torch.randn(1, 1, 16, generator=torch.Generator().manual_seed(2))
    short, long = (made.length_logits(state.expand(1, n, 16), torch.tensor([n]))[0] for n in (3, 5))
    torch.testing.assert_close(long[2:], short[:-2], atol=1e-5, rtol=1e-5)


def test_a_target_may_be_twice_as_long_as_any_that_is_foretold() -> None:
    made, (source, _) = model(), inputs()
    memory = made.encode(source, LENGTHS)
    assert made.longest == 2 * C
    assert made.decode_parallel(torch.ones(3, 2 * C + 1, dtype=torch.int64), None, memory, LENGTHS).shape == (3, 2 * C + 1, 16)
    with pytest.raises(ConfigError, match=f"{2 * C + 1} tokens are more than the {2 * C}"):
        made.decode_parallel(torch.ones(3, 2 * C + 2, dtype=torch.int64), None, memory, LENGTHS)
    with pytest.raises(ConfigError, match="13 tokens do not fit a context of 12"):
        made.encode(torch.ones(1, 13, dtype=torch.int64))


def test_a_model_that_is_cut_at_end_has_no_length() -> None:
    made, (source, _) = model(fixed_length=30), inputs()
    assert made.longest == 30
    assert not any("difference" in name for name, _ in made.named_parameters())
    with pytest.raises(ConfigError, match="a model of 30 positions predicts no length"):
        made.length_logits(made.encode(source, LENGTHS), LENGTHS)


def test_it_fills_and_neither_answers_nor_continues() -> None:
    made = model()
    assert offers(made, NonAutoregressiveDecoder)
    assert not offers(made, EncoderDecoder)
    assert not can_continue(made, object())
    assert PRESETS["base"].vocabulary == 37000
    with pytest.raises(ConfigError, match=r"multiple of model\.heads"):
        model(heads=3)
    with pytest.raises(ConfigError, match=r"--model\.fixed_length must be at least 0"):
        model(fixed_length=-1)
