"""Asking a model: each answer is the likeliest character after the other, until the special token that ends it.

Rows of different lengths are answered together. What stands behind a row's last character does not matter to a causal model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from weft.core.errors import CapabilityError
from weft.data.tokenizers.birthplace_characters import MASK, MASK_CHARACTER, PAD, BirthplaceCharacters
from weft.data.tokenizers.unknown import warn_unknown
from weft.models.base import NextTokenLogits

LONGEST = 32
"""Characters after which an answer is cut off."""


@dataclass(frozen=True)
class Answer:
    question: str
    text: str
    confidence: float
    """Probability that the model gives to exactly this answer."""
    place: str | None = None
    """The right answer, where it is known."""

    @property
    def right(self) -> bool:
        return self.text == self.place


def ask(model: NextTokenLogits, tokenizer: Any, asked: Sequence[tuple[str, str | None]], batch: int = 256) -> list[Answer]:
    """Questions, each with the right place where it is known -> the model's answers."""
    if not isinstance(tokenizer, BirthplaceCharacters):
        raise CapabilityError("this model was not trained on questions: its characters have no special token for the end of one")
    room = model.config.context - LONGEST - 1
    warn_unknown(tokenizer, (question for question, _ in asked), "questions")
    encoded = [torch.from_numpy(tokenizer.encode(question + MASK_CHARACTER))[-room:].long() for question, _ in asked]
    found: list[tuple[Tensor, Tensor]] = []
    for start in range(0, len(encoded), batch):
        found += decode(model, encoded[start : start + batch])
    answers = []
    for (question, place), (ids, confidence) in zip(asked, found, strict=True):
        text = tokenizer.decode(ids.tolist()).split(MASK_CHARACTER)[0]
        answers.append(Answer(question, text, float(confidence), place))
    return answers


@torch.inference_mode()
def decode(model: NextTokenLogits, questions: list[Tensor]) -> list[tuple[Tensor, Tensor]]:
    """Questions as ids -> for each the ids that follow, and the probability of all of them up to the closing MASK."""
    device = next(model.parameters()).device
    lengths = torch.tensor([len(question) for question in questions], device=device)
    widest = max(map(len, questions))
    ids = torch.full((len(questions), widest + LONGEST), PAD, device=device)
    for row, question in zip(ids, questions, strict=True):
        row[: len(question)] = question.to(device)
    rows, end, total = torch.arange(len(questions), device=device), lengths.clone(), torch.zeros(len(questions), device=device)
    open_ = torch.ones_like(end, dtype=torch.bool)
    for step in range(LONGEST):
        states = model.hidden(ids[:, : widest + step])[rows, end - 1]
        chance, chosen = model.head(states).float().log_softmax(-1).max(-1)
        total += torch.where(open_, chance, 0.0)
        ids[rows, end] = torch.where(open_, chosen, PAD)
        end += open_.long()
        open_ = open_ & (chosen != MASK)
        if not bool(open_.any()):
            break
    return [(row[begin:stop], chance) for row, begin, stop, chance in zip(ids.cpu(), lengths.tolist(), end.tolist(), total.exp().cpu())]


def always(place: str, asked: Sequence[tuple[str, str | None]]) -> list[Answer]:
    """The baseline that gives the same answer to everything."""
    return [Answer(question, place, 1.0, right) for question, right in asked]


def commonest(places: Sequence[str]) -> str:
    """The place most people of the training questions come from; of several, the first in the alphabet."""
    counts = Counter(places)
    return min(counts, key=lambda place: (-counts[place], place))


def score(answers: Sequence[Answer]) -> tuple[int, int]:
    """(total, correct); (0, 0) where no right answer is known."""
    known = [answer for answer in answers if answer.place is not None]
    return len(known), sum(answer.right for answer in known)
