"""Continuing a text token by token, over a context that slides when it is full."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from weft.core import html
from weft.core.errors import CapabilityError, ConfigError, DataError
from weft.data.tokenizers.base import ClassNames
from weft.data.tokenizers.unknown import warn_unknown
from weft.inference.beam import Beam, Hypothesis
from weft.inference.beam_models import NEVER, continuations
from weft.inference.detokenizer import Detokenizer
from weft.inference.engine import Engine, end_tokens, generate_all
from weft.inference.request import Request, Sampling
from weft.inference.speculative import speculate
from weft.models.base import NextTokenLogits, need, offers


@dataclass(frozen=True)
class Generation:
    """A text that a model continued."""

    prompt: str
    text: str
    """What was added to the prompt."""
    tokens: int
    """Number of tokens added."""
    finish_reason: str
    """Why it ended: "length", "stop sequence", or "stop", where the model itself ended it."""
    seed: int
    score: float | None = None
    """What continuations were compared by, where they were searched for."""
    logprob: float | None = None
    """Of the tokens, where they were searched for."""

    def __str__(self) -> str:
        return self.prompt + self.text

    def _repr_html_(self) -> str:
        return html.text(self.prompt, self.text)


def generate(
    model: nn.Module,
    tokenizer: Any,
    prompt: str = "",
    *,
    n: int = 1,
    stop: str | Sequence[str] = "",
    draft: nn.Module | None = None,
    beams: int = 0,
    length_penalty: float = 0.6,
    on_text: Callable[[str], object] | None = None,
    **settings: Any,
) -> list[Generation]:
    """n continuations of a prompt, each a function of (prompt, seed, its number) alone; settings as in `Sampling`.

    draft: a smaller model of the same tokens for speculative decoding, which changes the time only. beams: instead of drawing, search for
    the n likeliest continuations with so many hypotheses; of the settings, only max_new_tokens then counts. on_text: called with each
    piece of the text as it comes, where there is one continuation, drawn without a draft model.
    """
    need_continuing(model, tokenizer)
    if beams:
        if stop or draft is not None:
            raise ConfigError("beam search knows no stop sequences and no draft model; leave them out, or --beams")
        return searched(model, tokenizer, prompt, n, Beam(beams, length_penalty), Sampling(**settings))
    stops = (stop,) if isinstance(stop, str) and stop else tuple(stop)
    sampling = Sampling(stop=stops, **settings)
    if n < 1 or sampling.max_new_tokens < 1:
        raise ConfigError(f"n and max_new_tokens must be at least 1, not {n} and {sampling.max_new_tokens}")
    warn_unknown(tokenizer, (prompt,), "prompt")
    ids = tuple(open_prompt(tokenizer, prompt))
    requests = [Request(ids, sampling, number) for number in range(n)]
    if draft is not None:
        answers = [speculate(model, draft, tokenizer, request).answer for request in requests]
    else:
        engine = Engine(model, tokenizer, slots=min(n, 64), sliding_context=True)
        answers = generate_all(engine, requests, on_text=on_text if n == 1 else None)
    return [Generation(prompt, answer.text, len(answer.tokens), answer.finish_reason, sampling.seed) for answer in answers]


def searched(model: nn.Module, tokenizer: Any, prompt: str, n: int, beam: Beam, sampling: Sampling) -> list[Generation]:
    """The n likeliest continuations, best first."""
    if not 1 <= n <= beam.beams:
        raise ConfigError(f"{beam.beams} beams find 1 to {beam.beams} continuations, not {n}; n must not be above beams")
    warn_unknown(tokenizer, (prompt,), "prompt")
    ids = open_prompt(tokenizer, prompt)
    end = next(iter(end_tokens(tokenizer)), NEVER)
    [best] = continuations(model, [ids], beam=beam, longest=sampling.max_new_tokens, end=end, vocabulary=tokenizer.size)
    return [written(tokenizer, prompt, ids, one, end, sampling.seed) for one in best[:n]]


def written(tokenizer: Any, prompt: str, ids: list[int], one: Hypothesis, end: int, seed: int) -> Generation:
    """A hypothesis as text."""
    ended = one.ids[-1] == end
    text = Detokenizer(tokenizer, (), ids)
    said = text.push(one.ids[:-1] if ended else one.ids) + text.finish()
    return Generation(prompt, said, len(one.ids), "stop" if ended else "length", seed, one.score, one.logprob)


def can_continue(model: nn.Module, tokenizer: Any) -> bool:
    """Whether a model can continue a text: it scores the next token from those before it, and its tokens are known."""
    text = tokenizer is not None and not isinstance(tokenizer, ClassNames)
    return offers(model, NextTokenLogits) and getattr(model, "causal", True) and text


def need_continuing(model: nn.Module, tokenizer: Any) -> None:
    """Say what is missing where a model cannot continue a text."""
    need(model, NextTokenLogits)
    if tokenizer is None:
        raise CapabilityError("this checkpoint holds no tokenizer, so text cannot be turned into tokens; take one that does")
    if isinstance(tokenizer, ClassNames):
        raise CapabilityError(f"{type(model).__name__} tells classes and has no tokens of text, so it cannot continue one")
    if not can_continue(model, tokenizer):
        raise CapabilityError(f"{type(model).__name__} reads a text from both sides, so it cannot continue one")


def open_prompt(tokenizer: Any, prompt: str) -> list[int]:
    """Tokens of a text to be continued, behind the special tokens that a model of others is used to before it."""
    before, _ = tokenizer.around
    return [*before, *(encode_prompt(tokenizer, prompt).tolist() if prompt or not before else [])]


def encode_prompt(tokenizer: Any, prompt: str) -> np.ndarray:
    """Tokens of the prompt; a model without a prompt starts after a line break, or after token 0 where it knows none."""
    try:
        ids: np.ndarray = tokenizer.encode(prompt or "\n")
    except DataError:
        if prompt:
            raise
        ids = np.zeros(1, dtype=np.int64)
    return ids if len(ids) else np.zeros(1, dtype=np.int64)
