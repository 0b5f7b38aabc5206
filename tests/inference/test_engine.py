"""Answers do not change with the company they are made in: batch, padding, order, cache, streaming."""

from __future__ import annotations

import dataclasses
import itertools
import random
from typing import Any

import pytest
import torch

from tests.inference.test_runner import MODELS, V, model
from weft.core.errors import ConfigError
from weft.data.tokenizers.base import ByteTokenizer
from weft.inference.engine import Engine, generate_all
from weft.inference.request import Answer, Request, Sampling


class Letters:
    """A tokenizer of one letter each, whose last is an END."""

    size = V
    special_tokens = {"end": V - 1}

    def decode(self, ids: list[int]) -> str:
        return "".join(chr(97 + i) for i in ids)


PROMPTS = [(1, 2, 3), (4,), (5, 6, 7, 8, 9, 10, 11, 12), (2, 2), (13, 1, 13, 1, 13), (20,) * 40]
SETTINGS = [
    Sampling(temperature=0.0, max_new_tokens=20, logprobs=2),
    Sampling(temperature=1.0, max_new_tokens=25, seed=7, top_k=5),
    Sampling(temperature=0.7, max_new_tokens=9, seed=3, top_p=0.8, frequency_penalty=0.5, ignore_end=True),
    Sampling(temperature=1.3, max_new_tokens=30, repetition_penalty=1.2, min_p=0.05, stop=("ab", "c")),
]
REQUESTS = [Request(ids, sampling) for ids, sampling in itertools.product(PROMPTS, SETTINGS)]


def plain(answers: list[Answer]) -> list[tuple[str, tuple[int, ...], str]]:
    return [(a.text, tuple(token.id for token in a.tokens), a.finish_reason) for a in answers]


def alone(made: Any, **settings: Any) -> list[tuple[str, tuple[int, ...], str]]:
    return [plain(generate_all(Engine(made, Letters(), slots=1, **settings), [request]))[0] for request in REQUESTS]


@pytest.mark.parametrize("name", MODELS)
def test_an_answer_does_not_depend_on_its_company(name: str) -> None:
    made = model(name)
    expected = alone(made)
    assert len({finish for _, _, finish in expected}) >= 2  # they end in several ways
    for settings in ({"slots": 2}, {"slots": 32}, {"slots": 5, "prefill_chunk": 3}, {"slots": 7, "cached": False}):
        order = list(range(len(REQUESTS)))
        random.Random(str(settings)).shuffle(order)
        found = plain(generate_all(Engine(made, Letters(), **settings), [REQUESTS[i] for i in order]))
        assert [found[order.index(i)] for i in range(len(order))] == expected, settings


@pytest.mark.parametrize("name", MODELS)
def test_in_bf16_too_where_that_is_asked_for(name: str) -> None:
    """Not one bit of a log-probability differs."""
    made, requests = model(name).to(torch.bfloat16), REQUESTS[::4]  # greedy, with log-probabilities
    expected = [generate_all(Engine(made, Letters(), slots=1, batch_invariant=True), [request])[0] for request in requests]
    for settings in ({"slots": 4}, {"slots": 32}, {"slots": 3, "cached": False}):
        own = expected if "cached" not in settings else None
        own = own or [generate_all(Engine(made, Letters(), **{**settings, "slots": 1}, batch_invariant=True), [r])[0] for r in requests]
        assert generate_all(Engine(made, Letters(), **settings, batch_invariant=True), requests) == own


def test_requests_join_and_leave_between_steps() -> None:
    made = model("rotary")
    expected, engine = alone(made), Engine(made, Letters(), slots=4)
    waiting, numbers, texts, ends = list(enumerate(REQUESTS)), {}, dict[int, str](), {}
    while waiting or engine.active or engine.waiting:
        for place, request in waiting[:2]:
            numbers[engine.add(request)] = place
        del waiting[:2]
        for number, delta in engine.step().items():
            texts[numbers[number]] = texts.get(numbers[number], "") + delta.text
            if delta.finish_reason:
                ends[numbers[number]] = delta.finish_reason
        assert engine.active <= 4
    assert [(texts[i], ends[i]) for i in range(len(REQUESTS))] == [(text, end) for text, _, end in expected]


