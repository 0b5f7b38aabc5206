"""Bias and penalties, by hand."""

from __future__ import annotations

import math

import pytest
import torch

from weft.core.errors import ConfigError
from weft.inference.penalties import Penalties, check_bias
from weft.inference.request import Request, Sampling
from weft.inference.sampler import Sampler

LOGITS = torch.tensor([[2.0, -2.0, 1.0, 0.0, -1.0]])


def changed(sampling: Sampling, prompt: tuple[int, ...] = (4,), answer: tuple[int, ...] = ()) -> list[float]:
    penalties = Penalties.of([Request(prompt, sampling)], [answer], 5, None)
    assert penalties
    given_at_once = penalties.apply(LOGITS)[0].tolist()
    penalties = Penalties.of([Request(prompt, sampling)], [], 5, None)
    assert penalties
    for number in answer:
        penalties.record(torch.tensor([number]))
    assert penalties.apply(LOGITS)[0].tolist() == given_at_once
    return given_at_once


def test_repetition_divides_what_is_above_zero_and_multiplies_what_is_below() -> None:
    assert changed(Sampling(repetition_penalty=2.0), prompt=(0, 1, 1)) == [1.0, -4.0, 1.0, 0.0, -1.0]
    assert changed(Sampling(repetition_penalty=2.0), prompt=(3,), answer=(0, 4, 0)) == [1.0, -2.0, 1.0, 0.0, -2.0]
    assert changed(Sampling(repetition_penalty=0.5), prompt=(0, 1)) == [4.0, -1.0, 1.0, 0.0, -1.0]


def test_presence_and_frequency_count_the_answer_only() -> None:
    assert changed(Sampling(presence_penalty=0.5), prompt=(2,), answer=(0, 0, 3)) == [1.5, -2.0, 1.0, -0.5, -1.0]
    assert changed(Sampling(frequency_penalty=0.5), prompt=(2,), answer=(0, 0, 3)) == [1.0, -2.0, 1.0, -0.5, -1.0]
    assert changed(Sampling(presence_penalty=1.0, frequency_penalty=-0.5), answer=(0, 0, 3)) == [2.0, -2.0, 1.0, -0.5, -1.0]


def test_bias_comes_before_penalties() -> None:
    assert changed(Sampling(logit_bias={1: 3.0, 2: -math.inf})) == [2.0, 1.0, -math.inf, 0.0, -1.0]
    assert changed(Sampling(logit_bias={1: 4.0}, repetition_penalty=2.0, presence_penalty=0.25), answer=(1,)) == [2.0, 0.75, 1.0, 0.0, -2.0]


def test_only_rows_that_ask_are_counted_and_changed() -> None:
    plain, counting = Request((0,), Sampling()), Request((0,), Sampling(frequency_penalty=1.0))
    biased = Request((0,), Sampling(logit_bias={4: 9.0}))
    assert Sampler([plain, plain], 5).penalties is None
    penalties = Sampler([plain, counting, plain, biased], 5).penalties
    assert penalties and penalties.said.shape == (1, 5)
    penalties.record(torch.tensor([0, 1, 2, 3]))
    expected = LOGITS.repeat(4, 1)
    expected[1, 1] -= 1
    expected[3, 4] += 9
    assert torch.equal(penalties.apply(LOGITS.repeat(4, 1)), expected)


def test_a_penalty_keeps_a_greedy_answer_from_repeating_itself() -> None:
    choosers = Sampler([Request((0,), Sampling(temperature=0.0, presence_penalty=100.0)), Request((0,), Sampling(temperature=0.0))], 5)
    said = []
    for position in range(5):
        ids = choosers.choose(LOGITS.repeat(2, 1), torch.tensor([position, position]))
        choosers.record(ids)
        said.append(ids.tolist())
    assert [first for first, _ in said] == [0, 2, 3, 4, 1]
    assert [second for _, second in said] == [0] * 5


@pytest.mark.parametrize(("bias", "message"), [({5: 1.0}, "token 5; there are those from 0 to 4"), ({-1: 1.0}, "token -1")])
def test_a_bias_of_no_token_is_refused(bias: dict[int, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_bias(Sampling(logit_bias=bias), 5)
    with pytest.raises(ConfigError, match=message):
        Sampler([Request((0,), Sampling(logit_bias=bias))], 5)


@pytest.mark.parametrize("bias", [math.nan, math.inf])
def test_a_bias_that_leaves_nothing_to_choose_is_refused(bias: float) -> None:
    with pytest.raises(ConfigError, match="must be a number, or -inf"):
        check_bias(Sampling(logit_bias={1: bias}), 5)
