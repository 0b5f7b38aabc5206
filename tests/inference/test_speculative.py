"""Speculative decoding changes how long an answer takes, not what it is."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch

from tests.inference.test_engine import Letters
from tests.inference.test_runner import V, model
from weft.core.errors import ConfigError
from weft.inference.engine import Engine, generate_all
from weft.inference.request import Request, Sampling
from weft.inference.sampler import Sampler
from weft.inference.speculative import speculate
from weft.models.language.gpt import GPTConfig

PROMPTS = [(1, 2, 3), (4,), (5, 6, 7, 8, 9, 10, 11, 12)]


def draft(seed: int = 5) -> Any:
    torch.manual_seed(seed)
    return GPTConfig(vocabulary=V, context=60, layers=1, heads=2, width=16).build().eval()


@pytest.mark.parametrize("name", ["learned", "groups", "perceiver"])
@pytest.mark.parametrize("num_draft_tokens", [1, 3, 7])
def test_the_likeliest_answer_is_the_same(name: str, num_draft_tokens: int) -> None:
    made = model(name)
    for ids in PROMPTS:
        for sampling in (
            Sampling(temperature=0.0, max_new_tokens=25, logprobs=1),
            Sampling(temperature=0.0, max_new_tokens=40, stop=("d",)),
        ):
            [expected] = generate_all(Engine(made, Letters()), [Request(ids, sampling)])
            for helper in (draft(), made):
                found = speculate(made, helper, Letters(), Request(ids, sampling), num_draft_tokens=num_draft_tokens).answer
                assert [t.id for t in found.tokens] == [t.id for t in expected.tokens]
                assert (found.text, found.finish_reason) == (expected.text, expected.finish_reason)
                for mine, theirs in zip(found.tokens, expected.tokens, strict=True):
                    assert mine.logprob == pytest.approx(theirs.logprob, abs=1e-5)


def test_a_perfect_draft_is_always_kept() -> None:
    made, request = model("rotary"), Request((1, 2), Sampling(max_new_tokens=41, ignore_end=True, seed=3))
    done = speculate(made, made, Letters(), request, num_draft_tokens=4)
    assert done.accepted == done.proposed and done.target_steps == 9 and len(done.answer.tokens) == 41


@pytest.mark.parametrize("settings", [{}, {"temperature": 0.7, "top_k": 6}, {"top_p": 0.7}, {"min_p": 0.1, "logit_bias": {3: 2.0}}])
def test_two_tokens_are_drawn_from_the_models_own_distribution(settings: dict[str, Any]) -> None:
    torch.manual_seed(0)
    size = 8
    made, helper = (
        GPTConfig(vocabulary=size, context=16, layers=1, heads=1, width=8, tie_embeddings=False).build().eval().requires_grad_(False)
        for _ in range(2)
    )
    for each in (made, helper):  # far from even, and unlike each other
        torch.nn.init.normal_(each.head.weight, std=1.0)

    class Few(Letters):
        special_tokens: dict[str, int] = {}
        size = 8

    number, seen = 1500, Counter[tuple[int, ...]]()
    for seed in range(number):
        request = Request((1,), Sampling(max_new_tokens=2, seed=seed, **settings))
        seen[tuple(token.id for token in speculate(made, helper, Few(), request, num_draft_tokens=2).answer.tokens)] += 1
    chooser = Sampler([Request((1,), Sampling(**settings))], size)
    first = chooser.probabilities(made(torch.tensor([[1]]))[:, -1])[0]
    expected = {
        (a, b): float(first[a] * chooser.probabilities(made(torch.tensor([[1, a]]))[:, -1])[0, b]) for a in range(size) for b in range(size)
    }
    assert sum(expected.values()) == pytest.approx(1.0)
    cells = [(seen[pair], number * chance) for pair, chance in expected.items() if chance]
    assert sum(count for count, _ in cells) == number  # nothing that could not be drawn
    statistic = sum((count - mean) ** 2 / mean for count, mean in cells)
    assert statistic < len(cells) + 5 * (2 * len(cells)) ** 0.5


def test_what_cannot_be_guessed_is_refused() -> None:
    made = model("learned")
    with pytest.raises(ConfigError, match="penalties"):
        speculate(made, draft(), Letters(), Request((1,), Sampling(presence_penalty=1.0)))
    with pytest.raises(ConfigError, match="the draft model must know the same 30 tokens; its vocabulary has 8"):
        speculate(made, GPTConfig(vocabulary=8, context=16, layers=1, heads=1, width=8).build(), Letters(), Request((1,)))