def test_cancelling_frees_the_slot_and_disturbs_nobody() -> None:
    made = model("groups")
    expected, engine = alone(made), Engine(made, Letters(), slots=6, prefill_chunk=4)
    numbers = [engine.add(request) for request in REQUESTS]
    texts, over = dict.fromkeys(numbers, ""), set[int]()
    for step in itertools.count():
        for number, delta in engine.step().items():
            assert number not in over
            texts[number] += delta.text
            if delta.finish_reason:
                over.add(number)
        if step < 12:
            victim = numbers[step * 2 % len(numbers)]
            if victim not in over:
                before = engine.active + engine.waiting
                engine.cancel(victim)
                assert engine.active + engine.waiting == before - 1
                over.add(victim)
                texts[victim] = "cancelled"
        if not engine.active and not engine.waiting:
            break
    assert all(texts[n] in ("cancelled", expected[i][0]) for i, n in enumerate(numbers)) and over == set(numbers)


def test_log_probabilities_are_those_of_reading_it_all_at_once() -> None:
    made = model("learned")
    request = Request((3, 1, 4, 1, 5), Sampling(temperature=0.0, max_new_tokens=12, logprobs=3, ignore_end=True), prompt_logprobs=True)
    for prefill_chunk in (1, 2, 100):
        answer = generate_all(Engine(made, Letters(), prefill_chunk=prefill_chunk), [request])[0]
        ids = [token.id for token in (*answer.prompt, *answer.tokens)]
        assert tuple(ids[:5]) == request.ids and len(answer.tokens) == 12
        with torch.inference_mode():
            logs = made(torch.tensor([ids]))[0].log_softmax(-1)
        assert answer.prompt[0].logprob is None
        for place, token in enumerate([*answer.prompt, *answer.tokens][1:]):
            assert token.logprob == pytest.approx(float(logs[place, token.id]), abs=1e-5)
            assert dict(token.alternatives)[token.id] == token.logprob
            best = logs[place].topk(3).indices.tolist()
            assert [number for number, _ in token.alternatives[:3]] == best


def test_a_prompt_can_be_scored_without_an_answer() -> None:
    request = Request((3, 1, 4), Sampling(max_new_tokens=0, logprobs=0), prompt_logprobs=True)
    answer = generate_all(Engine(model("llama"), Letters()), [request])[0]
    assert (answer.text, answer.tokens, answer.finish_reason, len(answer.prompt)) == ("", (), "length", 3)


def test_the_context_ends_an_answer_or_slides() -> None:
    made, request = model("learned"), Request((1,) * 148, Sampling(temperature=0.0, max_new_tokens=10, ignore_end=True))
    assert plain(generate_all(Engine(made, Letters()), [request]))[0][2] == "context"
    slid = plain(generate_all(Engine(made, Letters(), sliding_context=True), [request]))[0]
    assert (len(slid[1]), slid[2]) == (10, "length")
    assert plain(generate_all(Engine(made, Letters(), sliding_context=True, cached=False), [request]))[0] == slid
    with pytest.raises(ConfigError, match="leaves no room for an answer in a context of 150"):
        Engine(made, Letters()).add(dataclasses.replace(request, ids=(1,) * 150))


@pytest.mark.parametrize("ids", [(), (-1,), (V,)])
def test_what_is_no_prompt_is_refused(ids: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match="at least one token, each from 0 to 29"):
        Engine(model("learned"), Letters()).add(Request(ids))


def test_bytes_become_characters_when_they_are_whole() -> None:
    torch.manual_seed(0)
    config = dataclasses.replace(MODELS["rotary"], vocabulary=256)
    engine = Engine(config.build(), ByteTokenizer())
    number = engine.add(Request((65,), Sampling(max_new_tokens=60, seed=1)))
    deltas = []
    while not deltas or not deltas[-1].finish_reason:
        deltas.append(engine.step()[number])
    whole = ByteTokenizer().decode([token.id for delta in deltas for token in delta.tokens])
    assert "".join(delta.text for delta in deltas) == whole


def test_prompts_that_begin_alike_are_read_once() -> None:
    made, shared = model("rotary"), tuple((5 * i) % V for i in range(40))
    requests = [Request((*shared, *rest), SETTINGS[i % 4]) for i, rest in enumerate([(1, 2), (1, 3, 4), (), (7,), (1, 2)])]
    expected = [plain(generate_all(Engine(made, Letters(), prefixes=0), [request]))[0] for request in requests]
    engine = Engine(made, Letters(), prefixes=2, slots=1)
    assert plain(generate_all(engine, requests)) == expected
    assert engine.prefix_cache.hit_tokens >= 4 * 39 and len(engine.prefix_cache.entries) == 2
