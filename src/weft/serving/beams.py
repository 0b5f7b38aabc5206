"""The likeliest answers, searched for in the worker's thread a token at a time, so that other answers go on meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence

import torch
from fastapi import Request as HttpRequest
from fastapi import Response

from weft.inference.beam import Beam, Hypothesis
from weft.inference.beam_models import NEVER, continuing, translating
from weft.inference.detokenizer import Detokenizer
from weft.inference.engine import end_tokens
from weft.inference.request import Request, Sampling, Token
from weft.inference.translate import start_and_end
from weft.serving.errors import Json
from weft.serving.replies import CompletionReply, PartialAnswer
from weft.serving.schemas import CompletionRequest
from weft.serving.service import ServedModel, Service
from weft.serving.streams import attended, left

Prompts = Sequence[Sequence[int]]


async def searched(
    service: Service,
    model: ServedModel,
    http: HttpRequest,
    body: CompletionRequest,
    prompts: Prompts,
    texts: Sequence[str],
    lengths: Sequence[int],
) -> Response:
    """The n best answers to each prompt, each with its log-probability and the score by which it is ranked.

    texts: of the prompts, empty where one came as tokens.
    """
    beam = Beam(body.beams or 1, body.length_penalty, body.coverage_penalty)
    limit = service.limits.timeout
    deadline = asyncio.get_running_loop().time() + limit
    found = await attended(http, model.worker.run(searches(model, prompts, lengths, beam), len(prompts) * beam.beams), limit, deadline)
    if found is None:
        return left()
    answers = [
        answer_of(model, ids, one, number, text)
        for ids, text, best in zip(prompts, texts, found, strict=True)
        for number, one in enumerate(best[: body.n])
    ]
    service.metrics.prompt_tokens[model.name] += sum(map(len, prompts))
    service.metrics.answer_tokens[model.name] += sum(len(each.tokens) for each in answers)
    return Json(CompletionReply(model.name, model.tokens, answers, top=None, keep=body.n, count=body.n).whole())


def searches(model: ServedModel, prompts: Prompts, lengths: Sequence[int], beam: Beam) -> Generator[None, None, list[list[Hypothesis]]]:
    """One prompt after the other, which bounds what is held at once."""
    found = []
    device = next(model.model.parameters()).device
    for ids, longest in zip(prompts, lengths, strict=True):
        if model.answers:
            source = torch.tensor([ids if ids[-1] == end_of(model) else [*ids, end_of(model)]], device=device)
            size = torch.tensor([source.size(1)], device=device)
            bounds, allowed = start_and_end(model.tokenizer), model.tokenizer.constraint(ids)
            [best] = yield from translating(model.model, source, size, *bounds, beam, longest, constraints=[allowed])
        else:
            [best] = yield from continuing(model.model, [ids], beam, longest, end_of(model), model.tokens.size)
        found.append(best)
    return found


def end_of(model: ServedModel) -> int:
    """The token by which a model ends its answers."""
    return start_and_end(model.tokenizer)[1] if model.answers else next(iter(end_tokens(model.tokenizer)), NEVER)


def answer_of(model: ServedModel, prompt: Sequence[int], one: Hypothesis, number: int, text: str = "") -> PartialAnswer:
    """A hypothesis as an answer."""
    ended = one.ids[-1] == end_of(model)
    spelled = Detokenizer(model.tokenizer.for_source(text) if text else model.tokenizer, (), () if model.answers else prompt)
    said = spelled.push(one.ids[:-1] if ended else one.ids) + spelled.finish()
    more = {"score": one.score, "log_probability": one.logprob}
    request = Request(tuple(prompt), Sampling(max_new_tokens=len(one.ids)), number)
    return PartialAnswer(request, said, [Token(number) for number in one.ids], "stop" if ended else "length", more)
