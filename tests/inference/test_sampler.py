"""Choosing tokens: in the proportions of the truncated softmax, greedily, and the same whatever stands beside a row."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from torch import Tensor

from weft.core import random
from weft.inference.request import Request, Sampling
from weft.inference.sampler import Sampler, ids_of, rank_keys

LOGITS = [2.0, 1.0, 1.0, 0.5, -1.0, -3.0, 0.3, -math.inf]
SETTINGS: list[dict[str, Any]] = [
    {},
    {"temperature": 0.5},
    {"temperature": 3.0},
    {"top_k": 1},
    {"top_k": 2},
    {"top_k": 4},
    {"top_k": 99},
    {"top_p": 0.1},
    {"top_p": 0.6},
    {"top_p": 0.9},
    {"min_p": 0.2},
    {"min_p": 1.0},
    {"top_k": 4, "top_p": 0.8},
    {"top_p": 0.95, "min_p": 0.3},
    {"temperature": 2.0, "top_k": 5, "top_p": 0.9, "min_p": 0.4},
]


def reference(logits: list[float], temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0, min_p: float = 0.0) -> np.ndarray:
    """The truncated softmax, one step after the other."""
    chances = np.exp((np.array(logits, dtype=np.float64) - max(logits)) / temperature)
    kept = sorted(range(len(logits)), key=lambda token: (-chances[token], token))
    kept = kept[:top_k] if top_k else kept
    nucleus, reached = [], 0.0
    for token in kept:
        if reached < top_p:
            nucleus.append(token)
            reached += chances[token] / chances[kept].sum()
    kept = [token for token in nucleus if chances[token] >= min_p * chances[nucleus[0]]]
    truncated = np.zeros(len(logits))
    truncated[kept] = chances[kept] / chances[kept].sum()
    return truncated


def drawn(logits: list[float], rows: int, positions: int, **settings: Any) -> np.ndarray:
    """How often each token is chosen, over answers and positions."""
    choosers = Sampler([Request((0,), Sampling(**settings), number) for number in range(rows)], len(logits))
    table = torch.tensor(logits).expand(rows, -1)
    chosen = torch.cat([choosers.choose(table, torch.full((rows,), position)) for position in range(positions)])
    return torch.bincount(chosen, minlength=len(logits)).numpy()


def unlikely(freedom: int) -> float:
    """What a chi-squared statistic exceeds once in 100,000 times (Wilson & Hilferty, 1931)."""
    return float(freedom * (1 - 2 / (9 * freedom) + 4.265 * math.sqrt(2 / (9 * freedom))) ** 3)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_shares_are_those_of_the_truncated_softmax(settings: dict[str, Any]) -> None:
    expected, counts = reference(LOGITS, **settings) * 20_000, drawn(LOGITS, 100, 200, **settings)
    possible = expected > 0
    assert counts[~possible].sum() == 0
    if (freedom := int(possible.sum()) - 1) > 0:
        assert ((counts - expected)[possible] ** 2 / expected[possible]).sum() < unlikely(freedom)


def test_shares_over_a_large_vocabulary() -> None:
    logits = torch.randn(1000, generator=torch.Generator().manual_seed(0)).tolist()
    for settings in ({}, {"top_k": 200}, {"top_p": 0.7}):
        expected, counts = reference(logits, **settings) * 20_000, drawn(logits, 200, 100, **settings)
        often = expected > 5  # the rest together, where there is one
        groups = [(counts[often], expected[often])]
        if (expected[~often]).sum() > 5:
            groups.append((counts[~often].sum(keepdims=True), expected[~often].sum(keepdims=True)))
        assert sum(((found - hoped) ** 2 / hoped).sum() for found, hoped in groups) < unlikely(int(often.sum()) - 1)


@given(
    st.lists(st.floats(-8, 8, width=16), min_size=2, max_size=30),
    st.sampled_from([0.3, 1.0, 1.7]),
    st.integers(0, 31),
    st.floats(0.01, 1.0),
    st.floats(0.0, 1.0),
)
def test_nothing_is_drawn_that_was_cut_off(logits: list[float], temperature: float, top_k: int, top_p: float, min_p: float) -> None:
    counts = drawn(logits, 5, 8, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    slack = reference(logits, temperature, top_k, min(top_p + 1e-5, 1.0), min_p * (1 - 1e-5))  # float32 has its own borders
    assert counts[slack == 0].sum() == 0


def test_weights_that_are_hardly_there_and_settings_at_their_limits() -> None:
    tied = torch.tensor([[0.0, 3.0, 3.0, -math.inf, 3.0]])
    first = torch.tensor([0])
    for settings in ({"top_k": 1}, {"top_p": 1e-9}, {"temperature": 0.0}):
        choosers = Sampler([Request((0,), Sampling(**settings))], 5)
        assert all(choosers.choose(tied, first + position).item() == 1 for position in range(20)), settings
    cold = Sampler([Request((0,), Sampling(temperature=1e-50))], 5)
    assert all(cold.choose(torch.tensor([[0.0, 5.0, 4.99, 4.9, 0.0]]), first + position).item() == 1 for position in range(20))
    broken = Sampler([Request((0,), Sampling(**settings)) for settings in SETTINGS], 4)
    assert (broken.choose(torch.full((len(SETTINGS), 4), math.nan), torch.arange(len(SETTINGS))) < 4).all()


@pytest.mark.parametrize(("drawn", "token"), [(0, 1), ((1 << 53) - 1, 3)])
def test_the_ends_of_what_can_be_drawn(monkeypatch: pytest.MonkeyPatch, drawn: int, token: int) -> None:
    monkeypatch.setattr(random, "integers", lambda key, high: torch.full_like(key, drawn))
    logits = torch.tensor([[-math.inf, 0.0, 0.0, 0.0, -50.0, -math.inf]])
    assert Sampler([Request((0,), Sampling())], 6).choose(logits, torch.tensor([0])).item() == token


MIXED = [
    Sampling(temperature=0.0),
    Sampling(seed=1),
    Sampling(temperature=0.7, top_k=5, seed=1),
    Sampling(top_p=0.8, seed=2),
    Sampling(min_p=0.1, seed=3),
    Sampling(temperature=1.3, top_k=30, top_p=0.9, min_p=0.02, repetition_penalty=1.3, seed=4),
    Sampling(temperature=0.0, frequency_penalty=1.0, presence_penalty=0.5),
    Sampling(logit_bias={3: 4.0, 7: -100.0}, seed=5),
    Sampling(repetition_penalty=0.8, frequency_penalty=-0.5, seed=6),
]
VOCABULARY, LENGTH = 60, 12


def scores(row: int, ids: list[int]) -> Tensor:
    """A model without structure, whose logits have equals among them: (V,) behind the tokens of a row."""
    state = random.keys(random.seed_of(row, *ids), torch.arange(1))
    return (3 * random.normal(state, VOCABULARY)[0]).bfloat16()


def continued(rows: list[int], length: int = LENGTH, anew: tuple[int, ...] = ()) -> dict[int, list[int]]:
    """Answers of some of the rows, in a batch; settings are put together anew before some of the positions."""
    requests = [Request((5, 7, 5), MIXED[row % len(MIXED)], number=row // len(MIXED)) for row in rows]
    answers: dict[int, list[int]] = {row: [] for row in rows}
    choosers = Sampler(requests, VOCABULARY)
    for position in range(length):
        if position in anew:
            choosers = Sampler(requests, VOCABULARY, answers=[answers[row] for row in rows])
        ids = choosers.choose(torch.stack([scores(row, answers[row]) for row in rows]), torch.full((len(rows),), position))
        choosers.record(ids)
        for row, number in zip(rows, ids.tolist(), strict=True):
            answers[row].append(number)
    return answers


def test_a_row_gets_the_same_tokens_alone_and_in_any_batch() -> None:
    rows = list(range(2 * len(MIXED)))
    together = continued(rows)
    assert len({tuple(answer) for answer in together.values()}) == len(rows)
    alone = {row: continued([row])[row] for row in rows}
    assert together == alone
    assert continued(rows[::-1]) == together
    assert continued([1, 17, 5, 0]) == {row: together[row] for row in (1, 17, 5, 0)}
    assert continued(rows, anew=(1, 4, 5)) == together


def test_positions_may_differ_between_rows() -> None:
    requests = [Request((0,), Sampling(seed=9), number) for number in range(4)]
    table, position = torch.zeros(4, 500), torch.tensor([3, 0, 77, 3])
    together = Sampler(requests, 500).choose(table, position)
    for row in range(4):
        assert Sampler(requests[row : row + 1], 500).choose(table[:1], position[row : row + 1]).item() == together[row]


def test_keys_are_a_function_of_seed_number_and_position() -> None:
    requests = [Request((0,), Sampling(seed=seed), number) for seed in (0, 3, -1, 1 << 63) for number in (0, 1, 9)]
    keys = Sampler(requests, 10).keys
    for key, request in zip(keys, requests, strict=True):
        expected = random.keys(random.seed_of(request.sampling.seed, "generate"), torch.tensor([request.number]))
        assert key == expected
        assert random.fold(expected, 5) == random.fold(expected, torch.tensor([5]))
    assert len(set(keys.tolist())) == len(requests)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_greedy_alone_is_greedy_beside_others(dtype: torch.dtype) -> None:
    logits = torch.randn(40, 30, generator=torch.Generator().manual_seed(0)).to(dtype)
    logits[:, 20:] = logits[:, :10]  # equals
    position, greedy = torch.arange(40), Sampling(temperature=0.0)
    fast = Sampler([Request((0,), greedy)] * 40, 30)
    assert not fast.draws and not fast.penalties
    assert torch.equal(fast.choose(logits, position), logits.argmax(-1))
    beside = [Request((0,), greedy if row % 2 else Sampling(top_k=3)) for row in range(40)]
    assert torch.equal(Sampler(beside, 30).choose(logits, position)[1::2], logits.argmax(-1)[1::2])
    unbiased = [Request((0,), replace(greedy, logit_bias={0: 0.0}, presence_penalty=0.1))] * 40
    assert torch.equal(Sampler(unbiased, 30).choose(logits, position), logits.argmax(-1))


def test_logits_are_left_as_they_are() -> None:
    logits = torch.randn(len(MIXED), VOCABULARY)
    before = logits.clone()
    Sampler([Request((1,), sampling) for sampling in MIXED], VOCABULARY).choose(logits, torch.arange(len(MIXED)))
    assert torch.equal(logits, before)


def test_log_probabilities_are_the_models_own() -> None:
    logits = torch.tensor([[0.0, math.log(2.0), math.log(5.0), 0.0, 0.0]]).repeat(3, 1)
    likely, unlikely, none = Sampler.logprobs(logits, torch.tensor([2, 4, 1]), 2)
    assert (likely.id, unlikely.id, none.id) == (2, 4, 1)
    assert likely.logprob == pytest.approx(math.log(0.5))
    assert [number for number, _ in likely.alternatives] == [2, 1]
    assert [chance for _, chance in likely.alternatives] == pytest.approx([math.log(0.5), math.log(0.2)])
    assert (2, likely.logprob) in likely.alternatives
    assert unlikely.alternatives == (*likely.alternatives, (4, unlikely.logprob))
    assert unlikely.logprob == pytest.approx(math.log(0.1))
    assert Sampler.logprobs(logits[:1], torch.tensor([3]), 0)[0].alternatives == ((3, unlikely.logprob),)
    assert [number for number, _ in Sampler.logprobs(logits[:1], torch.tensor([3]), 99)[0].alternatives] == [2, 1, 0, 3, 4]


def test_log_probabilities_of_half_precision_are_computed_in_full() -> None:
    logits = torch.randn(6, 1000, generator=torch.Generator().manual_seed(1)).bfloat16()
    ids = logits.argmax(-1)
    exact = logits.double().log_softmax(-1)
    for row, token in enumerate(Sampler.logprobs(logits, ids, 5)):
        assert token.logprob == pytest.approx(float(exact[row, ids[row]]), abs=1e-5)
        assert token.alternatives[0] == (token.id, token.logprob)
        assert [chance for _, chance in token.alternatives] == sorted((chance for _, chance in token.alternatives), reverse=True)


@given(st.lists(st.sampled_from([0.0, -0.0, 1.0, -1.0, 1e-40, -1e-40, 3e38, -3e38, math.inf, -math.inf, 0.1]), min_size=1, max_size=20))
def test_standings_order_by_value_then_by_place(values: list[float]) -> None:
    table = torch.tensor([values])
    ranked = rank_keys(table).sort(descending=True).values
    exact = table[0].tolist()
    assert ids_of(ranked)[0].tolist() == sorted(range(len(values)), key=lambda place: (-exact[place], place))
