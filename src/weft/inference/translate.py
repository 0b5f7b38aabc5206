"""Texts through an encoder and a decoder: translations, or whatever else a model was taught to answer.

A model that decodes token by token is searched with a beam; one that makes all tokens at once fills its target in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from weft.core.errors import CapabilityError
from weft.data.tokenizers.unknown import warn_unknown
from weft.inference.beam import Beam, Hypothesis, finish
from weft.inference.beam_models import translating
from weft.inference.mask_predict import MaskPredict, mask_predict
from weft.models.base import EncoderDecoder, NonAutoregressiveDecoder, hears, need, offers

PAD, START, END = 0, 1, 2


def start_and_end(tokenizer: Any) -> tuple[int, int]:
    """The special tokens that a target begins and ends with: ours, or those of a model of others."""
    return getattr(tokenizer, "start", START), getattr(tokenizer, "end", END)


@dataclass(frozen=True)
class Seq2SeqOutput:
    """An answer, and how it came about."""

    text: str
    tokens: int
    """Number of tokens, END included where it was given."""
    stop: str
    """Why it ended: "stop", where the model gave END, or "length"."""
    passes: int
    """How often the decoder was asked: once for each token, or once for all tokens together and again to improve on them."""
    score: float = 0.0
    """What answers are compared by."""
    logprob: float | None = None
    """Of the tokens, one after the other; None where they were made at once."""


def can_answer(model: Any) -> bool:
    """Whether a model answers a text, token by token or at once."""
    return (offers(model, EncoderDecoder) or offers(model, NonAutoregressiveDecoder)) and not hears(model)


def answer(model: Any, tokenizer: Any, texts: Sequence[str], **settings: Any) -> list[str]:
    """The text of the model's best answer to each text; settings as in `answered`."""
    return [each.text for each in answered(model, tokenizer, texts, **settings)]


def answered(model: Any, tokenizer: Any, texts: Sequence[str], **settings: Any) -> list[Seq2SeqOutput]:
    """The model's best answer to each text; settings as in `best_answers`."""
    return [best[0] for best in best_answers(model, tokenizer, texts, **settings)]


def best_answers(
    model: Any,
    tokenizer: Any,
    texts: Sequence[str],
    *,
    beams: int = 5,
    length_penalty: float = 0.6,
    coverage_penalty: float = 0.0,
    mask_predict: MaskPredict | None = None,
    batch: int = 64,
) -> list[list[Seq2SeqOutput]]:
    """The model's best answers to each text, best first; texts of similar length are read together, which changes no answer.

    beams and penalties (as in `beam`) are for a model that decodes token by token and finds up to `beams` answers, mask_predict for one
    that makes all tokens at once and finds one.
    """
    if not can_answer(model):
        need(model, EncoderDecoder)
        raise CapabilityError(f"{type(model).__name__} is given sounds, and not texts")
    if tokenizer is None:
        raise CapabilityError("this checkpoint holds no tokenizer, so text cannot be turned into tokens")
    room, (_, end) = getattr(model.config, "context", 0) or 1 << 30, start_and_end(tokenizer)
    warn_unknown(tokenizer, texts, "texts")
    encoded = [[*tokenizer.encode(text).tolist()[: room - 1], end] for text in texts]
    order = sorted(range(len(texts)), key=lambda i: len(encoded[i]))
    device = next(model.parameters()).device
    said: dict[int, list[Seq2SeqOutput]] = {}
    for first in range(0, len(order), batch):
        numbers = order[first : first + batch]
        rows = [encoded[i] for i in numbers]
        lengths = torch.tensor([len(row) for row in rows], device=device)
        source = torch.tensor([row + [PAD] * (len(rows[-1]) - len(row)) for row in rows], device=device)
        tokenizers = [tokenizer.for_source(texts[i]) for i in numbers]
        if offers(model, EncoderDecoder):
            best = searched(model, tokenizers, source, lengths, Beam(beams, length_penalty, coverage_penalty))
        else:
            best = filled(model, tokenizers, source, lengths, mask_predict)
        said |= zip(numbers, best, strict=True)
    return [said[i] for i in range(len(texts))]


def searched(model: Any, tokenizers: Sequence[Any], source: Tensor, lengths: Tensor, beam: Beam) -> list[list[Seq2SeqOutput]]:
    """tokenizers: of the answers to each source."""
    rows = zip(tokenizers, source.tolist(), lengths.tolist(), strict=True)
    constraints = [tokenizer.constraint(ids[:length]) for tokenizer, ids, length in rows]
    found = finish(translating(model, source, lengths, *start_and_end(tokenizers[0]), beam, constraints=constraints))
    return [[answer_of(tokenizer, one) for one in best] for tokenizer, best in zip(tokenizers, found, strict=True)]


def answer_of(tokenizer: Any, one: Hypothesis) -> Seq2SeqOutput:
    """A hypothesis as an answer."""
    stop = "stop" if one.ids[-1] == start_and_end(tokenizer)[1] else "length"
    return Seq2SeqOutput(tokenizer.decode(one.ids), len(one.ids), stop, len(one.ids), one.score, one.logprob)


def filled(model: Any, tokenizers: Sequence[Any], source: Tensor, lengths: Tensor, how: MaskPredict | None) -> list[list[Seq2SeqOutput]]:
    made = zip(tokenizers, mask_predict(model, source, lengths, START, END, how), strict=True)
    return [[Seq2SeqOutput(tokens.decode(each.ids), len(each.ids), each.stop, each.iterations, each.score)] for tokens, each in made]
