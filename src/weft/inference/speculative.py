"""A small model guesses a few tokens, the large one reads them at once and keeps those that it could have said itself.

Leviathan et al., 2022, arXiv:2211.17192: a guess x, drawn from q, is kept with probability min(1, p(x) / q(x)), and where it is not,
a token is drawn from what p has more than q. So what is said has the large model's distribution exactly, and at temperature 0 it is what
the large model would say. Shapes: V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from weft.core import random
from weft.core.errors import ConfigError
from weft.inference.engine import Row, ends_of
from weft.inference.penalties import counts
from weft.inference.request import Answer, Request, Token
from weft.inference.runner import ModelRunner
from weft.inference.sampler import Sampler


@dataclass
class Speculation:
    answer: Answer
    readings: int
    """How often the large model was asked."""
    guessed: int
    kept: int
    """Guesses, and how many of them the large model kept."""


@torch.inference_mode()
def speculate(model: Any, draft: Any, tokenizer: Any, request: Request, *, ahead: int = 4) -> Speculation:
    """An answer of the model, helped by a smaller one of the same tokens that guesses so many tokens ahead."""
    check(model, draft, tokenizer, request, ahead)
    row, choosers = Row(1, request, tokenizer), Sampler([request], tokenizer.size, next(model.parameters()).device)
    ends = ends_of(tokenizer)
    large, small = ModelRunner(model), ModelRunner(draft)
    for reader in (large, small):
        reader.add_rows(1)
        if len(request.ids) > 1:
            reader.read([request.ids[:-1]])
    done, text, tokens = Speculation(Answer("", (), "", request.sampling.seed), 0, 0, 0), "", list[Token]()
    room = min([context - len(request.ids) for context in (large.context, small.context) if context], default=0)
    while True:
        told = [*request.ids, *row.answer]
        limit = min(ahead, request.sampling.max_new_tokens - len(row.answer) - 1, *([room - len(row.answer) - 1] if room else []))
        guesses, odds = guess(small, choosers, told, max(limit, 0), tokenizer.size)
        large.cut(0, len(told) - 1)
        states = large.read([[told[-1], *guesses]])[0]
        logits = model.head(states)[:, : tokenizer.size]
        wanted = torch.cat([choosers.chances(each) for each in logits.split(1)])
        kept, last = keep(wanted, odds, guesses, partial(draw_at, choosers, len(told)))
        done.readings, done.guessed, done.kept = done.readings + 1, done.guessed + len(guesses), done.kept + kept
        for place, number in enumerate([*guesses[:kept], last]):
            token = Token(number)
            if request.sampling.logprobs >= 0:
                [token] = Sampler.told(logits[place : place + 1], torch.tensor([number], device=logits.device), request.sampling.logprobs)
            piece = row.push(token, ends, room)
            text, tokens = text + piece.text, [*tokens, token]
            if piece.finish:
                done.answer = Answer(text, tuple(tokens), piece.finish, request.sampling.seed)
                return done


def check(model: Any, draft: Any, tokenizer: Any, request: Request, ahead: int) -> None:
    request.sampling.check()
    if ahead < 1:
        raise ConfigError(f"at least one token must be guessed ahead, not {ahead}")
    if counts(request.sampling):
        raise ConfigError("penalties change with every token, so guesses cannot be read at once; leave them out, or the draft model")
    if request.sampling.max_new_tokens < 1 or not request.ids:
        raise ConfigError("a prompt and room for at least one token are needed")
    sizes = {name: int(made.config.vocabulary) for name, made in (("model", model), ("draft", draft))}
    if min(sizes.values()) < tokenizer.size:
        raise ConfigError(f"the draft must know the same {tokenizer.size} tokens; its vocabulary has {sizes['draft']}")


def guess(reader: ModelRunner, choosers: Sampler, told: list[int], number: int, size: int) -> tuple[list[int], list[Tensor]]:
    """So many tokens after what was told, with the distribution (V,) that each was drawn from."""
    guesses, odds = list[int](), list[Tensor]()
    length = min(len(reader.ids[0]), len(told) - 1)
    reader.cut(0, length)
    states = reader.read([told[length:]])[0] if number else None
    for place in range(number):
        assert states is not None
        chances = choosers.chances(reader.model.head(states[-1:])[:, :size])[0]
        odds.append(chances)
        guesses.append(draw(chances, draw_at(choosers, len(told) + place, "guess")))
        if place + 1 < number:
            states = reader.read([guesses[-1:]])[0]
    return guesses, odds


def keep(wanted: Tensor, odds: list[Tensor], guesses: list[int], share: Callable[[str], float]) -> tuple[int, int]:
    """wanted (N + 1, V): the model's own distributions -> how many guesses are kept, and the token after them."""
    for place, (number, guessed) in enumerate(zip(guesses, odds, strict=True)):
        if share(f"keep {place}") * float(guessed[number]) >= float(wanted[place, number]):
            rest = (wanted[place] - guessed).clamp(min=0)
            return place, draw(rest / rest.sum(), share("rest"))
    return len(guesses), draw(wanted[-1], share("rest"))


def draw(chances: Tensor, share: float) -> int:
    """The token at a share of the way through the distribution (V,)."""
    sums = chances.cumsum(0)
    return int(torch.searchsorted(sums, share * float(sums[-1]), right=True).clamp(max=int(chances.nonzero().max())))


def draw_at(choosers: Sampler, position: int, name: str) -> float:
    """A number in [0, 1) for a purpose at a position of the text."""
    key = random.fold(random.fold(choosers.keys, name), position)
    return float(random.integers(key, 1 << 53).double() * 2.0**-53)
