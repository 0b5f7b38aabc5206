"""From a request to its answer: prompts become tokens, the worker answers, the client gets it whole or delta by delta.

A client that leaves, or an answer that takes too long, frees its slots; whatever happens, a submission is closed once.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from fastapi import Request as HttpRequest
from fastapi import Response

from weft.core.errors import ConfigError
from weft.data.io.files import well_formed
from weft.inference.generate import encode_prompt, open_prompt
from weft.inference.request import GREEDY, Delta, Request, Sampling
from weft.inference.translate import start_and_end
from weft.serving.beams import searched
from weft.serving.errors import ApiError, Json
from weft.serving.replies import ChatReply, CompletionReply, PartialAnswer, Reply
from weft.serving.schemas import ChatRequest, CompletionRequest, Sampled
from weft.serving.service import LONG, ServedModel, Service
from weft.serving.streams import EventStream, attended, events, left
from weft.serving.tokens import TooManyTokens
from weft.serving.worker import Submission

T = TypeVar("T")

DEFAULT_TOKENS = 16
"""How long a completion is where nobody says; OpenAI's own number."""
LONGER, LONGER_BY = 3, 50
"""How much longer than its source an answer may be where nobody says, as in beam search."""
MANY_TOKENS = 2000
"""Tokens with log-probabilities from which on a reply is put together in a thread."""


async def prompts_of(service: Service, model: ServedModel, prompt: Any, param: str, encode: Callable[[str], list[int]]) -> list[list[int]]:
    """Any of the four forms of a prompt -> the tokens of each."""
    several = separate(prompt)
    check_prompts(service, several, param)
    if not isinstance(several[0], str):
        for ids in several:
            model.check_ids(ids, param)
        return several
    most = model.most_tokens

    def work() -> list[list[int]]:
        for text in several:
            model.tokens.check_length(text, most)
        return [encode(text) for text in several]

    return await encoded(service, work, sum(map(len, several)), param)


def check_prompts(service: Service, several: Sequence[Any], param: str) -> None:
    if len(several) > service.limits.prompts:
        raise ApiError(400, f"{param} may hold at most {service.limits.prompts} texts, not {len(several)}", param=param)


async def encoded(service: Service, work: Callable[[], T], characters: int, param: str) -> T:
    """Texts become tokens, in a thread where they are long, and few of them at a time: it takes far more memory than they do."""
    try:
        if characters <= LONG:
            return work()
        async with service.encoding:
            return await asyncio.to_thread(work)
    except TooManyTokens as error:
        message = f"at most {error.most} tokens are taken here, prompt and answer together, but the {param} alone has far more"
        raise ApiError(400, message, param=param, code="context_length_exceeded") from None


def prompt_ids(model: ServedModel, text: str, special: bool) -> list[int]:
    """Tokens of a prompt: a whole text where the model answers it, an open one where it goes on with it."""
    return [*model.tokens.encode(text, special=False), start_and_end(model.tokenizer)[1]] if model.answers else opened(model, text, special)


def opened(model: ServedModel, text: str, special: bool) -> list[int]:
    """Tokens of a text to be continued: the special tokens that open one, but not those that close it."""
    model.tokens.count_unknown(text)
    return open_prompt(model.tokenizer, text) if special else encode_prompt(model.tokenizer, text).tolist()


def sampling_of(body: Sampled, length: int, logprobs: int, seed: int, model: ServedModel) -> Sampling:
    """How tokens are chosen; the sentence about a field that is refused begins with it."""
    try:
        return body.sampling(length, logprobs, seed, model.tokens.size)
    except ConfigError as error:
        field = str(error).split()[0].rstrip(":")
        raise ApiError(400, str(error), param=field if field in type(body).model_fields else None) from error


