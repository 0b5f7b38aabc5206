"""Constraints hold wherever tokens are chosen: by the sampler, by the beam search, in both engines, alone and in a batch."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from weft.core.errors import ConfigError
from weft.data.trees.brackets import parse
from weft.data.trees.treebank import TreebankConfig
from weft.inference.beam import Beam, finish, search, searching
from weft.inference.encoder_decoder import EncoderDecoderEngine
from weft.inference.engine import Engine, generate_all
from weft.inference.request import Request, Sampling
from weft.inference.sampler import Sampler
from weft.inference.speculative import speculate
from weft.inference.translate import answer
from weft.models.language.gpt import GPTConfig
from weft.models.language.rnn_seq2seq import RNNSeq2SeqConfig
from weft.models.language.transformer import TransformerConfig

END, SIZE = 0, 5


class Alternating(NamedTuple):
    """1 and 2 take turns, and an answer ends behind a 2."""

    def start(self) -> int:
        return 1

    def advance(self, state: int, token: int) -> int:
        assert token == state or (token == END and state == 1)
        return 3 - token if token else END  # behind which nothing but END follows

    def allowed(self, state: int, room: int) -> Tensor:
        found = torch.zeros(SIZE, dtype=torch.bool)
        if state == 2 or room > 2:
            found[state] = True
        found[END] = state != 2
        return found


def logits_of(ids: Tensor) -> Tensor:
    """Of what follows a prefix (N, T), by its sum: any function of it will do."""
    place = torch.arange(1, ids.size(1) + 1)
    return torch.sin((ids * place).sum(1, keepdim=True).float() * torch.tensor([[1.0, 2.0, 3.0, 5.0, 7.0]]) + 1) * 2


def every_answer(longest: int) -> dict[tuple[int, ...], float]:
    """All that are allowed, with their log-probabilities."""
    found = {}
    for pairs in range(1, longest // 2 + 1):
        ids, logprob = [*[1, 2] * pairs, END], 0.0
        if len(ids) <= longest:
            for place, token in enumerate(ids):
                prefix = torch.tensor([[4, *ids[:place]]])
                logprob += float(logits_of(prefix).log_softmax(-1)[0, token])
            found[tuple(ids)] = logprob
    return found


@pytest.mark.parametrize("beams", [1, 3, 8])
def test_beam_search_finds_the_likeliest_that_is_allowed(beams: int) -> None:
    def score(ids: Tensor, row: Tensor, origin: Tensor) -> Tensor:
        return logits_of(ids)

    every = every_answer(9) | {(END,): float(logits_of(torch.tensor([[4]])).log_softmax(-1)[0, END])}
    start = torch.full((3,), 4)
    steps = searching(score, start, END, Beam(beams, 0.0), 9, constraints=[Alternating(), None, Alternating()])
    first, free, second = finish(steps)
    assert first == second
    for one in first:
        assert one.logprob == pytest.approx(every[tuple(one.ids)], abs=1e-5)
    if beams == 8:
        assert tuple(first[0].ids) == max(every, key=lambda ids: every[ids])
    [plain] = search(score, 1, 4, END, beams=beams, longest=9, length_penalty=0.0)
    assert free == plain


@pytest.mark.parametrize("temperature", [0.0, 1.0, 5.0])
def test_the_sampler_chooses_what_is_allowed_and_a_new_one_goes_on(temperature: float) -> None:
    settings = [Sampling(max_new_tokens=8, temperature=temperature, seed=seed, top_p=0.9) for seed in range(6)]
    requests = [Request((4,), one, constraint=Alternating() if number % 3 else None) for number, one in enumerate(settings)]
    answers: list[list[int]] = [[] for _ in requests]
    sampler = Sampler(requests, SIZE)
    for place in range(8):
        if place == 4:
            sampler = Sampler(requests, SIZE, answers=answers)
        logits = logits_of(torch.tensor([[4, *each] for each in answers]))
        ids = sampler.choose(logits, torch.full((6,), place))
        sampler.record(ids)
        for each, token in zip(answers, ids.tolist(), strict=True):
            each.append(token)
    for number in (1, 2, 4, 5):
        said = answers[number][: answers[number].index(END)]
        assert said == [1, 2] * (len(said) // 2)


def test_a_text_that_is_continued_keeps_to_its_constraint() -> None:
    class Tokens:
        size, special_tokens = SIZE, {"end": END}
        around: Any = ((), ())

        def decode(self, ids: list[int]) -> str:
            return "".join(map(str, ids))

    model = GPTConfig(vocabulary=SIZE, context=16, layers=1, heads=1, width=8).build()
    requests = [Request((4, 3), Sampling(max_new_tokens=9, seed=number), constraint=Alternating()) for number in range(5)]
    together = [answer.text for answer in generate_all(Engine(model, Tokens()), requests)]
    alone = [generate_all(Engine(model, Tokens()), [request])[0].text for request in requests]
    assert together == alone
    assert all(text.replace("12", "") == "" for text in together)
    with pytest.raises(ConfigError, match="a constraint goes on with every token"):
        speculate(model, model, Tokens(), requests[0])


def models(size: int) -> list[nn.Module]:
    torch.manual_seed(0)
    return [
        TransformerConfig(vocabulary=size, context=80, layers=1, heads=2, width=16).build(),
        RNNSeq2SeqConfig(vocabulary=size, width=16).build(),
    ]


@pytest.mark.parametrize("which", [0, 1])
def test_a_model_that_knows_nothing_writes_trees_alone_or_together(which: int) -> None:
    made = TreebankConfig(trees=40, max_length=78).build()
    tokenizer, model = made.tokenizer, models(made.tokenizer.size)[which].eval()
    texts = [sentence for sentence, _ in made.train.texts[:6]]  # type: ignore[attr-defined]
    for beams in (1, 3):
        said = answer(model, tokenizer, texts, beams=beams)
        assert said == list(itertools.chain.from_iterable(answer(model, tokenizer, [text], beams=beams) for text in texts))
        assert [parse(tree).words() for tree in said] == [text.split() for text in texts]
    requests = [
        Request(tuple(tokenizer.encode(text).tolist()), Sampling(max_new_tokens=79, seed=3, temperature=2.0), source_text=text)
        for text in texts
    ]
    drawn = [each.text for each in generate_all(EncoderDecoderEngine(model, tokenizer), requests)]  # type: ignore[arg-type]
    assert [parse(tree).words() for tree in drawn] == [text.split() for text in texts]
