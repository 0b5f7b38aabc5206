"""Answers to sources do not change with the company they are made in: batch, padding, order, cache."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
import torch

from weft.core.errors import ConfigError
from weft.data.tokenizers.base import ByteTokenizer
from weft.data.tokenizers.special_tokens import Seq2SeqTokenizer
from weft.inference import encoder_decoder
from weft.inference.beam_models import translate
from weft.inference.encoder_decoder import EncoderDecoderEngine
from weft.inference.engine import generate_all
from weft.inference.request import Answer, Request, Sampling
from weft.inference.translate import END, START
from weft.models.language.t5 import T5Config
from weft.models.language.transformer import TransformerConfig

TOKENIZER = Seq2SeqTokenizer(ByteTokenizer())
SIZES: dict[str, Any] = {"vocabulary": TOKENIZER.size, "layers": 2, "heads": 2, "width": 32}
MODELS = {
    "transformer": TransformerConfig(**SIZES, context=40),
    "layerwise": TransformerConfig(**SIZES, context=40, norm="pre", encoder_output="layerwise"),
    "t5": T5Config(**SIZES, head_dim=16),
}
TEXTS = ["one", "a", "a longer source than these", "", "zwei", "three four five"]
SETTINGS = [
    Sampling(temperature=0.0, max_new_tokens=12, logprobs=2),
    Sampling(temperature=1.0, max_new_tokens=20, seed=7, top_k=50),
    Sampling(temperature=0.7, max_new_tokens=9, seed=3, top_p=0.8, frequency_penalty=0.5, repetition_penalty=1.2, ignore_end=True),
]
REQUESTS = [Request(tuple(TOKENIZER.encode(text).tolist()), sampling) for text, sampling in itertools.product(TEXTS, SETTINGS)]


def model(name: str) -> Any:
    torch.manual_seed(0)
    made = MODELS[name].build()
    for parameter in made.parameters():  # surer of what it says, so that no answer hangs on the last bit
        parameter.data.mul_(1.5)
    return made.eval()


def plain(answers: list[Answer]) -> list[tuple[str, tuple[int, ...], str]]:
    return [(a.text, tuple(token.id for token in a.tokens), a.finish_reason) for a in answers]


def engine(made: Any, **settings: Any) -> Any:
    return EncoderDecoderEngine(made, TOKENIZER, **settings)


def alone(made: Any) -> list[tuple[str, tuple[int, ...], str]]:
    return [plain(generate_all(engine(made, slots=1), [request]))[0] for request in REQUESTS]


@pytest.mark.parametrize("name", MODELS)
def test_an_answer_does_not_depend_on_its_company(name: str) -> None:
    made = model(name)
    expected = alone(made)
    assert len({ids for _, ids, _ in expected}) > len(REQUESTS) // 2
    for settings in ({"slots": 2}, {"slots": 32}, {"slots": 5}, {"slots": 7, "cached": False}):
        order = list(range(len(REQUESTS)))
        random.Random(str(settings)).shuffle(order)
        found = plain(generate_all(engine(made, **settings), [REQUESTS[i] for i in order]))
        assert [found[order.index(i)] for i in range(len(order))] == expected, settings


@pytest.mark.parametrize("name", MODELS)
def test_the_likeliest_tokens_are_those_of_one_beam(name: str) -> None:
    made = model(name)
    for text in TEXTS:
        ids = [*TOKENIZER.encode(text).tolist(), END]
        [[best]] = translate(made, torch.tensor([ids]), torch.tensor([len(ids)]), START, END, beams=1, longest=12)
        [found] = generate_all(engine(made), [Request(tuple(ids), Sampling(temperature=0.0, max_new_tokens=12, logprobs=0))])
        assert [token.id for token in found.tokens] == best.ids
        assert sum(token.logprob or 0.0 for token in found.tokens) == pytest.approx(best.logprob, abs=1e-4)
        assert found.text == TOKENIZER.decode(best.ids)


def test_cancelling_frees_the_slot_and_disturbs_nobody() -> None:
    made = model("transformer")
    expected, busy = alone(made), engine(made, slots=6)
    numbers = [busy.add(request) for request in REQUESTS]
    tokens: dict[int, list[int]] = {number: [] for number in numbers}
    gone = set[int]()
    for step in itertools.count():
        for number, delta in busy.step().items():
            tokens[number] += [token.id for token in delta.tokens]
        assert busy.active <= 6
        if step % 5 == 1 and busy.requests:
            gone.add(busy.requests[0].number)
            held = busy.active
            busy.cancel(busy.requests[0].number)
            assert busy.active == held - 1
        if step == 2:
            gone.add(numbers[-1])
            busy.cancel(numbers[-1])  # it was still waiting
        if not busy.active and not busy.waiting:
            break
    left = [i for i, number in enumerate(numbers) if number not in gone]
    assert len(left) > 6
    assert [tuple(tokens[numbers[i]]) for i in left] == [expected[i][1] for i in left]
    assert busy.encoder.states is None


def test_many_long_sources_are_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    made = model("t5")
    expected = plain(generate_all(engine(made), REQUESTS))
    monkeypatch.setattr(encoder_decoder, "LARGEST", 300)
    assert plain(generate_all(engine(made), REQUESTS)) == expected


def test_an_answer_ends_with_the_context() -> None:
    request = Request((5, 6), Sampling(temperature=0.0, max_new_tokens=500, ignore_end=True))
    [found] = generate_all(engine(model("transformer")), [request])
    assert (len(found.tokens), found.finish_reason) == (39, "context")


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (Request((999,)), "must be from 0 to 258"),
        (Request((5,) * 40), "a source of 41 tokens does not fit a context of 40"),
        (Request((5,), prompt_logprobs=True), "not for an echo"),
        (Request((5,), Sampling(max_new_tokens=0)), "ask for an answer"),
        (Request((5,), Sampling(temperature=-1.0)), "temperature must be"),
        (Request((5,), Sampling(logit_bias={999: 1.0})), "logit_bias names token 999"),
    ],
)
def test_what_is_refused(request_: Request, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        engine(model("transformer")).add(request_)
    with pytest.raises(ConfigError, match="slots"):
        engine(model("transformer"), slots=0)