def new_tokens(service: Service, model: ServedModel, prompt: int, asked: int | None, default: int, given: str = "prompt") -> int:
    """How long an answer may be; refused where prompt (the field `given`) and answer do not fit the context together."""
    most, context = service.limits.max_tokens, model.context
    if asked is not None and asked > most:
        raise ApiError(400, f"max_tokens may be at most {most}, the server's --max-tokens, not {asked}", param="max_tokens")
    if model.answers:
        return target_tokens(model, prompt, asked, most)
    wanted = asked if asked is not None else min(default, most, max(1, context - prompt) if context else most)
    if context and prompt + wanted > context:
        said = f"{prompt + wanted} tokens ({prompt} in the prompt, {wanted} for the answer)"
        message = f"this model's maximum context length is {context} tokens, but {said} were asked for"
        raise ApiError(400, message, param="max_tokens" if prompt < context else given, code="context_length_exceeded")
    return wanted


def target_tokens(model: ServedModel, source: int, asked: int | None, most: int) -> int:
    """As above where source and answer have a context each, in which the special token of the start or the end has a position."""
    room = model.model.longest if model.mask_predict else max(1, model.context - 1)
    if source > model.context or (asked or 0) > room:
        said, param = (f"a text of {source}", "prompt") if source > model.context else (f"an answer of {asked}", "max_tokens")
        most = room if param == "max_tokens" else model.context - 1
        message = f"this model reads and writes at most {most} tokens, and an end token, but {said} was asked for"
        raise ApiError(400, message, param=param, code="context_length_exceeded")
    return asked or min(most, room, room if model.mask_predict else LONGER * source + LONGER_BY)


async def complete(service: Service, http: HttpRequest, body: CompletionRequest) -> Response:
    model = service.find(body.model)
    model.need("completions")
    if body.echo and model.answers:
        raise ApiError(400, f"echo is not offered: the model {model.name!r} answers a text and does not continue it", param="echo")
    check_fields(model, body)
    count = body.beams or body.best_of or body.n
    several = separate(body.prompt)
    check_prompts(service, several, "prompt")
    check_number(model, len(several) * count)
    prompts = await prompts_of(service, model, body.prompt, "prompt", lambda text: prompt_ids(model, text, body.add_special_tokens))
    if body.beams:
        lengths = [new_tokens(service, model, len(ids), body.max_tokens, DEFAULT_TOKENS) for ids in prompts]
        return await searched(service, model, http, body, prompts, source_texts(body.prompt), lengths)
    seed = body.seed if body.seed is not None else secrets.randbits(63)
    logprobs = body.logprobs if body.logprobs is not None else 0 if count > body.n else -1
    sampling = sampling_of(body, 0, logprobs, seed, model)
    if model.answers and "temperature" not in body.model_fields_set:  # a translation is not drawn, unless somebody says so
        sampling = replace(sampling, temperature=GREEDY)
    requests = []
    for ids, text in zip(prompts, source_texts(body.prompt), strict=True):
        long = replace(sampling, max_new_tokens=new_tokens(service, model, len(ids), body.max_tokens, DEFAULT_TOKENS))
        echo = body.echo and body.logprobs is not None
        requests += [Request(tuple(ids), long, number, echo, body.mask_predict, text) for number in range(count)]
    texts = [well_formed(one) if isinstance(one, str) else model.tokens.decode(one) for one in separate(body.prompt)] if body.echo else []
    echoed = [text for text in texts for _ in range(count)]
    answers = [PartialAnswer(request) for request in requests]
    about = {"top": body.logprobs, "with_usage": body.with_usage}
    reply = CompletionReply(model.name, model.tokens, answers, echoed=echoed, keep=body.n, count=count, **about)
    return await answer(service, model, http, reply, body.stream)


def check_fields(model: ServedModel, body: CompletionRequest) -> None:
    """Refuse what is offered by other models only."""
    given = {name for name in ("iterations", "length_factor") if getattr(body, name) is not None}
    if given and not model.mask_predict:
        name = sorted(given)[0]
        raise ApiError(400, f"{name} is for models that make all tokens at once, and {model.name!r} goes token by token", param=name)
    if model.mask_predict and (body.beams or max(body.n, body.best_of or 1) > 1):
        name = "beams" if body.beams else "n" if body.n > 1 else "best_of"
        raise ApiError(400, f"{name}: {model.name!r} makes all tokens at once, and one answer to a text", param=name)
    if body.coverage_penalty and not model.answers:
        raise ApiError(400, f"coverage_penalty: {model.name!r} continues a text, so it has no source to cover", param="coverage_penalty")


