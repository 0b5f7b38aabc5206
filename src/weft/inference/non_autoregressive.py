"""Requests to a model that makes all tokens of a target at once, answered beside each other.

The same questions as to `engine.Engine`. A step takes the requests that wait, as many as there are slots and as want the same number of
passes, and answers them to their end. Nothing is drawn, so an answer is a function of its source and of how it is filled in.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Any

from weft.core.errors import ConfigError
from weft.inference.encoder_decoder import SourceRequest, batches, padded
from weft.inference.engine import trimmed
from weft.inference.mask_predict import MaskPredict, MaskPredictOutput, mask_predict
from weft.inference.request import GREEDY, Delta, Request, Sampling, Token
from weft.inference.translate import END, START
from weft.models.base import NonAutoregressiveDecoder

UNUSED = ("repetition_penalty", "presence_penalty", "frequency_penalty", "logit_bias", "ignore_end")
"""Settings of the choice of a token after others, of which there is none."""
LONGEST_FACTOR = 2.0
"""There are positions for every predicted length twice."""


class NonAutoregressiveEngine:
    """One thread owns it."""

    def __init__(self, model: NonAutoregressiveDecoder, tokenizer: Any, *, slots: int = 32, mask_predict: MaskPredict | None = None):
        """slots: answers made at once. mask_predict: how, where a request does not say."""
        if slots < 1:
            raise ConfigError(f"slots must be at least 1, not {slots}")
        self.model, self.tokenizer, self.slots = model.eval(), tokenizer, slots
        self.mask_predict = (mask_predict or MaskPredict()).resolve(model)
        self.context: int = model.config.context
        self.device = next(model.parameters()).device
        self.queue: deque[SourceRequest] = deque()
        self.added = 0

    @property
    def waiting(self) -> int:
        return len(self.queue)

    @property
    def active(self) -> int:
        """What is begun is ended within a step."""
        return 0

    def add(self, request: Request) -> int:
        """Ask for an answer -> its number."""
        request.sampling.check()
        self._check(request)
        target = SourceRequest(self.added + 1, replace(request, mask_predict=self.how(request.mask_predict)), self.tokenizer)
        if len(target.source) > self.context:
            raise ConfigError(f"a source of {len(target.source)} tokens does not fit a context of {self.context}")
        self.added += 1
        self.queue.append(target)
        return self.added

    def how(self, wanted: MaskPredict | None) -> MaskPredict:
        """What was asked for, and what the engine itself would do where nothing was; refused where the model cannot."""
        if wanted is None:
            return self.mask_predict
        if not wanted.length_factor <= LONGEST_FACTOR:
            raise ConfigError(f"length_factor must be at most {LONGEST_FACTOR:g}, not {wanted.length_factor}")
        return wanted.after(vars(self.mask_predict)).resolve(self.model)

    def _check(self, request: Request) -> None:
        known: int = self.tokenizer.size
        if not all(0 <= number < known for number in request.ids):
            raise ConfigError(f"the tokens of a source must be from 0 to {known - 1}")
        s = request.sampling
        if s.temperature != GREEDY or request.number:
            raise ConfigError("all tokens of an answer are made at once and none is drawn: ask for one answer, at temperature 0")
        if wrong := next((name for name in UNUSED if getattr(s, name) != getattr(Sampling(), name)), None):
            raise ConfigError(f"{wrong} is not offered: all tokens of an answer are made at once")
        if request.prompt_logprobs or s.max_new_tokens < 1:
            raise ConfigError("a source is read from both sides, so it has no log-probabilities; ask for an answer, and not for an echo")

    def cancel(self, number: int) -> None:
        """Stop answering."""
        self.queue = deque(each for each in self.queue if each.number != number)

    def step(self) -> dict[int, Delta]:
        """The answers to some of those that wait, by their numbers."""
        if not self.queue:
            return {}
        how = self.queue[0].request.mask_predict
        requests = batches([each for each in self.queue if each.request.mask_predict == how][: self.slots])[0]
        chosen = {each.number for each in requests}
        self.queue = deque(each for each in self.queue if each.number not in chosen)
        source, lengths = padded([each.source for each in requests], self.device)
        made = mask_predict(self.model, source, lengths, START, END, how)
        return {each.number: whole(each, target, self.model.config.fixed_length) for each, target in zip(requests, made, strict=True)}


def whole(each: SourceRequest, made: MaskPredictOutput, positions: int) -> Delta:
    """A target as one delta, up to its END, its stop sequence or its longest length. positions: those there are, where it is cut at END."""
    deltas: list[Delta] = []
    for number, logprob in zip(made.ids, made.logprobs, strict=True):
        token = trimmed(Token(number, logprob, ((number, logprob),)), each.request.sampling.logprobs)
        deltas.append(each.push(token, {END}, 0))
        if deltas[-1].finish_reason:
            break
    else:  # it has all tokens of its predicted length, or all its positions are full
        deltas.append(Delta(each.text.finish(), (), "length" if positions else "stop"))
    tokens = tuple(token for delta in deltas for token in delta.tokens)
    return Delta("".join(delta.text for delta in deltas), tokens, deltas[-1].finish_reason)