def separate(prompt: Any) -> list[Any]:
    """Texts or lists of tokens, also where there is only one."""
    return prompt if isinstance(prompt, list) and not isinstance(prompt[0], int) else [prompt]


def source_texts(prompt: Any) -> list[str]:
    """The text of each prompt, empty where it came as tokens."""
    return [one if isinstance(one, str) else "" for one in separate(prompt)]


async def chat(service: Service, http: HttpRequest, body: ChatRequest) -> Response:
    model = service.find(body.model)
    model.need("chat")
    ids = await chat_prompt(service, model, [message.plain() for message in body.messages])
    seed = body.seed if body.seed is not None else secrets.randbits(63)
    most = body.max_completion_tokens if body.max_completion_tokens is not None else body.max_tokens
    length = new_tokens(service, model, len(ids), most, service.limits.max_tokens, "messages")
    top = (body.top_logprobs or 0) if body.logprobs else None
    sampling = sampling_of(body, length, -1 if top is None else top, seed, model)
    own = model.need_template()
    sampling = replace(sampling, stop=sampling.stop + own.stop, stop_tokens=sampling.stop_tokens + own.stop_tokens)
    if model.answers and "temperature" not in body.model_fields_set:  # as for completions
        sampling = replace(sampling, temperature=GREEDY)
    check_number(model, body.n)
    answers = [PartialAnswer(Request(tuple(ids), sampling, number)) for number in range(body.n)]
    return await answer(
        service, model, http, ChatReply(model.name, model.tokens, answers, top=top, with_usage=body.with_usage), body.stream
    )


def check_number(model: ServedModel, answers: int) -> None:
    """Asking again would not help those who ask for more than the queue ever holds."""
    if answers > model.worker.capacity:
        raise ApiError(400, f"{answers} answers were asked for at once, and the server takes {model.worker.capacity}")


async def chat_prompt(service: Service, model: ServedModel, messages: Sequence[dict[str, str]]) -> list[int]:
    """In a thread: a template may take its time."""
    work = partial(service.renderer.prompt, model.need_template(), messages, model.tokens, model.most_tokens)
    ids = await encoded(service, work, LONG + 1, "messages")
    if not ids:
        raise ApiError(400, "these messages make an empty prompt", param="messages")
    return ids


async def answer(service: Service, model: ServedModel, http: HttpRequest, reply: Reply, stream: bool) -> Response:
    begin, limit = asyncio.get_running_loop().time(), service.limits.timeout
    deadline = begin + limit
    submission = model.worker.submit([each.request for each in reply.answers])
    service.metrics.prompt_tokens[model.name] += sum(len(each.request.ids) for each in reply.answers if each.request.number == 0)
    deltas = watched(service, model, submission, begin)
    streaming = False
    try:
        if not stream:
            whole = await attended(http, collected(reply, deltas), limit, deadline)
            return left() if whole is None else Json(whole)
        first = await attended(http, anext(deltas), limit, deadline)  # an error before it still has a status of its own
        streaming = first is not None
        return left() if first is None else EventStream(events(reply, first, deltas), submission, limit, deadline)
    finally:
        if not streaming:  # a stream closes it at its own end
            submission.close()


async def watched(service: Service, model: ServedModel, submission: Submission, begin: float) -> AsyncIterator[tuple[int, Delta]]:
    """The deltas, counted."""
    waiting = set(submission.unfinished)
    async for index, delta in submission.deltas():
        now = asyncio.get_running_loop().time()
        request = submission.requests[index]
        if index in waiting:
            waiting.discard(index)
            service.metrics.until_first.add(now - begin)
            service.metrics.answer_tokens[model.name] -= len(request.ids) if request.prompt_logprobs else 0
        service.metrics.answer_tokens[model.name] += len(delta.tokens)
        if delta.finish_reason:
            service.metrics.whole.add(now - begin)
        yield index, delta


async def collected(reply: Reply, deltas: AsyncIterator[tuple[int, Delta]]) -> dict[str, Any]:
    async for index, delta in deltas:
        reply.answers[index].add(delta)
    if reply.top is not None and sum(len(each.tokens) for each in reply.answers) > MANY_TOKENS:
        return await asyncio.to_thread(reply.whole)
    return reply.whole()
